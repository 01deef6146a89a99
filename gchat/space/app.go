package space

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/api/chat/v1"
)

// App is the sender of what a Chat app writes here.
const App = "users/local-app"

// appToken marks a request whose path has the space's token: it may act as the space's Chat app.
type appToken struct{}

func fromApp(r *http.Request) bool { return r.Context().Value(appToken{}) != nil }

func withAppToken(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), appToken{}, true))
}

// resource is the space as the API describes it.
func (s *Space) resource() *chat.Space {
	if s.direct {
		return &chat.Space{Name: Name, Type: "DM", SpaceType: "DIRECT_MESSAGE", SingleUserBotDm: true}
	}
	return &chat.Space{Name: Name, Type: "ROOM", SpaceType: "SPACE", DisplayName: "Local space"}
}

func (s *Space) getSpace(*http.Request) (any, error) { return s.resource(), nil }

// createAsApp is spaces.messages.create of a Chat app: with cards, and an answer that tells all.
func (s *Space) createAsApp(r *http.Request, d draft) (any, error) {
	d.sender = &chat.User{Name: App, Type: "BOT", DisplayName: "gchat-hooks"}
	if d.requestID != "" {
		d.requestID = "app:" + d.requestID
	}
	if d.content.PrivateMessageViewer != nil && s.direct {
		return nil, invalid("Private messages aren't supported in direct messages.")
	}
	posted, err := s.post(d)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hasApp = true
	return posted.Message, nil
}

// patchMessage is spaces.messages.patch: an app changes a message of its own.
func (s *Space) patchMessage(r *http.Request) (any, error) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	in := new(chat.Message)
	if err := json.Unmarshal(b, in); err != nil {
		return nil, invalid("Invalid JSON payload received. " + err.Error())
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
	m := clone(was.Message)
	for _, field := range strings.Split(r.URL.Query().Get("updateMask"), ",") {
		switch strings.TrimSpace(field) {
		case "text":
			m.Text, m.ArgumentText, m.FormattedText = in.Text, in.Text, in.Text
		case "fallbackText", "fallback_text":
			m.FallbackText = in.FallbackText
		case "cardsV2", "cards_v2":
			m.CardsV2 = in.CardsV2
		default:
			return nil, invalid("Invalid update mask: " + brief(field))
		}
	}
	if err := checkContent(m); err != nil {
		return nil, err
	}
	m.LastUpdateTime = s.now().UTC().Format(time.RFC3339Nano)
	if err := s.add(&row{Message: m, Patch: true}); err != nil {
		return nil, err
	}
	return m, nil
}

// checkContent refuses what Google refuses of a message's content.
func checkContent(m *chat.Message) error {
	if strings.TrimSpace(m.Text) == "" && len(m.CardsV2) == 0 {
		return invalid("Message cannot be empty.")
	}
	b, err := json.Marshal(&chat.Message{CardsV2: m.CardsV2, FallbackText: m.FallbackText})
	if size := len(b); err != nil || len(m.Text) > maxMessage || len(m.CardsV2) > 0 && len(m.Text)+size > maxMessage {
		return invalid("Message content is too long")
	}
	return nil
}

// button is the action of the button of a message's cards that carries the choice; nil for none.
func button(m *chat.Message, choice string) *chat.GoogleAppsCardV1Action {
	for _, c := range m.CardsV2 {
		for _, section := range c.Card.Sections {
			for _, w := range section.Widgets {
				if w.ButtonList == nil {
					continue
				}
				for _, b := range w.ButtonList.Buttons {
					for _, p := range b.OnClick.Action.Parameters {
						if p.Key == "choice" && p.Value == choice {
							return b.OnClick.Action
						}
					}
				}
			}
		}
	}
	return nil
}

// Tap taps the button of a message's card that carries the choice, with what the card's boxes and fields hold. A nil user is the
// person at the page.
func (s *Space) Tap(user *chat.User, message, choice string, inputs map[string][]string) error {
	s.mu.Lock()
	found := s.byName[message]
	s.mu.Unlock()
	if found == nil {
		return fmt.Errorf("tap: %w", notFound("Message "+message+" not found"))
	}
	action := button(found.Message, choice)
	if action == nil {
		return fmt.Errorf("tap: %w", invalid("That button is not there any more."))
	}
	return s.TapAs(user, message, action, inputs)
}

// TapAs taps a button as it stands on somewhat older a screen.
func (s *Space) TapAs(user *chat.User, message string, action *chat.GoogleAppsCardV1Action, inputs map[string][]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.byName[message]
	if found == nil {
		return fmt.Errorf("tap: %w", notFound("Message "+message+" not found"))
	}
	e := s.event("CARD_CLICKED", user, found.Message)
	e.Action = &chat.FormAction{ActionMethodName: action.Function}
	e.Common = &chat.CommonEventObject{
		InvokedFunction: action.Function, Parameters: map[string]string{}, FormInputs: map[string]chat.Inputs{},
	}
	for _, p := range action.Parameters {
		e.Action.Parameters = append(e.Action.Parameters, &chat.ActionParameter{Key: p.Key, Value: p.Value})
		e.Common.Parameters[p.Key] = p.Value
	}
	for name, values := range inputs {
		e.Common.FormInputs[name] = chat.Inputs{StringInputs: &chat.StringInputs{Value: values}}
	}
	return s.publish(e)
}
