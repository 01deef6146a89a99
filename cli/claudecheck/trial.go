package claudecheck

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gchat-hooks/cli/claudecheck/fakemodel"
	"gchat-hooks/gchat/space"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// trial is one contract that is tried in a session. After the first step that fails, the
// other steps do nothing: err says what was seen.
type trial struct {
	*session
	ctx context.Context
	err error
	// The messages and tool results before these belong to earlier contracts.
	firstMessage, firstResult int
	// firstCall is the size of the recorded calls of PermissionRequest before this
	// contract, or before its next one.
	firstCall int64
}

func (s *session) newTrial(ctx context.Context) *trial {
	t := &trial{
		session: s, ctx: ctx,
		firstMessage: len(s.chat.Messages()), firstResult: len(s.model.ToolResults()),
	}
	t.firstCall = t.eventSize("PermissionRequest")
	return t
}

// await waits until ok returns true. What says what is waited for.
func (t *trial) await(what string, ok func() bool) {
	if t.err != nil {
		return
	}
	err := t.until(t.ctx, ok)
	if errors.Is(err, errPatience) {
		text, _, _ := t.readScreen(t.ctx)
		err = fmt.Errorf("%w: %s; the terminal's last line was %q", errPatience, what, lastLine(text))
	}
	t.err = err
}

// check fails the trial if ok is false.
func (t *trial) require(ok bool, format string, args ...any) {
	if t.err == nil && !ok {
		t.err = fmt.Errorf(format, args...)
	}
}

// play sets what the model says next.
func (t *trial) play(turns ...fakemodel.Turn) {
	t.model.DropTurns()
	t.model.AddTurns(turns...)
}

// keys presses keys by tmux's names.
func (t *trial) keys(keys ...string) {
	if t.err == nil {
		_, t.err = t.tmux(t.ctx, append([]string{"send-keys", "-t", pane}, keys...)...)
	}
}

// typeText types a text as it is.
func (t *trial) typeText(text string) {
	if t.err == nil {
		_, t.err = t.tmux(t.ctx, "send-keys", "-t", pane, "-l", "--", text)
	}
}

// prompt gives Claude Code a line to work on, as a person does.
func (t *trial) prompt(text string) {
	t.awaitIdle()
	before := t.model.CountText(text)
	t.typeText(text)
	t.await("the prompt shows what is typed", func() bool {
		_, screen, _ := t.readScreen(t.ctx)
		return inject.SameText(screen.Draft, text)
	})
	t.keys("Enter")
	t.await("the model is asked", func() bool { return t.model.CountText(text) > before })
}

func (t *trial) awaitIdle() {
	t.await("an idle prompt", func() bool {
		_, screen, _ := t.readScreen(t.ctx)
		return screen.Shows == inject.Prompt && !screen.Busy
	})
}

// awaitScreen waits until the screen has all parts.
func (t *trial) awaitScreen(parts ...string) {
	t.await(fmt.Sprintf("the terminal shows %q", parts), func() bool {
		text, _, _ := t.readScreen(t.ctx)
		return containsAll(text, parts)
	})
}

// isDialogOpen reports whether the screen has a text, but no input box.
func (t *trial) isDialogOpen(text string) bool {
	shown, screen, err := t.readScreen(t.ctx)
	isBox := screen.Shows == inject.Prompt || screen.Shows == inject.Draft
	return err == nil && !isBox && strings.Contains(shown, text)
}

// awaitDialog waits until the dialog that has a text is open.
func (t *trial) awaitDialog(text string) {
	t.await("a dialog opens in the terminal", func() bool { return t.isDialogOpen(text) })
}

// choose presses a key in the dialog that has a text, and waits for the dialog's end. A
// dialog may lose keys in its first 150 ms (2.1.329), so it stands for a moment first. A
// key without effect is pressed again, but late: one too many would answer the next
// dialog.
func (t *trial) choose(key, text string) {
	t.awaitDialog(text)
	state.Sleep(t.ctx, 300*time.Millisecond)
	for range 3 {
		t.keys(key)
		for began := time.Now(); time.Since(began) < t.check.Patience/3; {
			if t.err != nil || !t.isDialogOpen(text) {
				return
			}
			state.Sleep(t.ctx, screenInterval)
		}
	}
	t.require(false, "the key %s did not answer the dialog", key)
}

// lateAfter is how long after its dialog a permission may reach Chat.
const lateAfter = 5 * time.Second

