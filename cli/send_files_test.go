package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gchat-hooks/e2e/kit"
)

// gchat-send attaches a file on the built-in page. Where files cannot be uploaded, the
// message names it. What is no regular file, or too large, is refused at once.
func TestSend_AttachesFiles(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	_, end := p.runSpace()
	defer end()
	chart := p.path("chart.png")
	kit.NoError(t, os.WriteFile(chart, kit.Picture(), 0o600))
	kit.NoError(t, os.Symlink(chart, p.path("link.png")))
	p.mustRun("send", "--file", chart, "--file", p.path("link.png"), "look")
	stored, err := filepath.Glob(p.path(".local/state/gchat-hooks/space/files/*"))
	kit.NoError(t, err)
	kit.Equalf(t, len(stored), 2, "the number of stored files")
	messages := p.readFile(".local/state/gchat-hooks/space/messages.jsonl")
	kit.Containsf(t, messages, `"contentName":"link.png"`, "the messages")

	fifo, large := p.path("fifo"), p.path("large")
	kit.NoError(t, syscall.Mkfifo(fifo, 0o600))
	kit.NoError(t, os.WriteFile(large, nil, 0o600))
	kit.NoError(t, os.Truncate(large, maxSendFileBytes+1))
	for path, want := range map[string]string{
		fifo: "not a regular file", large: "at most 10 MB", p.path("none"): "no such file",
		"/dev/zero": "not a regular file", p.dir: "not a regular file",
	} {
		_, err := readSendFile(path)
		kit.True(t, err != nil && strings.Contains(err.Error(), want), "%s: %v", path, err)
	}

	m := newMachine(t, 60)
	out := m.mustRun("send", "--file", chart, "look")
	kit.Containsf(t, out, "Google Chat takes no files from a webhook or an app: chart.png", "it prints")
}
