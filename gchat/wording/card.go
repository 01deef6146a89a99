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
	Name          string // "q1" for the first prompt
	Label         string
	AllowsSeveral bool // more than one may be chosen
	Items         []Item
}

// An Item is an option of a list.
type Item struct {
	Text     string
	Value    string // the option's number: "1" for the first
	IsChosen bool   // an earlier reply chose it
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
	// MaxWidgets is how many widgets a card may have: Chat leaves out the section that
	// goes beyond, and all behind it. A selection may have as many items.
	// https://developers.google.com/workspace/chat/api/reference/rest/v1/cards
	MaxWidgets = 100
	// maxCardText is how much of a plan or of last words stands in a card, in bytes. A
	// longer text is a message above the card, where it has bold words and code blocks.
	maxCardText = 1500
	// maxClosingNote is how much of a closing note stands in a card, in bytes: with the
	// card, of whatever characters, it is no longer than MaxText.
	maxClosingNote = 2500
)

// CardTexts are the messages with which a question is put to people who see cards. The
// last one stands for the card where no card is shown. With what size says of the card,
// in bytes, it is no longer than MaxText.
func CardTexts(
	q *state.Question,
	id string,
	cardSize func(*Card) int,
) (texts []string, card *Card) {
	return wordingOf(q.Kind).card(q, id, cardSize)
}

// questionCard has a button for each option. A question that is too large for a card is
// answered in words.
func questionCard(q *state.Question, id string, cardSize func(*Card) int) ([]string, *Card) {
	const minPreview = 100 // bytes; below that, buttons are given up
	for previewLimit := maxPreviewBytes; previewLimit > minPreview; previewLimit /= 4 {
		texts, card := questionTexts(q, previewLimit), newCard(q, id, "")
		if card.addQuestions(q, previewLimit) && len(texts) == 1 &&
			cardSize(card)+len(texts[0]) <= MaxText {
			return texts, card
		}
	}
	header, _, _ := messageParts(q, 0, 0)
	return tooLargeCard(q, header)
}

// tooLargeCard is a card without buttons, below a question that is too large for them.
func tooLargeCard(q *state.Question, header string) ([]string, *Card) {
	const instructions = "This question is too long for buttons. Please read it above, and reply in words."
	card := newCard(q, "", "")
	card.addText(instructions)
	return append(QuestionTexts(q), header+"\n\n"+instructions), card
}

// permissionCard shows ever shorter lines, but always the end of what Claude wants to do.
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
		card.addButtons(decisionButtons(q)...)
	}
	return append(texts, strings.TrimSpace(header+"\n\n"+text)+instructions), card
}

// ClosedCard shows how a question ended, or that only the terminal answers it, without a
// button, and the text that stands for it, which is its closing note. The card also says
// who answered, and when. An answer counts as the end although Claude Code has not
// confirmed it yet.
func ClosedCard(q *state.Question, now time.Time) (text string, card *Card) {
	ended := *q
	ended.HasSentNote = false
	if ended.Status == state.Answered {
		ended.Status = state.Resolved
	}
	text = cmp.Or(closingText(&ended), handedOverText(q))
	isAnswered := ended.Status == state.Resolved && q.ResolvedBy != "terminal"
	if text == "" {
		text = "[Cancelled] " + safeField(q.SessionName) + "\n\nIt goes on in the terminal."
	} else if answerText, _ := q.Decision(); isAnswered && q.Kind.Traits().IsPrompt && answerText != "" {
		text += "\n" + SafeBlock(firstBytes(answerText, maxCardText))
	}
	if q.ResolvedAt != nil {
		now = q.ResolvedAt.In(now.Location())
	}
	footer := "\n\n" + now.Format("2006-01-02 15:04")
	if answeredBy := safeClause(q.AnsweredByName); isAnswered && answeredBy != "" &&
		q.AnsweredBy != state.LocalSender {
		footer = "\n\n" + answeredBy + ", " + strings.TrimSpace(footer)
	}
	text = Cut(text, maxClosingNote)
	status, details, _ := strings.Cut(strings.TrimPrefix(text+footer, "["), "] ")
	status = strings.ToLower(status)
	card = newCard(q, "", " ("+status+")")
	card.State = cmp.Or(closedStates[status], status)
	if label, _ := q.Decision(); status == CardAnswered && q.Kind.Traits().UsesOwnSpace &&
		state.IsRefusal(label) {
		card.State = CardDenied
	} else if status == CardTimeout && canStillReply(q) {
		card.State = CardLate
	}
	card.addText(strings.TrimSpace(strings.TrimPrefix(details, safeField(q.SessionName)+"\n")))
	return text, card
}

// closedStates are how a card stands below a note that begins with another word.
var closedStates = map[string]string{"sent": CardAnswered, "in the terminal": CardTerminal}

// canStillReply says whether a reply in words reaches Claude although the time is over.
func canStillReply(q *state.Question) bool {
	isChosen := q.ResolvedBy == state.EndedAway || q.ResolvedBy == "policy"
	return !isChosen && q.TimeoutPolicy != state.TimeoutAskTerminal
}

// NoticeCard is a card of our own words, with a button where it has an id.
func NoticeCard(text, id string) *Card {
	card := newCard(&state.Question{SessionName: "gchat-hooks"}, id, "")
	card.Kind = "notice"
	card.addText(text)
	if id != "" {
		card.addButtons(Button{"Tap this", ChoiceSend})
	}
	return card
}

// newCard has a header that says what it is, how it ended, and whose it is.
func newCard(q *state.Question, id, titleSuffix string) *Card {
	subtitle := Truncate(sessionName(q), 200)
	if dir := cmp.Or(q.CWD, q.ProjectDir); dir != "" {
		subtitle += " · " + SafeLine(Truncate(state.CleanForReview(state.ForReview, dir), 200))
	}
	return &Card{
		ID: id, Kind: cmp.Or(string(q.Kind), "question"), State: CardOpen,
		Title: q.Kind.Traits().Title + titleSuffix, Subtitle: subtitle + machineText(q, machineInCard),
	}
}

// addQuestions writes the prompts of a question, with so many bytes of a preview. It is
// false where there are no prompts, or they may have more widgets than a card.
func (c *Card) addQuestions(q *state.Question, previewLimit int) bool {
	hasSeveral, widgets, optionLimit := len(q.SubQuestions) > 1, 1, previewLimit/max(
		len(q.SubQuestions),
		1,
	)
	for i, subQuestion := range q.SubQuestions {
		widgets += 2 + 4*len(subQuestion.Options) // with a preview, and what it is of
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

// declineButtons turn a question down. Beside an option of that name there is none.
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
			list.Items = append(
				list.Items,
				Item{optionText(o), ordinal(i), slices.Contains(earlier.Labels, o.Label)},
			)
		}
	}
	if len(list.Items) > 0 {
		c.addWidget(Widget{Select: list})
	}
}

func (c *Card) addPermission(q *state.Question, lineLimit int) {
	const maxDescription = 500 // bytes of Claude's own words
	c.addText(Truncate(toolCallText(q), maxDescription))
	c.addText(Truncate(agentText(q), maxDescription))
	shown, omitted := excerpt(q.ShownText, lineLimit)
	c.addCode(shown)
	buttons := decisionButtons(q)
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

func decisionButtons(q *state.Question) (buttons []Button) {
	for _, candidate := range decisions {
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
	c.addWidget(Widget{Field: &Field{"w" + ordinal(index), label, value}})
}

func (c *Card) addButtons(buttons ...Button) {
	if len(buttons) > 0 {
		c.addWidget(Widget{Buttons: buttons})
	}
}
