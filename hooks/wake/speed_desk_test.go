package wake_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	benchSession = "warden-main"
	// benchLimit bounds every wait of a benchmark; it is reached only when something is wrong.
	benchLimit = 30 * time.Second
)

// benchDesk is a machine with an agent's tmux session, its registry, and an openclaw that only says when it was started.
type benchDesk struct {
	*testing.B
	dir     string
	program string
	env     []string // a hook's
	starts  chan benchStart
}

// benchStart is one start of openclaw.
type benchStart struct {
	at   time.Time
	said string // its arguments, a line each
}

// benchOpenclaw tells a pipe when its main began, and how it was called. It imports little: its own start is in every number.
const benchOpenclaw = `package main

import (
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	at := strconv.FormatInt(time.Now().UnixNano(), 10)
	said := strings.Join(os.Args[1:], "\n")
	f, err := os.OpenFile(%q, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(at + " " + strconv.Itoa(len(said)) + "\n" + said)
	}
	if err != nil {
		os.Exit(1)
	}
}
`

func benchNeeds(b *testing.B, programs ...string) {
	b.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			b.Skip("needs ", program)
		}
	}
}

func newBenchDesk(b *testing.B) *benchDesk {
	b.Helper()
	benchNeeds(b, "tmux")
	dir, err := os.MkdirTemp("", "wb-") // short: a socket's path ends at 107 bytes
	if err != nil {
		b.Fatal(err)
	}
	d := &benchDesk{B: b, dir: dir, program: filepath.Join(dir, "gchat-hooks"), starts: make(chan benchStart, 16)}
	b.Cleanup(func() {
		_ = exec.Command("tmux", "-S", d.path("s"), "kill-server").Run()
		d.settle()
		_ = os.RemoveAll(dir)
	})
	for _, name := range []string{"home", "state", "tmp", "bin"} {
		if err := os.Mkdir(d.path(name), 0o700); err != nil {
			b.Fatal(err)
		}
	}
	d.build(d.program, "gchat-hooks")
	d.write("openclaw.go", fmt.Appendf(nil, benchOpenclaw, d.path("pipe")))
	d.build(d.path("bin/openclaw"), d.path("openclaw.go"))
	d.listen()

	d.env = []string{"PATH=" + d.path("bin") + ":" + os.Getenv("PATH"), "HOME=" + d.path("home"), "XDG_STATE_HOME=" + d.path("state"), "TMPDIR=" + d.path("tmp"), "LANG=C.UTF-8"}
	d.openPane()
	d.env = append(d.env, "TMUX="+d.path("s")+","+d.tmux("display-message", "-p", "#{pid}")+",0", "TMUX_PANE=%0",
		"GCHAT_WAKE_REGISTRY="+d.path("registry.json"), "WAKE_BENCH="+dir)
	d.write("registry.json", []byte(`{"hook_settings": {}, "agents": [
		{"agent_id": "forge", "enabled": true, "tmux_session_name": "forge-main", "openclaw_session_id": "0b7a31f4-63a4-4f0c-9d0e-0f1a6c1f5a11", "hook_settings": {}},
		{"agent_id": "warden", "enabled": true, "tmux_session_name": "`+benchSession+`", "openclaw_session_id": "5c3e0f52-95a8-4c43-9d52-3f8f5a4c7b10", "hook_settings": {}}
	]}`))
	return d
}

func (d *benchDesk) path(name string) string { return filepath.Join(d.dir, name) }

func (d *benchDesk) write(name string, content []byte) {
	d.Helper()
	if err := os.WriteFile(d.path(name), content, 0o600); err != nil {
		d.Fatal(err)
	}
}

func (d *benchDesk) build(program, source string) {
	d.Helper()
	cmd := exec.Command("go", "build", "-tags", "urfave_cli_no_docs", "-o", program, source) // as the README says
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		d.Fatalf("build %s: %v: %s", source, err, out)
	}
}

// listen reads the pipe that every openclaw writes to. It is open for writing too: so it never ends between two of them.
func (d *benchDesk) listen() {
	d.Helper()
	if err := syscall.Mkfifo(d.path("pipe"), 0o600); err != nil {
		d.Fatal(err)
	}
	pipe, err := os.OpenFile(d.path("pipe"), os.O_RDWR, 0)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { _ = pipe.Close() })
	go func() {
		for r := bufio.NewReader(pipe); ; {
			head, err := r.ReadString('\n')
			if err != nil {
				return
			}
			var ns int64
			var size int
			_, _ = fmt.Sscan(head, &ns, &size)
			said := make([]byte, size)
			if _, err := io.ReadFull(r, said); err != nil {
				return
			}
			d.starts <- benchStart{time.Unix(0, ns), string(said)}
		}
	}()
}

