package poller

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// addHiddenDialog adds a permission of an agent in the background. Its dialog is
// hidden, and it is posted in its thread.
func (d *testMachine) addHiddenDialog(change func(*state.Question)) *state.Question {
	return d.addPosted(func(q *state.Question) {
		q.Mode, q.Kind, q.ToolName, q.IsDialogHidden, q.AgentID =
			state.ModeNative, state.KindPermission, "Bash", true, "a1"
		q.Approvers = &[]string{"users/1"}
		q.SubQuestions = []state.SubQuestion{
			{
				Question: "May it?",
				Options:  []state.Option{{Label: state.LabelAllow}, {Label: state.LabelDeny}},
			},
		}
		if change != nil {
			change(q)
		}
	})
}

// When a hidden dialog is handed over to the terminal, by what is known of the
// keyboard.
func TestKeyboard_WhenDialogIsHandedOver(t *testing.T) {
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	asked := func(d time.Duration) func(*state.Question) {
		return func(q *state.Question) { q.AskedAt = ago(d).UTC() }
	}
	for name, c := range map[string]struct {
		as   func(*state.Question)
		saw  *keyCheck
		env  string // GCHAT_ALLOWED_USERS
		over bool
	}{
		"nobody sits there": {asked(time.Hour), &keyCheck{isKnown: true}, "", false},
		"a key long before": {
			asked(time.Minute), &keyCheck{isKnown: true, lastKeyAt: ago(4 * time.Minute)}, "",
			false,
		},
		"a key shortly before": {
			asked(time.Minute), &keyCheck{isKnown: true, lastKeyAt: ago(2 * time.Minute)}, "", true,
		},
		"a key since": {
			asked(time.Hour), &keyCheck{isKnown: true, lastKeyAt: ago(10 * time.Minute)}, "", true,
		},
		"a key just now": {
			asked(time.Hour), &keyCheck{isKnown: true, lastKeyAt: ago(time.Second)}, "", false,
		},
		"keys cannot be seen": {asked(time.Minute), &keyCheck{}, "", false},
		"nor for long":        {asked(3 * time.Minute), &keyCheck{}, "", true},
		"not in its thread": {
			func(q *state.Question) { asked(6 * time.Second)(q); q.IsMessageSent = false },
			&keyCheck{isKnown: true}, "", true,
		},
		"not in its thread yet": {
			func(q *state.Question) { asked(2 * time.Second)(q); q.IsMessageSent = false },
			&keyCheck{isKnown: true}, "", false,
		},
		"replies cannot be read": {
			func(q *state.Question) { q.HasUnreadNote = true }, &keyCheck{isKnown: true}, "", true,
		},
		"nobody may answer": {nil, &keyCheck{isKnown: true}, ",", true},
		"a prompt was given": {
			func(q *state.Question) { at := ago(3 * time.Second); q.WantedInTerminalAt = &at },
			&keyCheck{}, "", true,
		},
		"a prompt was given just now": {
			func(q *state.Question) { at := ago(time.Second); q.WantedInTerminalAt = &at },
			&keyCheck{}, "", false,
		},
		"it was answered": {
			func(q *state.Question) { q.Status = state.Answered },
			&keyCheck{isKnown: true, lastKeyAt: ago(10 * time.Second)}, "", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestMachine(t)
			if c.env != "" {
				d.vars["GCHAT_ALLOWED_USERS"] = c.env
			}
			q := d.addHiddenDialog(c.as)
			p, record := d.readFirst()
			c.saw.startedAt = time.Now()
			record.lastKeyCheck.Store(c.saw)
			p.attendRecord(t.Context(), record, false)
			stored := d.loadQuestion(q)
			isOver := stored.HandedOverAt != nil
			kit.True(t, isOver == c.over && stored.Status == q.Status,
				"handed over: %v, %s", isOver, stored.Status)
		})
	}
}

// The person's key may have been Esc, which ended the turn of a form. The form is then
// closed, and not handed over: its hook would have the dialog drawn, although the call
// is over.
func TestKeyboard_EndedFormIsNotHandedOver(t *testing.T) {
	for status, want := range map[string]state.Status{
		"idle": state.Cancelled, "busy": state.Pending,
	} {
		d := newTestMachine(t)
		q := d.addHiddenDialog(func(q *state.Question) {
			q.Kind, q.Mode, q.AgentID, q.ClaudePID, q.SessionID =
				state.KindForm, state.ModeHold, "", os.Getpid(), "s"
			q.AskedAt = time.Now().Add(-time.Minute).UTC()
		})
		pressed := time.Now().Add(-10 * time.Second)
		d.startClaudeStatus("s")(fmt.Sprintf(`{"status":%q,"statusUpdatedAt":%d}`, status,
			pressed.UnixMilli()))
		p, record := d.readFirst()
		record.lastKeyCheck.Store(&keyCheck{
			startedAt: time.Now(), isKnown: true, lastKeyAt: pressed,
		})
		p.attendRecord(t.Context(), record, false)
		stored := d.loadQuestion(q)
		isOver := stored.HandedOverAt != nil
		kit.True(t, stored.Status == want && isOver == (want == state.Pending),
			"%s: %s, handed over %v", status, stored.Status, isOver)
	}
}

