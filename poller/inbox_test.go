package poller

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	chatapi "google.golang.org/api/chat/v1"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// heard is a session that listens, with a question in a thread of its own, and the one thing
// that a person says to either of them.
type heard struct {
	*talk
	q    *state.Question
	said string // the text
	to   string // its thread
	told []string
}

func newHeard(t *testing.T, what string) *heard {
	t.Helper()
	x := newTalk(t, nil)
	h := &heard{talk: x, to: x.thread}
	h.q = x.ask(func(q *state.Question) { x.posted(q); q.Mode = state.ModeDeny }) // whoever comes gets its answer
	first := x.beginThread(h.q)
	switch what {
	case "a reply":
		h.said, h.to = "2", first
	case "words":
		h.said = "go on"
	case "a command":
		h.said = "/mute 2h"
	}
	return h
}

// another is the next poller, after the one before was killed.
func (h *heard) another() {
	h.reading = newReading(h.desk, h.q)
	h.p.scan()
}

// became says what became of what was said: how often it was used, and what was told of it.
func (h *heard) became(told []string) string {
	h.t.Helper()
	q := h.load(h.q)
	answers := 0
	for _, r := range q.Replies {
		if r.Verdict == state.VerdictUsed {
			answers++
		}
	}
	muted := 0
	if !h.is().MutedUntil.IsZero() {
		muted = 1
	}
	var tags []string
	for _, text := range told {
		tag, _, _ := strings.Cut(text, "]")
		tags = append(tags, tag+"]")
	}
	return fmt.Sprintf("%d answers, %d words, %d muted, %d left, told %q", answers, len(h.talk.said()), muted, h.left(), tags)
}

// A poller that is killed at any step with a message loses nothing and uses nothing twice.
func TestAMessageOutlivesAKilledPoller(t *testing.T) {
	t.Parallel()
	steps := map[string]func(h *heard){
		"before anything was written down": func(h *heard) {},
		"when it was written down": func(h *heard) {
			h.p.round(h.t.Context())
			_ = h.r.listOnce(h.t.Context(), h.p.views()[h.r.chat])
		},
		"when it was used, and its tombstone not written": func(h *heard) {
			dir := filepath.Join(state.UserStateDir(h.env), "inbox", "done")
			if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
				h.t.Fatal(err)
			}
			if err := os.WriteFile(dir, nil, 0o600); err != nil {
				h.t.Fatal(err)
			}
			h.hearsAll()
			if err := os.Remove(dir); err != nil {
				h.t.Fatal(err)
			}
		},
		"when its tombstone was written": func(h *heard) {
			h.p.round(h.t.Context())
			_ = h.r.listOnce(h.t.Context(), h.p.views()[h.r.chat])
			files, _ := filepath.Glob(filepath.Join(state.UserStateDir(h.env), "inbox", "*.json"))
			if len(files) != 1 {
				h.t.Fatalf("the inbox has %q", files)
			}
			b, err := os.ReadFile(files[0])
			if err != nil {
				h.t.Fatal(err)
			}
			h.hearsAll()
			h.forgetReceipts()
			if err := os.WriteFile(files[0], b, 0o600); err != nil {
				h.t.Fatal(err)
			}
		},
		"when all was done, and the watermark not moved": func(h *heard) {
			h.hearsAll()
			h.forgetReceipts()
			_, err := state.SpacesIn(state.UserStateDir(h.env)).Change(h.r.chat, func(s *state.Space) { s.Watermark = time.Time{} })
			if err != nil {
				h.t.Fatal(err)
			}
		},
	}
	want := map[string]string{
		"a reply":   `1 answers, 0 words, 0 muted, 0 left, told []`,
		"words":     `0 answers, 1 words, 0 muted, 0 left, told ["[Kept]"]`,
		"a command": `0 answers, 0 words, 1 muted, 0 left, told ["[Muted]"]`,
	}
	for what, want := range want {
		for when, step := range steps {
			if what == "words" && when == "when its tombstone was written" {
				continue // they have none before Claude has them
			}
			t.Run(what+" "+when, func(t *testing.T) {
				h := newHeard(t, what)
				h.reply(h.to, "", h.said)
				step(h)
				h.another()
				h.hearsAll()
				if got := h.became(h.toldAll()); got != want {
					t.Errorf("%s\nwant %s", got, want)
				}
			})
		}
	}
}

// hearsAll is hears, and leaves in the outbox what was put there.
func (h *heard) hearsAll() {
	h.t.Helper()
	for range 2 {
		h.p.round(h.t.Context())
		if v := h.p.views()[h.r.chat]; v != nil {
			if err := h.r.listOnce(h.t.Context(), v); err != nil {
				h.t.Fatal(err)
			}
		}
		h.p.round(h.t.Context())
		h.p.working.Wait()
	}
}

