package gchat

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"gchat-hooks/state"
)

// draft is a message being written under limits, which keep the work on hostile input as small as the message.
type draft struct {
	strings.Builder
	field   int  // bytes of a header, question, label or description
	choices int  // options of a question
	prompts int  // questions
	cut     bool // something did not fit the limits
}

// fit writes the message with ever lower limits until Chat takes it: first the fields get shorter, then there are
// fewer options, then fewer questions.
func fit(write func(*draft)) string {
	field, choices, prompts := MaxText, math.MaxInt, math.MaxInt
	for {
		d := &draft{field: field, choices: choices, prompts: prompts}
		write(d)
		switch {
		case d.Len() <= MaxText:
			return strings.TrimRight(d.String(), "\n")
		case field > 16:
			field /= 2
		case choices > 1:
			choices = min(choices, 1024) / 2
		case prompts > 1:
			prompts = min(prompts, 128) / 2
		default:
			return Cut(d.String(), MaxText)
		}
	}
}

// full says that this draft is lost already.
func (d *draft) full() bool { return d.Len() > MaxText }

func (d *draft) add(parts ...string) {
	for _, p := range parts {
		d.WriteString(p)
	}
}

// lines writes each text that is not empty on its own line.
func (d *draft) lines(texts ...string) {
	for _, t := range texts {
		if t != "" {
			d.add(t, "\n")
		}
	}
}

func (d *draft) line(s string) string  { return d.short(s, Line) }
func (d *draft) block(s string) string { return d.short(s, Block) }

// short neutralises last, because a cut can leave a fence open.
func (d *draft) short(s string, neutral func(string) string) string {
	if len(s) <= d.field {
		return neutral(s)
	}
	d.cut = true
	return neutral(head(s, d.field) + "…")
}

func (d *draft) each(prompts []state.Prompt, write func(int, state.Prompt)) {
	for i, p := range prompts {
		if i == d.prompts {
			d.cut = true
			d.add("\n… and ", strconv.Itoa(len(prompts)-i), " more questions\n")
		}
		if i >= d.prompts || d.full() {
			return
		}
		write(i, p)
	}
}

func (d *draft) options(title string, options []state.Option) {
	if len(options) > 0 {
		d.add("\n", title, "\n")
	}
	for i, o := range options {
		if i == d.choices {
			d.cut = true
			d.add("… and ", strconv.Itoa(len(options)-i), " more options\n")
		}
		if i >= d.choices || d.full() {
			return
		}
		text := d.line(o.Label)
		if about := d.line(o.Description); about != "" {
			text = strings.TrimSpace(text + " — " + about)
		}
		d.lines(strings.TrimSpace(fmt.Sprintf("%d. %s", i+1, text)))
	}
}
