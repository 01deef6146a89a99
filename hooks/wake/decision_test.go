package wake

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A decision to block is Claude Code's own decision, in whichever of openclaw's shapes it comes; anything else lets the
// session stop.
func TestBidirectional(t *testing.T) {
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
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "warden-main", quiet)
			w.settings("warden-main", `{"hook_mode":"bidirectional"}`)
			w.write("reply", c.reply)
			out := w.told("done")
			if c.want == "" {
				if out != "" {
					t.Errorf("printed %q", out)
				}
			} else {
				var got map[string]string
				if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != 2 || got["decision"] != "block" || got["reason"] != c.want {
					t.Errorf("printed %q", out)
				}
			}
			call := w.calls()[0]
			if len(call.args) != 6 || call.args[5] != "--json" {
				t.Errorf("called with %q", call.args)
			}
			if out := w.run("stop-hook", recorded(t, "single-07-Stop", "last_assistant_message", "again", "stop_hook_active", true)); out != "" || len(w.calls()) != 1 {
				t.Errorf("once only, and yet it printed %q", out)
			}
			// Only Stop waits.
			w.run("notification-idle-hook", recorded(t, "timing-09-Notification", "transcript_path", "/nowhere.jsonl"))
			w.run("pre-tool-use-hook", recorded(t, "single-03-PreToolUse"))
			if call := w.heard(2)[1]; len(call.args) != 5 {
				t.Errorf("called with %q", call.args)
			}
			w.idle()
		})
	}
}

// An agent that takes too long: the session stops, and the agent has the message once.
func TestUndecided(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.settings("warden-main", `{"hook_mode":"bidirectional","reply_seconds":1}`)
	w.write("hang", "")
	begun := time.Now()
	if out := w.told("done"); out != "" {
		t.Errorf("printed %q", out)
	}
	if took := time.Since(begun); took < time.Second {
		t.Errorf("waited %s only", took)
	}
	w.hung(1)
	w.must(os.Remove(w.path("hang")))
	w.endStandIns() // openclaw ends badly after all: the courier that is still there tries again, without waiting for words
	w.idle()
	calls := w.calls()
	if len(calls) != 2 || len(calls[1].args) != 5 {
		t.Errorf("%d calls, the last with %q", len(calls), calls[len(calls)-1].args)
	}
	b, _ := os.ReadFile(filepath.Join(w.user(), "wake", "sessions", "warden-main", "wake.log"))
	if !strings.Contains(string(b), `"outcome":"undecided"`) || !strings.Contains(string(b), "did not decide within 1s") {
		t.Errorf("wake log: %s", b)
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
	f.Add([]byte(`{"hook_settings":{"deliver":["chat"]},"agents":[{"agent_id":"a","tmux_session_name":"x","hook_settings":{"pane_capture_lines":3}}]}`), "x")
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
