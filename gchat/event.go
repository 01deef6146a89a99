package gchat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"gchat-hooks/gchat/wording"
	"google.golang.org/api/chat/v1"
)

// Event is something that a person did, as Google reports it to the app.
type Event struct {
	Type    string // MESSAGE, CARD_CLICKED, ADDED_TO_SPACE, REMOVED_FROM_SPACE …
	At      time.Time
	Person  Person
	IsHuman bool         // a person did it, not another app
	Message Message      // the new message, or the one whose card was tapped
	Tap     *wording.Tap // set for CARD_CLICKED
}

// A card's buttons call TapFunction with two parameters, which have these names.
const (
	TapFunction    = "gchat-hooks"
	tapQuestionKey = "question"
	tapChoiceKey   = "choice"
)

// ReadEvent parses an interaction event in the form that a classic Chat app gets. It
// returns ErrAddOn for the form that a Workspace add-on gets.
func ReadEvent(data []byte) (e Event, err error) {
	var envelope struct {
		chat.DeprecatedEvent
		AddOn json.RawMessage `json:"commonEventObject"`
	}
	if err := json.Unmarshal(data, &envelope); err != nil {
		return e, fmt.Errorf("parse event: %w", err)
	}
	if envelope.AddOn != nil {
		return e, ErrAddOn
	}
	e.Type = envelope.Type
	e.At, _ = time.Parse(time.RFC3339Nano, envelope.EventTime)
	if u := envelope.User; u != nil {
		e.Person = Person{Name: u.Name, Email: u.Email, DisplayName: u.DisplayName}
		e.IsHuman = u.Type != "BOT" && strings.HasPrefix(u.Name, "users/")
	}
	if envelope.Message != nil {
		e.Message = messageFromChat(envelope.Message)
	}
	if e.Message.ThreadName == "" && envelope.Thread != nil {
		e.Message.ThreadName = envelope.Thread.Name
	}
	if e.Type != "CARD_CLICKED" {
		return e, nil
	}
	e.Tap = &wording.Tap{Inputs: map[string][]string{}}
	parameters := map[string]string{}
	if envelope.Common != nil {
		maps.Copy(parameters, envelope.Common.Parameters)
		for name, input := range envelope.Common.FormInputs {
			if input.StringInputs != nil && len(e.Tap.Inputs) < wording.MaxWidgets {
				e.Tap.Inputs[name] = input.StringInputs.Value
			}
		}
	}
	// Google gives the parameters in common, in action, or in both.
	if envelope.Action != nil {
		for _, p := range envelope.Action.Parameters {
			if p != nil {
				parameters[p.Key] = p.Value
			}
		}
	}
	e.Tap.QuestionID, e.Tap.MachineID, _ = strings.Cut(parameters[tapQuestionKey], "-")
	e.Tap.Choice = parameters[tapChoiceKey]
	e.Tap.IsOnCard = envelope.Message == nil || len(envelope.Message.CardsV2) == 0 ||
		hasButton(envelope.Message, e.Tap.QuestionID)
	return e, nil
}

// hasButton reports whether a message's cards have a button of that question.
func hasButton(m *chat.Message, question string) bool {
	b, err := json.Marshal(m.CardsV2)
	return err != nil || bytes.Contains(b, []byte(question))
}
