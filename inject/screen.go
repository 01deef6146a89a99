package inject

import (
	"fmt"
	"slices"
	"strings"

	"gchat-hooks/state"
)

// View says what has the keys in a pane of Claude Code.
type View string

const (
	Unknown  View = ""         // nothing that this reader knows for sure, so nothing may be typed
	Prompt   View = "prompt"   // the empty input box; a dim suggestion in it is not text
	Draft    View = "draft"    // the input box with text that a person began
	Question View = "question" // an AskUserQuestion dialog that shows one of its questions
	Review   View = "review"   // that dialog's page "Review your answers"
	// Permission is the dialog of a tool permission or of a plan.
	Permission View = "permission"
)

// Screen is what a pane shows, as far as an answer needs it. Texts are as drawn, with a
// blank between their lines; compare them with SameText.
type Screen struct {
	Shows View
	Why   string // Unknown: what is there instead, in a few words for a person
	Busy  bool   // Claude works: its spinner or "esc to interrupt" is shown
	// LimitEnd is the time at which a usage limit ends, as drawn: "at 12:47pm". It is ""
	// if Claude does not wait for one.
	LimitEnd string
	// Draft is the text in the input box, its lines joined by "\n". It is also set if a
	// list of commands stands below the box.
	Draft string

	Tabs     []Tab  // the row of tabs, or nil; some may be outside the screen
	Question string // the question's text; Permission: what is asked
	// IsCut means that the beginning of the question may be outside the screen: compare
	// it with IsEndOf. On a Review page, the page's beginning may be outside.
	IsCut        bool
	MultiSelect  bool  // several options can be ticked
	HasPreview   bool  // options on the left, the preview of one of them on the right
	Rows         []Row // on the screen, in order; the cursor can stand on each
	HasRowsAbove bool  // rows are hidden above the first
	HasRowsBelow bool  // rows are hidden below the last

	Answers string // Review: what would be submitted, "● question → answer" for each
	Text    string // Permission: all of the dialog that is on the screen
}

// IsDialog reports whether a dialog of Claude Code is open.
func (s Screen) IsDialog() bool {
	return slices.Contains([]View{Question, Review, Permission}, s.Shows)
}

// row returns the row with this number, or nil if it is not on the screen.
func (s Screen) row(n int) *Row {
	i := slices.IndexFunc(s.Rows, func(r Row) bool { return n > 0 && r.Number == n })
	if i < 0 {
		return nil
	}
	return &s.Rows[i]
}

// cursorRow returns the row under the cursor, or an empty one if it is not on the screen.
func (s Screen) cursorRow() Row {
	i := slices.IndexFunc(s.Rows, func(r Row) bool { return r.Cursor })
	if i < 0 {
		return Row{}
	}
	return s.Rows[i]
}

// keyToward returns the key that moves the cursor toward a wanted row.
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

// Role says what a row is for.
type Role string

const (
	// OptionRow is one of the asked options, or a choice of a permission dialog or of the
	// review page.
	OptionRow Role = "option"
	OtherRow  Role = "other"  // "Type something": a field for the person's own words
	SubmitRow Role = "submit" // multi-select: "Submit", or "Next" if another question follows
	// BelowRow is below the rule: "Chat about this", and others such as "Skip interview
	// and plan immediately".
	BelowRow Role = "below"
)

// Row is one entry of a list, on one or several lines. The cursor can stand on it.
type Row struct {
	Role   Role
	Number int    // as drawn; 0 if it has none
	Label  string // wrapped lines joined by one space
	Ticked bool
	Cursor bool   // ❯ stands here
	Text   string // OtherRow: the text typed into it, which is drawn in place of its label
}

// shellPrompt matches the end of a line on which a shell waits for a command. It does not
// match "45%", which is more likely a person's status line.
var shellPrompt = pattern(`(^|[^0-9])[$#%>❯➜λ»]$`)

var pattern = state.LazyPattern

// ReadScreen reads what `tmux capture-pane -p -e` printed of a pane. Only the bottom of
// the screen counts, and only if all of it is as the measured versions (2.1.197, 2.1.329)
// draw it. A dialog further up is a quotation, or a leftover of a program that has ended.
func ReadScreen(capture string) Screen {
	lines := readCapture(capture)
	if last := len(lines) - 1; last >= 0 && IsBoxRule(lines[last].text) && !lines[last].isRule() {
		// 2.1.332 draws the session's name below its dialogs, too.
		lines = trimBlankLines(lines[:last])
	}
	if len(lines) == 0 {
		return unknownScreen("an empty screen")
	}
	readers := []func([]line) (Screen, bool){
		readQuestion, readReview, readInputBox, readPermission,
	}
	for _, read := range readers {
		if s, ok := read(lines); ok {
			return s
		}
	}
	return unknownScreen(describeUnknown(lines))
}

func unknownScreen(why string) Screen { return Screen{Shows: Unknown, Why: why} }

// describeUnknown describes the bottom of a screen that no reader knows, for a person.
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
	top := len(lines) - 1 // the last rule; a dialog without a box stands below it (2.1.330)
	for ; top >= 0 && !lines[top].isRule(); top-- {
	}
	isChosen := func(l line) bool {
		return l.indent() > 0 && strings.HasPrefix(strings.TrimSpace(l.text), "❯ ")
	}
	if below := lines[top+1:]; top >= 0 && slices.ContainsFunc(below, isChosen) {
		title := slices.IndexFunc(below, func(l line) bool { return !l.isBlank() })
		return fmt.Sprintf("a dialog that only the terminal answers: %q",
			shorten(strings.TrimSpace(below[title].text), 80))
	}
	return "no dialog of Claude Code"
}

func shorten(s string, n int) string {
	if rs := []rune(s); len(rs) > n {
		return string(rs[:n-1]) + "…"
	}
	return s
}
