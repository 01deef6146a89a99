package poller

import (
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// What can decide a permission: the first clear word of an approver, in its thread,
// after it was asked.
func TestWhoDecides(t *testing.T) {
	asked := time.Now().Add(-time.Minute).Truncate(time.Second)
	early := asked.Add(-5 * time.Second)
	cfg := &config.Config{AllowedUsers: []string{"users/1", "users/2"}, Approvers: []string{"users/1"}}
	for name, test := range map[string]struct {
		replies []state.Reply
		want    string // the decision; "" for none
		owed    string // the note that the last reply gets
		seen    string
	}{
		"an approver":                 {[]state.Reply{{Sender: "users/1", Text: "yes"}}, state.LabelAllow, "", ""},
		"who may only answer":         {[]state.Reply{{Sender: "users/2", Text: "yes"}}, "", state.NoteRefused, wording.NotApprover},
		"a stranger":                  {[]state.Reply{{Sender: "users/3", Text: "yes"}}, "", state.NoteRefused, ""},
		"before all of it was there":  {[]state.Reply{{Sender: "users/1", Text: "yes", CreatedAt: early}}, "", state.NoteUnclear, wording.TooEarlyHint},
		"a stranger, before that":     {[]state.Reply{{Sender: "users/3", Text: "yes", CreatedAt: early}}, "", "", ""},
		"unclear, twice":              {[]state.Reply{{Sender: "users/1", Text: "ok"}, {Sender: "users/1", Text: "ok"}}, "", state.NoteUnclear, ""},
		"unclear, then clear":         {[]state.Reply{{Sender: "users/1", Text: "hm"}, {Sender: "users/1", Text: "no"}}, state.LabelDeny, state.NoteUnclear, ""},
		"said twice":                  {[]state.Reply{{Sender: "users/1", Text: "no"}, {Sender: "users/1", Text: "yes"}}, state.LabelDeny, state.NoteLate, ""},
		"always, not offered":         {[]state.Reply{{Sender: "users/1", Text: "always"}}, "", state.NoteUnclear, ""},
		"more":                        {[]state.Reply{{Sender: "users/1", Text: "more"}}, "", state.NoteFullText, ""},
		"a number that no option has": {[]state.Reply{{Sender: "users/1", Text: "2"}, {Sender: "users/1", Text: "2"}}, "", state.NoteUnclear, ""},
	} {
		q := &state.Question{
			Kind: state.KindPermission, Mode: state.ModeNative, Status: state.Pending, AskedAt: asked, PostedAt: &asked, Approvers: &[]string{},
			SubQuestions: []state.SubQuestion{{Question: "Bash", Options: []state.Option{{Label: state.LabelAllow}, {Label: state.LabelDeny}}}},
		}
		for i, r := range test.replies {
			r.MessageName = string(rune('a' + i))
			if r.CreatedAt.IsZero() {
				r.CreatedAt = asked.Add(time.Duration(i+1) * time.Second)
			}
			q.Replies = append(q.Replies, r)
			judge.JudgeReply(cfg, q, &q.Replies[i], time.Now())
		}
		if got, _ := q.Decision(); got != test.want || (q.Status == state.Answered) != (test.want != "") {
			t.Errorf("%s: %q, %s", name, got, q.Status)
		}
		last := state.OwedNote{}
		if len(q.OwedNotes) > 0 {
			last = q.OwedNotes[len(q.OwedNotes)-1]
		}
		if last.About != test.owed || last.Text != test.seen {
			t.Errorf("%s: told %+v", name, last)
		}
	}
}

// A next instruction is typed exactly as it was written, unless Claude Code's prompt
// would read it as something else.
func TestTheNextInstructionIsWords(t *testing.T) {
	asked := time.Now().Add(-time.Minute)
	cfg := &config.Config{AllowedUsers: []string{"users/1"}, Approvers: []string{"users/1"}}
	for text, want := range map[string]string{
		"commit it": "commit it", "1": "1", "yes\nand push": "yes\nand push", "!rm -rf /": "", "/exit": "", " /clear": "", "# remember": "",
		"exit": "", " quit\n": "", ":q": "", ":q!": "", ":wq": "", ":wq!": "", "exit now": "exit now", "Exit": "Exit", ":x": ":x",
		"\u0301abc": "", "\u0301": "", "e\u0301t\u00e9": "e\u0301t\u00e9", "@/etc/hosts": "", "see @README.md": "", "a@b.example": "a@b.example",
	} {
		q := &state.Question{Kind: state.KindNext, Mode: state.ModeNative, Status: state.Pending, AskedAt: asked, PostedAt: &asked,
			SubQuestions: []state.SubQuestion{{Question: "next"}}, Replies: []state.Reply{{MessageName: "a", Sender: "users/1", Text: text, CreatedAt: time.Now()}}}
		judge.JudgeReply(cfg, q, &q.Replies[0], time.Now())
		if got, _ := q.Decision(); got != want || len(q.OwedNotes) != map[bool]int{true: 0, false: 1}[want != ""] {
			t.Errorf("%q: %q, %+v", text, got, q.OwedNotes)
		}
	}
}

// Each reminder is sent once, and after a night without a poller only the last one.
func TestReminders(t *testing.T) {
	home := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	p, q := newPoller(Options{Env: env, Log: state.NewLog(env, "t")}), &state.Question{
		QuestionID: "q", SessionID: "s", Kind: state.KindPermission, Mode: state.ModeNative, Status: state.Pending, IsMessageSent: true,
		Chat: "chat.example/spaces/S", AskedAt: time.Now().Add(-20 * time.Minute), RemindAfter: []time.Duration{15 * time.Minute, time.Hour},
	}
	p.awakeSince = q.AskedAt // this poller was awake all the time
	folder := state.QuestionsIn(t.TempDir())
	kit.NoError(t, folder.Create("q", q))
	record := &trackedRecord{IndexEntry: &state.IndexEntry{Path: q.Path}, question: q}
	for _, step := range []struct {
		at   time.Duration
		down int // failures of the space: failed sends do not add up
		owes int
		seen string
	}{
		{0, 0, 1, "15 minutes"}, {0, 0, 1, "15 minutes"}, {time.Hour, 1, 1, "15 minutes"}, {time.Hour, 0, 2, "60 minutes"},
		{9 * time.Hour, 0, 2, "60 minutes"},
	} {
		p.Now = func() time.Time { return time.Now().Add(step.at) }
		if _, err := state.SpacesIn(p.userStateDir).Change(q.Chat, func(s *state.Space) { s.Failures = step.down }); err != nil {
			t.Fatal(err)
		}
		if record.question.RemindersSent < len(record.question.RemindAfter) {
			p.oweReminder(record)
		}
		if n := len(record.question.OwedNotes); n != step.owes || record.question.OwedNotes[n-1].Text != step.seen {
			t.Errorf("after %s: %+v", step.at, record.question.OwedNotes)
		}
	}
}
