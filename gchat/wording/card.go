package wording

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gchat-hooks/state"
)

// Card is a question with buttons. Each chat draws it in its own way.
type Card struct {
	// identifies the question; the buttons carry it; see state.CardID
	ID string
	// the question's kind, such as "question" or "permission"; "notice" for a NoticeCard
	Kind            string
	State           string // for programs: one of the constants that begin with Card
	Title, Subtitle string
	// for programs: the options that were chosen, on the card of a question that ended.
	// "1-2" is the second option of the first subquestion.
	Chosen   []string
	Sections []Section
}

// The states of a card.
const (
	CardOpen      = "open"      // the question can be answered
	CardAnswered  = "answered"  // a person answered it, in Chat or in the terminal
	CardDenied    = "denied"    // a person denied the permission, or sent the plan back
	CardCancelled = "cancelled" // the question ended without an answer
	CardTimeout   = "timeout"   // nobody answered in time
	CardLate      = "late"      // as CardTimeout, but a written reply still reaches Claude
	CardTerminal  = "terminal"  // only the terminal can answer the question
)

// Section is a part of a card. Its header may be "".
type Section struct {
	Header  string
	Widgets []Widget
}

// Widget is one element of a section. Exactly one of its members is set.
type Widget struct {
	Text    string // plain text, shown with its line breaks
	Code    string // Markdown: a code block
	Select  *Select
	Field   *Field
	Buttons []Button // in one row
}

// Select is a list of items to choose from.
type Select struct {
	Name          string // "q1" for the first subquestion
	Label         string
	AllowsSeveral bool // more than one item may be chosen
	Items         []Item
	Accepts       *Accepts // of a field of a form; else nil
}

// Item is an option in a Select.
type Item struct {
	Text     string
	Value    string // the option's number: "1" for the first
	IsChosen bool   // an earlier reply chose it
}

// Field is an input in which a person writes text of their own.
type Field struct {
	Name    string // "w1" for the first subquestion
	Label   string
	Value   string   // the text of an earlier reply
	Accepts *Accepts // of a field of a form; else nil
}

// Accepts is what a field of a form accepts, for a program that draws an input for it.
// The program may check a value, but what ReadTap says decides.
type Accepts struct {
	Type   string // string, number, integer, boolean or array
	Format string // of a string: email, uri, date, date-time; "" for any text
	// limits of a number, of a text's length, or of how many items are chosen
	Min, Max   *float64
	IsRequired bool
	HasDefault bool   // a field that is left empty has a value
	Title      string // the field's name for a person
	Help       string // what the server says about the field
	InWords    string // all this for a person: "a whole number, at least 1; required"
}

// Button is tapped once. The tap also carries the values of the card's lists and fields.
type Button struct {
	Text   string
	Choice string // Tap.Choice of a tap on it: an option's number, or a word
}

const (
	// MaxWidgets is how many widgets a card may have. Chat leaves out the section that
	// exceeds it, and all sections after that. A Select may have as many items.
	// https://developers.google.com/workspace/chat/api/reference/rest/v1/cards
	MaxWidgets = 100
	// maxCardText is how many bytes of a plan, or of Claude's last text, a card shows. A
	// longer text is a message above the card, where Chat shows bold text and code
	// blocks.
	maxCardText = 1500
	// maxClosingNote is how many bytes of a closing note a card shows. Note and card
	// together then fit in MaxText, whatever characters they contain.
	maxClosingNote = 2500
)

// CardTexts returns the messages that ask a question in a space with cards, and the card
// of the last message. Where a chat cannot show the card, it shows that message's text
// in its place. cardSize returns a card's size in bytes. The last text and the card
// together fit in MaxText.
func CardTexts(
	q *state.Question,
	id string,
	cardSize func(*Card) int,
) (texts []string, card *Card) {
	return wordingOf(q.Kind).card(q, id, cardSize)
}

