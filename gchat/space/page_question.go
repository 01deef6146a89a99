package space

import "net/http"

// The choices of the buttons that this file is about; see wording.
const (
	showAllChoice = "more"
	acceptChoice  = "accept"
)

// cardIDOf returns the id in the button of a message's card that has that choice; "" if
// there is no such button.
func (s *Space) cardIDOf(message, choice string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.byName[message]
	if found == nil {
		return ""
	}
	return buttonQuestionID(found.Message, choice)
}

// serveShownText serves all of the text that a card with "Show all" shows a part of.
func (s *Space) serveShownText(r *http.Request) (any, error) {
	cardID := s.cardIDOf(r.URL.Query().Get("message"), showAllChoice)
	if cardID == "" || s.readShownText == nil {
		return nil, notFound("This card has no more to show.")
	}
	text := s.readShownText(cardID)
	if text == "" {
		return nil, notFound("This question is over.")
	}
	return map[string]string{"text": text}, nil
}

// formError is the error of a form whose inputs are not filled in as they have to be.
type formError struct {
	*apiError
	Inputs map[string]string `json:"inputs"` // what is wrong, by the names of the inputs
}

// checkTap returns an error if a tap comes too late, or if it accepts a form whose inputs
// are not filled in as they have to be. The app checks them again.
func (s *Space) checkTap(message, choice string, inputs map[string][]string) error {
	cardID := s.cardIDOf(message, choice)
	if cardID == "" && s.hasCard(message) {
		const text = "Too late: this is over, or only the terminal can answer it."
		return &apiError{http.StatusConflict, text, "FAILED_PRECONDITION"}
	}
	if cardID == "" || choice != acceptChoice || s.checkForm == nil {
		return nil
	}
	if problems := s.checkForm(cardID, inputs); len(problems) > 0 {
		return &formError{invalidArgument("The form cannot be sent like that."), problems}
	}
	return nil
}

func (s *Space) hasCard(message string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.byName[message]
	return found != nil && len(found.Message.CardsV2) > 0
}

// hasRequest reports whether a request with that id came before.
func (s *Space) hasRequest(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byRequest[id] != nil
}
