package hooks

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"gchat-hooks/gchat"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

const (
	// denyBound is how long posting may take before the question goes to the terminal instead, and denyWordedBound the same
	// where a model words it first. A session waits for as long.
	denyBound       = 3 * time.Second
	denyWordedBound = 4500 * time.Millisecond
	// undenied is how young a marker is whose denial may not have reached Claude Code.
	undenied = 10 * time.Second
)

// deny puts the question of a PreToolUse event into the space and denies the call, so that Claude goes on working; the reply
// is delivered later. Where it cannot be put there, the question goes to the terminal as in native mode: a question is
// never denied into the void.
func (h *Hook) deny(ctx context.Context, e *Event) error {
	again, err := h.askAgain(e)
	if err != nil {
		h.log.Error().Err(err).Msg("markers")
	}
	if again {
		_, _, err := h.recordCall(e, state.Native)
		h.wake()
		return err
	}
	q, err := h.recordMarker(e)
	if err != nil || q == nil {
		return err
	}
	if err = h.postInTime(ctx, q); err != nil {
		h.log.Error().Str("error", h.log.Clean(err.Error())).Str("question", q.QuestionID).Str("hint", gchat.Hint(err)).
			Msg("question not put into the space: it is asked in the terminal")
		return h.askInTerminal(e, q)
	}
	if _, err = state.UpdateQuestion(q.Path, func(q *state.Question) error { q.Denied = true; return nil }); err != nil {
		return errors.Join(err, h.askInTerminal(e, q))
	}
	return h.Print(toolDeny(h.denial(q)))
}

// recordMarker writes the question down; nil when another process has this very call.
func (h *Hook) recordMarker(e *Event) (*state.Question, error) {
	fresh, err := h.question(e, state.Deny)
	if err != nil {
		return nil, err
	}
	fresh.QuestionID = state.MarkerID(fresh.SessionID, uuid.NewString())
	fresh.ThreadKey = fresh.QuestionID
	timesOut := fresh.AskedAt.Add(h.asked.cfg.ReplyTimeout)
	fresh.TimeoutPolicy, fresh.TimesOutAt = h.asked.rules.TimeoutPolicy, &timesOut
	known := false
	q, err := h.record(state.MarkersIn, e, func(have []*state.Question) *state.Question {
		if known = ofCall(have, e) != nil; known {
			return nil
		}
		return fresh
	})
	if err != nil || known {
		return nil, err
	}
	for _, dir := range h.stateDirs() { // it may have gone to the terminal already
		have, _, _ := state.QuestionsIn(dir).OfSession(e.SessionID)
		if ofCall(have, e) != nil {
			h.drop(q)
			return nil, nil
		}
	}
	return q, nil
}

// ofCall is the question of this very call; nil when it is not among them.
func ofCall(qs []*state.Question, e *Event) *state.Question {
	for _, q := range qs {
		if e.ToolUseID != "" && q.ToolUseID == e.ToolUseID {
			return q
		}
	}
	return nil
}

