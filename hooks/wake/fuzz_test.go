package wake

import (
	"strings"
	"testing"
)

func FuzzRegistry(f *testing.F) {
	f.Add([]byte(`{"hook_settings":{"context_pressure_threshold":3},"agents":[{"agent_id":"a","tmux_session_name":"x","hook_settings":{"pane_capture_lines":3}}]}`), "x")
	f.Fuzz(func(t *testing.T, file []byte, session string) {
		r, _, err := parseRegistry(file)
		if err != nil {
			return
		}
		if a, ok := r.agentOf(session); ok && (!a.enabled() || a.ID == "" || a.Session != session && keptName.Replace(a.Session) != session && !strings.HasPrefix(session, a.ID+"-")) {
			t.Errorf("%q is %+v", session, a)
		}
	})
}
