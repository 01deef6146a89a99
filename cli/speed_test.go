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

// BenchmarkSendBesideBash runs gchat-send and the bash script of the first design in
// turn, each as a process, and takes off what the server needed for itself.
func BenchmarkSendBesideBash(b *testing.B) {
	for _, tool := range []string{"bash", "jq", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			b.Skip("needs ", tool)
		}
	}
	m := newMachine(b, 60000)
	m.nextFault = func(*rand.Rand) fault { return noFault }
	m.env = append(m.env, "CLAUDE_SESSION_ID=bench")
	var ours, bash []time.Duration
	for i := 0; b.Loop(); i++ {
		ours = append(ours, m.timeRun(m.program, "--type", "task_completion", "ours "+strconv.Itoa(i)))
		bash = append(bash, m.timeRun("../e2e/bench/send.sh", "--type", "task_completion", "bash "+strconv.Itoa(i)))
	}
	oursMedian, bashMedian := median(ours), median(bash)
	b.ReportMetric(float64(oursMedian)/1e6, "gchat-send-ms(median)")
	b.ReportMetric(float64(bashMedian)/1e6, "bash-ms(median)")
	b.ReportMetric(float64(bashMedian)/float64(oursMedian), "bash/ours")
	b.ReportMetric(0, "ns/op")
}

// timeRun is how long a program took, without the server's part.
func (m *machine) timeRun(program string, args ...string) time.Duration {
	m.Helper()
	m.serverTime.Store(0)
	cmd := exec.Command(program, args...)
	cmd.Env = m.env
	start := time.Now()
	if err := cmd.Run(); err != nil { // no pipes: reading them would be in the time
		m.Fatalf("%s: %v", program, err)
	}
	return time.Since(start) - time.Duration(m.serverTime.Load())
}

func median(durations []time.Duration) time.Duration {
	slices.Sort(durations)
	return durations[len(durations)/2]
}

// serveTimed measures what the server does for itself.
func (m *machine) serveTimed(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	m.serve(w, r)
	m.serverTime.Add(int64(time.Since(start)))
}

// How long a tap and a reply on the page take until the waiting hook has printed its
// answer and is gone. It is asked for by the number of each, and only prints.
func TestSpeedOfThePage(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("GCHAT_PAGE_SPEED"))
	if n == 0 {
		t.Skip("GCHAT_PAGE_SPEED=100 measures it")
	}
	p := newSpaceHome(t)
	page, end := p.runSpace()
	defer end()
	took := map[string][]time.Duration{}
	for i := range 2 * n {
		how := []string{"tap", "reply"}[i%2]
		thread, answer := p.ask(fmt.Sprint("s", i))
		message := strings.Replace(thread, "/threads/", "/messages/", 1) + "." + filepath.Base(thread)
		began := time.Now()
		if how == "tap" {
			p.postToPage(page, map[string]string{"message": message, "choice": "2", "clientId": fmt.Sprint("tap", i)})
		} else {
			p.reply(page, thread, "2")
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
