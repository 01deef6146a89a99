package poller

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestCycleEases(t *testing.T) {
	for _, c := range []struct{ age, interval, want time.Duration }{
		{0, 10 * time.Second, time.Second},
		{30 * time.Second, 10 * time.Second, time.Second},
		{time.Minute, 10 * time.Second, 2 * time.Second},
		{3 * time.Minute, 10 * time.Second, 6 * time.Second},
		{5 * time.Minute, 10 * time.Second, 10 * time.Second},
		{20 * time.Hour, 10 * time.Second, 10 * time.Second},
		{0, 100 * time.Millisecond, 100 * time.Millisecond},
	} {
		if got := cycle(c.age, c.interval); got != c.want {
			t.Errorf("asked %v ago, interval %v: %v, want %v", c.age, c.interval, got, c.want)
		}
	}
}

func TestTroubleBacksOff(t *testing.T) {
	var tr trouble
	overloaded := &gchat.APIError{HTTP: http.StatusServiceUnavailable}
	for i, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute} {
		if got := tr.after(overloaded); got != want {
			t.Errorf("failure %d: %v, want %v", i+1, got, want)
		}
	}
	if got := tr.after(&gchat.APIError{HTTP: 429, RetryAfter: 7 * time.Second}); got != 7*time.Second {
		t.Errorf("with Retry-After: %v", got)
	}
	if got := tr.after(nil); got != 0 || tr != (trouble{}) {
		t.Errorf("after a success: %v, %+v", got, tr)
	}
	if got := tr.after(errors.New("connection refused")); got != 0 {
		t.Errorf("the network is down: %v; the usual cycle is enough", got)
	}
	for i := 1; i <= authTries; i++ {
		if tr.degraded() {
			t.Errorf("degraded after %d failures", i-1)
		}
		if got := tr.after(&gchat.APIError{HTTP: 403}); got != time.Minute {
			t.Errorf("auth failure %d: %v", i, got)
		}
	}
	if !tr.degraded() {
		t.Error("not degraded after five")
	}
}

func TestSinceReachesBackForThreadsThatWereNotRead(t *testing.T) {
	posted := noon.Add(-time.Hour - time.Minute) // Chat's clock is behind
	old := &state.Question{QuestionID: "old", Status: state.Pending, AskedAt: noon.Add(-time.Hour), PostedAt: &posted}
	unknown := &state.Question{QuestionID: "unknown", Status: state.Pending, AskedAt: noon.Add(-time.Hour)}
	closed := &state.Question{QuestionID: "closed", Status: state.Resolved, AskedAt: noon.Add(-20 * time.Hour)}
	for name, c := range map[string]struct {
		mark *state.Inbox
		qs   []*state.Question
		want time.Time
	}{
		"all read":                  {&state.Inbox{Watermark: noon, Covered: map[string]bool{"old": true}}, []*state.Question{old, closed}, noon.Add(-overlap)},
		"one not read":              {&state.Inbox{Watermark: noon}, []*state.Question{old, closed}, posted.Add(-clockSlack)},
		"posted at an unknown time": {&state.Inbox{Watermark: noon}, []*state.Question{unknown}, unknown.AskedAt.Add(-clockSlack)},
		"nothing read yet":          {&state.Inbox{}, []*state.Question{old}, posted.Add(-clockSlack)},
		"a watermark further back":  {&state.Inbox{Watermark: noon.Add(-9 * time.Hour)}, []*state.Question{old}, noon.Add(-9*time.Hour - overlap)},
	} {
		if got := since(c.mark, c.qs); !got.Equal(c.want) {
			t.Errorf("%s: since %v, want %v", name, got, c.want)
		}
	}
}

func TestAllowedFailsClosed(t *testing.T) {
	for _, c := range []struct {
		users  []string
		sender state.Reply
		want   bool
	}{
		{nil, state.Reply{Sender: "users/1"}, false},
		{[]string{""}, state.Reply{}, false},
		{[]string{"users/1"}, state.Reply{Sender: "users/1"}, true},
		{[]string{"users/1"}, state.Reply{Sender: "users/11"}, false},
		{[]string{"1"}, state.Reply{Sender: "1"}, false},
		{[]string{"*", "users/*", "all", "users/"}, state.Reply{Sender: "users/1"}, false},
		{[]string{"Ann@Example.com"}, state.Reply{Sender: "users/1", SenderEmail: "ann@example.com"}, true},
		{[]string{"users/ann@example.com"}, state.Reply{Sender: "users/1", SenderEmail: "ann@example.com"}, true},
		{[]string{"ann@example.com"}, state.Reply{Sender: "users/1", DisplayName: "ann@example.com"}, false},
		{[]string{"ann@example.com"}, state.Reply{Sender: "users/1"}, false},
		{[]string{"users/"}, state.Reply{Sender: "users/"}, false},
		{[]string{"users/@"}, state.Reply{Sender: "users/@", SenderEmail: "@"}, false},
		{[]string{"@example.com"}, state.Reply{Sender: "users/1", SenderEmail: "@example.com"}, false},
		{[]string{"kim@example.com"}, state.Reply{Sender: "users/1", SenderEmail: "\u212Aim@example.com"}, false},
		{[]string{"sam@example.com"}, state.Reply{Sender: "users/1", SenderEmail: "\u017Fam@example.com"}, false},
		{[]string{"local"}, state.Reply{Sender: "users/1"}, false},
		{nil, state.Reply{Sender: Local}, true},
	} {
		if got := allowed(&state.Config{AllowedUsers: c.users}, &c.sender); got != c.want {
			t.Errorf("%q, %+v: %v", c.users, c.sender, got)
		}
	}
}

