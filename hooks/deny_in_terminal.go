package hooks

import (
	"path/filepath"
	"slices"
	"time"

	"gchat-hooks/poller"
	"gchat-hooks/state"
)

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
