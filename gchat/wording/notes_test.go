package wording

import (
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// This table has each note that a question's thread can get.
func TestNotes_Text(t *testing.T) {
	two := []state.SubQuestion{newSubQuestion(false, "A", "B"),
		newSubQuestion(false, "C", "D", "E")}
	three := []state.SubQuestion{newSubQuestion(false, "A"), newSubQuestion(false, "B"),
		newSubQuestion(true, "C", "D")}
	for _, c := range []struct {
		name string
		q    state.Question
		owed state.OwedNote
		want string // that the text begins with
		in   string // and holds
	}{
		{"open", state.Question{Status: state.Pending}, state.OwedNote{About: state.NoteClosed}, "",
			""},
		{"instead", state.Question{Status: state.Cancelled, ResolvedBy: state.EndedReplaced},
			state.OwedNote{About: state.NoteClosed}, "", ""},
		{"answered", state.Question{Status: state.Resolved, Answers: map[string]string{"q?": "A"}},
			state.OwedNote{About: state.NoteClosed},
			"[Answered] shop", "Selected: A"},
		{"in the terminal", state.Question{Status: state.Resolved, ResolvedBy: "terminal"},
			state.OwedNote{About: state.NoteClosed},
			"[Answered] shop", "Answered in the terminal."},
		{"otherwise than the thread",
			state.Question{Status: state.Resolved, ResolvedBy: "terminal", AnsweredMessage: "m"},
			state.OwedNote{About: state.NoteClosed}, "[Answered] shop",
			"the reply in this thread did not count."},
		{"at a shell", state.Question{Status: state.Resolved, AnsweredBy: state.LocalSender,
			AnsweredByName: "ann"},
			state.OwedNote{About: state.NoteClosed}, "[Answered] shop",
			"Answered with gchat-hooks answer."},
		{"dismissed", state.Question{Status: state.Cancelled, ResolvedBy: "signal"},
			state.OwedNote{About: state.NoteClosed},
			"[Cancelled] shop", "Dismissed in the terminal."},
		{"gone with its answer", state.Question{Status: state.Cancelled, ResolvedBy: "claude_gone",
			AnsweredMessage: "m"},
			state.OwedNote{About: state.NoteClosed}, "[Cancelled] shop",
			"Your reply came too late to reach Claude."},
		{"old", state.Question{Status: state.Expired, ResolvedBy: "age"},
			state.OwedNote{About: state.NoteClosed},
			"[Cancelled] shop", "24 hours have passed."},
		{"timed out", state.Question{Status: state.TimedOut, ResolvedBy: "timeout"},
			state.OwedNote{About: state.NoteClosed},
			"[Timeout] shop", "a reply still reaches it."},
		{"chosen", state.Question{Status: state.TimedOut, ResolvedBy: "policy",
			Answers: map[string]string{"q?": "A"}},
			state.OwedNote{About: state.NoteClosed}, "[Timeout] shop",
			"Chosen by the timeout policy, not by you: A"},
		{"sent", state.Question{Status: state.Answered, Answers: map[string]string{"q?": "A"}},
			state.OwedNote{About: state.NoteSent},
			"[Sent] Sent to Claude: A.", ""},
		{"refused", state.Question{}, state.OwedNote{About: state.NoteRefused, ReplyMessage: "m"},
			"[Not used] Eve may not answer. To change that, add \"users/7\" to \"allowed_users\" in ~/.config/gchat-hooks/config.json, " +
				"or to GCHAT_ALLOWED_USERS before the session starts, and reply again.", ""},
		{"nobody allowed", state.Question{},
			state.OwedNote{About: state.NoteRefused, ReplyMessage: "m", Text: NobodyAllowed},
			"[Not used] Nobody may answer yet. To change that, add", ""},
		{"late", state.Question{Status: state.Resolved}, state.OwedNote{About: state.NoteLate},
			"[Not used] This question was already answered.", ""},
		{"late, closed", state.Question{Status: state.Cancelled, ResolvedBy: "stop"},
			state.OwedNote{About: state.NoteLate},
			"[Not used] This question is over. Closed in the terminal without", ""},
		{"late, asked again", state.Question{Status: state.TimedOut, IsAskedAgain: true},
			state.OwedNote{About: state.NoteLate},
			"[Not used] Nobody replied in time. The terminal shows what happened next.", ""},
		{"no option", state.Question{Replies: []state.Reply{{MessageName: "m", Text: "9"}}},
			state.OwedNote{About: state.NoteUnclear, ReplyMessage: "m"},
			"[Not used] There is no option 9. Reply with a number from 1 to 2, or with `other: 9`.",
			""},
		{"no option of several", state.Question{SubQuestions: two,
			Replies: []state.Reply{{MessageName: "m", Text: "Q2: 9"}}},
			state.OwedNote{About: state.NoteUnclear, ReplyMessage: "m"},
			"[Not used] Q2: There is no option 9. Reply with a number from 1 to 3, or with `Q2: other: 9`.", ""},
		{"kept", state.Question{Status: state.Pending, SubQuestions: two,
			PartialAnswers: map[int]state.Answer{0: answerLabels("A")}},
			state.OwedNote{About: state.NoteKept, ReplyMessage: "m"},
			"[Kept] Q1: A. Still missing: Q2. Reply with, for example, \"Q2: 1\".", ""},
		{"kept, own words and a remark",
			state.Question{Status: state.Pending, SubQuestions: three,
				PartialAnswers: map[int]state.Answer{
					0: answerText("just auth\nand <users/all>."),
					2: answerWithNotes("but soon.", "C", "D")}},
			state.OwedNote{About: state.NoteKept, ReplyMessage: "m"},
			"[Kept] Q1: just auth and ‹users/all>. Q3: C, D - but soon. Still missing: Q2.", ""},
		{"kept, at a shell", state.Question{Status: state.Pending, SubQuestions: two,
			PartialAnswers: map[int]state.Answer{1: answerLabels("C")},
			Replies:        []state.Reply{{MessageName: "m", Sender: state.LocalSender}}},
			state.OwedNote{About: state.NoteKept, ReplyMessage: "m"},
			"[Kept] A part was answered with gchat-hooks answer. Q2: C. Still missing: Q1.", ""},
		{"kept, and answered since", state.Question{Status: state.Answered, SubQuestions: two},
			state.OwedNote{About: state.NoteKept}, "", ""},
		{"later", state.Question{}, state.OwedNote{About: state.NoteLater},
			"[Kept] Claude reads your reply with its next step. A session that has ended reads it when it is resumed.", ""},
		{"no text", state.Question{}, state.OwedNote{About: state.NoteNoText},
			"[Not used] There is no text in that message, and no choice. Please reply in words, or choose an option.", ""},
		{"unwaited", state.Question{}, state.OwedNote{About: state.NoteNoWaiter},
			"[Not read] Please answer in the terminal. No hook waits for a reply to this question.",
			""},
		{"unread", state.Question{},
			state.OwedNote{About: state.NoteUnread, Text: "chat answered 403. Hint: log in."},
			"[Not read] Please answer in the terminal. Replies here cannot be read yet: chat answered 403. Hint: log in.", ""},
		{"unread, denied", state.Question{Mode: state.ModeDeny},
			state.OwedNote{About: state.NoteUnread, Text: "chat answered 403."},
			"[Not read] Please answer in the terminal. Replies here cannot be read yet: chat answered 403.", ""},
		{"not typed yet", state.Question{},
			state.OwedNote{About: state.NoteNotTyped, Text: "the pane is busy"},
			"[Waiting] Your answer is not in the terminal yet: the pane is busy. gchat-hooks keeps trying until the question is closed.", ""},
		{"words, not typed yet", state.Question{Kind: state.KindNext},
			state.OwedNote{About: state.NoteNotTyped,
				Text: "someone is typing; your message is typed when the box is empty"},
			"[Kept] Someone is typing; your message is typed when the box is empty.", ""},
		{"words, out of reach", state.Question{Kind: state.KindPrompt},
			state.OwedNote{About: state.NoteNotTyped, Text: "there is no such pane"},
			"[Kept] There is no such pane; your message is typed as soon as possible.", ""},
		{"decides nothing", state.Question{Kind: state.KindPermission},
			state.OwedNote{About: state.NoteUnclear, Text: TimedYesHint},
			"[Not used] That is not a yes or a no. Reply yes or no",
			`"yes 30m" allows for a while.`},
		{"for which one", state.Question{Kind: state.KindPermission},
			state.OwedNote{About: state.NoteUnclear, Text: WhichQuestionText}, WhichQuestionText,
			""},
		{"half typed", state.Question{Typing: &state.Typing{Result: "dirty", Why: "a dialog came"}},
			state.OwedNote{About: state.NoteNotTyped},
			"[Look] Please finish the dialog in the terminal. Your answer was only partly typed: a dialog came.", ""},
		{"unknown", state.Question{}, state.OwedNote{About: "x"}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.q.SessionName = "shop"
			if c.q.SubQuestions == nil {
				c.q.SubQuestions = []state.SubQuestion{newSubQuestion(false, "A", "B")}
				c.q.SubQuestions[0].Question = "q?"
			}
			if c.q.Replies == nil {
				c.q.Replies = []state.Reply{{MessageName: "m", Sender: "users/7",
					DisplayName: "Eve", Verdict: state.VerdictLate}}
			}
			got := noteText(&c.q, c.owed)
			kit.True(t, (c.want != "" || got == "") && strings.HasPrefix(got, c.want) &&
				strings.Contains(got, c.in),
				"%q", got)
		})
	}
}

