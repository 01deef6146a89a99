package poller

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/sample"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// writePolicy has a policy count on this machine.
func (d *testMachine) writePolicy(text string) {
	d.t.Helper()
	d.vars["GCHAT_POLICY_FILE"] = filepath.Join(d.dir, "policy.json")
	kit.NoError(d.t, os.WriteFile(d.vars["GCHAT_POLICY_FILE"], []byte(text), 0o600))
}

// A policy counts when a reply is judged, also for what was asked before it came.
func TestPolicy_CountsForReplies(t *testing.T) {
	d := newTestMachine(t)
	d.vars["GCHAT_ALLOWED_USERS"] = "users/1,users/2"
	for name, test := range map[string]struct {
		policy, sender, text string
		want                 string
		verdict              state.Verdict
	}{
		"none": {`{}`, "users/2", "yes", state.LabelAllow, state.VerdictUsed},
		"named": {
			`{"allowed_users": ["users/2"]}`, "users/2", "yes", state.LabelAllow, state.VerdictUsed,
		},
		"not named": {
			`{"allowed_users": ["users/1"]}`, "users/2", "yes", "", state.VerdictRefused,
		},
		"no address known": {
			`{"allowed_users": ["*@example.com"]}`, "users/2", "no", "", state.VerdictRefused,
		},
		"never remote": {
			`{"never_remote": ["Bash(git push*)"]}`, "users/2", "yes", "", state.VerdictAskedBack,
		},
		"another call": {
			`{"never_remote": ["Bash(rm *)"]}`, "users/2", "yes", state.LabelAllow,
			state.VerdictUsed,
		},
		"titles only": {`{"titles_only": true}`, "users/2", "yes", "", state.VerdictAskedBack},
		"denied": {
			`{"titles_only": true}`, "users/2", "no", state.LabelDeny, state.VerdictUsed,
		},
		"kept": {
			`{"terminal_only": ["permission"]}`, "users/2", "yes", "", state.VerdictAskedBack,
		},
		"broken":         {`{`, "users/2", "yes", "", state.VerdictUnread},
		"broken, denied": {`{`, "users/2", "no", "", state.VerdictUnread},
	} {
		d.writePolicy(test.policy)
		p := d.newPoller()
		q := sample.Permission("git push", time.Now().Add(-time.Minute))
		q.Replies = []state.Reply{
			{MessageName: "m", Sender: test.sender, Text: test.text, CreatedAt: time.Now()},
		}
		_ = p.judgeByPersonalConfig()(q)
		got, _ := q.Decision()
		kit.True(t, got == test.want && q.Replies[0].Verdict == test.verdict,
			"%s: %q, %s", name, got, q.Replies[0].Verdict)
		kit.Equalf(t, len(q.OwedNotes) > 0 && q.OwedNotes[0].Text == wording.NotInPolicy,
			(test.verdict == state.VerdictRefused), "%s: notes %+v", name, q.OwedNotes)
		ask := &state.Question{
			Status: state.Pending, Mode: state.ModeNative,
			SubQuestions: []state.SubQuestion{{Question: "A?"}}, Replies: q.Replies,
		}
		ask.Replies[0].Verdict = state.VerdictUnread
		_ = p.judgeByPersonalConfig()(ask)
		kit.True(t, test.policy != "{" || ask.Replies[0].Verdict == state.VerdictUnread,
			"%s: a question's reply is %s", name, ask.Replies[0].Verdict)
	}
}

// A yes for a while covers nothing that a policy keeps in the terminal.
func TestPolicy_LimitsGrant(t *testing.T) {
	now := time.Now()
	for policy, covers := range map[string]bool{
		`{}`: true, `{"titles_only": true}`: false, `{"never_remote": ["Bash"]}`: false,
		`{"terminal_only": ["permission"]}`: false, `{`: false,
	} {
		d := newTestMachine(t)
		d.writeConfig(`{"timed_yes": true}`)
		d.writePolicy(policy)
		given := sample.Permission("make one", now.Add(-time.Minute))
		q := sample.Permission("make two", now)
		given.Grant = &state.Grant{
			QuestionID: given.QuestionID, GrantedAt: now.Add(-time.Second),
			EndsAt: now.Add(time.Hour),
		}
		given.AnsweredMessage, given.Replies = "m", []state.Reply{
			{MessageName: "m", Sender: "users/1", Text: "yes 1h"},
		}
		err := judge.AnswerByGrant(d.newPoller().loadPersonalConfig(), q, given, now)
		kit.True(t, (err == nil) == covers, "%s: %v", policy, err)
	}
}