// forgetReceipts has the outbox know nothing of what was put, as it does after ten minutes.
func (h *heard) forgetReceipts() {
	h.told = h.toldAll()
	if err := os.RemoveAll(filepath.Join(state.UserStateDir(h.env), "outbox")); err != nil {
		h.t.Fatal(err)
	}
}

// toldAll is what the session's thread was told of commands and words.
func (h *heard) toldAll() (told []string) {
	told = slices.Clone(h.told)
	all, _ := state.OutboxIn(state.UserStateDir(h.env)).All()
	for _, m := range all {
		if m.Type == state.MessageNote && m.ThreadName == h.talk.thread && m.Question == "" {
			told = append(told, m.Parts...)
		}
	}
	return told
}

// beginThread begins a question's thread in the space, and returns its name.
func (x *talk) beginThread(q *state.Question) string {
	x.t.Helper()
	m, err := x.space.Say(&chatapi.User{Name: "users/app", Type: "BOT"}, "", "Which?")
	if err != nil {
		x.t.Fatal(err)
	}
	x.change(q, func(q *state.Question) { q.ThreadName, q.MessageName = m.Thread.Name, m.Name })
	return m.Thread.Name
}

// What is edited or deleted before it is decided what it is counts as it stands then.
func TestAnEditBeforeItIsUsedCounts(t *testing.T) {
	x := newTalk(t, nil)
	x.p.scanSessions()
	at := time.Now().Add(-time.Second)
	for _, text := range []string{"go on", "stop at once", "stop at once"} {
		if !x.pull("edited", text, at) {
			t.Fatal("not taken")
		}
	}
	x.pull("deleted", "delete it all", at)
	_, space, _ := strings.Cut(x.r.chat, "/")
	for range 2 {
		err := x.p.takeBack(state.IncomingID(x.r.chat, space+"/messages/deleted"))
		if err != nil {
			t.Fatal(err)
		}
	}
	told := x.hears()
	x.pull("edited", "too late", at)
	x.pull("deleted", "back again", at)
	told = append(told, x.hears()...)
	if got := x.said(); !slices.Equal(got, []string{"stop at once"}) {
		t.Errorf("said %q, told %q", got, told)
	}
}

// A flood of strangers keeps nobody's words out, and what is too old is not used.
func TestAFloodOfStrangersKeepsNobodyOut(t *testing.T) {
	d, _ := newAppDesk(t)
	p := d.poller()
	p.scanSessions()
	write := func(name, sender, thread string, at time.Time) error {
		in := incomingOf("chat.example/"+appSpace, gchat.Message{
			Name: appSpace + "/messages/" + name, ThreadName: appSpace + "/threads/" + thread, Text: "hello",
			Sender: sender, Human: true, CreateTime: at,
		}, 0)
		in.EventID = name
		return p.take(in)
	}
	now := time.Now()
	refused := 0
	for n := range 50 {
		if write(fmt.Sprint("stranger", n), "users/9", fmt.Sprint("t", n), now) != nil {
			refused++
		}
	}
	for n := range 50 {
		err := write(fmt.Sprint("ours", n), "users/1", fmt.Sprint("u", n), now)
		if err != nil {
			t.Fatalf("words %d of who may answer: %v", n, err)
		}
	}
	if refused != 50-state.MaxUndecidedOfStranger {
		t.Errorf("%d of 50 are left for later", refused)
	}
	err := write("old", "users/1", "v", now.Add(-72*time.Hour))
	p.scanInbox()
	isOld := slices.ContainsFunc(p.incoming, func(in *state.Incoming) bool { return in.ThreadName == appSpace+"/threads/v" })
	if err != nil || isOld {
		t.Errorf("what is three days old: %v, kept %v", err, isOld)
	}
}

// Nothing is acknowledged that could not be written down, and no watermark moves over it.
func TestAFullDiskLosesNoEvent(t *testing.T) {
	t.Parallel()
	d, g := newAppDesk(t)
	q, card := d.tapped(nil)
	inbox := filepath.Join(state.UserStateDir(d.env), "inbox")
	if err := os.WriteFile(inbox, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.run(Options{Daemon: true})
	m := g.awaitPost("Which?")
	g.delivered(g.tap("users/1", m, card, "2", nil))
	if g.waiting() != 1 {
		t.Error("acknowledged, and not written down")
	}
	if err := os.Remove(inbox); err != nil {
		t.Fatal(err)
	}
	d.await(q, "answered", func(q *state.Question) bool { return q.Answers["Which?"] == "Two" })
}
