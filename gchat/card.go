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

type (
	section = chat.GoogleAppsCardV1Section
	widget  = chat.GoogleAppsCardV1Widget
	button  = chat.GoogleAppsCardV1Button
)

const (
	// mostWidgets is how many widgets a card may have: Chat leaves out the section that goes beyond, and all behind it. A
	// selection may have as many items. https://developers.google.com/workspace/chat/api/reference/rest/v1/cards
	mostWidgets = 100
	// shortWords is how much of a plan or of last words stands in a card, in bytes. A longer text is a message above the card,
	// where it has bold words and code blocks.
	shortWords = 1500
	// mostClosed is how much of a closing note stands in a card, in bytes: with the card, of whatever characters, it is no longer
	// than MaxText.
	mostClosed = 2500
)

// AppTexts are the messages with which an app puts a question to the people of a space. The last one stands for the card where no
// card is shown. Both together are no longer than MaxText.
func AppTexts(q *state.Question, id string) (texts []string, card *chat.CardWithId) {
	switch m := q.Kind.Row(); {
	case m.Long:
		return longCard(q, id)
	case m.Decides:
		return permissionCard(q, id)
	}
	return questionCard(q, id)
}

// questionCard has a button for each option. A question that is too large for a card is answered in words.
func questionCard(q *state.Question, id string) ([]string, *chat.CardWithId) {
	const leastPreview = 100 // bytes; below that, buttons are given up
	for preview := mostPreview; preview > leastPreview; preview /= 4 {
		texts, d := questionTexts(q, preview), &cardDraft{id: id}
		if d.question(q, preview) && len(texts) == 1 {
			if card := d.card(q, ""); cardSize(card)+len(texts[0]) <= MaxText {
				return texts, card
			}
		}
	}
	const how = "This question has too much in it for buttons. It stands above: please reply in words."
	d := &cardDraft{}
	d.paragraph(how)
	return append(QuestionTexts(q), "[AskUserQuestion] Session: "+sessionOf(q)+"\n\n"+how), d.card(q, "")
}

// permissionCard shows ever shorter lines, but always the end of what Claude wants to do.
func permissionCard(q *state.Question, id string) ([]string, *chat.CardWithId) {
	const shortestLine = 16
	for line := shownLine; ; line /= 2 {
		d := &cardDraft{id: id}
		d.permission(q, line)
		card := d.card(q, "")
		header, text, how := pieces(q, line, 0)
		text = header + "\n\n" + text + how
		if cardSize(card)+len(text) <= MaxText || line <= shortestLine {
			return []string{text}, card
		}
	}
}

func longCard(q *state.Question, id string) (texts []string, card *chat.CardWithId) {
	header, text, how := pieces(q, 0, 0)
	if len(text) > shortWords || strings.Contains(text, fence) {
		texts = split(header, "\n\n", text, MaxText)
		text = "(The whole text stands above.)"
	}
	d := &cardDraft{id: id}
	d.paragraph(text)
	if q.Kind.Row().Prompt {
		if q.TmuxPane == "" {
			d.paragraph(state.OutsideTmux)
		}
		d.field(0, "The next instruction")
		d.buttons(d.button("Send", choiceSend))
	} else {
		d.field(0, "What to change, if you send it back")
		d.buttons(d.decisions(q)...)
	}
	return append(texts, strings.TrimSpace(header+"\n\n"+text)+how), d.card(q, "")
}

// ClosedCard shows how a question ended, or that only the terminal answers it, without a
// button, and the text that stands for it. They say what its closing note says, who answered,
// and when. An answer counts as the end although Claude Code has not confirmed it yet.
func ClosedCard(q *state.Question, now time.Time) (text string, card *chat.CardWithId) {
	over := *q
	over.ToldSent = false
	if over.Status == state.Answered {
		over.Status = state.Resolved
	}
	text = cmp.Or(closingText(&over), handedOverText(q))
	answered := over.Status == state.Resolved && q.ResolvedBy != "terminal"
	if text == "" {
		text = "[Cancelled] " + field(q.SessionName) + "\n\nIt goes on in the terminal."
	} else if words, _ := q.Decision(); answered && q.Kind.Row().Prompt && words != "" {
		text += "\n" + Block(head(words, shortWords))
	}
	if q.ResolvedAt != nil {
		now = q.ResolvedAt.In(now.Location())
	}
	when := "\n\n" + now.Format("2006-01-02 15:04")
	if by := clause(q.AnsweredByName); answered && by != "" && q.AnsweredBy != state.Local {
		when = "\n\n" + by + ", " + strings.TrimSpace(when)
	}
	text = Cut(text, mostClosed) + when
	how, what, _ := strings.Cut(strings.TrimPrefix(text, "["), "] ")
	d := &cardDraft{}
	d.paragraph(strings.TrimSpace(strings.TrimPrefix(what, field(q.SessionName)+"\n")))
	return text, d.card(q, " ("+strings.ToLower(how)+")")
}

type cardDraft struct {
	id       string // that its buttons carry
	sections []*section
}

func cardSize(card *chat.CardWithId) int {
	b, _ := json.Marshal(card) // a card always encodes
	return len(b)
}

// card is the draft below a header, which says what it is, and whose.
func (d *cardDraft) card(q *state.Question, how string) *chat.CardWithId {
	header := &chat.GoogleAppsCardV1CardHeader{Title: q.Kind.Row().Called + how, Subtitle: brief(sessionOf(q), 200)}
	if dir := cmp.Or(q.CWD, q.ProjectDir); dir != "" {
		header.Subtitle += " · " + Line(brief(state.Review(state.ForReview, dir), 200))
	}
	header.Subtitle += machineOf(q, inCard)
	return &chat.CardWithId{CardId: TapFunction, Card: &chat.GoogleAppsCardV1Card{Header: header, Sections: d.sections}}
}

