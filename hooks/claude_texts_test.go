package hooks_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// A process that asks with an API key and an API address has its question worded with
// them, also if the running poller has neither. Both have one environment, so one poller
// serves them.
func TestQuestion_WordedWithItsOwnKey(t *testing.T) {
	t.Parallel()
	const worded, key = "Which way shall it go out?", "sk-ant-of-the-asker"
	model := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != key {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = rw.Write([]byte(`{"type":"message","model":"m","content":[{"type":"text","text":"[\"` + worded +
			`\"]"}],"stop_reason":"end_turn","usage":{"input_tokens":1000,"output_tokens":200}}`))
	}))
	defer model.Close()
	w := newWorld(t)
	dir := filepath.Join(w.env["HOME"], ".config", "gchat-hooks")
	kit.NoError(t, os.MkdirAll(dir, 0o700))
	config := filepath.Join(dir, "config.json")
	kit.NoError(t, os.WriteFile(config, []byte(`{"format":"haiku"}`), 0o600))
	w.runHook(forwardHook, recorded(t, "single-03-PreToolUse"))
	w.awaitThread(1) // posted by a poller without a key
	asker := w.withVariables("ANTHROPIC_API_KEY", key, "ANTHROPIC_BASE_URL", model.URL)
	asker.runHook(forwardHook, recorded(t, "single-03-PreToolUse", "tool_use_id", "toolu_second"))
	w.awaitThread(2)
	messages := w.messages("[AskUserQuestion]")
	if strings.Contains(messages[0].Text, worded) || !strings.Contains(messages[1].Text, worded) {
		t.Errorf("posted %q and %q", messages[0].Text, messages[1].Text)
	}
	if q := w.questions()[0]; q.WordingCostUSD != 0.002 {
		t.Errorf("it cost %v", q.WordingCostUSD)
	}
	kit.Equalf(t, len(state.ReadHeartbeats(w.getenv)), 1, "pollers")
	w.endPollers()
	for _, file := range w.files() {
		b, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(b), key) {
			t.Errorf("the key stands in %s", file)
		}
	}
}

// files are those of this machine's state
func (w *world) files() (files []string) {
	_ = filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return nil
	})
	return files
}
