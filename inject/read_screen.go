package inject

import (
	"regexp"
	"strings"
	"sync"
)

var (
	// spinner is the line of a turn under way: "✻ Choreographing… (3s · ↓ 20 tokens)". 2.1.329 does not say "esc to
	// interrupt" all the while.
	spinner = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[·✢✳✶✻✽*+] \S.*…( \(.*)?$`) })

	// shellPrompt is how a line ends on which a shell waits for a command. "45%" is more likely a person's status line.
	shellPrompt = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(^|[^0-9])[$#%>❯➜λ»]$`) })

	transcript = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^ *Showing detailed transcript`) })
)

// ReadScreen reads what `tmux capture-pane -p -e` printed of a pane. Only what is at the very bottom of the screen
// counts, and only if all of it is as the measured versions (2.1.197, 2.1.329) draw it: a dialog further up is a
// quotation, or what a program left behind that has ended.
//
// A capture without styles (-e left out) is read too. Then a suggestion in the input box is taken for a draft, and a
// label of several lines cannot be told from its description: the first line is taken for the label.
func ReadScreen(capture string) Screen {
	lines := readCapture(capture)
	if len(lines) == 0 {
		return unknown("an empty screen")
	}
	for _, read := range []func([]line) (Screen, bool){readQuestion, readReview, readInputBox, readPermission} {
		if s, ok := read(lines); ok {
			return s
		}
	}
	return unknown(describe(lines))
}

func unknown(why string) Screen { return Screen{Kind: Unknown, Why: why} }

// describe says what stands at the bottom of a screen that is none of the known ones.
func describe(lines []line) string {
	last := lines[len(lines)-1].text
	switch {
	case transcript().MatchString(last) || len(lines) > 1 && transcript().MatchString(lines[len(lines)-2].text):
		return "Claude Code's transcript (ctrl+o)"
	case shellPrompt().MatchString(last) && !lines[len(lines)-1].rule():
		return "a shell"
	}
	if title := menuTitle(lines); title != "" && strings.Contains(strings.ToLower(last), "esc") {
		return "a menu I do not know: " + cutText(title, 60)
	}
	return "no dialog of Claude Code's"
}

// menuTitle is the first text under the rule that a menu begins with; 2.1.329 draws some with "▔".
func menuTitle(lines []line) string {
	title := ""
	for i := len(lines) - 1; i >= 0; i-- {
		switch l := lines[i]; {
		case l.rule() || !l.blank() && strings.Trim(l.text, "▔") == "":
			return title
		case strings.Trim(l.text, " ─╌") != "":
			title = strings.Join(strings.Fields(l.text), " ")
		}
	}
	return ""
}

func cutText(s string, n int) string {
	if rs := []rune(s); len(rs) > n {
		return string(rs[:n-1]) + "…"
	}
	return s
}

// joined is the text of several lines, as one.
func joined(lines []line) string {
	var words []string
	for _, l := range lines {
		if t := strings.TrimSpace(l.text); t != "" {
			words = append(words, t)
		}
	}
	return strings.Join(words, " ")
}
