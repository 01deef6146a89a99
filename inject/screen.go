package inject

import (
	"fmt"
	"slices"
	"strings"

	"gchat-hooks/state"
)

// View is what has the keys in a pane of Claude Code.
type View string

const (
	Unknown  View = ""         // nothing that this reader knows for sure: nothing may be typed
	Prompt   View = "prompt"   // the input box, empty: a dim suggestion in it is no text
	Draft    View = "draft"    // the input box with a text that a person began
	Question View = "question" // an AskUserQuestion dialog that shows one of its questions
	Review   View = "review"   // its page "Review your answers"
	// another dialog of Claude Code that wants a choice: a tool permission, a plan
	Permission View = "permission"
)

// Screen is what a pane shows, as far as an answer needs it. Texts are as drawn, a blank
// between their lines: see Same.
type Screen struct {
	Shows View
	Why   string // Unknown: what was seen instead, in a few words for a person
	Busy  bool   // Claude works (its spinner or "esc to interrupt" is shown)
	// until when Claude waits for the end of a usage limit, as drawn: "at 12:47pm"; ""
	// where it does not
	LimitEnd string
	// the text in the input box, its lines joined by "\n", also above a list of commands
	Draft string

	Tabs     []Tab  // the row of tabs, as far as it is on the screen; nil where there is none
	Question string // the question's text; Permission: what is asked
	// Question: its beginning may not be on the screen: compare it with Ends. Review: the
	// same of the page
	IsCut        bool
	MultiSelect  bool  // several options can be ticked
	HasPreview   bool  // options on the left, the preview of one on the right
	Rows         []Row // what the cursor can stand on, in order, as far as it is on the screen
	HasRowsAbove bool  // rows are hidden above the first
	HasRowsBelow bool  // rows are hidden below the last

	Answers string // Review: what would be submitted, "● question → answer" for each
	Text    string // Permission: all of the dialog that is on the screen
}

// IsDialog says whether a dialog of Claude Code is open.
func (s Screen) IsDialog() bool {
	return slices.Contains([]View{Question, Review, Permission}, s.Shows)
}

// row is the row with this number; nil when that is not on the screen.
func (s Screen) row(n int) *Row {
	i := slices.IndexFunc(s.Rows, func(r Row) bool { return n > 0 && r.Number == n })
	if i < 0 {
		return nil
	}
	return &s.Rows[i]
}

// cursorRow is the row that the cursor stands on; none when that is not on the screen.
func (s Screen) cursorRow() Row {
	i := slices.IndexFunc(s.Rows, func(r Row) bool { return r.Cursor })
	if i < 0 {
		return Row{}
	}
	return s.Rows[i]
}

// keyToward is the key that moves the cursor to a wanted row.
func (s Screen) keyToward(isWanted func(Row) bool) Key {
	from := slices.IndexFunc(s.Rows, func(r Row) bool { return r.Cursor })
	to := slices.IndexFunc(s.Rows, isWanted)
	if to >= 0 && to < from || to < 0 && s.HasRowsAbove && !s.HasRowsBelow {
		return KeyUp
	}
	return KeyDown
}

// Tab is one of the tabs of a dialog with several questions; the last one is "Submit".
type Tab struct {
	Title    string
	Answered bool // ☒ or ✔ instead of ☐
	Submit   bool
}

// Role is what a row is for.
type Role string

const (
	// one of the asked options (or of a permission dialog's, or of the review page's
	// choices)
	OptionRow Role = "option"
	OtherRow  Role = "other"  // "Type something": a field for the person's own words
	SubmitRow Role = "submit" // multi-select: "Submit", or "Next" where another question follows
	// below the rule: "Chat about this", and others such as "Skip interview and plan
	// immediately"
	BelowRow Role = "below"
)

// Row is one line, or a few, of a list that the cursor can stand on.
type Row struct {
	Role   Role
	Number int    // as drawn; 0 for none
	Label  string // wrapped lines joined by one space
	Ticked bool
	Cursor bool   // ❯ stands here
	Text   string // OtherRow: what was typed into it, which is drawn in place of its label
}

// shellPrompt is how a line ends on which a shell waits for a command. "45%" is more
// likely a person's status line.
var shellPrompt = pattern(`(^|[^0-9])[$#%>❯➜λ»]$`)

var pattern = state.LazyPattern

// ReadScreen reads what `tmux capture-pane -p -e` printed of a pane. Only what is at the
// very bottom of the screen counts, and only if all of it is as the measured versions
// (2.1.197, 2.1.329) draw it: a dialog further up is a quotation, or what a program left
// behind that has ended.
func ReadScreen(capture string) Screen {
	lines := readCapture(capture)
	if last := len(lines) - 1; last >= 0 && IsBoxRule(lines[last].text) && !lines[last].isRule() {
		// the session's name, which stands below its dialogs, too (2.1.332)
		lines = trimBlankLines(lines[:last])
	}
	if len(lines) == 0 {
		return unknownScreen("an empty screen")
	}
	for _, read := range []func([]line) (Screen, bool){readQuestion, readReview, readInputBox, readPermission} {
		if s, ok := read(lines); ok {
			return s
		}
	}
	return unknownScreen(describeUnknown(lines))
}

func unknownScreen(why string) Screen { return Screen{Shows: Unknown, Why: why} }

// describeUnknown says what stands at the bottom of a screen that is none of the known
// ones.
func describeUnknown(lines []line) string {
	last := lines[len(lines)-1]
	switch {
	case strings.Contains(joinLines(lines[max(0, len(lines)-2):]), "Showing detailed transcript"):
		return "Claude Code's transcript (ctrl+o)"
	case shellPrompt().MatchString(last.text) && !last.isRule():
		return "a shell"
	case strings.Contains(strings.ToLower(last.text), "esc"):
		return "a menu that gchat-hooks does not know"
	}
	top := len(lines) - 1 // the last rule: a dialog without a box stands below it (2.1.330)
	for ; top >= 0 && !lines[top].isRule(); top-- {
	}
	isChosen := func(l line) bool { return l.indent() > 0 && strings.HasPrefix(strings.TrimSpace(l.text), "❯ ") }
	if below := lines[top+1:]; top >= 0 && slices.ContainsFunc(below, isChosen) {
		title := slices.IndexFunc(below, func(l line) bool { return !l.isBlank() })
		return fmt.Sprintf(
			"a dialog that only the terminal answers: %q",
			shorten(strings.TrimSpace(below[title].text), 80),
		)
	}
	return "no dialog of Claude Code"
}

func shorten(s string, n int) string {
	if rs := []rune(s); len(rs) > n {
		return string(rs[:n-1]) + "…"
	}
	return s
}
