package cli

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
)

// BenchmarkTap is the time from a tap on the embedded space to the end of the hook that
// printed the answer, with forty questions open: real hooks, one poller.
func BenchmarkTap(b *testing.B) {
	dir, err := builtProgram()
	kit.NoError(b, err)
	sp, err := space.Open(space.Options{IsDirect: true})
	kit.NoError(b, err)
	defer sp.Close()
	server := httptest.NewServer(strict.CheckRequests(b, sp.Handler(), strict.Embedded))
	defer server.Close()
	home, err := os.MkdirTemp("", "gchat-tap-")
	kit.NoError(b, err)
	defer func() {
		endPollers(func(name string) string { return map[string]string{"HOME": home}[name] })
		_ = removeUntilGone(home)
	}()
	env := []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "CLAUDE_PROJECT_DIR=" + filepath.Join(home, "p"), "GOOGLE_CHAT_SPACE_ID=" + space.Name,
		"GCHAT_PUBSUB_SUBSCRIPTION=" + space.Subscription, "GCHAT_API_ENDPOINT=" + sp.APIEndpoint(server.URL), "GCHAT_WRITES_PER_MINUTE=60000",
		"GCHAT_PUBSUB_ENDPOINT=" + sp.APIEndpoint(server.URL), "GCHAT_ALLOWED_USERS=" + space.PersonName,
	}
	n := 0
	ask := func() (end chan time.Time, card *chat.Message) {
		n++
		text := fmt.Sprintf("Which way, %d?", n)
		hook := func(event string) *exec.Cmd {
			cmd := exec.Command(filepath.Join(dir, "gchat-hooks"), "hook", "gchat-ask-user-forward")
			cmd.Env = env
			cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"session_id":"s%d","cwd":%q,"hook_event_name":%q,"tool_name":"AskUserQuestion",
				"tool_input":{"questions":[{"question":%q,"header":"Way","options":[{"label":"Left"},{"label":"Right"}]}]}}`, n, home, event, text))
			return cmd
		}
		if out, err := hook("PreToolUse").CombinedOutput(); err != nil {
			b.Fatal(err, string(out))
		}
		waits := hook("PermissionRequest")
		kit.NoError(b, waits.Start())
		end = make(chan time.Time, 1)
		go func() { _ = waits.Wait(); end <- time.Now() }()
		bound.Until(b, "a card that asks "+text, func() bool {
			for _, m := range sp.Messages() {
				if strings.Contains(m.FallbackText, text) {
					card = m
				}
			}
			return card != nil
		})
		return end, card
	}
	var ends []chan time.Time
	var cards []*chat.Message
	for range 40 {
		end, card := ask()
		ends, cards = append(ends, end), append(cards, card)
	}
	var took []time.Duration
	for b.Loop() {
		end, card := ask() // beside forty others
		began := time.Now()
		kit.NoError(b, sp.Tap(nil, card.Name, "", "2", nil, ""))
		took = append(took, (<-end).Sub(began))
	}
	for i, end := range ends {
		_ = sp.Tap(nil, cards[i].Name, "", "1", nil, "")
		<-end
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "ms/p50")
	b.ReportMetric(float64(took[len(took)*95/100].Milliseconds()), "ms/p95")
}
