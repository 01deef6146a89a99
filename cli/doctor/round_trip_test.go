package doctor

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/gchat/space"
)

// The round trip: a message gets into the space and back, and so does a person's reply.
func TestRoundTrip_IsAnswered(t *testing.T) {
	p := newDoctorHome(t)
	p.config["writes_per_minute"] = 6000
	said := false
	p.answerInstead = func(_ http.ResponseWriter, r *http.Request) bool {
		if ms := p.space.Messages(); r.Method == http.MethodGet && len(ms) == 3 && !said && strings.Contains(ms[0].Text, "please choose ok") {
			said = true
			_, err := p.space.PostAs(space.Person(), ms[0].Thread.Name, "ok")
			if err != nil {
				t.Error(err)
			}
		}
		return false
	}
	p.writeDefaults()
	r := p.runJSON("--live", "--wait", "20s")
	if bad := r.problemIDs(); r.ExitCode != 0 || len(bad) > 0 || r.finding("live.out").Level != OK || !strings.HasPrefix(r.finding("live.in").Text, "your reply was read") {
		t.Errorf("exit code %d, not well: %v; %+v, %+v", r.ExitCode, bad, r.finding("live.out"), r.finding("live.in"))
	}
	ms := p.space.Messages()
	if len(ms) != 6 || !strings.HasPrefix(ms[4].Text, "[Answered] ") || !strings.Contains(ms[4].Text, "\nSelected: ok\n") || !strings.Contains(ms[4].Text, "The test is over.") || ms[4].Thread.Name != ms[0].Thread.Name {
		t.Errorf("%d messages", len(ms))
	}
	r = p.runJSON("--live", "--wait", "0")
	if n := len(p.space.Messages()); r.ExitCode != 0 || n != 10 || r.finding("live.in").Level != Skip {
		t.Errorf("asking nobody: exit code %d, %d messages, %+v", r.ExitCode, n, r.finding("live.in"))
	}
}

// A round trip that goes wrong is found.
func TestRoundTrip_FindsWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name  string
		plant func(p *doctorHome)
		id    string
		level Level
		says  string
	}{
		{"nobody replies", func(*doctorHome) {}, "live.in", Fail, "no person replied within"},
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
		}, "live.out", Fail, "thread keys do not work"},
		{"a thread for each message", func(p *doctorHome) {
			p.answerInstead = func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPost {
					var body map[string]any
					b, _ := io.ReadAll(r.Body)
					_ = json.Unmarshal(b, &body)
					delete(body, "thread")
					b, _ = json.Marshal(body)
					r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
				}
				return false
			}
		}, "live.out", Fail, "thread keys do not work"},
		{"somebody else replies", func(p *doctorHome) {
			said := false
			p.answerInstead = func(_ http.ResponseWriter, r *http.Request) bool {
				if ms := p.space.Messages(); r.Method == http.MethodGet && len(ms) == 3 && !said {
					said = true
					_, _ = p.space.PostAs(&chat.User{Name: "users/7", Type: "HUMAN"}, ms[0].Thread.Name, "ok")
				}
				return false
			}
		}, "live.in", Fail, "the only reply is from someone who may not answer: users/7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newDoctorHome(t)
			p.config["writes_per_minute"] = 6000
			c.plant(p)
			p.writeDefaults()
			r := p.runJSON("--live", "--wait", "1500ms")
			if f := r.finding(c.id); f.Level != c.level || !strings.Contains(f.Text, c.says) || f.Fix == "" {
				t.Errorf("%+v", f)
			}
		})
	}
}