func (d *benchDesk) opened() benchStart {
	d.Helper()
	select {
	case o := <-d.starts:
		return o
	case <-time.After(benchLimit):
		d.Fatal("openclaw was not started")
		return benchStart{}
	}
}

func (d *benchDesk) tmux(args ...string) string {
	d.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), benchLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tmux", append([]string{"-u", "-S", d.path("s"), "-f", os.DevNull}, args...)...)
	cmd.Env = d.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// openPane starts the session: some 60 lines of work, and the input box below. What is typed becomes one more line of work.
func (d *benchDesk) openPane() {
	d.Helper()
	var work strings.Builder
	for i := range 20 {
		fmt.Fprintf(&work, "● Bash(go test ./part%d/...)\n  ⎿  ok  part%d  0.%ds\n\n", i, i, i+10)
	}
	rule := strings.Repeat("─", 100)
	d.write("work.txt", []byte(work.String()))
	d.write("box.txt", []byte(rule+"\n❯ \n"+rule+"\n  ? for shortcuts                                        Context left until auto-compact: 47%\n"))
	d.tmux("new-session", "-d", "-s", benchSession, "-x", "100", "-y", "50", "-c", d.dir, "sh", "-c",
		`stty -echo; cat work.txt box.txt; while read -r words; do printf '● %s\n\n' "$words"; cat box.txt; done`)
	d.shows("47%")
}

func (d *benchDesk) shows(words string) {
	d.Helper()
	for deadline := time.Now().Add(benchLimit); !strings.Contains(d.tmux("capture-pane", "-p", "-t", "%0"), words); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			d.Fatalf("the pane does not show %q", words)
		}
	}
}

// say makes the pane show one more line.
func (d *benchDesk) say(words string) {
	d.Helper()
	d.tmux("send-keys", "-t", "%0", "-l", words)
	d.tmux("send-keys", "-t", "%0", "Enter")
	d.shows(words)
}

// run is one hook as Claude Code sees it: over when the process is gone and its output closed. openclaw has to get the words.
// It returns how long the hook took, and how long it was from its start to openclaw's.
func (d *benchDesk) run(words string, event []byte, argv ...string) (exit, handOver time.Duration) {
	d.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), benchLimit)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = d.env, bytes.NewReader(event), &out, &out
	began := time.Now()
	err := cmd.Run()
	exit = time.Since(began)
	if err != nil || out.Len() > 0 {
		d.Fatalf("%q: %v: %s", argv, err, out.Bytes())
	}
	o := d.opened()
	if !strings.Contains(o.said, words) {
		d.Fatalf("%q did not hand over %q but\n%s", argv, words, o.said)
	}
	d.settle()
	select {
	case o := <-d.starts:
		d.Fatalf("%q handed over once more:\n%s", argv, o.said)
	default:
	}
	return exit, o.at.Sub(began)
}

// settle waits until everything that a hook left behind is over, so that it does not run into the next one's time. What
// stays longer than a second is ended.
func (d *benchDesk) settle() {
	d.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		left := d.left()
		if len(left) == 0 {
			return
		}
		if time.Since(began) > time.Second {
			d.Logf("still there after a second, and ended: %v", left)
			for _, pid := range left {
				if p, err := os.FindProcess(pid); err == nil {
					_ = p.Kill()
				}
			}
			return
		}
	}
}

// left are the processes that have a hook's environment, as far as /proc tells.
func (d *benchDesk) left() (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(env, []byte("WAKE_BENCH="+d.dir+"\x00")) {
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
		pids = append(pids, pid)
	}
	return pids
}

// stop is the event that ends a turn, each with a prompt of its own. Without words Claude's are to be read elsewhere.
func (d *benchDesk) stop(i int, transcript, words string) []byte {
	d.Helper()
	b, err := os.ReadFile(filepath.Join("..", "testdata", "2.1.329", "single-07-Stop.json"))
	if err != nil {
		d.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		d.Fatal(err)
	}
	m["prompt_id"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
	m["transcript_path"], m["cwd"], m["last_assistant_message"] = transcript, d.path("home"), words
	if words == "" {
		delete(m, "last_assistant_message")
	}
	if b, err = json.Marshal(m); err != nil {
		d.Fatal(err)
	}
	return b
}
