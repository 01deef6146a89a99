package hooks

import (
	"path/filepath"
	"strings"
	"testing"
)

// In auto mode a subagent reports by a tool. Its end is reported once, with that report,
// however often Claude Code sent it back for it.
func TestNotification_SubagentHandsBack(t *testing.T) {
	const (
		asked  = `{"type":"user","isSidechain":true,"message":{"content":"Look at it.\n\nYour final report is delivered through SubagentHandback."}}` + "\n"
		plain  = `{"type":"assistant","isSidechain":true,"message":{"id":"m1","content":[{"type":"text","text":"All is well."}]}}` + "\n"
		handed = `{"type":"assistant","isSidechain":true,"message":{"id":"m2","content":[{"type":"tool_use","id":"t1","name":"SubagentHandback","input":{"message":"All is well, in full."}}]}}` + "\n" +
			`{"type":"user","isSidechain":true,"message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}}` + "\n"
		done = "[Subagent Done] orch-epic4\ngeneral-purpose completed task"
	)
	type stop struct {
		transcript string
		words      any // nil for no report
		sentBack   bool
	}
	for name, c := range map[string]struct {
		mode  string
		stops []stop
		want  []string
	}{
		"at once":            {"auto", []stop{{asked + handed, nil, false}}, []string{done + "\nAll is well, in full."}},
		"sent back once":     {"auto", []stop{{asked + plain, "All is well.", false}, {asked + plain + handed, nil, true}}, []string{done + "\nAll is well, in full."}},
		"without words":      {"auto", []stop{{asked, nil, false}, {asked, nil, true}, {asked, nil, true}, {asked + handed, nil, true}}, []string{done + "\nAll is well, in full."}},
		"never by the tool":  {"auto", []stop{{asked + plain, "All is well.", false}, {asked + plain, "All is well.", true}, {asked + plain, "All is well.", true}}, []string{done + "\nAll is well."}},
		"asked once more":    {"auto", []stop{{asked + handed + asked + plain, "All is well.", true}}, []string{done + "\nAll is well."}},
		"without that tool":  {"auto", []stop{{strings.ReplaceAll(asked, "SubagentHandback", "words") + plain, "All is well.", false}}, []string{done + "\nAll is well."}},
		"in another mode":    {"default", []stop{{plain, "All is well.", false}}, []string{done + "\nAll is well."}},
		"no transcript here": {"auto", []stop{{"", "All is well.", false}}, []string{done + "\nAll is well."}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			for _, s := range c.stops {
				m.writeFile(filepath.Join(m.dir, "sess-1", "subagents", "agent-a1.jsonl"), s.transcript)
				m.run(notifyHook, m.event("plan-12-SubagentStop", "permission_mode", c.mode, "agent_id", "a1",
					"agent_type", "general-purpose", "last_assistant_message", s.words, "stop_hook_active", s.sentBack))
			}
			m.wantReports(c.want...)
		})
	}
}
