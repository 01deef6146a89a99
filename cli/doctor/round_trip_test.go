package doctor

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
)

// The round trip: a message gets into the space and back, and so does a person's reply.
func TestRoundTrip_IsAnswered(t *testing.T) {
	p := newDoctorHome(t)
	p.config["writes_per_minute"] = 6000
	p.replyOnce(space.Person(), "ok")
	p.writeDefaults()
	r := p.runJSON("--live", "--wait", "20s")
	r.wantWell(t)
	r.wantFinding(t, "live.out", OK, "", "")
	r.wantFinding(t, "live.in", OK, "your reply was read", "")
	ms := p.space.Messages()
	if len(ms) != 6 {
		t.Fatalf("%d messages", len(ms))
	}
	kit.Containsf(t, ms[0].Text, "please choose ok", "the question")
	kit.Equalf(t, ms[4].Thread.Name, ms[0].Thread.Name, "the end's thread")
	for _, want := range []string{"[Answered] ", "\nSelected: ok\n", "The test is over."} {
		kit.Containsf(t, ms[4].Text, want, "the end")
	}
	r = p.runJSON("--live", "--wait", "0")
	r.wantWell(t)
	r.wantFinding(t, "live.in", Skip, "", "")
	kit.Equalf(t, len(p.space.Messages()), 10, "messages, asking nobody")
}

// A round trip that goes wrong is found.
func TestRoundTrip_FindsWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name  string
		plant func(p *doctorHome)
		id    string
		says  string
	}{
		{"nobody replies", func(*doctorHome) {}, "live.in", "no person replied within"},
		{"the answer names no thread", func(p *doctorHome) {
			p.answerInstead = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPost {
					return false
				}
				b, _ := io.ReadAll(r.Body)
				if string(b) == "{}" {
					r.Body = io.NopCloser(bytes.NewReader(b))
					return false
				}
				_ = json.NewEncoder(w).Encode(chat.Message{Name: "spaces/local/messages/m"})
				return true
			}
		}, "live.out", "thread keys do not work"},
		{"a thread for each message", func(p *doctorHome) {
			p.answerInstead = func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPost {
					var body map[string]any
					b, _ := io.ReadAll(r.Body)
					_ = json.Unmarshal(b, &body)
					delete(body, "thread")
					b = kit.JSON(t, body)
					r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
				}
				return false
			}
		}, "live.out", "thread keys do not work"},
		{"somebody else replies", func(p *doctorHome) {
			p.replyOnce(&chat.User{Name: "users/7", Type: "HUMAN"}, "ok")
		}, "live.in", "the only reply is from someone who may not answer: users/7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newDoctorHome(t)
			p.config["writes_per_minute"] = 6000
			c.plant(p)
			p.writeDefaults()
			r := p.runJSON("--live", "--wait", "1500ms")
			r.wantFinding(t, c.id, Fail, c.says, " ") // some words of a fix
		})
	}
}
