package poller

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/gchat/space"
)

// person has the check ask a person, who does that as soon as they are waited for, and once more when they are refused.
func (v *verified) person(first func(*verified, string), refused ...func(*verified, string)) {
	v.NoHuman = false
	acts := append([]func(*verified, string){first}, refused...)
	v.Tell = func(string) {
		if len(acts) > 0 {
			acts[0](v, v.asked())
			acts = acts[1:]
		}
	}
}

func TestVerifyReadsAPersonsReply(t *testing.T) {
	for _, c := range []struct{ text, readAs, kind string }{
		{"2", "Middle", "single_select"},
		{" option 3 ", "Right", "single_select"},
		{"left", "Left", "single_select"},
		{"1 - but why?", "Left", "single_select"},
		{"other: 9", "9", "custom_text"},
		{"none, \x1b[31mthanks", "none, [31mthanks", "custom_text"},
	} {
		t.Run(c.text, func(t *testing.T) {
			v := newVerified(t)
			v.person(reply(space.Human, c.text))
			r := v.check()
			s := r.Scenarios[2]
			if v.statuses(r) != "pass pass pass pass" || s.Answer == nil {
				t.Fatalf("%+v", r.Scenarios)
			}
			if a := s.Answer; a.ReadAs != c.readAs || a.Kind != c.kind || a.By != space.Human || a.Name != "Ann" || !strings.HasPrefix(a.Message, "spaces/local/messages/") {
				t.Errorf("%+v", a)
			}
			if s.BotMessages != 2 || len(s.Threads) != 1 {
				t.Errorf("%d messages of bots, threads %v", s.BotMessages, s.Threads)
			}
			if last := r.Scenarios[3]; last.Elsewhere != 1 || last.Answer != nil {
				t.Errorf("the reply to the other question: %+v", last)
			}
			said := ""
			for _, m := range v.space.Messages() {
				if m.Thread.Name == s.Threads[0].Name {
					said = m.Text
				}
			}
			if !strings.Contains(said, "Read as: "+c.readAs+".") || !strings.HasSuffix(said, verifyOver) {
				t.Errorf("the thread ends with %q", said)
			}
		})
	}
}

// The first reply of a person who may answer counts; whoever else replies is refused, and told so once.
func TestVerifyRefusesWhoMayNotAnswer(t *testing.T) {
	v := newVerified(t)
	v.person(func(v *verified, th string) {
		reply("users/2", "1")(v, th)
		reply("users/3", "3")(v, th)
		reply(space.Human, "2")(v, th)
		reply(space.Human, "3")(v, th)
	})
	r := v.check()
	if s := r.Scenarios[2]; s.Answer == nil || s.Answer.ReadAs != "Middle" || strings.Join(s.Refused, " ") != "users/2 users/3" || !r.Passed {
		t.Errorf("%+v", s)
	}
	notes := 0
	for _, m := range v.space.Messages() {
		if strings.HasPrefix(m.Text, "[Not used]") {
			notes++
		}
	}
	if notes != 1 {
		t.Errorf("%d refusals in the thread", notes)
	}
}

// A person who is refused adds themselves to the configuration, as the thread says, and replies again.
func TestVerifyReadsTheAllowlistAfresh(t *testing.T) {
	v := newVerified(t)
	v.env["GCHAT_ALLOWED_USERS"] = ""
	v.person(reply("users/2", "2"), func(v *verified, th string) {
		dir := filepath.Join(v.ProjectDir, ".config", "gchat-hooks")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"allowed_users": ["users/2"]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		reply("users/2", "3")(v, th)
	})
	r := v.check()
	if s := r.Scenarios[2]; s.Answer == nil || s.Answer.ReadAs != "Right" || s.Answer.By != "users/2" || !r.Passed {
		t.Errorf("%+v", s)
	}
}

func TestVerifyTakesNothingElseForAReply(t *testing.T) {
	for _, c := range []struct {
		name string
		act  func(*verified, string)
		says string
		bots int
	}{
		{"nobody", func(*verified, string) {}, "no person replied in the question's thread", 2},
		{"only somebody who may not", reply("users/2", "1"), "only people replied who may not answer: users/2", 3},
		{"another app", func(v *verified, th string) {
			if _, err := v.space.Say(&chat.User{Name: space.Human, Type: "BOT"}, th, "1"); err != nil {
				t.Error(err)
			}
		}, "no person replied in the question's thread", 3},
		{"in another thread", func(v *verified, _ string) { reply(space.Human, "1")(v, "") }, "no person replied in the question's thread", 2},
		{"in an earlier thread of the check", func(v *verified, _ string) {
			reply(space.Human, "1")(v, v.space.Messages()[0].Thread.Name)
		}, "no person replied in the question's thread", 2},
		{"nothing that is seen", reply(space.Human, "\x00\x01"), "no person replied in the question's thread", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := newVerified(t)
			v.person(c.act)
			v.Wait = 100 * time.Millisecond
			r := v.check()
			s := r.Scenarios[2]
			if v.statuses(r) != "pass pass fail pass" || s.Answer != nil || !strings.Contains(s.Why, c.says) || s.Hint == "" {
				t.Errorf("%s\n%+v", v.statuses(r), s)
			}
			if s.BotMessages != c.bots {
				t.Errorf("%d messages of bots, want %d", s.BotMessages, c.bots)
			}
			if strings.Contains(c.name, "thread") && s.Elsewhere != 1 {
				t.Errorf("%d messages of people elsewhere", s.Elsewhere)
			}
		})
	}
}

// A signal ends the check; what was done is in the report, and the thread in hand is told.
func TestVerifyIsCutShort(t *testing.T) {
	v := newVerified(t)
	ctx, cancel := context.WithCancel(t.Context())
	v.person(func(*verified, string) { cancel() })
	v.Wait = time.Hour
	r := v.checkUntil(ctx)
	if v.statuses(r) != "pass pass cut not run" || r.Passed {
		t.Fatalf("%+v", r.Scenarios)
	}
	for _, s := range r.Scenarios[2:] {
		if s.Why != "interrupted" {
			t.Errorf("%+v", s)
		}
	}
	if ms := v.space.Messages(); ms[len(ms)-1].Text != "[Verify] "+verifyOver || ms[len(ms)-1].Thread.Name != v.asked() {
		t.Errorf("the last message is %q", ms[len(ms)-1].Text)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	before := v.posts
	if _, err := v.Run(ctx); err == nil || v.posts != before {
		t.Errorf("cut before it began: %v, %d posts", err, v.posts-before)
	}
}
