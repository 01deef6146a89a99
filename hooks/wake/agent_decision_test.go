package wake

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// A decision to block is read in each form in which openclaw prints it. Anything else
// lets the session stop.
func TestAgentDecision_FormsOfABlock(t *testing.T) {
	block := `{"decision":"block","reason":"go on with \"F2\""}`
	quotedBlock := kit.JSON(t, block)
	fenced := kit.JSON(t, "I would say:\n```json\n"+block+"\n```")
	for name, c := range map[string]struct{ reply, want string }{
		"the decision itself": {block, `go on with "F2"`},
		"in the last payload": {`{"status":"ok","result":{"payloads":[{"text":"hm"},{"text":` +
			string(quotedBlock) + `,"mediaUrl":null}],"meta":{}}}`, `go on with "F2"`},
		"in a payload at the top": {`{"payloads":[{"text":` + string(fenced) + `}]}`,
			`go on with "F2"`},
		"after a line of something": {"Config: x\n" + block, `go on with "F2"`},
		"braces in other lines": {"[plugins] loaded {a,b}\n" + block + "\nsee {docs}",
			`go on with "F2"`},
		"approved":         {`{"decision":"approve","reason":"fine"}`, ""},
		"without a reason": {`{"decision":"block"}`, ""},
		"in words":         {`{"payloads":[{"text":"block it"}]}`, ""},
		"nothing":          {"", ""},
		"nonsense":         {"}{", ""},
		"the last payload counts": {`{"payloads":[{"text":` + string(quotedBlock) +
			`},{"text":"{\"decision\":\"approve\"}"}]}`, ""},
		"a decision of the wrong types": {`{"decision":true,"reason":[1]}`, ""},
	} {
		d := readDecision([]byte(c.reply))
		kit.Equalf(t, d.blocksStop(), c.want != "", "%s: %+v blocks", name, d)
		if d.blocksStop() {
			kit.Equalf(t, d.Reason, c.want, "%s", name)
		}
	}
}

// The agent sends the session back to work once. Stop waits for the agent, and no other
// hook does.
func TestAgentDecision_BlocksTheStopOnce(t *testing.T) {
	w := newQuietWorld(t)
	w.writeSettings("warden-main", `{"hook_mode":"bidirectional"}`)
	answered := make(chan *state.Message)
	go func() {
		answered <- w.answerAsAgent(`{"payloads":[{"text":"{\"decision\":\"block\",\"reason\":\"go on\"}"}]}`)
	}()
	kit.Equalf(t, w.runStopWith("done"), `{"decision":"block","reason":"go on"}`+"\n", "printed")
	if message := <-answered; !message.Wake.NeedsReply || len(message.Wake.Args) != 6 ||
		message.Wake.Args[5] != "--json" {
		t.Errorf("called as %+v", message.Wake)
	}
	w.wantNew("sent on already", "stop-hook",
		recorded(t, "single-07-Stop", "stop_hook_active", true), 0)
	w.wantNew("a question", "pre-tool-use-hook", recorded(t, "single-03-PreToolUse"), 1)
	question := w.wakeMessages()[0].Wake
	kit.True(t, !question.NeedsReply, "needs a reply")
	kit.Equalf(t, len(question.Args), 5, "arguments")
}

// answerAsAgent acts as the poller: it waits for a message whose hook waits, and gives it
// the agent's answer.
func (w *world) answerAsAgent(answer string) (message *state.Message) {
	box := state.OutboxIn(w.userState())
	w.waitUntil("a hook waits for its message", func() bool {
		all, _ := box.Waiting()
		i := slices.IndexFunc(all, func(message *state.Message) bool {
			_, err := state.ReadIndexEntry(state.IndexFile(w.getenv, message.Path))
			return err == nil
		})
		if i >= 0 {
			message = all[i]
		}
		return i >= 0
	})
	message, err := box.Change(message.Path, func(message *state.Message) {
		message.SentAt, message.AgentAnswer = time.Now(), answer
	})
	kit.NoError(w, err)
	return message
}

// The agent takes too long: the session stops, and the poller goes on with the message.
func TestAgentDecision_TooLateLetsStop(t *testing.T) {
	w := newQuietWorld(t)
	w.writeSettings("warden-main", `{"hook_mode":"bidirectional","reply_seconds":1}`)
	kit.Equalf(t, w.runStopWith("done"), "", "printed")
	kit.Equalf(t, len(w.wakeMessages()), 1, "messages")
	kit.Contains(t, w.infoLines(), `"outcome":"undecided"`)
	kit.Contains(t, w.errorLines(), "did not decide within 1s")
}

func FuzzReadDecision(f *testing.F) {
	f.Add([]byte(`{"result":{"payloads":[{"text":"{\"decision\":\"block\",\"reason\":\"x\"}"}]}}`))
	f.Add([]byte("x {\"decision\":1}"))
	f.Fuzz(func(t *testing.T, reply []byte) {
		if d := readDecision(reply); d.blocksStop() && !strings.Contains(string(reply), "block") &&
			!strings.Contains(string(reply), `\u00`) {
			t.Errorf("%q blocks", reply)
		}
	})
}