// awaitCall waits until Claude Code has called the hook PermissionRequest once more, and
// returns how long its dialog was open by then. It waits longer than other steps: a hook
// that is called late still asks in Chat.
func (t *trial) awaitCall() (delay time.Duration) {
	var openSince time.Time
	limit := time.Now().Add(t.check.Patience * 3 / 2)
	for t.err == nil {
		if openSince.IsZero() && t.isDialogOpen("") {
			openSince = time.Now()
		}
		size := t.eventSize("PermissionRequest")
		isCalled := size > t.firstCall
		switch {
		case isCalled && openSince.IsZero():
			t.firstCall = size
			return 0
		case isCalled:
			t.firstCall = size
			return time.Since(openSince)
		case t.ctx.Err() != nil:
			t.err = t.ctx.Err()
		case time.Now().After(limit):
			t.err = errNotCalled
		}
		state.Sleep(t.ctx, screenInterval)
	}
	return 0
}

// awaitPermission waits for the message that asks for the permission to run a command.
func (t *trial) awaitPermission(command string) message {
	t.awaitCall()
	return t.awaitMessage("[Permission]", command, hasButtons)
}

// hasButtons is part of a card that can be answered. A message that says that a dialog
// waits in the terminal has none.
const hasButtons = `"onClick"`

// errNotCalled means that Claude Code asked in its terminal, and not the hook.
var errNotCalled = errors.New("the hook PermissionRequest was not called")

// eventSize returns the size of an event's payloads.
func (t *trial) eventSize(event string) int64 {
	info, err := os.Stat(filepath.Join(t.dir, event))
	if err != nil {
		return 0
	}
	return info.Size()
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// message is a message of the space.
type message struct {
	name, thread string
	text         string // with the text of its card
}

// messages returns the messages of the space, the oldest first.
func (t *trial) messages() (all []message) {
	for _, m := range t.chat.Messages() {
		card, _ := json.Marshal(m.CardsV2) // it was decoded from JSON
		text := cmp.Or(m.Text, m.FallbackText) + "\n" + string(card)
		all = append(all, message{m.Name, m.Thread.Name, text})
	}
	return all
}

// awaitMessage waits for a message of this contract that begins with a prefix and has all
// parts. After a failure it returns an empty message.
func (t *trial) awaitMessage(prefix string, parts ...string) (found message) {
	t.await(fmt.Sprintf("a message %s with %q in the space", prefix, parts), func() bool {
		for _, m := range t.messages()[t.firstMessage:] {
			if strings.HasPrefix(m.text, prefix) && containsAll(m.text, parts) {
				found = m
				return true
			}
		}
		return false
	})
	return found
}

// awaitChange waits until a message's card says something else.
func (t *trial) awaitChange(m message, parts ...string) {
	t.await(fmt.Sprintf("the message changes to %q", parts), func() bool {
		for _, current := range t.messages() {
			if current.name == m.name && containsAll(current.text, parts) {
				return true
			}
		}
		return false
	})
}

// tap taps a button of a message's card.
func (t *trial) tap(m message, choice string, inputs map[string][]string) {
	if t.err == nil {
		t.err = t.chat.Tap(nil, m.name, "", choice, inputs, "")
	}
}

// reply writes into a message's thread.
func (t *trial) reply(m message, text string) {
	if t.err == nil {
		_, t.err = t.chat.PostAs(space.Person(), m.thread, text)
	}
}

// awaitResult waits for the n-th tool result of this contract, from 1 on, and requires
// that it has all parts.
func (t *trial) awaitResult(n int, parts ...string) {
	var results []fakemodel.ToolResult
	t.await("Claude is told the outcome", func() bool {
		results = t.model.ToolResults()
		return len(results) >= t.firstResult+n
	})
	if t.err == nil {
		text := results[t.firstResult+n-1].Text
		t.require(containsAll(text, parts), "Claude was told %.200q", text)
	}
}

// awaitTold waits until the conversation has a text.
func (t *trial) awaitTold(text string) {
	t.await(fmt.Sprintf("Claude is told %q", text), func() bool { return t.model.CountText(text) > 0 })
}

// isMade reports whether a file or folder is in the project.
func (t *trial) isMade(name string) bool {
	_, err := os.Stat(filepath.Join(t.project, name))
	return err == nil
}

// transcripts are the paths of the session's transcripts.
func (t *trial) transcripts() []string {
	paths, _ := filepath.Glob(filepath.Join(t.home, ".claude", "projects", "*", "*.jsonl"))
	return paths
}

// recordedEvents are the events whose members we read. Their payloads are recorded.
var recordedEvents = []string{
	"PermissionRequest", "PostToolUse", "PostToolBatch", "Stop", "SessionEnd",
}

// awaitEvent waits for an event's payload, and requires that it has these members.
func (t *trial) awaitEvent(event string, members ...string) {
	var payload map[string]json.RawMessage
	t.await("the hook event "+event, func() bool {
		f, err := os.Open(filepath.Join(t.dir, event))
		if err != nil {
			return false
		}
		defer f.Close()
		return json.NewDecoder(f).Decode(&payload) == nil
	})
	for _, member := range members {
		t.require(payload[member] != nil, "the event %s has no member %s", event, member)
	}
}
