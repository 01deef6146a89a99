package poller

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// An attachment of a message that is used was not read, and a note says so, whatever
// was asked. A message that is not used gets no such note.
func TestAnAttachmentThatWasNotReadIsTold(t *testing.T) {
	two := []state.SubQuestion{{Question: "Which?", Options: []state.Option{{Label: "One"}, {Label: "Two"}}}, {Question: "Why?"}}
	decision := []state.SubQuestion{{Question: "Bash", Options: []state.Option{{Label: state.LabelAllow}, {Label: state.LabelDeny}}}}
	cfg := &config.Config{AllowedUsers: []string{"users/1"}, Approvers: []string{"users/1"}}
	for _, tt := range []struct {
		name, text string
		kind       state.Kind
		prompts    []state.SubQuestion
		told       bool
	}{
		{"an answer", "1", state.KindQuestion, two[:1], true},
		{"own words", "see the picture", state.KindQuestion, two[:1], true},
		{"one of two answers", "Q1: 2", state.KindQuestion, two, true},
		{"a yes", "yes", state.KindPermission, decision, true},
		{"the next instruction", "do as in the file", state.KindNext, []state.SubQuestion{{Question: "Next?"}}, true},
		{"an option that there is not", "9", state.KindQuestion, two[:1], false},
		{"nothing but the attachment", "", state.KindQuestion, two[:1], false},
	} {
		for _, attached := range []bool{true, false} {
			now := time.Now()
			q := &state.Question{
				QuestionID: "q", Kind: tt.kind, Mode: state.ModeNative, Status: state.Pending, AskedAt: now, IsMessageSent: true,
				SubQuestions: tt.prompts, Approvers: &[]string{"users/1"},
			}
			m := state.Reply{MessageName: "m", Sender: "users/1", Text: tt.text, CreatedAt: now, HasAttachment: attached}
			if !judge.AddReply(q, m, false) {
				t.Fatalf("%s: not stored", tt.name)
			}
			judge.JudgeReply(cfg, q, q.FindReply("m"), now)
			owed := slices.Contains(q.OwedNotes, state.OwedNote{About: state.NoteAttached, ReplyMessage: "m"})
			kit.Equalf(t, owed, (attached && tt.told), "%s, attached %t: owes %v", tt.name, attached, q.OwedNotes)
			if texts := wording.NoteTexts(q, state.OwedNote{About: state.NoteAttached, ReplyMessage: "m"}); !strings.Contains(texts[0], "attachment was not read") {
				t.Errorf("%s: %q", tt.name, texts)
			}
		}
	}
}

// The same holds in a session's thread, for a message that is no reply.
func TestAnAttachmentToASessionIsTold(t *testing.T) {
	x := newTestSession(t, nil)
	x.readNotes()
	err := x.poller.addIncoming(newIncoming(x.reader.chat, gchat.Message{
		Name: "spaces/local/messages/picture", ThreadName: x.threadName, Sender: "users/local-human", IsHuman: true,
		Text: "make it look like this", CreateTime: time.Now(), HasAttachment: true,
	}, 0))
	kit.NoError(t, err)
	notes := slices.Concat(x.readNotes(), x.readNotes())
	if !slices.ContainsFunc(notes, func(text string) bool { return strings.HasPrefix(text, "[Words only] The attachment was not read") }) {
		t.Errorf("told %q", notes)
	}
}
