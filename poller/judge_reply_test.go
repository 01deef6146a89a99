package poller

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gchat-hooks/state"
)

// The file that says who may answer is being edited: of the login's person it is known that they may, the others' replies
// wait for it.
func TestHalfWrittenConfigurationRefusesNobody(t *testing.T) {
	d := newDesk(t)
	q := d.asked(state.Question{Mode: state.Native})
	config, login := filepath.Join(d.dir, ".config", "gchat-hooks", "config.json"), state.LoginFile(d.Env)
	write := func(path, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replies := func(senders ...string) {
		t.Helper()
		if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
			for _, who := range senders {
				q.Replies = append(q.Replies, state.Reply{MessageName: who, Sender: who, Text: "2", CreateTime: d.clock.Add(time.Duration(len(q.Replies)) * time.Second)})
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	verdicts := func(want ...state.Verdict) {
		t.Helper()
		after, err := d.Judge(q.Path)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range after.Replies {
			if r.Verdict != want[i] {
				t.Errorf("%s: %q, want %q", r.Sender, r.Verdict, want[i])
			}
		}
	}
	write(login, `{"type":"authorized_user","client_id":"x","client_secret":"y","refresh_token":"z","token_uri":"https://127.0.0.1:1/",
		"scopes":[],"made_by":"gchat-hooks login","logged_in_at":"2026-11-22T00:00:00Z","user":"users/1"}`)
	write(config, `{"allowed_users":["users/2"],`)
	replies("users/2")
	verdicts(state.Unread)
	before, err := os.Stat(q.Path)
	if err != nil {
		t.Fatal(err)
	}
	verdicts(state.Unread)
	if after, err := os.Stat(q.Path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file is rewritten though nothing is new: %v", err)
	}
	write(config, `{"allowed_users":["users/2"]}`)
	verdicts(state.Used)

	q = d.asked(state.Question{Mode: state.Native, TmuxSession: "second"})
	write(config, `{"allowed_users":["users/2"],`)
	replies("users/3", "users/1")
	verdicts(state.Unread, state.Used)
	write(config, `{"allowed_users":["users/2"]}`)
	verdicts(state.Refused, state.Used)

	q = d.asked(state.Question{Mode: state.Native, TmuxSession: "third"})
	base := d.Env
	d.Poller.Env = func(name string) string {
		if name == "GCHAT_ALLOWED_USERS" { // stands above the file
			return "users/4"
		}
		return base(name)
	}
	write(config, `{"allowed_users":["users/2"],`)
	replies("users/2", "users/4")
	verdicts(state.Refused, state.Used)
}

// A poll script of another program took the message out of the thread first: the person is not told that they said it twice.
func TestMessageThatAnotherProgramTook(t *testing.T) {
	d := newDesk(t)
	q := d.asked(state.Question{Mode: state.Native, MessageSent: true})
	at := d.clock.Add(time.Minute + 123456*time.Microsecond)
	if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		q.Replies = []state.Reply{{MessageName: "local/1", Sender: Local, DisplayName: "Ann", Text: "2", CreateTime: at}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if q, err := d.Judge(q.Path); err != nil || q.Status != state.Answered {
		t.Fatalf("%s, %v", q.Status, err)
	}
	after, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		q.Replies = append(q.Replies, state.Reply{MessageName: "spaces/S/messages/1", Sender: "users/1", Text: "2", CreateTime: at},
			state.Reply{MessageName: "spaces/S/messages/2", Sender: "users/1", Text: "2", CreateTime: at.Add(time.Second)})
		return nil
	})
	if err == nil {
		after, err = d.Judge(q.Path)
	}
	if err != nil || after.Replies[1].Verdict != state.Ignored || after.Replies[2].Verdict == state.Ignored {
		t.Errorf("%+v, %v", after.Replies, err)
	}
}
