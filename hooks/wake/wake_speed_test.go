package wake_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// BenchmarkBesideBash runs our Stop hook and the bash hook in turn. As for Claude Code, a
// hook is over when its process is gone and its output is closed. Claude's text is in the
// event and in the transcript, since the bash hook reads only the transcript.
func BenchmarkBesideBash(b *testing.B) {
	for _, program := range []string{"tmux", "bash", "jq", "tail", "grep", "diff", "flock"} {
		if _, err := exec.LookPath(program); err != nil {
			b.Skip("needs ", program)
		}
	}
	d := newDesk(b)
	var ours, bash []time.Duration
	for i := 0; b.Loop(); i++ {
		event := d.stop(fmt.Sprintf("Step %d is done.", i))
		ours = append(ours, d.timeRun(event, d.path("gchat-hooks"), "stop-hook"))
		bash = append(bash, d.timeRun(event, "bash", "../../e2e/bench/stop-hook.sh"))
	}
	b.ReportMetric(medianMilliseconds(ours), "ms(median)")
	b.ReportMetric(medianMilliseconds(bash), "bash-ms(median)")
	b.ReportMetric(medianMilliseconds(ours)/medianMilliseconds(bash), "ours/bash")
	b.ReportMetric(0, "ns/op")
}

// medianMilliseconds is the median in milliseconds.
func medianMilliseconds(all []time.Duration) float64 {
	slices.Sort(all)
	return float64(all[len(all)/2]) / float64(time.Millisecond)
}

// benchDesk is a machine with an agent's tmux session, its registry, and an openclaw that
// does nothing.
type benchDesk struct {
	*testing.B
	dir string
	env []string // a hook's
}

func newDesk(b *testing.B) *benchDesk {
	dir, err := os.MkdirTemp("", "wb-") // short: a socket's path ends at 107 bytes
	kit.NoError(b, err)
	d := &benchDesk{B: b, dir: dir}
	b.Cleanup(func() {
		_ = exec.Command("tmux", "-S", d.path("s"), "kill-server").Run()
		d.endPollers()
		_ = os.RemoveAll(dir)
	})
	for _, sub := range []string{"home", "bin"} {
		kit.NoError(b, os.Mkdir(d.path(sub), 0o700))
	}
	d.write("bin/openclaw", "#!/bin/sh\n")
	d.write("registry.json", `{"hook_settings": {}, "agents": [
		{"agent_id": "warden", "enabled": true, "tmux_session_name": "warden-main", "openclaw_session_id": "1111", "hook_settings": {}}]}`)
	d.env = append(os.Environ(), "PATH="+d.path("bin")+":"+os.Getenv("PATH"),
		"HOME="+d.path("home"), "XDG_STATE_HOME="+d.path("home"),
		"GCHAT_WAKE_REGISTRY="+d.path("registry.json"), "TMUX="+d.path("s")+",1,0", "TMUX_PANE=%0", "WAKE_BENCH="+dir)
	d.mustRun("go", "build", "-tags", "urfave_cli_no_docs", "-o",
		d.path("gchat-hooks"), "gchat-hooks")
	d.mustRun("tmux", "-S", d.path("s"), "-f", os.DevNull, "new-session", "-d", "-s", "warden-main",
		"-x", "100", "-y", "50", "sleep", "6000")
	return d
}

func (d *benchDesk) path(name string) string { return filepath.Join(d.dir, name) }

func (d *benchDesk) write(name, text string) {
	kit.NoError(d, os.WriteFile(d.path(name), []byte(text), 0o700))
}

func (d *benchDesk) mustRun(argv ...string) {
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		d.Fatalf("%q: %v: %s", argv, err, out)
	}
}

// stop is the event of a turn that ends with this text.
func (d *benchDesk) stop(words string) []byte {
	event, err := os.ReadFile(filepath.Join("testdata", "2.1.329", "single-07-Stop.json"))
	kit.NoError(d, err)
	var m map[string]any
	kit.NoError(d, json.Unmarshal(event, &m))
	m["transcript_path"], m["cwd"], m["last_assistant_message"] = d.path("t.jsonl"),
		d.path("home"), words
	line, _ := json.Marshal(words)
	d.write("t.jsonl", `{"type":"assistant","uuid":"u","message":{"id":"m","role":"assistant","content":[{"type":"text","text":`+string(line)+"}]}}\n")
	event, _ = json.Marshal(m)
	return event
}

// timeRun measures how long a hook takes.
func (d *benchDesk) timeRun(event []byte, argv ...string) time.Duration {
	var out bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = d.env, bytes.NewReader(event), &out, &out
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	if err != nil || out.Len() > 0 {
		d.Fatalf("%q: %v: %s", argv, err, out.Bytes())
	}
	return took
}

// endPollers ends the poller and all other processes with a hook's environment.
func (d *benchDesk) endPollers() {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, _ := os.ReadFile(file)
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/environ", &pid); err == nil &&
			strings.Contains(string(env), "WAKE_BENCH="+d.dir+"\x00") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
