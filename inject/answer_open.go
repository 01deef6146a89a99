package inject

import (
	"context"
	"errors"
	"slices"
)

// Standing is how a dialog stands in its pane.
type Standing string

const (
	Unseen    Standing = ""          // cannot be told: the pane shows something that is not known
	Untouched Standing = "untouched" // its first question is open as it was asked
	Touched   Standing = "touched"   // it is open, and something in it was answered, ticked or typed
	OnReview  Standing = "review"    // its page "Review your answers" is open
	Gone      Standing = "gone"      // it is not on the screen, something else of Claude Code's is
)

// Look says how the dialog stands, and types nothing.
func (t Typist) Look(ctx context.Context, at Target, choices []Choice) (Standing, Screen, error) {
	h := &hand{t: t, at: at}
	for _, c := range choices {
		h.acts = append(h.acts, act{prompt: c.Prompt})
	}
	if len(h.acts) == 0 {
		return Unseen, Screen{}, errors.New("there is no question to look for")
	}
	if err := h.calm(ctx); err != nil {
		return Unseen, h.screen, err
	}
	h.page = h.open(0)
	switch {
	case h.untouched(h.screen) == "":
		return Untouched, h.screen, nil
	case slices.ContainsFunc(h.acts, func(a act) bool { return asks(h.screen, a.prompt) == "" }):
		return Touched, h.screen, nil
	case h.screen.Kind == Review && h.lists(h.screen):
		return OnReview, h.screen, nil
	case h.screen.Kind == Unknown:
		return Unseen, h.screen, nil
	}
	return Gone, h.screen, nil
}

// lists says whether a review page is about these questions.
func (h *hand) lists(s Screen) bool {
	for _, r := range s.Answers {
		if !slices.ContainsFunc(h.acts, func(a act) bool { return Same(r.Question, a.prompt.Question) }) {
			return false
		}
	}
	return true
}