// questionCard returns a card with a button for each option. If the question is too large
// for a card, the person has to reply in writing.
func questionCard(q *state.Question, id string, cardSize func(*Card) int) ([]string, *Card) {
	const minPreview = 100 // bytes; with less of each preview, the card has no buttons
	for previewLimit := maxPreviewBytes; previewLimit > minPreview; previewLimit /= 4 {
		texts, card := questionTexts(q, previewLimit), newCard(q, id, "")
		hasButtons := card.addQuestions(q, previewLimit) && len(texts) == 1
		if hasButtons && cardSize(card)+len(texts[0]) <= MaxText {
			return texts, card
		}
	}
	header, _, _ := messageParts(q, 0, 0)
	return tooLargeCard(q, header)
}

// tooLargeCard returns the messages of a question that is too large for buttons, and a
// card that says so.
func tooLargeCard(q *state.Question, header string) ([]string, *Card) {
	const instructions = "This question is too long for buttons. " +
		"Please read it above, and reply in words."
	card := newCard(q, "", "")
	card.addText(instructions)
	return append(QuestionTexts(q), header+"\n\n"+instructions), card
}

// permissionCard cuts the lines of what Claude wants to do ever shorter, until the card
// fits. The card always shows the end of it.
func permissionCard(q *state.Question, id string, cardSize func(*Card) int) ([]string, *Card) {
	const minLineLimit = 16
	for lineLimit := maxLineBytes; ; lineLimit /= 2 {
		card := newCard(q, id, "")
		card.addPermission(q, lineLimit)
		header, text, instructions := messageParts(q, lineLimit, 0)
		text = header + "\n\n" + text + instructions
		if cardSize(card)+len(text) <= MaxText || lineLimit <= minLineLimit {
			return []string{text}, card
		}
	}
}

// longTextCard returns the card of a plan or of Claude's last text.
func longTextCard(q *state.Question, id string, _ func(*Card) int) (texts []string, card *Card) {
	header, text, instructions := messageParts(q, 0, 0)
	if len(text) > maxCardText || strings.Contains(text, fence) {
		texts = splitMessage(header, "\n\n", text, MaxText)
		text = "(The full text is above.)"
	}
	card = newCard(q, id, "")
	card.addText(text)
	if q.Kind.Traits().IsPrompt {
		if q.TmuxPane == "" {
			card.addText(state.OutsideTmuxWarning)
		}
		card.addField(0, "The next instruction", "")
		card.addButtons(Button{"Send", ChoiceSend})
	} else {
		card.addField(0, "What to change, if you send it back", "")
		card.addButtons(decisionButtons(q, decisions)...)
	}
	return append(texts, strings.TrimSpace(header+"\n\n"+text)+instructions), card
}

// ClosedCard returns a card without buttons for a question that ended, or that only the
// terminal can answer. The text is its closing note, for chats that show no card. The
// card also shows who answered, and when. An answered question counts as ended, even
// before Claude Code has confirmed the answer.
func ClosedCard(q *state.Question, now time.Time) (text string, card *Card) {
	ended := *q
	ended.HasSentNote = false
	if ended.Status == state.Answered {
		ended.Status = state.Resolved
	}
	text = cmp.Or(closingText(&ended), handedOverText(q))
	answer, _ := q.Decision()
	isAnswered := ended.Status == state.Resolved && q.ResolvedBy != "terminal"
	if text == "" {
		text = "[Cancelled] " + safeField(q.SessionName) + "\n\nIt goes on in the terminal."
	} else if isAnswered && q.Kind.Traits().IsPrompt && answer != "" {
		text += "\n" + SafeBlock(firstBytes(answer, maxCardText))
	}
	if q.ResolvedAt != nil {
		now = q.ResolvedAt.In(now.Location())
	}
	footer := "\n\n" + now.Format("2006-01-02 15:04")
	answeredBy := safeClause(q.AnsweredByName)
	if isAnswered && answeredBy != "" && q.AnsweredBy != state.LocalSender {
		footer = "\n\n" + answeredBy + ", " + strings.TrimSpace(footer)
	}
	text = Cut(text, maxClosingNote)
	status, details, _ := strings.Cut(strings.TrimPrefix(text+footer, "["), "] ")
	status = strings.ToLower(status)
	card = newCard(q, "", " ("+status+")")
	card.State = cmp.Or(closedStates[status], status)
	if status == CardAnswered && q.Kind.Traits().UsesOwnSpace && state.IsRefusal(answer) {
		card.State = CardDenied
	} else if status == CardTimeout && canStillReply(q) {
		card.State = CardLate
	}
	if q.Kind == state.KindQuestion {
		card.Chosen = chosenOptions(q)
	}
	card.addText(strings.TrimSpace(strings.TrimPrefix(details, safeField(q.SessionName)+"\n")))
	return text, card
}

