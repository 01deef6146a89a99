package wake

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/state"
)

// A decision to block is read in whichever of openclaw's shapes it comes; anything else lets the session stop.
func TestReadDecision(t *testing.T) {
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
		if d.block() != (c.want != "") || d.block() && d.Reason != c.want {
			t.Errorf("%s: %+v, want %q", name, d, c.want)
		}
	}
}

// The agent sends the session on, once: Stop waits for it, and no other hook does.
func TestBidirectional(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.settings("warden-main", `{"hook_mode":"bidirectional"}`)
	answered := make(chan *state.Message)
	go func() {
		answered <- w.deliver(`{"payloads":[{"text":"{\"decision\":\"block\",\"reason\":\"go on\"}"}]}`)
	}()
	if out := w.told("done"); out != `{"decision":"block","reason":"go on"}`+"\n" {
		t.Errorf("printed %q", out)
	}
	if m := <-answered; !m.Wake.Reply || len(m.Wake.Args) != 6 || m.Wake.Args[5] != "--json" {
		t.Errorf("called as %+v", m.Wake)
	}
	if out := w.fire("stop-hook", recorded(t, "single-07-Stop", "stop_hook_active", true)); out != "" || len(w.waiting()) != 0 {
		t.Errorf("sent on already, and yet it printed %q", out)
	}
	w.fire("pre-tool-use-hook", recorded(t, "single-03-PreToolUse"))
	if m := w.waiting(); len(m) != 1 || m[0].Wake.Reply || len(m[0].Wake.Args) != 5 {
		t.Errorf("a question: %+v", m)
	}
}

// deliver is the poller: it waits for a message whose hook waits, and gives it the agent's answer.
func (w *world) deliver(answer string) (m *state.Message) {
	box := state.OutboxIn(w.user())
	w.until("a hook waits for its message", func() bool {
		all, _ := box.Waiting()
		i := slices.IndexFunc(all, func(m *state.Message) bool {
			_, err := state.ReadOpen(state.OpenFile(w.getenv, m.Path))
			return err == nil
		})
		if i >= 0 {
			m = all[i]
		}
		return i >= 0
	})
	m, err := box.Change(m.Path, func(m *state.Message) {
		m.SentAt, m.Answer = time.Now(), answer
	})
	w.must(err)
	return m
}

// An agent that takes too long: the session stops, and the poller goes on with the message.
func TestUndecided(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.settings("warden-main", `{"hook_mode":"bidirectional","reply_seconds":1}`)
	if out := w.told("done"); out != "" || len(w.waiting()) != 1 {
		t.Errorf("printed %q, %d wait", out, len(w.waiting()))
	}
	if !strings.Contains(w.fires(), `"outcome":"undecided"`) || !strings.Contains(w.log(), "did not decide within 1s") {
		t.Errorf("log: %s%s", w.fires(), w.log())
	}
}

func FuzzReadDecision(f *testing.F) {
	f.Add([]byte(`{"result":{"payloads":[{"text":"{\"decision\":\"block\",\"reason\":\"x\"}"}]}}`))
	f.Add([]byte("x {\"decision\":1}"))
	f.Fuzz(func(t *testing.T, reply []byte) {
		if d := readDecision(reply); d.block() && !strings.Contains(string(reply), "block") && !strings.Contains(string(reply), `\u00`) {
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
		if a, ok := r.agentOf(session); ok && (!a.enabled || a.id == "" || a.session != session && !strings.HasPrefix(session, a.id+"-")) {
			t.Errorf("%q is %+v", session, a)
		}
	})
}
