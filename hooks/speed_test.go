package hooks

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// BenchmarkWaitingHook measures what a hook costs while it waits: resident memory, and
// processor time over ten seconds.
func BenchmarkWaitingHook(b *testing.B) {
	w := newChatWorld(b)
	for b.Loop() {
		cmd := exec.Command(program, "hook", forwardHook)
		cmd.Env, cmd.Stdin = w.environ(), bytes.NewReader(recorded(b,
			"single-04-PermissionRequest"))
		kit.NoError(b, cmd.Start())
		w.awaitThread(1)
		before := cpuTime(cmd.Process.Pid)
		time.Sleep(10 * time.Second)
		b.ReportMetric(float64(cpuTime(cmd.Process.Pid)-before)/float64(10*time.Second)*100,
			"cpu-percent")
		b.ReportMetric(residentKB(cmd.Process.Pid)/1024, "MB-resident")
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// cpuTime is the time that all threads of a process ran.
func cpuTime(pid int) (sum time.Duration) {
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/schedstat")
	for _, file := range files {
		b, _ := os.ReadFile(file)
		if f := strings.Fields(string(b)); len(f) > 0 {
			ns, _ := strconv.ParseInt(f[0], 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}

func residentKB(pid int) float64 {
	s, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	_, after, _ := strings.Cut(string(s), "VmRSS:")
	kb, _ := strconv.ParseFloat(strings.Fields(after)[0], 64)
	return kb
}
