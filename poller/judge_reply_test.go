package poller

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gchat-hooks/gchat"
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

// A number that no option has is asked back once for a question. A second such number is what the person means.
func TestNumberWithoutOptionIsAskedBackOnce(t *testing.T) {
	d := newDesk(t)
	config := filepath.Join(d.dir, ".config", "gchat-hooks", "config.json")
	if err := os.MkdirAll(filepath.Dir(config), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte(`{"allowed_users":["users/1"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	q := d.asked(state.Question{Mode: state.Native})
	reply := func(name, text string) *state.Question {
		t.Helper()
		after, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
			q.Replies = append(q.Replies, state.Reply{MessageName: name, Sender: "users/1", Text: text, CreateTime: d.clock})
			return nil
		})
		if err == nil {
			after, err = d.Judge(q.Path)
		}
		if err != nil {
			t.Fatal(err)
		}
		return after
	}
	said := "[Not used] There is no option 9. Reply 1 or 2, or `other: 9`."
	if after := reply("first", "9"); after.Status != state.Pending || after.Replies[0].Verdict != state.AskedBack {
		t.Errorf("the first: %s, %q", after.Status, after.Replies[0].Verdict)
	}
	if got := d.notes(); len(got) != 1 || got[0] != said {
		t.Errorf("the thread is told %q, want %q", got, said)
	}
	if after := reply("second", "8"); after.Status != state.Answered || after.Answers["Which?"] != "8" {
		t.Errorf("the second: %s, %q", after.Status, after.Answers)
	}
	if got := d.notes(); len(got) != 1 {
		t.Errorf("the thread is told %q", got)
	}
}

func TestNoOptionText(t *testing.T) {
	options := func(n int) state.Prompt { return state.Prompt{Options: make([]state.Option, n)} }
	for want, prompts := range map[string][]state.Prompt{
		"[Not used] There is no option 9. Reply 1, or `other: 9`.":                                {options(1)},
		"[Not used] There is no option 9. Reply 1 or 2, or `other: 9`.":                           {options(2)},
		"[Not used] There is no option 9. Reply 1 to 4, or `other: 9`.":                           {options(4)},
		"[Not used] Q2 has no option 9. Reply again, with 1 to 3 for Q2, or with `Q2: other: 9`.": {options(2), options(3)},
	} {
		if got := noOptionText(&state.Question{Questions: prompts}, &gchat.NoOption{Question: len(prompts) - 1, Number: 9}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
