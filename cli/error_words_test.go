package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
)

// What others wrote reaches the terminal as text: neither Chat's words nor a file's are
// obeyed by it, and no secret is shown.
func TestErrorsAreInert(t *testing.T) {
	dir, err := builtProgram()
	kit.NoError(t, err)
	const hostile = `\u001b]52;c;cHduZWQ=\u0007\u009b31m\u202etxt`
	server := httptest.NewServer(strict.CheckRequests(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"error":{"code":403,"status":"PERMISSION_DENIED","message":"%s: wrong TOKENTOKEN1299 in %s"}}`, hostile, r.URL.RequestURI())
	})))
	defer server.Close()
	home, err := os.MkdirTemp("", "inert-")
	kit.NoError(t, err)
	t.Cleanup(func() { // a poller still tries what was not sent
		endPollers(func(name string) string { return map[string]string{"HOME": home}[name] })
		_ = removeUntilGone(home)
	})
	questions := filepath.Join(home, "state", "pending-questions")
	kit.NoError(t, os.MkdirAll(questions, 0o700))
	for i := range 2 {
		q := fmt.Sprintf(`{"question_id":"evil%d","session_id":"evil","gchat_thread_key":"ask-%s%d","status":"pending","asked_at":"2026-01-01T00:00:00Z","questions":[{"question":"?","options":[]}]}`, i, hostile, i)
		kit.NoError(t, os.WriteFile(filepath.Join(questions, fmt.Sprintf("evil-%d.json", i)), []byte(q), 0o600))
	}
	url := server.URL + "/v1/spaces/AAAA/messages?key=KEYKEY1234&token=TOKENTOKEN1299"
	for _, args := range [][]string{{"setup"}, {"send", "--no-queue", "hello"}, {"answer", "evil", "1"}} {
		cmd := bound.Command(t, filepath.Join(dir, "gchat-hooks"), args...)
		cmd.Env = []string{"HOME=" + home, "PATH=/usr/bin:/bin", "GCHAT_STATE_DIR=" + filepath.Join(home, "state")}
		if args[0] != "answer" {
			cmd.Env = append(cmd.Env, "GOOGLE_CHAT_WEBHOOK_URL="+url)
		}
		cmd.Dir = home
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = io.Discard, &out
		if cmd.Run() == nil || out.Len() == 0 {
			t.Errorf("%v: no error: %s", args, out.String())
		}
		for _, bad := range []string{"\x1b", "\x07", "\u009b", "\u202e", "KEYKEY1234", "TOKENTOKEN1299"} {
			if strings.Contains(out.String(), bad) {
				t.Errorf("%v prints %q: %q", args, bad, out.String())
			}
		}
		t.Logf("%v: %s", args, out.String())
	}
}
