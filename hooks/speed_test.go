package hooks

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// runOnce runs a program with an event and returns how long the whole process took.
func runOnce(b *testing.B, env []string, event []byte, argv ...string) time.Duration {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stdin = env, bytes.NewReader(event)
	start := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatal(argv, err)
	}
	return time.Since(start)
}

func median(ds []time.Duration) time.Duration {
	slices.Sort(ds)
	return ds[len(ds)/2]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func report(b *testing.B, name string, ds []time.Duration) {
	b.ReportMetric(ms(median(ds)), name+"-ms(median)")
}

// BenchmarkNothingToDo measures a hook that finds nothing to do: a Stop without an open
// question.
func BenchmarkNothingToDo(b *testing.B) {
	w := newChatWorld(b)
	event := recorded(b, "single-07-Stop")
	var ds []time.Duration
	for b.Loop() {
		ds = append(ds, runOnce(b, w.environ(), event, program, "hook", answeredHook))
	}
	report(b, "process", ds)
}

// freshEvent is the event of a session of its own, in the same project.
func freshEvent(b *testing.B, i int) (event []byte) {
	n := strconv.Itoa(i)
	return recorded(b, "single-03-PreToolUse", "session_id", "session-"+n,
		"tool_use_id", "toolu_"+n)
}

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

// BenchmarkBesidePythonAndBash runs the three hooks in turn. The others post before they
// return; ours leaves that to the poller.
func BenchmarkBesidePythonAndBash(b *testing.B) {
	// not a version manager's shim
	python, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		b.Skip("needs python3: ", err)
	}
	for _, tool := range []string{"bash", "jq", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			b.Skip("needs ", tool)
		}
	}
	w := newChatWorld(b)
	var ours, py, sh []time.Duration
	for i := 0; b.Loop(); i++ {
		env, event := w.environ(), freshEvent(b, i)
		ours = append(ours, runOnce(b, env, event, program, "hook", forwardHook))
		w.endPollers()
		py = append(py, runOnce(b, env, event, strings.TrimSpace(string(python)),
			"../e2e/bench/hook.py"))
		sh = append(sh, runOnce(b, env, event, "bash", "../e2e/bench/hook.sh"))
	}
	report(b, "gchat-hooks", ours)
	report(b, "python", py)
	report(b, "bash", sh)
	b.ReportMetric(ms(median(py))/ms(median(ours)), "python/ours")
	b.ReportMetric(ms(median(sh))/ms(median(ours)), "bash/ours")
	b.ReportMetric(0, "ns/op")
}