// question writes the prompts of a question, with so many bytes of a preview. It is false where
// there are no prompts, or they may have more widgets than a card.
func (d *cardDraft) question(q *state.Question, preview int) bool {
	several, widgets, most := len(q.Questions) > 1, 1, preview/max(len(q.Questions), 1)
	for i, p := range q.Questions {
		widgets += 2 + 4*len(p.Options) // with a preview, and what it is of
		if widgets > mostWidgets {
			return false
		}
		header := Line(p.Header)
		if several {
			header = strings.TrimSpace(fmt.Sprintf("Q%d. %s", i+1, header))
		}
		d.section(header)
		d.paragraph(Block(worded(q, i)))
		if several || p.MultiSelect {
			d.selection(i, p, most)
		} else {
			d.optionButtons(p, most)
		}
		own := "In your own words"
		if len(p.Options) > 0 {
			own += ", or a remark on your choice"
		}
		d.field(i, own)
	}
	if several {
		d.section("")
	}
	d.buttons(append([]*button{d.button("Send", choiceSend)}, d.declines(q)...)...)
	return len(q.Questions) > 0
}

// declines are the buttons that turn a question down. Beside an option of that name there is none.
func (d *cardDraft) declines(q *state.Question) (buttons []*button) {
	choices := [][2]string{{"Chat about this", state.DeclinedChat}, {"Skip", state.DeclinedSkip}}
	for _, one := range choices {
		if how, _ := ReadDecline(one[0], q); how == one[1] {
			buttons = append(buttons, d.button(one[0], one[1]))
		}
	}
	return buttons
}

func (d *cardDraft) optionButtons(p state.Prompt, most int) {
	for i, o := range p.Options {
		if label := Line(o.Label); label != "" {
			d.buttons(d.button(label, number1(i)))
			d.paragraph(Line(o.Description))
			d.code(previewText(o, most))
		}
	}
}

func (d *cardDraft) selection(prompt int, p state.Prompt, most int) {
	input := &chat.GoogleAppsCardV1SelectionInput{Name: "q" + number1(prompt), Type: "RADIO_BUTTON", Label: "Choose one"}
	if p.MultiSelect {
		input.Type, input.Label = "CHECK_BOX", "Choose one or more"
	}
	for i, o := range p.Options {
		if preview := previewText(o, most); preview != "" {
			d.paragraph(Line(o.Label))
			d.code(preview)
		}
		if Line(o.Label) != "" {
			input.Items = append(input.Items, &chat.GoogleAppsCardV1SelectionItem{Text: optionText(o), Value: number1(i)})
		}
	}
	if len(input.Items) > 0 {
		d.add(&widget{SelectionInput: input})
	}
}

func (d *cardDraft) permission(q *state.Question, line int) {
	const mostSaid = 500 // bytes of Claude's own words
	d.paragraph(brief(whatFor(q), mostSaid))
	d.paragraph(brief(fromAgent(q), mostSaid))
	shown, hidden := excerpt(q.Shown, line)
	d.code(shown)
	buttons := d.decisions(q)
	if hidden != "" {
		d.paragraph("(" + hidden + ")")
		buttons = append(buttons, d.button("Show all", choiceMore))
	}
	if q.HandedOver != nil {
		d.paragraph(answerThere(q))
		return
	}
	if q.TerminalOnly {
		d.paragraph(terminalOnly)
	} else {
		d.paragraph(strings.TrimSpace(alwaysAllows(q, state.LabelAlways, "")))
	}
	d.field(0, "A reason, if you deny it")
	d.buttons(buttons...)
}

func (d *cardDraft) decisions(q *state.Question) (buttons []*button) {
	for _, one := range decisions {
		if offers(q, one.label) {
			buttons = append(buttons, d.button(one.called, one.choice))
		}
	}
	return buttons
}

func (d *cardDraft) section(header string) {
	d.sections = append(d.sections, &section{Header: cardEscapes.Replace(header)})
}

func (d *cardDraft) add(w *widget) {
	if len(d.sections) == 0 {
		d.section("")
	}
	last := d.sections[len(d.sections)-1]
	last.Widgets = append(last.Widgets, w)
}

// paragraph is neutral text.
func (d *cardDraft) paragraph(text string) {
	if text != "" {
		d.add(&widget{TextParagraph: &chat.GoogleAppsCardV1TextParagraph{Text: cardEscapes.Replace(text), TextSyntax: "HTML"}})
	}
}

// code is a code block.
func (d *cardDraft) code(text string) {
	if text != "" {
		d.add(&widget{TextParagraph: &chat.GoogleAppsCardV1TextParagraph{Text: text, TextSyntax: "MARKDOWN"}})
	}
}

func (d *cardDraft) field(prompt int, label string) {
	d.add(&widget{TextInput: &chat.GoogleAppsCardV1TextInput{Name: "w" + number1(prompt), Label: label, Type: "MULTIPLE_LINE"}})
}

func (d *cardDraft) buttons(buttons ...*button) {
	if len(buttons) > 0 {
		d.add(&widget{ButtonList: &chat.GoogleAppsCardV1ButtonList{Buttons: buttons}})
	}
}

func (d *cardDraft) button(text, choice string) *button {
	return &button{Text: text, OnClick: &chat.GoogleAppsCardV1OnClick{Action: &chat.GoogleAppsCardV1Action{
		Function:   TapFunction,
		Parameters: []*chat.GoogleAppsCardV1ActionParameter{{Key: tapQuestion, Value: d.id}, {Key: tapChoice, Value: choice}},
	}}}
}

// A card's text is a subset of HTML. The spaces at the start of a line would be lost in it.
var cardEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\n", "<br>", "  ", "\u00a0 ")