// chosenOptions returns the options that Claude was told, for Card.Chosen.
func chosenOptions(q *state.Question) (chosen []string) {
	for i, subQuestion := range q.SubQuestions {
		answer := ParseAnswerValue(subQuestion, q.Answers[subQuestion.Question])
		for n, o := range subQuestion.Options {
			if len(chosen) < MaxWidgets && slices.Contains(answer.Labels, o.Label) {
				chosen = append(chosen, ordinal(i)+"-"+ordinal(n))
				answer.Labels = slices.DeleteFunc(answer.Labels, func(label string) bool {
					return label == o.Label
				})
			}
		}
	}
	return chosen
}

// closedStates holds the card's state by the tag of the closing note, where they differ.
var closedStates = map[string]string{"sent": CardAnswered, "in the terminal": CardTerminal}

// canStillReply reports whether a written reply to a question that timed out still
// reaches Claude.
func canStillReply(q *state.Question) bool {
	isChosen := q.ResolvedBy == state.EndedAway || q.ResolvedBy == "policy"
	return !isChosen && q.TimeoutPolicy != state.TimeoutAskTerminal
}

// NoticeCard returns a card that asks no question. It has a button to test taps with if
// id is not "".
func NoticeCard(text, id string) *Card {
	card := newCard(&state.Question{SessionName: "gchat-hooks"}, id, "")
	card.Kind = "notice"
	card.addText(text)
	if id != "" {
		card.addButtons(Button{"Tap this", ChoiceSend})
	}
	return card
}

// newCard returns a card that has a header only: the question's kind and titleSuffix,
// and below them the session, the folder and the machine.
func newCard(q *state.Question, id, titleSuffix string) *Card {
	subtitle := Truncate(sessionName(q), 200)
	if dir := cmp.Or(q.CWD, q.ProjectDir); dir != "" {
		subtitle += " · " + SafeLine(Truncate(state.CleanForReview(state.ForReview, dir), 200))
	}
	return &Card{
		ID:       id,
		Kind:     cmp.Or(string(q.Kind), "question"),
		State:    CardOpen,
		Title:    q.Kind.Traits().Title + titleSuffix,
		Subtitle: subtitle + machineText(q, machineInCard),
	}
}

// addQuestions adds the subquestions of a question. It shows previewLimit bytes of an
// option's preview, and less if there are several subquestions. It returns false if there
// are none, or if they may need more widgets than a card can have.
func (c *Card) addQuestions(q *state.Question, previewLimit int) bool {
	hasSeveral, widgets := len(q.SubQuestions) > 1, 1
	optionLimit := previewLimit / max(len(q.SubQuestions), 1)
	for i, subQuestion := range q.SubQuestions {
		widgets += 2 + 4*len(subQuestion.Options) // an upper bound, with previews
		if widgets > MaxWidgets {
			return false
		}
		header := SafeLine(subQuestion.Header)
		if hasSeveral {
			header = strings.TrimSpace(fmt.Sprintf("Q%d. %s", i+1, header))
		}
		c.addSection(header)
		c.addText(SafeBlock(questionWording(q, i)))
		if hasSeveral || subQuestion.MultiSelect {
			c.addSelection(i, subQuestion, q.PartialAnswers[i], optionLimit)
		} else {
			c.addOptionButtons(subQuestion, optionLimit)
		}
		fieldLabel := "In your own words"
		if len(subQuestion.Options) > 0 {
			fieldLabel += ", or a remark on your choice"
		}
		earlier := q.PartialAnswers[i]
		c.addField(i, fieldLabel, cmp.Or(earlier.Text, earlier.Notes))
	}
	if hasSeveral {
		c.addSection("")
	}
	c.addButtons(append([]Button{{"Send", ChoiceSend}}, declineButtons(q)...)...)
	return len(q.SubQuestions) > 0
}