// A policy that wants titles only counts for what was asked before it: messages from then
// on have no text of the call.
func TestPolicy_TitlesOnlyHidesText(t *testing.T) {
	d := newTestMachine(t)
	d.writePolicy(`{"titles_only": true}`)
	secret := func(kind state.Kind, posted bool) *state.Question {
		return d.addQuestion(func(q *state.Question) {
			q.Kind, q.Mode, q.ToolName, q.About, q.ShownText, q.CallTexts =
				kind, state.ModeNative, "Bash", "hidden-word", "hidden-word\n2",
				[]string{"hidden-word"}
			q.AlwaysAllows, q.Wording, q.Approvers =
				"Bash(hidden-word)", []string{"hidden-word"}, &[]string{"users/1"}
			q.SubQuestions = []state.SubQuestion{{Question: "Bash: hidden-word",
				Options: []state.Option{
					{Label: state.LabelAllow}, {Label: state.LabelDeny}, {Label: state.LabelAlways},
					{Label: state.LabelApprove}, {Label: state.LabelSendBack},
				}}}
			if posted {
				d.markPosted(q)
			}
		})
	}
	p := d.newPoller()
	for _, kind := range []state.Kind{state.KindPermission, state.KindPlan} {
		q := secret(kind, false)
		kit.NoError(t, p.enqueueQuestion(q, &state.IndexEntry{Path: q.Path}, firstMessageKey))
		box := state.OutboxIn(p.userStateDir)
		message, err := box.FindByKey(messageKey(firstMessageKey, q))
		kit.NoError(t, err)
		for _, gateway := range []*projectGateway{
			p.gatewayFor(t.Context(), configSource{}),
			{cfg: p.loadPersonalConfig(), transport: &gchat.App{}},
		} {
			worded, out := p.newSender().wordMessage(t.Context(), message, gateway)
			kit.Must(t, worded != nil &&
				strings.Contains(strings.Join(worded.Parts, ""),
					"Only the terminal can allow this."),
				"%+v, %+v", worded, out)
			text := strings.Join(worded.Parts, "") + string(worded.Card)
			kit.True(t, !strings.Contains(text, "hidden-word"), "%s: %s", kind, text)
		}
		posted := secret(kind, true)
		posted.CardMessage = "spaces/local/messages/card"
		posted.Replies = []state.Reply{{MessageName: "m", Sender: "users/1", Text: "?"}}
		for _, status := range []state.Status{
			state.Pending, state.Resolved, state.Cancelled, state.Expired,
		} {
			for _, label := range []string{
				state.LabelAllow, state.LabelAlways, state.LabelDeny, "",
			} {
				posted.Status, posted.Answers = status, map[string]string{
					posted.SubQuestions[0].Question: label,
				}
				for about, seen := range map[string]string{
					state.NoteClosed: "", state.NoteFullText: "", state.NoteReminder: "5 minutes",
					state.NoteSent: "", state.NoteUnclear: "",
					state.NoteLate: "", state.NoteNotTyped: `the dialog "hidden-word?" ` + label,
				} {
					owed := state.OwedNote{About: about, ReplyMessage: "m", Text: seen}
					_, err := p.enqueueNote(posted, &state.IndexEntry{Path: q.Path}, owed)
					kit.NoError(t, err)
				}
			}
		}
	}
	all, _ := state.OutboxIn(p.userStateDir).All()
	for _, message := range all {
		text := strings.Join(message.Parts, "\n") + string(message.Card)
		kit.True(t, !strings.Contains(text, "hidden-word"), "%+v: %s", message.Note, text)
	}
	kit.True(t, len(all) >= 20, "only %d messages", len(all))
}

// With titles only, what the terminal shows is not posted in a session's thread. Where
// prompts are kept in the terminal, a message for Claude gets a note, and becomes no
// record.
func TestPolicy_LimitsSessionThread(t *testing.T) {
	x := newTestSession(t, nil)
	x.writePolicy(`{"titles_only": true}`)
	got := x.runInPane(withInputBox("❯ hidden-word", "", "● Bash(hidden-word)", "",
		"✻ Working… (3s · ↓ 20 tokens)"), withInputBox("● Done."))
	for command, want := range map[string]string{
		"/screen": "[Screen] shop\n```\n(only in the terminal)",
		"/status": "Claude works: (only in the terminal)",
	} {
		x.reply(x.threadName, "", command)
		notes := strings.Join(x.readNotes(), "\n")
		kit.True(t, strings.Contains(notes, want) && !strings.Contains(notes, "hidden-word"),
			"%s: %s", command, notes)
	}
	x.checkAnswer("/stop", "[Stopped] (only in the terminal)")
	kit.Equalf(t, got(), "\x1b", "keys")
	x.writePolicy(`{"terminal_only": ["said"]}`)
	x.checkAnswer("do something else", "[Not used] A policy allows")
	questions, _ := state.ReadIndexedQuestions(x.env)
	kit.True(t, len(questions) == 0, "records were made: %+v", questions)
	x.checkAnswer("/help", "[Help]")
}

// A poller reads a hub's policy where no hook asks, once a minute at most while the hub
// is out of reach.
func TestPolicy_IsReadFromHub(t *testing.T) {
	d := newTestMachine(t)
	var asked atomic.Int64
	hub := kit.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(`{"policy": {"titles_only": true}}`))
	}))
	d.vars["GOOGLE_CHAT_CREDENTIALS_FILE"] = filepath.Join(d.dir, "hub.json")
	now, later :=
		time.Now().UTC().Format(time.RFC3339), time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	file := `{"type":"gchat_hooks_hub","hub":"` + hub.URL + `","token":"t","got":"` + now +
		`","time":"` + now + `","expires":"` + later + `"}`
	kit.NoError(t, os.WriteFile(d.vars["GOOGLE_CHAT_CREDENTIALS_FILE"], []byte(file), 0o600))
	p := d.newPoller()
	for range 3 {
		p.step(t.Context())
		kit.Must(t, p.loadPersonalConfig().HasUnreadFile && asked.Load() == 1,
			"a policy that was never read lets Chat decide, or the hub was asked %d times",
			asked.Load())
	}
	kit.NoError(t, os.Remove(filepath.Join(p.userStateDir, "policy.json")))
	for range 3 {
		p.step(t.Context())
		cfg := p.loadPersonalConfig()
		kit.Must(t, !cfg.HasUnreadFile && !cfg.AccessTo(config.KindScreen, "").CanShow &&
			asked.Load() == 2,
			"the policy does not count, or the hub was asked %d times", asked.Load())
	}
}
