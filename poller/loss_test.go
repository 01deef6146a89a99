package poller

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/space"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// Who decides is the stricter of what the record and the configuration say; a record that
// does not say it is for the terminal.
func TestTheStricterOfRecordAndConfigurationDecides(t *testing.T) {
	asked := time.Now().Add(-time.Minute).Truncate(time.Second)
	cfg := &config.Config{AllowedUsers: []string{"users/1", "users/2"}, Approvers: []string{"users/1", "users/2"}}
	guarded := *cfg
	guarded.NeverRemote = []string{"Bash(git push*)"}
	all := []string{state.LabelAllow, state.LabelDeny, state.LabelAlways}
	for name, test := range map[string]struct {
		cfg       *config.Config
		approvers *[]string
		never     []string
		call      string
		by, text  string
		want      string
	}{
		"who could and can":                   {cfg, &[]string{"users/1"}, nil, "make", "users/1", "yes", state.LabelAllow},
		"who can now, and could not":          {cfg, &[]string{"users/1"}, nil, "make", "users/2", "yes", ""},
		"who could, and cannot now":           {&config.Config{Approvers: []string{"users/2"}}, &[]string{"users/1"}, nil, "make", "users/1", "yes", ""},
		"nobody was on the list":              {cfg, &[]string{}, nil, "make", "users/2", "yes", state.LabelAllow},
		"the record does not say":             {cfg, nil, nil, "make", "users/1", "yes", ""},
		"the record does not say, denied":     {cfg, nil, nil, "make", "users/1", "no", state.LabelDeny},
		"named since":                         {&guarded, &[]string{"users/1"}, nil, "git push", "users/1", "yes", ""},
		"named since, denied":                 {&guarded, &[]string{"users/1"}, nil, "git push", "users/1", "no", state.LabelDeny},
		"not named":                           {&guarded, &[]string{"users/1"}, nil, "make", "users/1", "yes", state.LabelAllow},
		"always, beside rules that are new":   {&guarded, &[]string{"users/1"}, nil, "make", "users/1", "always", ""},
		"always, held against the same rules": {&guarded, &[]string{"users/1"}, guarded.NeverRemote, "make", "users/1", "always", state.LabelAlways},
		"a local reply, as of the page":       {cfg, &[]string{}, nil, "make", state.LocalSender, "yes", ""},
	} {
		q := &state.Question{
			Kind: state.KindPermission, ToolName: "Bash", Mode: state.ModeNative, Status: state.Pending, AskedAt: asked, PostedAt: &asked,
			Approvers: test.approvers, NeverRemote: test.never, CallTexts: []string{test.call},
			SubQuestions: []state.SubQuestion{{Question: "Bash"}},
			Replies:      []state.Reply{{MessageName: "a", Sender: test.by, Text: test.text, CreatedAt: time.Now()}},
		}
		for _, label := range all {
			q.SubQuestions[0].Options = append(q.SubQuestions[0].Options, state.Option{Label: label})
		}
		judge.RestrictChoices(test.cfg, q)
		judge.JudgeReply(test.cfg, q, &q.Replies[0], time.Now())
		if got, _ := q.Decision(); got != test.want {
			t.Errorf("%s: %q, want %q (%s)", name, got, test.want, q.Replies[0].Verdict)
		}
	}
}

// A stranger's many words keep no other reply out: one of each sender is kept.
func TestStrangersFillNoThread(t *testing.T) {
	q := &state.Question{}
	for n := range 400 {
		judge.AddReply(q, newIncoming("", gchat.Message{Name: fmt.Sprint(n), IsHuman: true, Sender: fmt.Sprint("users/", 5+n%3), Text: "hi", CreateTime: noon}, 0).AsReply(), true)
	}
	if !judge.AddReply(q, newIncoming("", gchat.Message{Name: "right", IsHuman: true, Sender: "users/1", Text: "yes", CreateTime: noon}, 0).AsReply(), false) || len(q.Replies) != 4 {
		t.Errorf("%d replies", len(q.Replies))
	}
}

