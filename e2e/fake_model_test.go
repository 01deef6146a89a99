package e2e

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gchat-hooks/cli/claudecheck/fakemodel"
	"gchat-hooks/e2e/kit"
)

// The tests use the model of the check of Claude Code.
type (
	turn       = fakemodel.Turn
	block      = fakemodel.Block
	question   = fakemodel.Question
	option     = fakemodel.Option
	toolResult = fakemodel.ToolResult
	request    = fakemodel.Request
)

const inProject = fakemodel.InProject

var (
	textBlock    = fakemodel.Text
	toolCall     = fakemodel.Call
	questionCall = fakemodel.Ask
	bash         = fakemodel.Bash
	agentCall    = fakemodel.StartAgent
)

// fakeModel is the model of a test, on loopback.
type fakeModel struct {
	*fakemodel.Server
	URL      string
	patience time.Duration // how long Wait waits
}

func newFakeModel(t *testing.T, script ...turn) *fakeModel {
	t.Helper()
	m := &fakeModel{Server: fakemodel.New(script...), patience: patience}
	server := httptest.NewServer(m.Server)
	m.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return m
}

// Wait blocks until ok holds, and asks it again after every request.
func (m *fakeModel) Wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(m.patience)
	for {
		changed := m.Changed() // before asking, or a request in between is missed
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("the model stand-in waited %v for %s", m.patience, what)
		}
	}
}

// WaitToolResult blocks until n tool results arrived and returns the n-th.
func (m *fakeModel) WaitToolResult(t *testing.T, n int) toolResult {
	t.Helper()
	var got []toolResult
	m.Wait(t, fmt.Sprintf("%d tool results", n), func() bool {
		got = m.ToolResults()
		return len(got) >= n
	})
	return got[n-1]
}

// WaitText blocks until the conversation holds text: a prompt, a reminder, a tool result.
func (m *fakeModel) WaitText(t *testing.T, text string) {
	t.Helper()
	m.Wait(t, fmt.Sprintf("a message with %q", text), func() bool { return m.CountText(text) > 0 })
}

// WaitTextOnce is WaitText of what no message repeats.
func (m *fakeModel) WaitTextOnce(t *testing.T, text string) {
	t.Helper()
	m.WaitText(t, text)
	kit.Equalf(t, m.CountText(text), 1, "messages with %q", text)
}

// lastRequests describes the last n requests, for a failed test's log.
func (m *fakeModel) lastRequests(n int) string {
	all := m.Requests()
	var s strings.Builder
	fmt.Fprintf(&s, "%d requests to the model", len(all))
	for i := max(0, len(all)-n); i < len(all); i++ {
		r := all[i]
		fmt.Fprintf(&s, "\n%d: %s %s main=%v messages=%d", i+1, r.Method, r.Path, r.IsMain,
			len(r.Messages))
		if len(r.Messages) > 0 {
			last := r.Messages[len(r.Messages)-1]
			text := last.Content.AllText()
			fmt.Fprintf(&s, "\n   %s: %q", last.Role, text[max(0, len(text)-600):])
		}
	}
	return s.String()
}

// lastMainText is all the text of the conversation's last request.
func (m *fakeModel) lastMainText() (text string) {
	all := m.Requests()
	for i := len(all) - 1; i >= 0; i-- {
		if !all[i].IsMain {
			continue
		}
		for _, said := range all[i].Messages {
			text += said.Content.AllText() + "\n"
		}
		break
	}
	return text
}
