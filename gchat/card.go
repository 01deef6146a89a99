package gchat

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/state"
)

const (
	// mostCard bounds a message with a card, its fallback text and both as JSON, in bytes: Chat takes 32,000.
	mostCard = 31000
	// mostFallback bounds the text that stands where no card can be shown, in bytes; a longer one goes before the card, too.
	mostFallback = 8000
	// mostBoxes and mostWidgets are Chat's limits, of a selection's items and of a card: it ignores what is beyond.
	mostBoxes   = 100
	mostWidgets = 100
)

// AppTexts are the messages by which a Chat app puts a question of any kind, and the card of the last one, whose fallback text the
// last text is. ID is what the card's buttons carry for the question.
func AppTexts(q *state.Question, id string) (texts []string, card *chat.CardWithId) {
	texts = QuestionTexts(q)
	last := &texts[len(texts)-1]
	if len(texts) == 1 && len(*last) > mostFallback && q.Kind != state.AskedPermission && q.Kind != state.AskedQuestion {
		texts = append(texts, *last) // a plan, or last words, that no card holds
		last = &texts[1]
	}
	*last = Cut(*last, mostFallback)
	for most := mostFallback; ; most /= 2 {
		card = questionCard(q, id, most, len(texts) > 1)
		if b, err := json.Marshal(card); err != nil || quoted(*last)+len(b) < mostCard || most < 16 {
			return texts, card
		}
	}
}

// quoted is how long a text is as JSON, in bytes.
func quoted(s string) int {
	b, _ := json.Marshal(s)
	return len(b)
}

// deck is a card that is being laid out, with fields of at most that many bytes.
type deck struct {
	id   string
	most int
	n    int // widgets
	card *chat.GoogleAppsCardV1Card
}

func newDeck(q *state.Question, id, title string, most int) *deck {
	about := Line(cmp.Or(q.SessionName, q.TmuxSession, q.SessionID))
	if dir := cmp.Or(q.CWD, q.ProjectDir); dir != "" {
		about += " · " + Line(dir)
	}
	return &deck{id: id, most: most, card: &chat.GoogleAppsCardV1Card{
		Header: &chat.GoogleAppsCardV1CardHeader{Title: title, Subtitle: head(about, min(most, 300))},
	}}
}

func (d *deck) section(header string) {
	s := &chat.GoogleAppsCardV1Section{Header: htmlText(head(Line(header), min(d.most, 200)))}
	d.card.Sections = append(d.card.Sections, s)
}

// add puts widgets at the end of the last section.
func (d *deck) add(widgets ...*chat.GoogleAppsCardV1Widget) {
	s := d.card.Sections[len(d.card.Sections)-1]
	if d.n += len(widgets); d.n <= mostWidgets {
		s.Widgets = append(s.Widgets, widgets...)
	}
}

// text shows foreign text: none of it is markup.
func (d *deck) text(s string) {
	if s = Cut(s, d.most); strings.TrimSpace(s) != "" {
		d.add(&chat.GoogleAppsCardV1Widget{TextParagraph: &chat.GoogleAppsCardV1TextParagraph{Text: htmlText(s)}})
	}
}

// field is a text input; its words come with each tap.
func (d *deck) field(i int, label string, several bool) {
	kind := "SINGLE_LINE"
	if several {
		kind = "MULTIPLE_LINE"
	}
	d.add(&chat.GoogleAppsCardV1Widget{TextInput: &chat.GoogleAppsCardV1TextInput{Name: fieldName(i), Label: label, Type: kind}})
}

// buttons are name and choice by turns.
func (d *deck) buttons(named ...string) {
	var all []*chat.GoogleAppsCardV1Button
	for i := 0; i+1 < len(named); i += 2 {
		all = append(all, &chat.GoogleAppsCardV1Button{
			Text: Cut(named[i], d.most), OnClick: &chat.GoogleAppsCardV1OnClick{Action: &chat.GoogleAppsCardV1Action{
				Function: TapFunction, Parameters: []*chat.GoogleAppsCardV1ActionParameter{
					{Key: tapQuestion, Value: d.id}, {Key: tapChoice, Value: named[i+1]},
				},
			}},
		})
	}
	d.add(&chat.GoogleAppsCardV1Widget{ButtonList: &chat.GoogleAppsCardV1ButtonList{Buttons: all}})
}

func (d *deck) done() *chat.CardWithId { return &chat.CardWithId{CardId: "question", Card: d.card} }