// In a real tmux, an attached terminal and a key in it count. While nobody types, the
// terminal shows that something waits.
func TestKeyboard_KeyBringsHiddenDialog(t *testing.T) {
	t.Parallel()
	d := newTestMachine(t)
	socket, pane := d.startTmux("claude")
	// the terminal was attached long before
	asked := time.Now().Add(state.MaxKeyAge + time.Minute).UTC()
	q := d.addHiddenDialog(func(q *state.Question) {
		q.TmuxSocket, q.TmuxPane, q.AskedAt = socket, pane, asked
	})
	p := d.newPoller()
	p.Now = func() time.Time { return asked.Add(time.Second) }
	p.readIndex()
	record := p.ownOldestFirst()[0]
	look := func() {
		record.lastKeyCheck.Store(nil)
		p.handOverDialog(t.Context(), record)
		bound.Until(t, "a look", func() bool {
			return record.lastKeyCheck.Load() != nil && !record.isCheckingKeys.Load()
		})
	}
	look()
	saw := record.lastKeyCheck.Load()
	kit.Must(t, saw.isKnown && saw.lastKeyAt.IsZero(), "without a terminal: %+v", saw)
	desk := socket + "-desk"
	runTmux(t, desk, "-f", os.DevNull, "new-session", "-d", "-x", "100", "-y", "30",
		"unset TMUX; exec tmux -u -S "+socket+" attach -t =claude")
	t.Cleanup(func() { _ = bound.Command(t, "tmux", "-S", desk, "kill-server").Run() })
	bound.Until(t, "the notice", func() bool {
		look()
		return strings.Contains(runTmux(t, desk, "capture-pane", "-p"),
			"a permission waits: press a key")
	})
	stored := d.loadQuestion(q)
	kit.Must(t, stored.HandedOverAt == nil, "handed over although nobody typed")
	d.changeQuestion(q, func(q *state.Question) { q.AskedAt = time.Now().UTC() })
	p.Now = time.Now
	bound.Until(t, "the dialog is handed over", func() bool {
		p.readIndex()
		p.attendRecord(t.Context(), record, false)
		return d.loadQuestion(q).HandedOverAt != nil
	})
}

// A question that was handed over takes no reply: no reply counts, is kept, or allows
// another call. The reply "terminal" hands it over.
func TestKeyboard_HandedOverTakesNoReply(t *testing.T) {
	d := newTestMachine(t)
	q := d.addHiddenDialog(nil)
	says := func(text string) *state.Question {
		d.changeQuestion(q, func(q *state.Question) {
			q.Replies = append(q.Replies, state.Reply{
				MessageName: text, Sender: "users/1", Text: text, CreatedAt: time.Now(),
			})
		})
		p := d.newReadyPoller()
		p.judgeUnread(p.ownOldestFirst()[0])
		return d.loadQuestion(q)
	}
	d.startWaiter(q)
	stored := says("terminal")
	kit.True(t, stored.WantedInTerminalAt != nil && stored.Status == state.Pending &&
		len(stored.OwedNotes) == 0,
		"terminal: wanted %v, %s, owes %+v", stored.WantedInTerminalAt, stored.Status,
		stored.OwedNotes)
	d.changeQuestion(q, func(q *state.Question) { q.HandOver(time.Now()) })
	for _, text := range []string{"yes", "no", "Terminal"} {
		stored := says(text)
		r := stored.FindReply(text)
		kit.True(t, r.Verdict == state.VerdictLate && stored.Status == state.Pending &&
			len(stored.Answers) == 0,
			"%s: %s, %s", text, r.Verdict, stored.Status)
		last := stored.OwedNotes[len(stored.OwedNotes)-1]
		kit.True(t, last.About == state.NoteLate && last.ReplyMessage == text,
			"%s: owed %+v", text, last)
	}
	given := *d.loadQuestion(q)
	given.Grant = &state.Grant{
		QuestionID: "x", GrantedAt: time.Now().Add(-time.Hour), EndsAt: time.Now().Add(time.Hour),
	}
	given.AnsweredMessage, given.ClaudePID, given.ClaudeStart = "yes", os.Getpid(), "1"
	over := *d.loadQuestion(q)
	over.ClaudePID, over.ClaudeStart = os.Getpid(), "1"
	cfg := d.newPoller().loadPersonalConfig()
	err := judge.AnswerByGrant(cfg, &over, &given, time.Now())
	kit.True(t, err != nil, "a yes for a while allowed it")
	over.HandedOverAt = nil
	kit.NoError(t, judge.AnswerByGrant(cfg, &over, &given, time.Now()))
}

// A reply and handing over exclude each other: the one that is written first counts.
func TestKeyboard_ReplyExcludesHandOver(t *testing.T) {
	q := state.Question{Status: state.Pending, IsDialogHidden: true}
	first := q
	answered := first.MoveTo(state.Answered, time.Now()) == nil
	first.HandOver(time.Now())
	kit.True(t, answered && first.HandedOverAt == nil, "what was answered is handed over")
	q.HandOver(time.Now())
	since := q.HandedOverAt
	answered = q.MoveTo(state.Answered, time.Now()) == nil
	q.HandOver(time.Now())
	kit.True(t, since != nil && !answered && q.HandedOverAt == since,
		"what was handed over is answered")
	kit.True(t, q.MoveTo(state.Resolved, time.Now()) == nil, "it cannot end")
}

// A person at the keyboard sees a permission first, but it is posted to Chat within ten
// seconds, too.
func TestKeyboard_PermissionWaitsUnderTenSeconds(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(func(q *state.Question) {
		q.Mode, q.Kind, q.ToolName, q.GracePeriod, q.TmuxPane =
			state.ModeNative, state.KindPermission, "Bash", config.DefaultGrace, "%1"
	})
	p := d.newPoller()
	for after, left := range map[time.Duration]bool{5 * time.Second: true, 9 * time.Second: false} {
		p.Now = shifted(after)
		due := p.graceEnd(t.Context(), &trackedRecord{
			question: q, hasCheckedKeys: true, isPersonTyping: true,
		})
		kit.True(t, due.IsZero() != left,
			"%v after it was asked, it is left to the keyboard: %v", after, !left)
	}
}
