package inject

// Kind is what has the keys in a pane of Claude Code.
type Kind string

const (
	Unknown    Kind = ""           // nothing that this reader knows for sure: nothing may be typed
	Prompt     Kind = "prompt"     // the input box, empty: a dim suggestion in it is no text
	Draft      Kind = "draft"      // the input box with a text that a person began
	Question   Kind = "question"   // an AskUserQuestion dialog that shows one of its questions
	Review     Kind = "review"     // its page "Review your answers"
	Permission Kind = "permission" // another dialog of Claude Code that wants a choice: a tool permission, a plan
)

// Screen is what a pane shows, as far as an answer needs it. Texts are as drawn, with the lines of one text joined by one space:
// compare them with Same.
type Screen struct {
	Kind  Kind
	Why   string // Unknown: what was seen instead, in a few words for a person
	Busy  bool   // Claude works (its spinner or "esc to interrupt" is shown)
	Draft string // the text in the input box, its lines joined by "\n", also above a list of commands

	Tabs     []Tab  // the row of tabs, as far as it is on the screen; nil where there is none
	Header   string // the chip above a single question without tabs
	Question string // Question: the question's text
	Cut      bool   // Question: its beginning may not be on the screen: compare it with Ends. Review: the same of the page
	Multi    bool   // several options can be ticked
	Preview  bool   // options on the left, the preview of one on the right
	Notes    string // Preview: what its field for notes shows, typed or not
	Noting   bool   // Preview: the keys go to that field; only known from a capture with styles
	Rows     []Row  // what the cursor can stand on, in order, as far as it is on the screen
	Above    bool   // rows are hidden above the first
	Below    bool   // rows are hidden below the last

	Answers []Reviewed // Review: what would be submitted
	Missing bool       // Review: it warns that not all questions are answered
}

// Tab is one of the tabs of a dialog with several questions; the last one is "Submit".
type Tab struct {
	Title    string
	Answered bool // ☒ or ✔ instead of ☐
	Submit   bool
	Current  bool // drawn inverted; only known from a capture with colours
}

// RowKind is what a row is for.
type RowKind string

const (
	OptionRow RowKind = "option" // one of the asked options (or of a permission dialog's, or of the review page's choices)
	OtherRow  RowKind = "other"  // "Type something": a field for the person's own words
	SubmitRow RowKind = "submit" // multi-select: "Submit", or "Next" where another question follows
	ChatRow   RowKind = "chat"   // "Chat about this"
	PlanRow   RowKind = "skip"   // other rows below the rule, such as "Skip interview and plan immediately"
)

// Row is one line, or a few, of a list that the cursor can stand on.
type Row struct {
	Kind        RowKind
	Number      int    // as drawn; 0 for none
	Label       string // wrapped lines joined by one space
	Description string
	Ticked      bool
	Cursor      bool   // ❯ stands here
	Text        string // OtherRow: what was typed into it, which is drawn in place of its label
	Cut         bool   // the label ends in "…"
}

// Reviewed is one line of the review page.
type Reviewed struct {
	Question string
	Answer   string
}
