package poller

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// usedOnceTest has a session that takes messages, a question in its own thread, and the
// one message that a person writes to either of them.
type usedOnceTest struct {
	*testSession
	question *state.Question
	text     string // the text
	toThread string // its thread
	notes    []string
}

func newUsedOnceTest(t *testing.T, what string) *usedOnceTest {
	t.Helper()
	x := newTestSession(t, nil)
	h := &usedOnceTest{testSession: x, toThread: x.threadName}
	// whoever comes gets its answer
	h.question = x.addPosted(func(q *state.Question) { q.Mode = state.ModeDeny })
	first := x.beginThread(h.question)
	switch what {
	case "a reply":
		h.text, h.toThread = "2", first
	case "a prompt":
		h.text = "go on"
	case "a command":
		h.text = "/mute 2h"
	}
	return h
}

// startNextPoller starts the poller that follows one that was killed.
func (h *usedOnceTest) startNextPoller() {
	h.readTest = newReadTest(h.testMachine, h.question)
	h.poller.readIndex()
}

// describeUse says how often the message was used, and which notes about it were written.
func (h *usedOnceTest) describeUse(notes []string) string {
	h.t.Helper()
	q := h.loadQuestion(h.question)
	answers := 0
	for _, r := range q.Replies {
		if r.Verdict == state.VerdictUsed {
			answers++
		}
	}
	muted := 0
	if !h.loadSession().MutedUntil.IsZero() {
		muted = 1
	}
	var tags []string
	for _, text := range notes {
		tag, _, _ := strings.Cut(text, "]")
		tags = append(tags, tag+"]")
	}
	return fmt.Sprintf("%d answers, %d prompts, %d muted, %d left, notes %q", answers,
		len(h.testSession.waitingPrompts()), muted, h.countUnfinished(), tags)
}

// A poller that is killed at any step of handling a message loses no message and uses
// none twice.
func TestReceive_SurvivesAKill(t *testing.T) {
	t.Parallel()
	steps := map[string]func(h *usedOnceTest){
		"before anything was written down": func(h *usedOnceTest) {},
		"when it was written down": func(h *usedOnceTest) {
			h.poller.readAndAttend(h.t.Context())
			_ = h.reader.listAndRelease(h.t.Context(), h.poller.spaceViews()[h.reader.chat])
		},
		"when it was used, and its tombstone not written": func(h *usedOnceTest) {
			dir := filepath.Join(state.UserStateDir(h.env), "inbox", "done")
			kit.WriteFile(h.t, dir, "", 0o600)
			h.readAllNotes()
			kit.NoError(h.t, os.Remove(dir))
		},
		"when its tombstone was written": func(h *usedOnceTest) {
			h.poller.readAndAttend(h.t.Context())
			_ = h.reader.listAndRelease(h.t.Context(), h.poller.spaceViews()[h.reader.chat])
			files, _ := filepath.Glob(filepath.Join(state.UserStateDir(h.env), "inbox", "*.json"))
			kit.Must(h.t, len(files) == 1, "the inbox has %q", files)
			b := kit.ReadFile(h.t, files[0])
			h.readAllNotes()
			h.forgetReceipts()
			kit.WriteFile(h.t, files[0], b, 0o600)
		},
		"when all was done, and the watermark not moved": func(h *usedOnceTest) {
			h.readAllNotes()
			h.forgetReceipts()
			_, err := h.spaces().Change(h.reader.chat, func(s *state.Space) {
				s.Watermark = time.Time{}
			})
			kit.NoError(h.t, err)
		},
	}
	want := map[string]string{
		"a reply":   `1 answers, 0 prompts, 0 muted, 0 left, notes []`,
		"a prompt":  `0 answers, 1 prompts, 0 muted, 0 left, notes ["[Kept]"]`,
		"a command": `0 answers, 0 prompts, 1 muted, 0 left, notes ["[Muted]"]`,
	}
	for what, want := range want {
		for when, step := range steps {
			if what == "a prompt" && when == "when its tombstone was written" {
				continue // they have none before Claude has them
			}
			t.Run(what+" "+when, func(t *testing.T) {
				h := newUsedOnceTest(t, what)
				h.reply(h.toThread, "", h.text)
				step(h)
				h.startNextPoller()
				h.readAllNotes()
				kit.Equal(t, h.describeUse(h.allNotes()), want)
			})
		}
	}
}