// Another program read the reply in Chat and wrote it into the file: it is one reply,
// wherever it is read once more.
func TestAReplyThatAnotherProgramReadFirst(t *testing.T) {
	q := &state.Question{Replies: []state.Reply{
		{MessageName: "local/x", Sender: state.LocalSender, DisplayName: "poll.py", Text: "2", CreatedAt: noon, Verdict: state.VerdictUsed},
	}}
	if judge.AddReply(q, newIncoming("", gchat.Message{Name: "m", IsHuman: true, Sender: "users/1", Text: "2\n", CreateTime: noon.Add(400 * time.Millisecond)}, 0).AsReply(), false) {
		t.Errorf("it is another one: %+v", q.Replies)
	}
	for name, m := range map[string]gchat.Message{"later": {Text: "2", CreateTime: noon.Add(time.Minute)}, "other words": {Text: "3", CreateTime: noon}} {
		m.Name, m.IsHuman, m.Sender = name, true, "users/1"
		if !judge.AddReply(q, newIncoming("", m, 0).AsReply(), false) {
			t.Errorf("%s: it is taken for the same", name)
		}
	}
}

// In deny mode, words behind an answer that was delivered are told that they came too
// late, and nothing else.
func TestWordsBehindADeliveredAnswer(t *testing.T) {
	d := newTestMachine(t)
	now := time.Now().UTC()
	q := d.addQuestion(func(q *state.Question) {
		d.markPosted(q)
		q.Mode, q.Status, q.ResolvedAt, q.ResolvedBy, q.DeliveredAt = state.ModeDeny, state.Resolved, &now, "chat", &now
		q.AnsweredMessage, q.AnsweredBy, q.Answers = "m1", space.PersonName, map[string]string{"Which?": "Two"}
		q.Replies = []state.Reply{
			{MessageName: "m1", Sender: q.AnsweredBy, Text: "2", CreatedAt: now, Verdict: state.VerdictUsed},
			{MessageName: "m2", Sender: q.AnsweredBy, Text: "thanks, and tidy up", CreatedAt: now},
		}
	})
	p := d.newPoller()
	p.readIndex()
	for _, record := range p.ownRecords {
		p.judgeUnread(record)
	}
	if q = d.loadQuestion(q); !slices.Equal(q.OwedNotes, []state.OwedNote{{About: state.NoteLate, ReplyMessage: "m2"}}) {
		t.Errorf("owed are %+v", q.OwedNotes)
	}
}

// A reply that was on its way when its question ended is told so, as long as a poller
// lives: ever more rarely, for five minutes.
func TestAReplyJustAfterTheEnd(t *testing.T) {
	d := newTestMachine(t)
	now := time.Now().UTC()
	q := d.addQuestion(func(q *state.Question) {
		d.markPosted(q)
		q.Status, q.ResolvedAt, q.ResolvedBy = state.Resolved, &now, "terminal"
	})
	p := d.newPoller()
	p.readIndex()
	v := p.spaceViews()[q.Chat]
	if v == nil || len(v.sources) != 1 || len(v.ownOpen) != 0 {
		t.Fatalf("its space is not read: %+v", v)
	}
	r := p.readerFor(q.Chat)
	var cycles []time.Duration
	for _, after := range []time.Duration{0, time.Minute, 4 * time.Minute} {
		p.Now = func() time.Time { return now.Add(after) }
		cycles = append(cycles, r.listInterval(v).Truncate(time.Second))
	}
	if cycles[0] > time.Second || cycles[1] != 15*time.Second || cycles[2] != time.Minute {
		t.Errorf("read every %v", cycles)
	}
	p.Now = func() time.Time { return now.Add(readAfterEnd + time.Second) }
	if v := p.spaceViews()[q.Chat]; v != nil && len(v.sources) > 0 {
		t.Error("it is read for longer than five minutes")
	}
}

// A poller whose home folder was deleted beneath it ends.
func TestAPollerWithoutItsFolderEnds(t *testing.T) {
	d := newTestMachine(t)
	d.addQuestion(nil)
	ended := make(chan error, 1)
	go func() { ended <- Run(t.Context(), Options{Env: d.env, Log: state.NewLog(d.env, "test"), Daemon: true}) }()
	bound.Until(t, "the poller runs", func() bool { return isPollerRunning(d.env) })
	for range 100 { // it may just be writing
		if os.RemoveAll(filepath.Join(state.UserStateDir(d.env), "pollers")) == nil {
			break
		}
	}
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("it lives on")
	}
}

