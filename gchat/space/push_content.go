package space

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/api/chat/v1"
)

// pushContent is what the service worker gets. sw.js reads it.
type pushContent struct {
	// "call" shows a notification, "over" takes it back
	Type    string       `json:"type"`
	Tag     string       `json:"tag"` // of the notification
	Message string       `json:"message,omitempty"`
	Thread  string       `json:"thread,omitempty"`
	Title   string       `json:"title,omitempty"`
	Body    string       `json:"body,omitempty"`
	Buttons []pushButton `json:"buttons,omitempty"`
}

type pushButton struct {
	Choice string `json:"choice"` // the option's number
	Title  string `json:"title"`
}

const (
	// maxPushButtons is Notification.maxActions of Chrome and Edge.
	maxPushButtons   = 2
	maxButtonBytes   = 60
	maxTitleBytes    = 120
	maxHeaderBytes   = 200
	maxPushTextBytes = 600
)

// pushTag returns the tag of a message's notification, which is also the topic of its
// calls: 22 characters of base64url. It tells a push service nothing about the message.
func (s *Space) pushTag(message string) string {
	sum := sha256.Sum256([]byte(s.secrets.APIToken + " push " + message))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// callContent returns the call for a message: its session, its kind and a question's
// header. With showsText it also has the question's text. It never has a command, a file
// or what a tool would be given.
func (s *Space) callContent(w *waitingMessage, showsText bool) pushContent {
	m := w.row.Message
	content := pushContent{
		Type:    "call",
		Tag:     s.pushTag(m.Name),
		Message: m.Name,
		Thread:  m.Thread.Name,
		Title:   w.row.Session,
		Body:    w.traits.title,
	}
	if w.kind == kindPermission {
		content.Body += ": only the terminal can answer"
	}
	if _, state := cardState(m); state != "" {
		card := m.CardsV2[0].Card
		if card.Header != nil {
			session, _, _ := strings.Cut(card.Header.Subtitle, " · ")
			content.Title = cmp.Or(content.Title, session)
		}
		content.Body = w.cardSummary(card, showsText)
		if w.kind == kindQuestion {
			content.addButtons(card)
		}
	}
	content.Title = cutText(cmp.Or(content.Title, "gchat-hooks"), maxTitleBytes)
	return content
}

// cardSummary returns what a call says of a card: the kind, and for questions their
// headers. A card's other texts may come from a tool call, so they are left out.
func (w *waitingMessage) cardSummary(card *chat.GoogleAppsCardV1Card, showsText bool) string {
	summary := w.traits.title
	if w.kind != kindQuestion {
		return summary
	}
	var headers, texts []string
	for _, section := range card.Sections {
		if section == nil {
			continue
		}
		if section.Header != "" {
			headers = append(headers, plainCardText(section.Header))
		}
		if len(section.Widgets) > 0 && isPlainParagraph(section.Widgets[0]) {
			texts = append(texts, plainCardText(section.Widgets[0].TextParagraph.Text))
		}
	}
	if len(headers) > 0 {
		summary += ": " + cutText(strings.Join(headers, " · "), maxHeaderBytes)
	}
	if showsText && len(texts) > 0 {
		summary += "\n" + cutText(strings.Join(texts, "\n"), maxPushTextBytes)
	}
	return summary
}

// isPlainParagraph reports whether a widget is text that is no code block.
func isPlainParagraph(w *chat.GoogleAppsCardV1Widget) bool {
	return w != nil && w.TextParagraph != nil && w.TextParagraph.TextSyntax != "MARKDOWN"
}

// addButtons adds the first options of a card that has one question and takes one
// option. If there are more options, the text says so.
func (c *pushContent) addButtons(card *chat.GoogleAppsCardV1Card) {
	options := optionButtons(card)
	c.Buttons = options[:min(len(options), maxPushButtons)]
	if rest := len(options) - len(c.Buttons); rest > 0 {
		c.Body += fmt.Sprintf("\n%d more to choose from", rest)
	}
}

// optionButtons returns the buttons with an option's number. A card with several
// questions, or one that takes several options, has a list in place of buttons.
func optionButtons(card *chat.GoogleAppsCardV1Card) (options []pushButton) {
	for _, section := range card.Sections {
		if section == nil {
			continue
		}
		for _, widget := range section.Widgets {
			if widget == nil || widget.ButtonList == nil {
				continue
			}
			for _, button := range widget.ButtonList.Buttons {
				choice := buttonChoice(button)
				if choice != "" && strings.Trim(choice, "0123456789") == "" {
					title := cutText(button.Text, maxButtonBytes)
					options = append(options, pushButton{choice, title})
				}
			}
		}
	}
	return options
}

func buttonChoice(b *chat.GoogleAppsCardV1Button) string {
	if b == nil || b.OnClick == nil || b.OnClick.Action == nil {
		return ""
	}
	for _, parameter := range b.OnClick.Action.Parameters {
		if parameter != nil && parameter.Key == "choice" {
			return parameter.Value
		}
	}
	return ""
}

// plainCardText returns a card's text, which is a subset of HTML, as plain text.
func plainCardText(text string) string { return cardUnescaper.Replace(text) }

var cardUnescaper = strings.NewReplacer(
	"<br>", "\n",
	"\u00a0", " ",
	"&lt;", "<",
	"&gt;", ">",
	"&amp;", "&",
)

// cutText cuts a text to a number of bytes, between two characters.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit - len("…")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// encode returns the content as the service worker gets it. short leaves out all but the
// session and the kind.
func (c pushContent) encode(short bool) []byte {
	if short {
		c.Body, _, _ = strings.Cut(c.Body, "\n")
		c.Body = cutText(c.Body, maxTitleBytes)
		c.Buttons = nil
	}
	b, _ := json.Marshal(c) // texts always encode
	return b
}
