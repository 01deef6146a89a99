package bound

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

func TestMain(m *testing.M) {
	if os.Getenv("BOUND_TEST_STANDS") != "" {
		fmt.Println("it stands")
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}

// What stands still is ended with what it started, and its goroutines and its log are
// there to be read.
func TestEnd(t *testing.T) {
	home := t.TempDir()
	log := filepath.Join(home, ".claude", "logs", "gchat-hooks.log")
	kit.NoError(t, os.MkdirAll(filepath.Dir(log), 0o700))
	kit.NoError(t, os.WriteFile(log, []byte("last words\n"), 0o600))
	cmd := exec.Command("sh", "-c", os.Args[0]+"; :")
	cmd.Env = append(os.Environ(), "BOUND_TEST_STANDS=1", "HOME="+home)
	out, err := cmd.StdoutPipe()
	kit.NoError(t, err)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	kit.NoError(t, cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(line, err)
	}
	saw := Kill(cmd.Process.Pid)
	_ = cmd.Wait()
	for _, want := range []string{"last words", os.Args[0]} {
		if _, err := os.Stat("/proc/self"); err == nil && !strings.Contains(saw, want) {
			t.Errorf("no %q in\n%s", want, saw)
		}
	}
	if !strings.Contains(errs.String(), "bound.TestMain(") {
		t.Errorf("no goroutines in\n%s", &errs)
	}
}

// A test whose process stands still fails by itself.
func TestCommandFails(t *testing.T) {
	f := &failureRecorder{TB: t}
	cmd := Within(f, time.Second, os.Args[0])
	cmd.Env = append(os.Environ(), "BOUND_TEST_STANDS=1")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("no error beside\n%s", out)
	}
	f.cleanup()
	if !strings.Contains(f.message, "did not end within 1s") || !strings.Contains(f.message, "bound.TestMain(") {
		t.Errorf("the test said %q", f.message)
	}
}

// failureRecorder is a test that may fail.
type failureRecorder struct {
	testing.TB
	cleanup func()
	message string
}

func (f *failureRecorder) Cleanup(end func()) { f.cleanup = end }
func (f *failureRecorder) Errorf(format string, args ...any) {
	f.message += fmt.Sprintf(format, args...)
}