// An error with a name that is another each time is logged once.
func TestErrorsWithRandomNamesAreLoggedOnce(t *testing.T) {
	d := newTestMachine(t)
	p := d.newPoller()
	for n := range 50 {
		p.Log.ErrorOnce(fmt.Errorf("open /x/.new-%d: no space left on device", 1000000+n*7919), "not written")
	}
	p.Log.ErrorOnce(errors.New("open /x/y: permission denied"), "not written")
	kit.Equalf(t, len(d.logLines("not written")), 2, "lines")
}

// The poller makes no lock file where a hook has just taken its record back.
func TestNoEmptyOpenIsMade(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(nil)
	p := d.newPoller()
	p.readIndex()
	file := state.IndexFile(d.env, q.Path)
	kit.NoError(t, os.Remove(file))
	for _, record := range p.ownRecords {
		p.holdEntryLock(record)
		p.removeFromIndex(record)
	}
	if _, err := os.Lstat(file); err == nil {
		t.Error("an empty one stands there")
	}
}

// What killed processes left is swept, and so is an old question that no index names.
func TestLeftoversAreSwept(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(nil)
	lost := d.writeQuestion(func(q *state.Question) { q.SessionID = "lost" })
	dir, old := filepath.Dir(q.Path), time.Now().Add(-26*time.Hour)
	user := state.UserStateDir(d.env)
	var gone, kept []string
	for _, in := range []string{dir, filepath.Dir(dir), filepath.Join(user, "open"), filepath.Join(user, "spaces")} {
		_ = os.MkdirAll(in, 0o700)
		for name, to := range map[string]*[]string{".new-1234": &gone, ".other": &kept, "notes.txt": &kept, ".renovaterc.json5": &kept} {
			path := filepath.Join(in, name)
			kit.NoError(t, os.WriteFile(path, []byte("{}"), 0o600))
			*to = append(*to, path)
		}
	}
	foreign := filepath.Join(dir, "foreign.json")
	kit.NoError(t, os.WriteFile(foreign, []byte(`{"question_id": "x", "status": "pending"}`), 0o600))
	gone, kept = append(gone, lost.Path), append(kept, foreign, q.Path)
	for _, path := range append(slices.Clone(gone), kept...) {
		kit.NoError(t, os.Chtimes(path, old, old))
	}
	p := d.newPoller()
	p.readIndex()
	p.sweep()
	for _, path := range gone {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is there", path)
		}
	}
	for _, path := range kept {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}

// What lets Claude act counts in the person's own state alone: Claude may write into the
// project, and have it announced.
func TestADecisionInAProjectIsNothing(t *testing.T) {
	d := newTestMachine(t)
	q := d.writeQuestion(func(q *state.Question) { q.SessionID = "forged" })
	q = d.changeQuestion(q, func(q *state.Question) { q.Kind, q.Status = state.KindNext, state.Answered })
	kit.NoError(t, state.AddQuestionToIndex(d.env, q))
	p := d.newPoller()
	p.readIndex()
	for _, record := range p.ownRecords {
		if record.question != nil {
			t.Errorf("it is served: %+v", record.question)
		}
	}
}

// The poller that pulls for all environments leaves a tap to the one whose question it is
// on.
func TestATapOfAnotherEnvironmentIsLeftToIt(t *testing.T) {
	d, g := newAppMachine(t)
	q, card := d.addCardQuestion(func(q *state.Question) { d.markPostedByApp(q, g) })
	p := d.newPoller()
	p.readIndex()
	for _, record := range p.ownRecords {
		record.Environment = "another"
	}
	var e gchat.PulledEvent
	e.Message.Name, e.At, e.Person = q.MessageName, time.Now(), gchat.Person{Name: "users/7"}
	e.Tap = &wording.Tap{QuestionID: card, Choice: "1"}
	kit.NoError(t, p.addIncoming(newIncomingTap(q.Chat, e)))
	p.readState()
	p.routeAll(t.Context())
	if stored := d.loadQuestion(q); len(stored.Replies) > 0 {
		t.Errorf("it was given to another one's question: %+v", stored.Replies)
	}
	own := d.newPoller()
	own.readState()
	own.routeAll(t.Context())
	if stored := d.loadQuestion(q); len(stored.Replies) != 1 {
		t.Errorf("%d taps are stored", len(stored.Replies))
	}
}
