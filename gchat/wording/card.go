package wording

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gchat-hooks/state"
)

// A Card is what a question looks like where a person answers it with buttons. A chat
// draws it in its own way.
type Card struct {
	ID string // of the question: its buttons carry it; see state.CardID
	// of the question: "question", "permission"; "notice" for words of our own
	Kind            string
	State           string // how it stands, for programs; see CardOpen
	Title, Subtitle string
	Sections        []Section
}

// How a card stands.
const (
	CardOpen      = "open"      // it can be answered
	CardAnswered  = "answered"  // by a person, in Chat or in the terminal
	CardDenied    = "denied"    // a permission or a plan
	CardCancelled = "cancelled" // it ended without an answer
	CardTimeout   = "timeout"   // nobody answered in time
	CardLate      = "late"      // nobody did, and a reply in words still reaches Claude
	CardTerminal  = "terminal"  // only the terminal answers it
)

// A Section is a part of a card, below a header that may be "".
type Section struct {
	Header  string
	Widgets []Widget
}

// A Widget is one thing in a section: just one of its members is set.
type Widget struct {
	Text    string // as it is, with its line breaks
	Code    string // Markdown that is a block of code
	Select  *Select
	Field   *Field
	Buttons []Button // in one row
}

// A Select is a list to choose from.
type Select struct {
	Name    string // "q1" for the first prompt
	Label   string
	Several bool // more than one may be chosen
	Items   []Item
}

// An Item is an option of a list.
type Item struct {
	Text   string
	Value  string // the option's number: "1" for the first
	Chosen bool   // an earlier reply chose it
}

// A Field takes a person's own words.
type Field struct {
	Name  string // "w1" for the first prompt
	Label string
	Value string // what an earlier reply said
}

// A Button is tapped once, with what the card's lists and fields hold.
type Button struct {
	Text   string
	Choice string // what a Tap tells: the number of an option, or a word
}

const (
	// MostWidgets is how many widgets a card may have: Chat leaves out the section that
	// goes beyond, and all behind it. A selection may have as many items.
	// https://developers.google.com/workspace/chat/api/reference/rest/v1/cards
	MostWidgets = 100
	// shortWords is how much of a plan or of last words stands in a card, in bytes. A
	// longer text is a message above the card, where it has bold words and code blocks.
	shortWords = 1500
	// mostClosed is how much of a closing note stands in a card, in bytes: with the card,
	// of whatever characters, it is no longer than MaxText.
	mostClosed = 2500
)

// CardTexts are the messages with which a question is put to people who see cards. The
// last one stands for the card where no card is shown. With what size says of the card,
// in bytes, it is no longer than MaxText.
func CardTexts(q *state.Question, id string, size func(*Card) int) (texts []string, card *Card) {
	return mannerOf(q.Kind).card(q, id, size)
}

// questionCard has a button for each option. A question that is too large for a card is
// answered in words.
func questionCard(q *state.Question, id string, size func(*Card) int) ([]string, *Card) {
	const leastPreview = 100 // bytes; below that, buttons are given up
	for preview := mostPreview; preview > leastPreview; preview /= 4 {
		texts, card := questionTexts(q, preview), newCard(q, id, "")
		if card.question(q, preview) && len(texts) == 1 && size(card)+len(texts[0]) <= MaxText {
			return texts, card
		}
	}
	header, _, _ := pieces(q, 0, 0)
	return wordsCard(q, header)
}

// wordsCard is a card without buttons, below a question that is too large for them.
func wordsCard(q *state.Question, header string) ([]string, *Card) {
	const how = "This question is too long for buttons. Please read it above, and reply in words."
	card := newCard(q, "", "")
	card.text(how)
	return append(QuestionTexts(q), header+"\n\n"+how), card
}

// permissionCard shows ever shorter lines, but always the end of what Claude wants to do.
func permissionCard(q *state.Question, id string, size func(*Card) int) ([]string, *Card) {
	const shortestLine = 16
	for line := shownLine; ; line /= 2 {
		card := newCard(q, id, "")
		card.permission(q, line)
		header, text, how := pieces(q, line, 0)
		text = header + "\n\n" + text + how
		if size(card)+len(text) <= MaxText || line <= shortestLine {
			return []string{text}, card
		}
	}
}