// declineButtons returns the buttons that turn a question down. A button is left out if
// an option has the same name.
func declineButtons(q *state.Question) (buttons []Button) {
	choices := [][2]string{{"Chat about this", state.DeclinedChat}, {"Skip", state.DeclinedSkip}}
	for _, choice := range choices {
		if decline, _ := ReadDecline(choice[0], q); decline == choice[1] {
			buttons = append(buttons, Button{choice[0], choice[1]})
		}
	}
	return buttons
}

func (c *Card) addOptionButtons(subQuestion state.SubQuestion, previewLimit int) {
	for i, o := range subQuestion.Options {
		if label := SafeLine(o.Label); label != "" {
			c.addButtons(Button{label, ordinal(i)})
			c.addText(SafeLine(o.Description))
			c.addCode(previewText(o, previewLimit))
		}
	}
}

func (c *Card) addSelection(
	index int,
	subQuestion state.SubQuestion,
	earlier state.Answer,
	previewLimit int,
) {
	list := &Select{
		Name:          "q" + ordinal(index),
		Label:         "Choose one",
		AllowsSeveral: subQuestion.MultiSelect,
	}
	if subQuestion.MultiSelect {
		list.Label = "Choose one or more"
	}
	for i, o := range subQuestion.Options {
		if preview := previewText(o, previewLimit); preview != "" {
			c.addText(SafeLine(o.Label))
			c.addCode(preview)
		}
		if SafeLine(o.Label) != "" {
			list.Items = append(list.Items, Item{
				Text:     optionText(o),
				Value:    ordinal(i),
				IsChosen: slices.Contains(earlier.Labels, o.Label),
			})
		}
	}
	if len(list.Items) > 0 {
		c.addWidget(Widget{Select: list})
	}
}

func (c *Card) addPermission(q *state.Question, lineLimit int) {
	const maxDescription = 500 // bytes of Claude's description of the call or the agent
	c.addText(Truncate(toolCallText(q), maxDescription))
	c.addText(Truncate(agentText(q), maxDescription))
	shown, omitted := excerpt(q.ShownText, lineLimit)
	c.addCode(shown)
	buttons := decisionButtons(q, decisions)
	if omitted != "" {
		c.addText("(" + omitted + ")")
		buttons = append(buttons, Button{"Show all", choiceShowAll})
	}
	if q.HandedOverAt != nil {
		c.addText(inTerminalText(q))
		return
	}
	if q.IsTerminalOnly {
		c.addText(terminalOnlyText)
	} else {
		c.addText(strings.TrimSpace(alwaysAllowsLine(q, state.LabelAlways, "")))
	}
	c.addField(0, "A reason, if you deny it", "")
	c.addButtons(buttons...)
}

// decisionButtons returns the buttons of those candidates that are offered.
func decisionButtons(q *state.Question, candidates []decision) (buttons []Button) {
	for _, candidate := range candidates {
		if isOffered(q, candidate.label) {
			buttons = append(buttons, Button{candidate.buttonText, candidate.choice})
		}
	}
	return buttons
}

func (c *Card) addSection(header string) {
	c.Sections = append(c.Sections, Section{Header: header})
}

func (c *Card) addWidget(w Widget) {
	if len(c.Sections) == 0 {
		c.addSection("")
	}
	section := &c.Sections[len(c.Sections)-1]
	section.Widgets = append(section.Widgets, w)
}

func (c *Card) addText(text string) {
	if text != "" {
		c.addWidget(Widget{Text: text})
	}
}

func (c *Card) addCode(text string) {
	if text != "" {
		c.addWidget(Widget{Code: text})
	}
}

func (c *Card) addField(index int, label, value string) {
	c.addWidget(Widget{Field: &Field{Name: "w" + ordinal(index), Label: label, Value: value}})
}

func (c *Card) addButtons(buttons ...Button) {
	if len(buttons) > 0 {
		c.addWidget(Widget{Buttons: buttons})
	}
}