// htmlText is a text as a card's paragraph shows it, which knows some HTML.
func htmlText(s string) string {
	lines := strings.Split(strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\t", "    ").Replace(visible(s)), "\n")
	for i, l := range lines {
		rest := strings.TrimLeft(l, " ")
		lines[i] = strings.Repeat("\u00a0", len(l)-len(rest)) + rest // a paragraph drops blanks
	}
	return strings.Join(lines, "<br>")
}

// questionCard is the card of a question of any kind. Before says that its text stands in the messages before the card.
func questionCard(q *state.Question, id string, most int, before bool) *chat.CardWithId {
	switch q.Kind {
	case state.AskedPermission:
		return permissionCard(q, id, most)
	case state.AskedPlan:
		d := newDeck(q, id, "Plan", most)
		d.section("")
		d.shown(q.Shown, before)
		d.field(0, "What to change", true)
		d.buttons("Approve", choiceApprove, "Approve, edits need no permission", choiceAuto, "Send back", choiceBack)
		return d.done()
	case state.AskedNext:
		d := newDeck(q, id, "Waiting for you", most)
		d.section("")
		d.shown(q.Shown, before)
		d.field(0, "The next instruction", true)
		d.buttons("Send", choiceSend)
		return d.done()
	}
	d := newDeck(q, id, "Question", most)
	direct := len(q.Questions) == 1 && !q.Questions[0].MultiSelect
	for i, p := range q.Questions {
		d.section(p.Header)
		text := p.Question
		if i < len(q.Wording) && !blank(q.Wording[i]) {
			text = q.Wording[i]
		}
		d.text(text)
		if direct {
			d.choices(p)
		} else {
			d.boxes(i, p)
		}
		d.field(i, "Your own words", direct)
	}
	d.buttons("Send", choiceSend)
	return d.done()
}

// shown is a longer text, or where it stands.
func (d *deck) shown(text string, before bool) {
	if before {
		text = "See the message above."
	}
	d.text(text)
}

// choices are a button for each option, with its description below.
func (d *deck) choices(p state.Prompt) {
	for i, o := range p.Options[:min(len(p.Options), mostBoxes)] {
		d.buttons(cmp.Or(Line(o.Label), fmt.Sprint(i+1)), fmt.Sprint(i+1))
		d.text(o.Description)
	}
}

// boxes are an item for each option, of which one or several can be ticked.
func (d *deck) boxes(i int, p state.Prompt) {
	in := &chat.GoogleAppsCardV1SelectionInput{Name: boxName(i), Type: "RADIO_BUTTON", Label: "Choose one"}
	if p.MultiSelect {
		in.Type, in.Label = "CHECK_BOX", "Choose one or more"
	}
	var about []string
	for n, o := range p.Options[:min(len(p.Options), mostBoxes)] {
		label := Cut(cmp.Or(Line(o.Label), fmt.Sprint(n+1)), d.most)
		in.Items = append(in.Items, &chat.GoogleAppsCardV1SelectionItem{Text: label, Value: fmt.Sprint(n + 1)})
		if o.Description != "" {
			about = append(about, label+": "+Cut(Line(o.Description), d.most))
		}
	}
	if len(in.Items) > 0 {
		d.add(&chat.GoogleAppsCardV1Widget{SelectionInput: in})
		d.text(strings.Join(about, "\n"))
	}
}

func permissionCard(q *state.Question, id string, most int) *chat.CardWithId {
	d := newDeck(q, id, "Permission", most)
	d.section(whatFor(q))
	shown, hidden := excerpt(q.Shown)
	if len(shown) > most { // its end is what must not be hidden
		half := most / 2
		hidden++
		shown = head(shown, half) + "\n⋯\n" + strings.ToValidUTF8(shown[len(shown)-half:], "")
	}
	d.text(shown)
	if q.TerminalOnly {
		d.text("Only the terminal can allow this.")
		d.field(0, "Why not", false)
		d.buttons("Deny", choiceDeny)
		return d.done()
	}
	var always []string
	if q.AlwaysAllows != "" {
		d.text(`"Always" allows: ` + Line(q.AlwaysAllows))
		always = []string{"Always", choiceAlways}
	}
	d.field(0, "Why not", false)
	d.buttons(append([]string{"Allow", choiceAllow, "Deny", choiceDeny}, always...)...)
	if hidden > 0 {
		d.buttons("Show the rest", choiceMore)
	}
	return d.done()
}

// ClosedCard is what becomes of a question's card when it is over: what was asked, what became of it, by whom and when; and the
// same as a text.
func ClosedCard(q *state.Question, now time.Time) (text string, card *chat.CardWithId) {
	text = cmp.Or(NoteText(q, state.Owed{About: state.NoteClosed}), "[Sent] Sent to Claude.")
	when := now
	if q.ResolvedAt != nil {
		when = *q.ResolvedAt
	}
	by := ""
	if who := cmp.Or(q.AnsweredByName, q.AnsweredBy); who != "" && q.ResolvedBy != "terminal" {
		by = "By " + clause(who) + ", "
	}
	text = Cut(text, mostFallback) + "\n\n" + by + when.Local().Format("15:04 on Monday")
	d := newDeck(q, "", "Over", mostFallback)
	d.section(briefly(q))
	if q.Kind == state.AskedQuestion && len(q.Questions) > 0 {
		d.card.Sections[0].Header = htmlText(head(Line(q.Questions[0].Question), 200))
	}
	_, said, _ := strings.Cut(text, "\n\n")
	d.text(said)
	return text, d.done()
}