func longCard(q *state.Question, id string, _ func(*Card) int) (texts []string, card *Card) {
	header, text, how := pieces(q, 0, 0)
	if len(text) > shortWords || strings.Contains(text, fence) {
		texts = split(header, "\n\n", text, MaxText)
		text = "(The full text is above.)"
	}
	card = newCard(q, id, "")
	card.text(text)
	if q.Kind.Traits().IsPrompt {
		if q.TmuxPane == "" {
			card.text(state.OutsideTmuxWarning)
		}
		card.field(0, "The next instruction", "")
		card.buttons(Button{"Send", ChoiceSend})
	} else {
		card.field(0, "What to change, if you send it back", "")
		card.buttons(decisionButtons(q)...)
	}
	return append(texts, strings.TrimSpace(header+"\n\n"+text)+how), card
}

// ClosedCard shows how a question ended, or that only the terminal answers it, without a
// button, and the text that stands for it, which is its closing note. The card also says
// who answered, and when. An answer counts as the end although Claude Code has not
// confirmed it yet.
func ClosedCard(q *state.Question, now time.Time) (text string, card *Card) {
	over := *q
	over.HasSentNote = false
	if over.Status == state.Answered {
		over.Status = state.Resolved
	}
	text = cmp.Or(closingText(&over), handedOverText(q))
	answered := over.Status == state.Resolved && q.ResolvedBy != "terminal"
	if text == "" {
		text = "[Cancelled] " + field(q.SessionName) + "\n\nIt goes on in the terminal."
	} else if words, _ := q.Decision(); answered && q.Kind.Traits().IsPrompt && words != "" {
		text += "\n" + Block(head(words, shortWords))
	}
	if q.ResolvedAt != nil {
		now = q.ResolvedAt.In(now.Location())
	}
	when := "\n\n" + now.Format("2006-01-02 15:04")
	if by := clause(q.AnsweredByName); answered && by != "" && q.AnsweredBy != state.LocalSender {
		when = "\n\n" + by + ", " + strings.TrimSpace(when)
	}
	text = Cut(text, mostClosed)
	how, what, _ := strings.Cut(strings.TrimPrefix(text+when, "["), "] ")
	how = strings.ToLower(how)
	card = newCard(q, "", " ("+how+")")
	card.State = cmp.Or(closedStates[how], how)
	if label, _ := q.Decision(); how == CardAnswered && q.Kind.Traits().UsesOwnSpace &&
		state.IsRefusal(label) {
		card.State = CardDenied
	} else if how == CardTimeout && stillReached(q) {
		card.State = CardLate
	}
	card.text(strings.TrimSpace(strings.TrimPrefix(what, field(q.SessionName)+"\n")))
	return text, card
}

// closedStates are how a card stands below a note that begins with another word.
var closedStates = map[string]string{"sent": CardAnswered, "in the terminal": CardTerminal}

// stillReached says whether a reply in words reaches Claude although the time is over.
func stillReached(q *state.Question) bool {
	chosen := q.ResolvedBy == state.EndedAway || q.ResolvedBy == "policy"
	return !chosen && q.TimeoutPolicy != state.TimeoutAskTerminal
}

// NoticeCard is a card of our own words, with a button where it has an id.
func NoticeCard(words, id string) *Card {
	card := newCard(&state.Question{SessionName: "gchat-hooks"}, id, "")
	card.Kind = "notice"
	card.text(words)
	if id != "" {
		card.buttons(Button{"Tap this", ChoiceSend})
	}
	return card
}

// newCard has a header that says what it is, how it ended, and whose it is.
func newCard(q *state.Question, id, how string) *Card {
	subtitle := Brief(sessionOf(q), 200)
	if dir := cmp.Or(q.CWD, q.ProjectDir); dir != "" {
		subtitle += " · " + Line(Brief(state.CleanForReview(state.ForReview, dir), 200))
	}
	return &Card{
		ID: id, Kind: cmp.Or(string(q.Kind), "question"), State: CardOpen,
		Title: q.Kind.Traits().Title + how, Subtitle: subtitle + machineOf(q, inCard),
	}
}

