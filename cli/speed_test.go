package cli

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
)

// BenchmarkSpeed_Tap is the time from a tap on the embedded space to the end of the hook
// that printed the answer, with forty questions open: real hooks, one poller.
func BenchmarkSpeed_Tap(b *testing.B) {
	h := newProjectHome(b)
	sp, server := serveSpace(b, space.Options{IsDirect: true}, nil)
	h.env = append(h.env, "GOOGLE_CHAT_SPACE_ID="+space.Name,
		"GCHAT_PUBSUB_SUBSCRIPTION="+space.Subscription,
		"GCHAT_API_ENDPOINT="+
			sp.APIEndpoint(server.URL), "GCHAT_PUBSUB_ENDPOINT="+sp.APIEndpoint(server.URL),
		"GCHAT_WRITES_PER_MINUTE=60000", "GCHAT_ALLOWED_USERS="+space.PersonName)
	n := 0
	ask := func() (end chan time.Time, card *chat.Message) {
		n++
		text := fmt.Sprintf("Which way, %d?", n)
		event := func(name string) string {
			return fmt.Sprintf(`{"session_id":"s%d","cwd":%q,"hook_event_name":%q,`+
				`"tool_name":"AskUserQuestion",`+
				`"tool_input":{"questions":[{"question":%q,"header":"Way",`+
				`"options":[{"label":"Left"},{"label":"Right"}]}]}}`, n, h.dir, name, text)
		}
		h.runHook("gchat-ask-user-forward", event("PreToolUse"))
		waits := exec.Command(h.program, "hook", "gchat-ask-user-forward")
		waits.Env, waits.Stdin = h.env, strings.NewReader(event("PermissionRequest"))
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
	var delays []time.Duration
	for b.Loop() {
		end, card := ask() // beside forty others
		began := time.Now()
		kit.NoError(b, sp.Tap(nil, card.Name, "", "2", nil, ""))
		delays = append(delays, (<-end).Sub(began))
	}
	for i, end := range ends {
		_ = sp.Tap(nil, cards[i].Name, "", "1", nil, "")
		<-end
	}
	slices.Sort(delays)
	b.ReportMetric(float64(delays[len(delays)/2].Milliseconds()), "ms/p50")
	b.ReportMetric(float64(delays[len(delays)*95/100].Milliseconds()), "ms/p95")
}