// readAllNotes reads the notes and leaves them in the outbox.
func (h *usedOnceTest) readAllNotes() {
	h.t.Helper()
	for range 2 {
		h.poller.readAndAttend(h.t.Context())
		if v := h.poller.spaceViews()[h.reader.chat]; v != nil {
			kit.NoError(h.t, h.reader.listAndRelease(h.t.Context(), v))
		}
		h.poller.readAndAttend(h.t.Context())
		h.poller.goroutines.Wait()
	}
}

// forgetReceipts removes the receipts from the outbox, as ten minutes do.
func (h *usedOnceTest) forgetReceipts() {
	h.notes = h.allNotes()
	kit.NoError(h.t, os.RemoveAll(filepath.Join(state.UserStateDir(h.env), "outbox")))
}

// allNotes returns the notes in the session's thread about commands and prompts.
func (h *usedOnceTest) allNotes() (notes []string) {
	notes = slices.Clone(h.notes)
	all, _ := h.outbox().All()
	for _, message := range all {
		if message.Type == state.MessageNote && message.ThreadName == h.testSession.threadName &&
			message.Question == "" {
			notes = append(notes, message.Parts...)
		}
	}
	return notes
}

// A message that is edited or deleted before it is routed counts in its newest form, also
// if its deletion is read first.
func TestReceive_EditBeforeUseCounts(t *testing.T) {
	x := newTestSession(t, nil)
	x.poller.readSessions()
	at := time.Now().Add(-time.Second)
	for _, text := range []string{"go on", "stop at once", "stop at once"} {
		kit.True(t, x.addEventMessage("edited", text, at), "%q is not acknowledged", text)
	}
	x.addEventMessage("deleted", "delete it all", at)
	_, space, _ := strings.Cut(x.reader.chat, "/")
	for _, name := range []string{"deleted", "deleted", "deleted first"} {
		id := state.IncomingID(x.reader.chat, space+"/messages/"+name)
		kit.NoError(t, x.poller.revokeIncoming(id))
	}
	x.addEventMessage("deleted first", "delete it all", at)
	x.readNotes()
	x.addEventMessage("edited", "too late", at)
	x.addEventMessage("deleted", "back again", at)
	x.readNotes()
	x.checkPrompts("stop at once")
}

// Many messages of strangers keep out none of a person who may answer. A message that is
// too old is not used.
func TestReceive_StrangersKeepNobodyOut(t *testing.T) {
	d, _ := newAppMachine(t)
	p := d.newPoller()
	p.readSessions()
	write := func(name, sender, thread string, at time.Time) error {
		in := newIncoming("chat.example/"+appSpace, gchat.Message{
			Name: appSpace + "/messages/" + name, ThreadName: appSpace + "/threads/" + thread,
			Text:   "hello",
			Sender: sender, IsHuman: true, CreateTime: at,
		}, 0)
		in.EventID = name
		return p.addIncoming(in)
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
		kit.Must(t, err == nil, "message %d of who may answer: %v", n, err)
	}
	kit.Equalf(t, refused, 50-state.MaxUndecidedOfStranger, "of 50 are left for later")
	err := write("old", "users/1", "v", now.Add(-72*time.Hour))
	p.readInbox()
	isOld := slices.ContainsFunc(p.incoming, func(in *state.Incoming) bool {
		return in.ThreadName == appSpace+"/threads/v"
	})
	kit.True(t, err == nil && !isOld, "what is three days old: %v, kept %v", err, isOld)
}

// An event that could not be written to disk is not acknowledged. The watermark does not
// pass a message that could not be written.
func TestReceive_FullDiskLosesNoEvent(t *testing.T) {
	t.Parallel()
	d, g := newAppMachine(t)
	q, card := d.addCardQuestion(nil)
	inbox := filepath.Join(state.UserStateDir(d.env), "inbox")
	kit.NoError(t, os.WriteFile(inbox, nil, 0o600))
	d.runPoller(Options{Daemon: true})
	m := g.awaitPost("Which?")
	g.awaitDelivered(g.tap("users/1", m, card, "2", nil))
	kit.True(t, g.countUnacknowledged() == 1, "acknowledged, and not written down")
	kit.NoError(t, os.Remove(inbox))
	d.awaitQuestion(q, "answered", isAnsweredWith("Two"))
}