func TestMessageIDsAreChats(t *testing.T) {
	seen := map[string]bool{}
	for _, parts := range [][]string{{"question", "a"}, {"question", "b"}, {"note", "a", "late"}, {"note", "alate"}, {"note", "a", "", "late"}} {
		id := messageID(parts...)
		if len(id) > 63 || !strings.HasPrefix(id, "client-") || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || seen[id] {
			t.Errorf("%q: %s", parts, id)
		}
		seen[id] = true
		if messageID(parts...) != id {
			t.Errorf("%q: not the same again", parts)
		}
	}
}

// machine is a poller with folders of its own and a question of status.
func machine(t *testing.T, status state.Status) (*Poller, *state.Question) {
	dir := t.TempDir()
	vars := map[string]string{"HOME": dir, "XDG_STATE_HOME": dir, "GCHAT_ALLOWED_USERS": "users/1"}
	env := func(name string) string { return vars[name] }
	p := &Poller{Env: env, Log: state.NewLog(env, "test"), Now: func() time.Time { return noon }}
	q, err := state.QuestionsIn(filepath.Join(dir, "state")).Record("s", func([]*state.Question) *state.Question {
		return &state.Question{
			QuestionID: "q", SessionID: "s", SessionName: "shop", AskedAt: noon, Status: status, Chat: "h/spaces/A", Space: "spaces/A", ThreadName: "spaces/A/threads/T",
			MessageSent: true, PostedAt: &noon, Questions: []state.Prompt{{Question: "Which?", Options: []state.Option{{Label: "A"}, {Label: "B"}}, OptionCount: 2}},
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, q
}

func TestJudgeOnce(t *testing.T) {
	p, q := machine(t, state.Pending)
	reply := func(name, sender, text string, after time.Duration) state.Reply {
		return state.Reply{MessageName: name, Sender: sender, Text: text, CreateTime: noon.Add(after)}
	}
	if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		q.Replies = []state.Reply{ // as they came in, not as they were written
			reply("m5", "users/1", "A", 5*time.Second), reply("m4", "users/1", "2", 4*time.Second), reply("m3", "users/1", " ", 3*time.Second),
			reply("m2", "users/2", "1", 2*time.Second), reply("m1", "users/1", "", time.Second), reply("m6", "users/1", "", 6*time.Second), reply("m7", "users/2", "", 0), reply("m0", "users/1", "1", -time.Minute),
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // judging again changes nothing
		after, err := p.Judge(q.Path)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]state.Verdict{}
		for _, r := range after.Replies {
			got[r.MessageName] = r.Verdict
		}
		want := map[string]state.Verdict{"m1": state.Ignored, "m6": state.Ignored, "m7": state.Ignored, "m0": state.Ignored, "m2": state.Refused, "m3": state.Ignored, "m4": state.Used, "m5": state.Late}
		for name, v := range want {
			if got[name] != v {
				t.Errorf("%s: %s, want %s", name, got[name], v)
			}
		}
		if after.Status != state.Answered || after.Answers["Which?"] != "B" || after.AnsweredMessage != "m4" {
			t.Errorf("%s %v by %s", after.Status, after.Answers, after.AnsweredMessage)
		}
	}
	if ms, _ := state.OutboxIn(p.user()).Waiting(); len(ms) != 3 || !strings.Contains(ms[0].Parts[0], "no text") {
		t.Errorf("%d notes, want that there is no text, a refusal and an \"already answered\"", len(ms))
	}
}

func TestCloseTellsOnceAndOneEnds(t *testing.T) {
	p, q := machine(t, state.Pending)
	ended := 0
	for range 3 {
		if ok, err := p.Close(q.Path, state.Cancelled, "stop", nil); err != nil {
			t.Fatal(err)
		} else if ok {
			ended++
		}
	}
	if ms, _ := state.OutboxIn(p.user()).Waiting(); ended != 1 || len(ms) != 1 || !strings.HasPrefix(ms[0].Parts[0], "[Cancelled] shop") {
		t.Errorf("ended %d times, %d notes", ended, len(ms))
	}
}

func TestGoneSeesAReusedPid(t *testing.T) {
	if Gone(&state.Question{}) {
		t.Error("an unknown Claude Code is taken for gone")
	}
	me := os.Getpid()
	q := &state.Question{ClaudePID: me, ClaudeStart: inject.StartOf(me)}
	if Gone(q) {
		t.Error("a living process is taken for gone")
	}
	if q.ClaudeStart == "" {
		t.Skip("no start times on this system")
	}
	if q.ClaudeStart = "1"; !Gone(q) {
		t.Error("another process with the same pid is taken for Claude Code")
	}
}
