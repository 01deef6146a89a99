package cli

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkSendBesideBash runs gchat-send and the bash script of the first design in turn, each as a process, and takes
// off what the server needed for itself.
func BenchmarkSendBesideBash(b *testing.B) {
	for _, tool := range []string{"bash", "jq", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			b.Skip("needs ", tool)
		}
	}
	m := newMachine(b, 60000)
	m.stumble = func(*rand.Rand) fault { return none }
	m.env = append(m.env, "CLAUDE_SESSION_ID=bench")
	var ours, bash []time.Duration
	for i := 0; b.Loop(); i++ {
		ours = append(ours, m.once(m.program, "--type", "task_completion", "ours "+strconv.Itoa(i)))
		bash = append(bash, m.once("../e2e/bench/send.sh", "--type", "task_completion", "bash "+strconv.Itoa(i)))
	}
	own, others := median(ours), median(bash)
	b.ReportMetric(float64(own)/1e6, "gchat-send-ms(median)")
	b.ReportMetric(float64(others)/1e6, "bash-ms(median)")
	b.ReportMetric(float64(others)/float64(own), "bash/ours")
	b.ReportMetric(0, "ns/op")
}

// once is how long a program took, without the server's part.
func (m *machine) once(program string, args ...string) time.Duration {
	m.Helper()
	m.served.Store(0)
	cmd := exec.Command(program, args...)
	cmd.Env = m.env
	began := time.Now()
	if err := cmd.Run(); err != nil { // no pipes: reading them would be in the time
		m.Fatalf("%s: %v", program, err)
	}
	return time.Since(began) - time.Duration(m.served.Load())
}

func median(ds []time.Duration) time.Duration {
	slices.Sort(ds)
	return ds[len(ds)/2]
}

// timed measures what the server does for itself.
func (m *machine) timed(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	m.serve(w, r)
	m.served.Add(int64(time.Since(began)))
}

// How long a tap and a reply on the page take until the waiting hook has printed its answer and is gone. It is asked for by the
// number of each, and only prints.
func TestSpeedOfThePage(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("GCHAT_PAGE_SPEED"))
	if n == 0 {
		t.Skip("GCHAT_PAGE_SPEED=100 measures it")
	}
	p := newPocket(t)
	page, end := p.space()
	defer end()
	took := map[string][]time.Duration{}
	for i := range 2 * n {
		how := []string{"tap", "reply"}[i%2]
		thread, answer := p.asks(fmt.Sprint("s", i))
		message := strings.Replace(thread, "/threads/", "/messages/", 1) + "." + filepath.Base(thread)
		began := time.Now()
		if how == "tap" {
			p.posts(page, map[string]string{"message": message, "choice": "2", "clientId": fmt.Sprint("tap", i)})
		} else {
			p.replies(page, thread, "2")
		}
		if said := answer(); !strings.Contains(said, `"Postgres"`) {
			t.Fatalf("the hook says %q", said)
		}
		took[how] = append(took[how], time.Since(began))
	}
	for how, all := range took {
		slices.Sort(all)
		t.Logf("%s: p50 %v, p95 %v, most %v", how, all[n/2], all[n*95/100], all[n-1])
	}
}