// question writes the prompts of a question, with so many bytes of a preview. It is false
// where there are no prompts, or they may have more widgets than a card.
func (c *Card) question(q *state.Question, preview int) bool {
	several, widgets, most := len(q.SubQuestions) > 1, 1, preview/max(len(q.SubQuestions), 1)
	for i, p := range q.SubQuestions {
		widgets += 2 + 4*len(p.Options) // with a preview, and what it is of
		if widgets > MostWidgets {
			return false
		}
		header := Line(p.Header)
		if several {
			header = strings.TrimSpace(fmt.Sprintf("Q%d. %s", i+1, header))
		}
		c.section(header)
		c.text(Block(worded(q, i)))
		if several || p.MultiSelect {
			c.selection(i, p, q.PartialAnswers[i], most)
		} else {
			c.optionButtons(p, most)
		}
		own := "In your own words"
		if len(p.Options) > 0 {
			own += ", or a remark on your choice"
		}
		given := q.PartialAnswers[i]
		c.field(i, own, cmp.Or(given.Text, given.Notes))
	}
	if several {
		c.section("")
	}
	c.buttons(append([]Button{{"Send", ChoiceSend}}, declineButtons(q)...)...)
	return len(q.SubQuestions) > 0
}

// declineButtons turn a question down. Beside an option of that name there is none.
func declineButtons(q *state.Question) (buttons []Button) {
	choices := [][2]string{{"Chat about this", state.DeclinedChat}, {"Skip", state.DeclinedSkip}}
	for _, one := range choices {
		if how, _ := ReadDecline(one[0], q); how == one[1] {
			buttons = append(buttons, Button{one[0], one[1]})
		}
	}
	return buttons
}

func (c *Card) optionButtons(p state.SubQuestion, most int) {
	for i, o := range p.Options {
		if label := Line(o.Label); label != "" {
			c.buttons(Button{label, number1(i)})
			c.text(Line(o.Description))
			c.code(previewText(o, most))
		}
	}
}

func (c *Card) selection(prompt int, p state.SubQuestion, given state.Answer, most int) {
	list := &Select{Name: "q" + number1(prompt), Label: "Choose one", Several: p.MultiSelect}
	if p.MultiSelect {
		list.Label = "Choose one or more"
	}
	for i, o := range p.Options {
		if preview := previewText(o, most); preview != "" {
			c.text(Line(o.Label))
			c.code(preview)
		}
		if Line(o.Label) != "" {
			list.Items = append(
				list.Items,
				Item{optionText(o), number1(i), slices.Contains(given.Labels, o.Label)},
			)
		}
	}
	if len(list.Items) > 0 {
		c.add(Widget{Select: list})
	}
}

func (c *Card) permission(q *state.Question, line int) {
	const mostSaid = 500 // bytes of Claude's own words
	c.text(Brief(whatFor(q), mostSaid))
	c.text(Brief(fromAgent(q), mostSaid))
	shown, hidden := excerpt(q.ShownText, line)
	c.code(shown)
	buttons := decisionButtons(q)
	if hidden != "" {
		c.text("(" + hidden + ")")
		buttons = append(buttons, Button{"Show all", choiceMore})
	}
	if q.HandedOverAt != nil {
		c.text(answerThere(q))
		return
	}
	if q.IsTerminalOnly {
		c.text(terminalOnly)
	} else {
		c.text(strings.TrimSpace(alwaysAllows(q, state.LabelAlways, "")))
	}
	c.field(0, "A reason, if you deny it", "")
	c.buttons(buttons...)
}

func decisionButtons(q *state.Question) (buttons []Button) {
	for _, one := range decisions {
		if offers(q, one.label) {
			buttons = append(buttons, Button{one.called, one.choice})
		}
	}
	return buttons
}

func (c *Card) section(header string) { c.Sections = append(c.Sections, Section{Header: header}) }

func (c *Card) add(w Widget) {
	if len(c.Sections) == 0 {
		c.section("")
	}
	last := &c.Sections[len(c.Sections)-1]
	last.Widgets = append(last.Widgets, w)
}

func (c *Card) text(text string) {
	if text != "" {
		c.add(Widget{Text: text})
	}
}

func (c *Card) code(text string) {
	if text != "" {
		c.add(Widget{Code: text})
	}
}

func (c *Card) field(prompt int, label, value string) {
	c.add(Widget{Field: &Field{"w" + number1(prompt), label, value}})
}

func (c *Card) buttons(buttons ...Button) {
	if len(buttons) > 0 {
		c.add(Widget{Buttons: buttons})
	}
}
