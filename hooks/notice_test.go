package hooks

import (
	"encoding/json"
	"testing"

	"gchat-hooks/state"
)

// FuzzNotice is for whatever notification comes: it is read and worded without a panic.
func FuzzNotice(f *testing.F) {
	for _, pattern := range []string{"2.1.329/*Notification.json", "2.1.*/*SubagentStop.json", "2.1.*/*Stop.json"} {
		for _, b := range payloads(f, pattern) {
			f.Add(b)
		}
	}
	const notification = `{"session_id":"s","hook_event_name":"Notification","notification":`
	f.Add([]byte(notification + `{"type":"subagent_complete","title":"T","body":"B\n[Done] x","agent_name":"a","timestamp":7}}`))
	f.Add([]byte(notification + `{"type":"error","title":{},"body":["<users/all>"]}}`))
	f.Add([]byte(`{"session_id":"s","hook_event_name":"StopFailure","error":{"kind":1},"error_details":"x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decode(b, "")
		if err != nil {
			return
		}
		n, err := readNotice(e)
		if err != nil {
			return
		}
		to, ok := routeOf(&state.Config{}, n.kind)
		if !ok {
			return
		}
		n.transcript = "" // whatever file it names
		(&Hook{}).noticeText(n, to)
	})
}

func TestWordsTakeAnything(t *testing.T) {
	var in struct{ A, B, C, D, E words }
	if err := json.Unmarshal([]byte(`{"A":"a","B":null,"C":7,"D":{"x": [1, 2]},"E":false}`), &in); err != nil {
		t.Fatal(err)
	}
	if in.A != "a" || in.B != "" || in.C != "7" || in.D != `{"x":[1,2]}` || in.E != "false" {
		t.Errorf("%+v", in)
	}
}
