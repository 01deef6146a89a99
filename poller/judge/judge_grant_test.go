package judge

import (
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/sample"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// An approver gives a yes for a while with a reply that has a duration.
func TestGrant_ApproverGivesIt(t *testing.T) {
	now := time.Now()
	on := config.Config{
		AllowedUsers: []string{"users/1", "users/2"}, Approvers: []string{"users/1"},
		AllowsTimedYes: true,
	}
	off := on
	off.AllowsTimedYes = false
	for name, test := range map[string]struct {
		cfg      *config.Config
		by, text string
		as       func(*state.Question)
		long     time.Duration
		decided  string
		owed     string
	}{
		"an approver": {
			&on, "users/1", "yes 30m", nil, 30 * time.Minute, state.LabelAllow, state.NoteGranted,
		},
		"of more than two hours": {
			&on, "users/1", "yes 9h", nil, 2 * time.Hour, state.LabelAllow, state.NoteGranted,
		},
		"a plain yes":         {&on, "users/1", "yes", nil, 0, state.LabelAllow, ""},
		"no time":             {&on, "users/1", "yes 30", nil, 0, "", state.NoteUnclear},
		"switched off":        {&off, "users/1", "yes 30m", nil, 0, "", state.NoteUnclear},
		"a stranger":          {&on, "users/9", "yes 2h", nil, 0, "", state.NoteRefused},
		"who may only answer": {&on, "users/2", "yes 2h", nil, 0, "", state.NoteRefused},
		"a program":           {&on, state.LocalSender, "yes 2h", nil, 0, "", ""},
		"only the terminal": {
			&on, "users/1", "yes 30m", func(q *state.Question) { q.IsTerminalOnly = true }, 0, "",
			state.NoteUnclear,
		},
		"of no known process": {
			&on, "users/1", "yes 30m", func(q *state.Question) { q.ClaudeStart = "" }, 0, "",
			state.NoteUnclear,
		},
		"answered already": {
			&on, "users/1", "yes 30m", func(q *state.Question) { q.Status = state.Answered }, 0, "",
			state.NoteLate,
		},
		"a no": {&on, "users/1", "no, not that", nil, 0, state.LabelDeny, ""},
		"a no that comes late": {
			&on, "users/1", "no", func(q *state.Question) { q.Status = state.Resolved }, 0, "",
			state.NoteLate,
		},
		"a stranger's no": {
			&on, "users/9", "no", func(q *state.Question) { q.Status = state.Resolved }, 0, "",
			state.NoteRefused,
		},
		"a no to what it was given to": {&on, "users/1", "no", func(q *state.Question) {
			q.Status, q.Grant = state.Resolved, &state.Grant{QuestionID: q.QuestionID}
		}, 0, "", ""},
		"late text": {
			&on, "users/1", "hm", func(q *state.Question) { q.Status = state.Resolved }, 0, "",
			state.NoteLate,
		},
		"written before that": {
			&on, "users/1", "yes 30m",
			func(q *state.Question) { at := now.Add(time.Minute); q.PostedAt = &at }, 0, "",
			state.NoteUnclear,
		},
		"a plan": {&on, "users/1", "yes 30m", func(q *state.Question) {
			q.Kind, q.SubQuestions[0].Options = state.KindPlan, []state.Option{
				{Label: state.LabelApprove}, {Label: state.LabelSendBack},
			}
		}, 0, "", state.NoteUnclear},
	} {
		q := sample.Permission("make", now.Add(-time.Minute))
		if test.as != nil {
			test.as(q)
		}
		q.Replies = []state.Reply{
			{MessageName: "m", Sender: test.by, Text: test.text, CreatedAt: now},
		}
		RestrictChoices(test.cfg, q)
		JudgeReply(test.cfg, q, &q.Replies[0], now)
		var owed string
		if len(q.OwedNotes) == 1 {
			owed = q.OwedNotes[0].About
		}
		got, _ := q.Decision()
		kit.True(t, got == test.decided && owed == test.owed && len(q.OwedNotes) <= 1,
			"%s: %q, owes %+v", name, got, q.OwedNotes)
		kit.Equalf(t, len(q.OwedNotes) == 1 && q.OwedNotes[0].Text == wording.TimedYesHint,
			(name == "no time"), "%s: the hint how to write it", name)
		if g := q.Grant; g != nil && g.GrantedAt.Nanosecond()%int(time.Millisecond) != 0 {
			t.Errorf("%s: given at %s, which records with a no do not tell apart", name,
				g.GrantedAt)
		}
		if g := q.Grant; test.long > 0 &&
			(g == nil || g.EndsAt.Sub(now).Round(time.Second) != test.long) || test.long == 0 &&
			q.Status != state.Resolved && g != nil {
			t.Errorf("%s: %+v", name, g)
		}
		no := test.by == "users/1" && strings.HasPrefix(test.text, "no")
		kit.True(t, q.LastDenialAt.IsZero() != no, "%s: a no at %s", name, q.LastDenialAt)
	}
}

// A yes for a while covers the permissions of its session, with many exceptions.
func TestGrant_WhatItCovers(t *testing.T) {
	now := time.Now()
	cfg := config.Config{Approvers: []string{"users/1"}, AllowsTimedYes: true}
	type set struct {
		*state.Question
		given *state.Question
		g     *state.Grant
		cfg   *config.Config
		one   *state.Session
	}
	for name, change := range map[string]func(*set){
		"covered":                func(*set) {},
		"of a subagent, covered": func(s *set) { s.AgentID = "a" },
		"by e-mail, covered": func(s *set) {
			s.given.Replies[0].SenderEmail = "a@b.c"
			s.Approvers = &[]string{"a@b.c"}
			s.cfg.Approvers = []string{"a@b.c"}
		},
		"switched off since":          func(s *set) { s.cfg.AllowsTimedYes = false },
		"the configuration is unread": func(s *set) { s.cfg.HasUnreadFile = true },
		"its time is up":              func(s *set) { s.g.EndsAt = now },
		"its end is known":            func(s *set) { s.g.IsEnded = true },
		"its reply is gone":           func(s *set) { s.given.Replies = nil },
		"a clock that was set back": func(s *set) {
			s.g.GrantedAt, s.AskedAt = now.Add(time.Second), now.Add(2*time.Second)
		},
		"asked before":                 func(s *set) { s.AskedAt = s.g.GrantedAt },
		"another process":              func(s *set) { s.ClaudePID = 8 },
		"a process of the same number": func(s *set) { s.ClaudeStart = "b" },
		"no process is known":          func(s *set) { s.ClaudePID, s.given.ClaudePID = 0, 0 },
		"no start is known": func(s *set) {
			s.ClaudeStart, s.given.ClaudeStart = "", ""
		},
		"a session that started later": func(s *set) { s.one.StartedAt = now },
		"no approver now":              func(s *set) { s.cfg.Approvers = []string{"users/2"} },
		"no approver then":             func(s *set) { s.Approvers = &[]string{"users/2"} },
		"nobody was an approver then":  func(s *set) { s.Approvers = &[]string{} },
		"the record says no approver":  func(s *set) { s.Approvers = nil },
		"only the terminal":            func(s *set) { s.IsTerminalOnly = true },
		"never_remote, today": func(s *set) {
			s.cfg.NeverRemote = []string{"Bash(make*)"}
		},
		"a plan":               func(s *set) { s.Kind = state.KindPlan },
		"the next instruction": func(s *set) { s.Kind = state.KindNext },
		"a question":           func(s *set) { s.Kind = state.KindQuestion },
		"answered":             func(s *set) { s.Status = state.Answered },
		"over":                 func(s *set) { s.Status = state.Cancelled },
		"a yes was not offered": func(s *set) {
			s.SubQuestions[0].Options = s.SubQuestions[0].Options[1:]
		},
		"another person of that e-mail": func(s *set) { s.given.Replies[0].Sender = "users/3" },
	} {
		c, q, given, session :=
			cfg, sample.Permission("make", now.Add(-time.Second)),
			sample.Permission("one", now.Add(-time.Minute)), &state.Session{}
		g := &state.Grant{
			QuestionID: given.QuestionID, GrantedAt: now.Add(-time.Minute),
			EndsAt: now.Add(time.Minute),
		}
		given.Grant, given.AnsweredMessage, given.AnsweredByName = g, "m", "Ada"
		given.Replies = []state.Reply{{MessageName: "m", Sender: "users/1", DisplayName: "Ada"}}
		change(&set{q, given, g, &c, session})
		used := given.HasActiveGrant() && !IsGrantOver(&c, given, session, now) &&
			AnswerByGrant(&c, q, given, now) == nil
		want := strings.HasSuffix(name, "covered")
		label, _ := q.Decision()
		kit.True(t, used == want && (label == state.LabelAllow) == want && (q.Grant != nil) == want,
			"%s: %v, %q", name, used, label)
		if used && (!strings.HasPrefix(*q.Response, "yes, by the grant of Ada until ") ||
			q.AnsweredBy != "users/1" || q.HasActiveGrant()) {
			t.Errorf("%s: %+v", name, q)
		}
	}
}