// postInTime puts a marker into its space, within the time that a session can be kept waiting.
func (h *Hook) postInTime(ctx context.Context, q *state.Question) error {
	bound := denyBound
	if h.asked.cfg.Format != "" {
		bound = denyWordedBound
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	done := make(chan error, 1) // a send that was begun may take longer to end: it ends without a reader
	go func() {
		defer h.catch()
		err := h.poller.Replyable(ctx, h.asked.cfg)
		if err == nil {
			_, err = h.poller.PostSoon(ctx, q.Path)
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return fmt.Errorf("post question: Google Chat did not answer within %s", bound)
	}
	now, err := state.LoadQuestion(q.Path)
	if err == nil && !now.MessageSent {
		err = errors.New("post question: it was closed meanwhile")
	}
	return err
}

// denial is what Claude reads in place of an answer.
func (h *Hook) denial(q *state.Question) string {
	return fmt.Sprintf("Question forwarded to Google Chat (thread: %s, question: %s). "+
		"Continue with other work, or end your turn: "+
		"the user's reply comes to you by itself as a message beginning GCHAT_RESPONSE, and if none did within %s, "+
		"run `%s` in the background, which prints it.",
		q.ThreadKey, q.QuestionID, poller.Spoken(h.asked.cfg.ReplyTimeout), h.waitCommand(q.QuestionID))
}

// waitCommand is how Claude waits for the reply itself.
func (h *Hook) waitCommand(id string) string {
	base := JobName(filepath.Base(h.Self))
	asHook := base != "gchat-hooks" && (strings.HasPrefix(base, "gchat-") || strings.HasSuffix(base, "-hook"))
	if h.Self == "" || asHook { // a copy under a hook's name would run as that
		return "gchat-wait --question-id " + id
	}
	return state.ShellQuoted(h.Self) + " wait --question-id " + id
}

// toolDeny is the PreToolUse decision that keeps a call from being made and tells Claude why.
func toolDeny(reason string) any {
	return map[string]any{"hookSpecificOutput": map[string]any{
		"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason,
	}}
}

// askAgain says whether this call is a question that had no reply in time, asked again: it goes to the terminal, once.
// Claude is told to ask in the same words, and may have chosen others: the same options count as well.
func (h *Hook) askAgain(e *Event) (again bool, err error) {
	prompts, err := e.prompts()
	if err != nil {
		return false, err
	}
	var best *state.Question
	likeness := func(q *state.Question) (most int) {
		for _, was := range q.Questions {
			for _, is := range prompts {
				switch {
				case was.Question == is.Question:
					most = 2
				case slices.EqualFunc(was.Options, is.Options, func(a, b state.Option) bool { return a.Label == b.Label }):
					most = max(most, 1)
				}
			}
		}
		return most
	}
	closest := 0
	for _, q := range h.markers(e) {
		mayGo := q.Status == state.TimedOut && q.TimeoutPolicy == state.AskTerminal && !q.AskedAgain
		if like := likeness(q); mayGo && like > closest {
			best, closest = q, like
		}
	}
	if best == nil {
		return false, nil
	}
	_, err = state.UpdateQuestion(best.Path, func(q *state.Question) error {
		if again = q.Status == state.TimedOut && !q.AskedAgain; !again {
			return state.ErrUnchanged
		}
		q.AskedAgain = true
		return nil
	})
	return again, err
}

// askInTerminal hands a marker's question over to native mode: Claude Code draws its dialog, and the PermissionRequest hook
// finds the record. That is there before the marker goes: killed in between, the question is not lost.
func (h *Hook) askInTerminal(e *Event, q *state.Question) error {
	if now, err := state.LoadQuestion(q.Path); err == nil {
		q = now
	}
	_, err := h.record(state.QuestionsIn, e, func(have []*state.Question) *state.Question {
		for _, known := range have {
			if known.QuestionID == q.QuestionID {
				return known
			}
		}
		return poller.Instead(q)
	})
	if err != nil {
		return err
	}
	h.drop(q)
	h.wake()
	return nil
}

// drop ends and removes a marker whose question goes on in the terminal.
func (h *Hook) drop(q *state.Question) {
	err := h.poller.CloseInstead(q.Path)
	if gone, lerr := state.LoadQuestion(q.Path); err == nil && lerr == nil {
		err = state.Questions{Dir: filepath.Dir(q.Path)}.Remove(gone)
	}
	if err != nil {
		h.log.Error().Err(err).Msg("marker not removed")
	}
}

// reclaim hands a marker over to native mode whose dialog is on the screen after all: its denial never arrived, since the
// hook was killed, or ran out of its time.
func (h *Hook) reclaim(e *Event) error {
	hash, found := e.inputHash(), false
	there := map[string]bool{} // by id
	for _, dir := range h.stateDirs() {
		have, _, err := state.QuestionsIn(dir).OfSession(e.SessionID)
		if err != nil {
			return err
		}
		for _, q := range have {
			if q.Status.Open() && q.InputHash == hash {
				there[q.QuestionID], found = true, true
			}
		}
	}
	for _, q := range h.markers(e) {
		if q.Status.Open() && there[q.QuestionID] { // the hook was killed before it could remove it
			h.drop(q)
			continue
		}
		if found || !q.Status.Open() || q.InputHash != hash || q.Denied && time.Since(q.AskedAt).Abs() > undenied {
			continue
		}
		found = true
		if err := h.askInTerminal(e, q); err != nil {
			return err
		}
	}
	return nil
}
