package space

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/api/chat/v1"
)

// App is the sender of what a Chat app writes here.
const App = "users/local-app"

// appToken marks a request whose path has the space's token: it may act as the space's
// Chat app.
type appToken struct{}

func fromApp(r *http.Request) bool { return r.Context().Value(appToken{}) != nil }

// resource is the space as the API describes it.
func (s *Space) resource() *chat.Space {
	if s.direct {
		return &chat.Space{
			Name:            Name,
			Type:            "DM",
			SpaceType:       "DIRECT_MESSAGE",
			SingleUserBotDm: true,
		}
	}
	return &chat.Space{Name: Name, Type: "ROOM", SpaceType: "SPACE", DisplayName: "Local space"}
}

// patchMessage is spaces.messages.patch: an app changes a message of its own.
func (s *Space) patchMessage(r *http.Request) (any, error) {
	in, err := readMessage(r)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := Name + "/messages/" + r.PathValue("message")
	was := s.byName[name]
	switch {
	case was == nil:
		return nil, notFound("Message " + name + " not found")
	case was.Message.Sender.Name != App:
		return nil, denied("The app did not create this message.")
	}
	m := *was.Message
	for _, field := range strings.Split(r.URL.Query().Get("updateMask"), ",") {
		switch strings.TrimSpace(field) {
		case "text":
			m.Text, m.ArgumentText, m.FormattedText = in.Text, in.Text, in.Text
		case "cardsV2", "cards_v2":
			m.CardsV2 = in.CardsV2
		default:
			return nil, invalid(fmt.Sprintf("Invalid update mask: %.60q", field))
		}
	}
	if err := checkContent(&m); err != nil {
		return nil, err
	}
	m.LastUpdateTime = s.now().UTC().Format(time.RFC3339Nano)
	if err := s.add(&row{Message: &m, Patch: true}); err != nil {
		return nil, err
	}
	return &m, nil
}

// checkContent refuses what Google refuses of a message's content.
func checkContent(m *chat.Message) error {
	if strings.TrimSpace(m.Text) == "" && len(m.CardsV2) == 0 {
		return invalid("Message cannot be empty.")
	}
	// it was decoded
	b, _ := json.Marshal(&chat.Message{CardsV2: m.CardsV2, FallbackText: m.FallbackText})
	if len(m.Text) > maxMessage || len(m.CardsV2) > 0 && len(m.Text)+len(b) > maxMessage {
		return invalid("Message content is too long")
	}
	return nil
}

// questionOf is what the button of a message's card with that choice carries for its
// question; "" where there is none.
func questionOf(m *chat.Message, choice string) string {
	b, _ := json.Marshal(m.CardsV2)
	before, _, found := strings.Cut(string(b), `"},{"key":"choice","value":"`+choice+`"`)
	if !found {
		return ""
	}
	return before[strings.LastIndexByte(before, '"')+1:]
}

// Tap taps the button of a message's card that carries the choice, with what the card's
// boxes and fields hold. A nil user is the person at the page. The question is what the
// button carries; "" for a button that stands there now. A request that was seen before
// does nothing; "" is none.
func (s *Space) Tap(
	user *chat.User,
	message, question, choice string,
	inputs map[string][]string,
	requestID string,
) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byRequest[requestID] != nil {
		return nil
	}
	found := s.byName[message]
	if found == nil {
		return fmt.Errorf("tap: %w", notFound("Message "+message+" not found"))
	}
	m := found.Message
	question = cmp.Or(question, questionOf(m, choice))
	if question == "" {
		return fmt.Errorf("tap: %w", invalid("That button is not there any more."))
	}
	e := s.event("CARD_CLICKED", user, m)
	e.Common = &chat.CommonEventObject{
		InvokedFunction: "gchat-hooks",
		FormInputs:      map[string]chat.Inputs{},
		Parameters:      map[string]string{"question": question, "choice": choice},
	}
	for name, values := range inputs {
		e.Common.FormInputs[name] = chat.Inputs{StringInputs: &chat.StringInputs{Value: values}}
	}
	if err := s.tell(requestID, e); err != nil {
		return fmt.Errorf("tap: %w", err)
	}
	if requestID != "" {
		s.byRequest[requestID] = found
	}
	return nil
}
