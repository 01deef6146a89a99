package cli

import (
	"math/rand/v2"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
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
