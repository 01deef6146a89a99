package gchat

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"gchat-hooks/state"
)

// wordedText is the message of a question that a model worded, or ErrWording. What a model says is as foreign as what it
// was asked: whoever writes the question may have written to the model. So it is neutralised, and taken only if the
// options are what they were, numbers and labels, and nothing in it passes for something of ours.
func wordedText(q *state.Question) (string, error) {
	if len(q.Formatted) > MaxText {
		return "", fmt.Errorf("%w: it is %d bytes long", ErrWording, len(q.Formatted))
	}
	body, err := checkWording(q.Questions, q.Formatted)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrWording, err)
	}
	d := &draft{field: MaxText, choices: math.MaxInt, prompts: math.MaxInt}
	d.questionHead(q)
	d.add("\n", body, "\n\n")
	d.questionTail(q)
	if d.cut || d.full() {
		return "", fmt.Errorf("%w: the message is %d bytes long", ErrWording, d.Len())
	}
	return d.String(), nil
}

// shownLine is a line of foreign text as it is shown in a wording: there is no room in it for spaces that push words to
// the next line, nor for the fence of a code block.
func shownLine(s string) string { return noFence(Line(s)) }

// checkWording gives a model's wording as it is shown, if it keeps the questions.
func checkWording(prompts []state.Prompt, wording string) (shown string, err error) {
	if err := askable(prompts); err != nil {
		return "", err
	}
	var lines []string
	for l := range strings.SplitSeq(visible(wording), "\n") {
		l = shownLine(l)
		if l == "" && (len(lines) == 0 || lines[len(lines)-1] == "") {
			continue
		}
		if disarmAll(l) != l || beginsReply(l) {
			return "", fmt.Errorf("a line looks like one of ours")
		}
		lines = append(lines, l)
	}
	lines = lines[:len(lines)-blankTail(lines)]
	shown = strings.Join(lines, "\n")
	if added := addedPointer(prompts, shown); added != "" {
		return "", fmt.Errorf("it points to %q, which the question does not", shorten(added, 100))
	}
	if len(prompts) == 1 {
		return shown, checkSection(prompts[0], lines)
	}
	for i, p := range prompts {
		if len(lines) == 0 || !isHeading(lines[0], i+1, p.Header) {
			return "", fmt.Errorf("question %d does not begin with its heading", i+1)
		}
		lines = lines[1:]
		end := len(lines)
		for n := 0; n < end; n++ {
			if i+1 < len(prompts) && isHeading(lines[n], i+2, prompts[i+1].Header) {
				end = n
			}
		}
		if err := checkSection(p, lines[:end]); err != nil {
			return "", fmt.Errorf("question %d: %w", i+1, err)
		}
		lines = lines[end:]
	}
	return shown, nil
}

// isHeading says whether a line is "Qn." with the header or without, bold or not.
func isHeading(l string, n int, header string) bool {
	rest, ok := strings.CutPrefix(strings.ReplaceAll(l, "*", ""), fmt.Sprintf("Q%d.", n))
	rest = strings.TrimSpace(rest)
	return ok && (rest == "" || rest == strings.ReplaceAll(shownLine(header), "*", ""))
}

// checkSection looks at what stands for one question: words, then all options in order, and nothing after them.
func checkSection(p state.Prompt, lines []string) error {
	words, options := 0, 0
	header := shownLine(p.Header)
	for _, l := range lines {
		switch {
		case !saysSomething(l):
		case options < len(p.Options) && isOption(l, p.Options, options):
			options++
		case options > 0:
			return fmt.Errorf("a line behind option %d is not the next one", options)
		case isNumbered(l):
			return fmt.Errorf("a line looks like an option, but is not option %d", options+1)
		case isOptionsTitle(l), strings.Trim(l, "*_ ") == header:
		default:
			words++
		}
	}
	switch {
	case options < len(p.Options):
		return fmt.Errorf("option %d is missing", options+1)
	case words == 0:
		return fmt.Errorf("what is asked is missing")
	}
	return nil
}

// saysSomething is false for an empty line, and for one that only divides.
func saysSomething(l string) bool { return strings.ContainsFunc(l, isWordRune) }

// isOption says whether a line is "N. label", the label bold or not, and a description only where the option has one. It
// is not if the description would make it another option's label.
func isOption(l string, options []state.Option, i int) bool {
	rest, ok := strings.CutPrefix(l, fmt.Sprintf("%d. ", i+1))
	label := shownLine(options[i].Label)
	if !ok || label == "" {
		return false
	}
	about, ok := strings.CutPrefix(rest, "*"+label+"*")
	if !ok {
		about, ok = strings.CutPrefix(rest, label)
	}
	if !ok || about != "" && (shownLine(options[i].Description) == "" || !describes().MatchString(about)) {
		return false
	}
	for _, other := range options {
		if other := shownLine(other.Label); len(other) > len(label) && strings.HasPrefix(label+about, other) {
			return false
		}
	}
	return true
}

var describes = lazy(`^(?: [-–—]|:) \S`)

// isOptionsTitle says whether a line only says that the options come.
func isOptionsTitle(l string) bool { return l == "Options:" || l == "Options (choose one or more):" }

// numberForms are the ways in which a line can begin like an option, or like a question's heading: behind whatever is no
// letter and no number "3.", "(3)", "3: x", "3 - x", "Option 3", "b) x", "③", "Q3:". "1.5 GB" and "10:30" are no such.
var numberForms = lazy(`(?i)^[^\pL\pN]*(?:` +
	`\p{Nd}+[*_~` + "`" + `]*[\s\pZ]*(?:[)\]}>、]|[.:](?:\P{Nd}|$)|[\pZ]+[-–—](?:\pZ|$)|[-–—](?:\pZ|$))|` +
	`(?:option|choice|answer)[^\pL\pN]*\p{Nd}|` +
	`q[^\pL\pN]*\p{Nd}+[^\pL\pN]*[.:)\-–—=]|` +
	`\pL[*_~` + "`" + `]*[.):](?:[^\pL\pN]|$)|` +
	`[\p{No}\p{Nl}])`)

func isNumbered(l string) bool {
	return strings.ContainsRune(l, '\u20E3') || // a keycap: "3️⃣ x"
		numberForms().MatchString(l) || numberForms().MatchString(plainDigits(l)) || numberForms().MatchString(strings.Map(looksLike, l))
}

var replyLetters = sync.OnceValue(func() string {
	word, _ := lettersOf("reply with", 0)
	return word
})

// beginsReply says whether a line begins like the one that tells how to reply.
func beginsReply(l string) bool {
	word, _ := lettersOf(l, 0)
	return strings.HasPrefix(word, replyLetters())
}
