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

// AppName is the sender of the Chat app's messages.
const AppName = "users/local-app"

// appTokenKey is the context key of a request whose path has the space's token. Such a
// request may act as the space's Chat app.
type appTokenKey struct{}

func isFromApp(r *http.Request) bool { return r.Context().Value(appTokenKey{}) != nil }

// spaceResource returns the space as the API describes it.
func (s *Space) spaceResource() *chat.Space {
	if s.isDirect {
		return &chat.Space{
			Name:            Name,
			Type:            "DM",
			SpaceType:       "DIRECT_MESSAGE",
			SingleUserBotDm: true,
		}
	}
	return &chat.Space{Name: Name, Type: "ROOM", SpaceType: "SPACE", DisplayName: "gchat-hooks"}
}

// patchMessage serves spaces.messages.patch: the app changes one of its own messages.
func (s *Space) patchMessage(r *http.Request) (any, error) {
	content, err := readMessage(r)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := Name + "/messages/" + r.PathValue("message")
	stored := s.byName[name]
	switch {
	case stored == nil:
		return nil, notFound("Message " + name + " not found")
	case stored.Message.Sender.Name != AppName:
		return nil, permissionDenied("The app did not create this message.")
	}
	changed := *stored.Message
	for _, field := range strings.Split(r.URL.Query().Get("updateMask"), ",") {
		switch strings.TrimSpace(field) {
		case "text":
			changed.Text = content.Text
			changed.ArgumentText, changed.FormattedText = changed.Text, changed.Text
		case "cardsV2", "cards_v2":
			changed.CardsV2 = content.CardsV2
		default:
			return nil, invalidArgument(fmt.Sprintf("Invalid update mask: %.60q", field))
		}
	}
	if err := checkContent(&changed); err != nil {
		return nil, err
	}
	changed.LastUpdateTime = s.now().UTC().Format(time.RFC3339Nano)
	if err := s.addRow(&messageRow{Message: &changed, IsPatch: true}); err != nil {
		return nil, err
	}
	return &changed, nil
}

// checkContent returns an error if a message is empty or too long, as Google does.
func checkContent(m *chat.Message) error {
	if strings.TrimSpace(m.Text) == "" && len(m.CardsV2) == 0 {
		return invalidArgument("Message cannot be empty.")
	}
	// it always encodes, since it was decoded from JSON
	b, _ := json.Marshal(&chat.Message{CardsV2: m.CardsV2, FallbackText: m.FallbackText})
	if len(m.Text) > maxMessageBytes || len(m.CardsV2) > 0 && len(m.Text)+len(b) > maxMessageBytes {
		return invalidArgument("Message content is too long")
	}
	return nil
}

// buttonQuestionID returns the question id in the button of a message's card that has
// that choice; "" if there is no such button.
func buttonQuestionID(m *chat.Message, choice string) string {
	b, _ := json.Marshal(m.CardsV2)
	before, _, found := strings.Cut(string(b), `"},{"key":"choice","value":"`+choice+`"`)
	if !found {
		return ""
	}
	return before[strings.LastIndexByte(before, '"')+1:]
}

// Tap acts as a user who taps the button with that choice on a message's card. A nil user
// is the person at the page. questionID is the question id in the button; for "", Tap
// takes it from the card as it is. inputs are the values of the card's checkboxes and
// fields. If a request with the same requestID came before, Tap does nothing; "" is no
// id.
func (s *Space) Tap(
	user *chat.User,
	message, questionID, choice string,
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
	questionID = cmp.Or(questionID, buttonQuestionID(m, choice))
	if questionID == "" {
		return fmt.Errorf("tap: %w", invalidArgument("The card does not have that button."))
	}
	event := s.newEvent("CARD_CLICKED", user, m)
	event.Common = &chat.CommonEventObject{
		InvokedFunction: "gchat-hooks",
		FormInputs:      map[string]chat.Inputs{},
		Parameters:      map[string]string{"question": questionID, "choice": choice},
	}
	for name, values := range inputs {
		event.Common.FormInputs[name] = chat.Inputs{StringInputs: &chat.StringInputs{Value: values}}
	}
	if err := s.enqueueEvent(requestID, event); err != nil {
		return fmt.Errorf("tap: %w", err)
	}
	if requestID != "" {
		s.byRequest[requestID] = found
	}
	return nil
}
