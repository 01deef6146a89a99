package wake

import (
	"encoding/json"
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
	quotedBlock, _ := json.Marshal(block)
	fenced, _ := json.Marshal("I would say:\n```json\n" + block + "\n```")
	for name, c := range map[string]struct{ reply, want string }{
		"the decision itself":           {block, `go on with "F2"`},
		"in the last payload":           {`{"status":"ok","result":{"payloads":[{"text":"hm"},{"text":` + string(quotedBlock) + `,"mediaUrl":null}],"meta":{}}}`, `go on with "F2"`},
		"in a payload at the top":       {`{"payloads":[{"text":` + string(fenced) + `}]}`, `go on with "F2"`},
		"after a line of something":     {"Config: x\n" + block, `go on with "F2"`},
		"braces in other lines":         {"[plugins] loaded {a,b}\n" + block + "\nsee {docs}", `go on with "F2"`},
		"approved":                      {`{"decision":"approve","reason":"fine"}`, ""},
		"without a reason":              {`{"decision":"block"}`, ""},
		"in words":                      {`{"payloads":[{"text":"block it"}]}`, ""},
		"nothing":                       {"", ""},
		"nonsense":                      {"}{", ""},
		"the last payload counts":       {`{"payloads":[{"text":` + string(quotedBlock) + `},{"text":"{\"decision\":\"approve\"}"}]}`, ""},
		"a decision of the wrong types": {`{"decision":true,"reason":[1]}`, ""},
	} {
		d := readDecision([]byte(c.reply))
		if d.blocksStop() != (c.want != "") || d.blocksStop() && d.Reason != c.want {
			t.Errorf("%s: %+v, want %q", name, d, c.want)
		}
	}
}

// The agent sends the session back to work once. Stop waits for the agent, and no other
// hook does.
func TestAgentDecision_BlocksTheStopOnce(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.writeSettings("warden-main", `{"hook_mode":"bidirectional"}`)
	answered := make(chan *state.Message)
	go func() {
		answered <- w.answerAsAgent(`{"payloads":[{"text":"{\"decision\":\"block\",\"reason\":\"go on\"}"}]}`)
	}()
	kit.Equalf(t, w.runStopWith("done"), `{"decision":"block","reason":"go on"}`+"\n", "printed")
	if message := <-answered; !message.Wake.NeedsReply || len(message.Wake.Args) != 6 || message.Wake.Args[5] != "--json" {
		t.Errorf("called as %+v", message.Wake)
	}
	if out := w.runHook("stop-hook", recorded(t, "single-07-Stop", "stop_hook_active", true)); out != "" || len(w.wakeMessages()) != 0 {
		t.Errorf("sent on already, and yet it printed %q", out)
	}
	w.runHook("pre-tool-use-hook", recorded(t, "single-03-PreToolUse"))
	if m := w.wakeMessages(); len(m) != 1 || m[0].Wake.NeedsReply || len(m[0].Wake.Args) != 5 {
		t.Errorf("a question: %+v", m)
	}
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
	w.must(err)
	return message
}

// The agent takes too long: the session stops, and the poller goes on with the message.
func TestAgentDecision_TooLateLetsStop(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.writeSettings("warden-main", `{"hook_mode":"bidirectional","reply_seconds":1}`)
	if out := w.runStopWith("done"); out != "" || len(w.wakeMessages()) != 1 {
		t.Errorf("printed %q, %d wait", out, len(w.wakeMessages()))
	}
	if !strings.Contains(w.infoLines(), `"outcome":"undecided"`) || !strings.Contains(w.errorLines(), "did not decide within 1s") {
		t.Errorf("log: %s%s", w.infoLines(), w.errorLines())
	}
}

func FuzzReadDecision(f *testing.F) {
	f.Add([]byte(`{"result":{"payloads":[{"text":"{\"decision\":\"block\",\"reason\":\"x\"}"}]}}`))
	f.Add([]byte("x {\"decision\":1}"))
	f.Fuzz(func(t *testing.T, reply []byte) {
		if d := readDecision(reply); d.blocksStop() && !strings.Contains(string(reply), "block") && !strings.Contains(string(reply), `\u00`) {
			t.Errorf("%q blocks", reply)
		}
	})
}

func FuzzRegistry(f *testing.F) {
	f.Add([]byte(`{"hook_settings":{"deliver":"chat"},"agents":[{"agent_id":"a","tmux_session_name":"x","hook_settings":{"pane_capture_lines":3}}]}`), "x")
	f.Fuzz(func(t *testing.T, file []byte, session string) {
		r, err := parseRegistry(file)
		if err != nil {
			return
		}
		if a, ok := r.agentForSession(session); ok && (!a.isEnabled || a.id == "" || a.tmuxSession != session && !strings.HasPrefix(session, a.id+"-")) {
			t.Errorf("%q is %+v", session, a)
		}
	})
}
