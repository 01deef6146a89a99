package gchat

import (
	"encoding/json"
	"strings"

	"gchat-hooks/gchat/wording"
	"google.golang.org/api/chat/v1"
)

// CardV2 returns a card in Google's form. Its id names the card's kind and state, and the
// options that were chosen: "gchat-hooks.question.answered.1-2". Google shows the id to
// nobody.
// https://developers.google.com/workspace/chat/api/reference/rest/v1/cards
func CardV2(c *wording.Card) *chat.CardWithId {
	card := &chat.GoogleAppsCardV1Card{
		Header: &chat.GoogleAppsCardV1CardHeader{Title: c.Title, Subtitle: c.Subtitle},
	}
	for _, section := range c.Sections {
		googleSection := &chat.GoogleAppsCardV1Section{Header: cardEscaper.Replace(section.Header)}
		for _, widget := range section.Widgets {
			googleSection.Widgets = append(googleSection.Widgets, widgetV2(c, widget))
		}
		card.Sections = append(card.Sections, googleSection)
	}
	return &chat.CardWithId{
		CardId: strings.Join(append([]string{TapFunction, c.Kind, c.State}, c.Chosen...), "."),
		Card:   card,
	}
}

// StoredCard returns a card as the outbox keeps it: JSON in Google's form.
func StoredCard(c *wording.Card) json.RawMessage {
	b, _ := json.Marshal(CardV2(c)) // a card always encodes
	return b
}

// cardsV2 returns the cards of a message that has one stored card.
func cardsV2(stored json.RawMessage) []*chat.CardWithId {
	card := &chat.CardWithId{}
	_ = json.Unmarshal(stored, card) // if it is no card, Google refuses the message
	return []*chat.CardWithId{card}
}

// CardSize returns the length of a card in Google's form, in bytes.
func CardSize(c *wording.Card) int { return len(StoredCard(c)) }

func widgetV2(c *wording.Card, w wording.Widget) *chat.GoogleAppsCardV1Widget {
	switch {
	case w.Text != "":
		return &chat.GoogleAppsCardV1Widget{TextParagraph: &chat.GoogleAppsCardV1TextParagraph{
			Text: cardEscaper.Replace(w.Text), TextSyntax: "HTML",
		}}
	case w.Code != "":
		return &chat.GoogleAppsCardV1Widget{TextParagraph: &chat.GoogleAppsCardV1TextParagraph{
			Text: w.Code, TextSyntax: "MARKDOWN",
		}}
	case w.Select != nil:
		list := &chat.GoogleAppsCardV1SelectionInput{
			Name:  w.Select.Name,
			Type:  "RADIO_BUTTON",
			Label: w.Select.Label,
		}
		if w.Select.AllowsSeveral {
			list.Type = "CHECK_BOX"
		}
		for _, item := range w.Select.Items {
			list.Items = append(list.Items, &chat.GoogleAppsCardV1SelectionItem{
				Text: item.Text, Value: item.Value, Selected: item.IsChosen,
			})
		}
		return &chat.GoogleAppsCardV1Widget{SelectionInput: list}
	case w.Field != nil:
		return &chat.GoogleAppsCardV1Widget{TextInput: textInput(w.Field)}
	}
	list := &chat.GoogleAppsCardV1ButtonList{}
	for _, b := range w.Buttons {
		onTap := tapAction(c.ID, b.Choice)
		if fields := formFields(c); len(fields) > 0 && b.Choice == wording.AcceptChoice {
			encoded, _ := json.Marshal(fields) // names and numbers always encode
			onTap.Action.Parameters = append(onTap.Action.Parameters,
				&chat.GoogleAppsCardV1ActionParameter{Key: formFieldsKey, Value: string(encoded)})
		}
		list.Buttons = append(list.Buttons,
			&chat.GoogleAppsCardV1Button{Text: b.Text, OnClick: onTap})
	}
	return &chat.GoogleAppsCardV1Widget{ButtonList: list}
}

// textInput returns a field in Google's form. Google Chat itself checks numbers and mail
// addresses. It has no limits for a number, and a text with line breaks is one line in a
// field of one line.
func textInput(f *wording.Field) *chat.GoogleAppsCardV1TextInput {
	input := &chat.GoogleAppsCardV1TextInput{
		Name: f.Name, Label: f.Label, Value: f.Value, Type: "MULTIPLE_LINE",
	}
	if f.Accepts == nil {
		return input
	}
	kind := map[string]string{"integer": "INTEGER", "number": "FLOAT"}[f.Accepts.Type]
	if f.Accepts.Format == "email" {
		kind = "EMAIL"
	}
	if kind != "" {
		input.Type = "SINGLE_LINE"
		input.Validation = &chat.GoogleAppsCardV1Validation{InputType: kind}
	}
	return input
}

// formFieldsKey is the parameter with what the fields of a form accept: Google's inputs
// have no room for it, and give an app its own parameters back.
const formFieldsKey = "fields"

// formField is what an input of a form accepts; see wording.Accepts.
type formField struct {
	Type       string   `json:"type"`
	Format     string   `json:"format,omitempty"`
	Min        *float64 `json:"min,omitempty"`
	Max        *float64 `json:"max,omitempty"`
	IsRequired bool     `json:"required,omitempty"`
	HasDefault bool     `json:"default,omitempty"`
	Title      string   `json:"title"`
	Help       string   `json:"help,omitempty"`
	InWords    string   `json:"words"`
}

// formFields returns what the inputs of a form accept, by their names.
func formFields(c *wording.Card) map[string]formField {
	fields := map[string]formField{}
	for _, section := range c.Sections {
		for _, widget := range section.Widgets {
			switch {
			case widget.Field != nil && widget.Field.Accepts != nil:
				fields[widget.Field.Name] = formField(*widget.Field.Accepts)
			case widget.Select != nil && widget.Select.Accepts != nil:
				fields[widget.Select.Name] = formField(*widget.Select.Accepts)
			}
		}
	}
	return fields
}

// tapAction returns what a button does when a person taps it: Google sends the app an
// event with the card's id and the button's choice.
func tapAction(cardID, choice string) *chat.GoogleAppsCardV1OnClick {
	return &chat.GoogleAppsCardV1OnClick{Action: &chat.GoogleAppsCardV1Action{
		Function: TapFunction,
		Parameters: []*chat.GoogleAppsCardV1ActionParameter{
			{Key: tapQuestionKey, Value: cardID},
			{Key: tapChoiceKey, Value: choice},
		},
	}}
}

// cardEscaper turns plain text into a card's text, which is a subset of HTML. Without the
// no-break spaces, a line would lose the spaces at its start.
var cardEscaper = strings.NewReplacer(
	"&", "&amp;",
	"<", "&lt;",
	">", "&gt;",
	"\n", "<br>",
	"  ", "\u00a0 ",
)