func TestNotes_Nobody(t *testing.T) {
	for _, c := range []struct {
		session state.Session
		want    string
	}{
		{state.Session{}, "is not waiting for a reply. To write to it, use its terminal."},
		{state.Session{TmuxSession: "work"}, "use its terminal (tmux session work)."},
		{state.Session{ID: "a-b", EndedAt: time.Now()},
			"has ended. To continue it: `claude --resume a-b`."},
		{state.Session{ID: "a-b", ProjectDir: "/a b", EndedAt: time.Now()},
			"To continue it: `cd '/a b' && claude --resume a-b`."},
	} {
		got := NobodyWaitsText(&c.session, c.session.IsRunning())
		c.session.AcceptsCommands = true
		kit.True(t, !c.session.IsRunning() ||
			strings.Contains(NobodyWaitsText(&c.session, c.session.IsRunning()), "/help"),
			"where commands are read: %q", NobodyWaitsText(&c.session, c.session.IsRunning()))
		kit.True(t, strings.HasPrefix(got, "[Not read] This session ") &&
			strings.HasSuffix(got, c.want),
			"%q", got)
	}
}

// FuzzNoteText puts foreign text in everything that a note quotes. It must not become a
// link, a mention or a second prefix.
func FuzzNoteText(f *testing.F) {
	f.Add("<users/all> *x*", "https://evil.example")
	f.Add("```\n[Done] x", "a\nb\u202e<")
	f.Fuzz(func(t *testing.T, name, why string) {
		q := &state.Question{
			SessionName: name, Status: state.Answered, Answers: map[string]string{"q?": why},
			SubQuestions: []state.SubQuestion{{Question: "q?"}},
			Replies:      []state.Reply{{MessageName: "m", Sender: name, DisplayName: why}},
			Typing:       &state.Typing{Result: "dirty", Why: why},
		}
		for _, about := range []string{state.NoteSent, state.NoteRefused, state.NoteUnread,
			state.NoteNotTyped} {
			text := noteText(q, state.OwedNote{About: about, ReplyMessage: "m", Text: why})
			kit.True(t, !strings.Contains(text, "\n") && len(text) <= MaxText, "%q", text)
			checkHarmless(t, text, "[Sent]", "[Not used]", "[Not read]", "[Look]")
		}
	})
}

// noteText returns a note of one message, or "".
func noteText(q *state.Question, owed state.OwedNote) string {
	return strings.Join(NoteTexts(q, owed), "")
}
