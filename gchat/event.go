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

// Event is something that a person did where the app hears it.
type Event struct {
	Type    string // MESSAGE, CARD_CLICKED, ADDED_TO_SPACE, REMOVED_FROM_SPACE …
	At      time.Time
	By      Person
	Human   bool         // a person did it, and no other app
	Message Message      // that was written, as a list gives it; or whose card was tapped
	Tap     *wording.Tap // of CARD_CLICKED
}

// The names of what a card's buttons carry.
const (
	TapFunction = "gchat-hooks"
	tapQuestion = "question"
	tapChoice   = "choice"
)

// ReadEvent reads an interaction event as a classic Chat app gets it.
func ReadEvent(data []byte) (e Event, err error) {
	var in struct {
		chat.DeprecatedEvent
		AddOn json.RawMessage `json:"commonEventObject"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return e, fmt.Errorf("event: %w", err)
	}
	if in.AddOn != nil {
		return e, ErrAddOn
	}
	e.Type = in.Type
	e.At, _ = time.Parse(time.RFC3339Nano, in.EventTime)
	if u := in.User; u != nil {
		e.By, e.Human = Person{
			Name:        u.Name,
			Email:       u.Email,
			DisplayName: u.DisplayName,
		}, u.Type != "BOT" &&
			strings.HasPrefix(u.Name, "users/")
	}
	if in.Message != nil {
		e.Message = fromChat(in.Message)
	}
	if e.Message.ThreadName == "" && in.Thread != nil {
		e.Message.ThreadName = in.Thread.Name
	}
	if e.Type != "CARD_CLICKED" {
		return e, nil
	}
	e.Tap = &wording.Tap{Inputs: map[string][]string{}}
	carried := map[string]string{}
	if in.Common != nil {
		maps.Copy(carried, in.Common.Parameters)
		for name, input := range in.Common.FormInputs {
			if input.StringInputs != nil && len(e.Tap.Inputs) < wording.MostWidgets {
				e.Tap.Inputs[name] = input.StringInputs.Value
			}
		}
	}
	if in.Action != nil { // an event names them twice, or in one of the places
		for _, p := range in.Action.Parameters {
			if p != nil {
				carried[p.Key] = p.Value
			}
		}
	}
	e.Tap.Question, e.Tap.Machine, _ = strings.Cut(carried[tapQuestion], "-")
	e.Tap.Choice = carried[tapChoice]
	e.Tap.Stands = in.Message == nil || len(in.Message.CardsV2) == 0 ||
		shows(in.Message, e.Tap.Question)
	return e, nil
}

// shows says whether a message's cards have a button of that question.
func shows(m *chat.Message, question string) bool {
	b, err := json.Marshal(m.CardsV2)
	return err != nil || bytes.Contains(b, []byte(question))
}
