package state

import "slices"

// Mode is how the answer reaches Claude Code.
type Mode string

const (
	ModeNative Mode = "native" // the PermissionRequest hook waits beside the dialog
	ModeHold   Mode = "hold"   // the PreToolUse hook waits, no dialog is drawn
	ModeDeny   Mode = "deny"   // the call is denied, the reply delivered later
	ModeInject Mode = "inject" // the poller types the answer
	ModeOff    Mode = "off"    // nothing is forwarded
	ModeThread Mode = "thread" // no question: a process waits for a reply in a thread
)

// ModeTraits is a row of the table of modes: what differs from one way of the answer to
// another. Who adds a mode adds a row.
type ModeTraits struct {
	// a person is asked: the record brings a message of its own, and its thread gets
	// notes
	Asks bool
	// the record stands in gchat-forwarded-ask, for stop gates, and the denied session
	// goes on meanwhile
	HasMarker bool
	HasDialog bool // a dialog stands in the terminal, where the question may be answered, too
	NeedsHook bool // only a hook that waits hands the answer over, or the poller where it Types
	CanType   bool // the poller may type the answer into the session's pane
	NeedsPane bool // without its pane the question is given up
	// the answer is kept for the process that comes for it, whatever became of the one
	// that asked
	KeepsAnswer bool
}

// modeTraits is the table. A question of another program has no mode: it stands in a
// folder that a person named.
var modeTraits = map[Mode]ModeTraits{
	ModeNative: {Asks: true, HasDialog: true, NeedsHook: true, CanType: true},
	ModeHold:   {Asks: true, NeedsHook: true},
	ModeDeny:   {Asks: true, HasMarker: true, KeepsAnswer: true},
	ModeInject: {Asks: true, HasDialog: true, CanType: true, NeedsPane: true},
	ModeThread: {KeepsAnswer: true},
	ModeOff:    {},
	"":         {Asks: true, HasDialog: true, CanType: true},
}

// Traits is the mode's row. A mode of a later release is asked and confirmed, and
// delivered by that.
func (m Mode) Traits() ModeTraits {
	if traits, isKnown := modeTraits[m]; isKnown {
		return traits
	}
	return ModeTraits{Asks: true}
}

// isAskedInTerminalInstead reports whether a question that was to be denied is asked in
// the terminal instead. It stands in gchat-forwarded-ask, as a denied one.
func (q *Question) isAskedInTerminalInstead() bool {
	return q.Mode == ModeNative && q.QuestionID == q.ThreadKey
}

// CanBeTyped says whether the poller may type the question's answer: its mode says so, it
// lets Claude do nothing, and no hook has handed it over.
func (q *Question) CanBeTyped() bool {
	return q.Mode.Traits().CanType && len(q.SubQuestions) > 0 && !q.IsPrinted &&
		!q.Kind.Traits().Decides
}

// shellTools are the tools of Claude Code that run a command of a shell, as their member
// "command". It holds the command of a Monitor (2.1.332) against its rules for Bash, too.
var shellTools = []string{"Bash", "Monitor", "PowerShell"}

// IsShellTool says whether a tool is one that runs a command of a shell.
func IsShellTool(tool string) bool { return slices.Contains(shellTools, tool) }

var (
	// editTools are the tools that change a file.
	editTools = []string{"Edit", "MultiEdit", "NotebookEdit", "Write"}
	// readTools are the tools, beside Read, that tell what is in a file or a folder.
	readTools = []string{"Artifact", "Glob", "Grep", "LS", "LSP", "NotebookRead"}
)

// EquivalentTools are the tools of which a pattern also names a call of this one: they do
// the same.
func EquivalentTools(tool string) []string {
	switch {
	case IsShellTool(tool):
		return shellTools
	case slices.Contains(editTools, tool):
		return editTools
	case slices.Contains(readTools, tool):
		return []string{tool, "Read"}
	}
	return []string{tool}
}

// Kind is what a person is asked.
type Kind string

const (
	KindQuestion   Kind = ""           // AskUserQuestion
	KindPermission Kind = "permission" // to use a tool
	KindPlan       Kind = "plan"       // to carry out a plan (ExitPlanMode)
	KindNext       Kind = "next"       // what to do next: Claude has ended its turn
	KindForm       Kind = "form"       // to fill in an MCP server's form, or to open its link
	// KindPrompt is nothing: a person told the session something, whatever it does. No
	// record is of this kind: words stay in the inbox. Policies, logs and lists name it.
	KindPrompt Kind = "said"
)

// Kinds are what policies may keep in the terminal.
var Kinds = []Kind{KindQuestion, KindPermission, KindPlan, KindNext, KindForm, KindPrompt}

// KindTraits is a row of the table of kinds: what differs from one thing that a person is
// asked to another. Who adds a kind adds a row.
type KindTraits struct {
	Title        string // in the header of its card
	NotePhrase   string // in a note of its thread; "" where the record's own words say it
	UsesOwnSpace bool   // it goes to the person's own space, by their own configuration alone
	// the reply is values for another program: no record that is over keeps them
	AsksForValues bool
	// a person's power over the machine: kept in their own state, where Claude does not
	// write; for approvers
	IsPersonal bool
	Decides    bool // the reply lets Claude act, or not
	// the reply is Claude's next prompt: typed into its pane, and asked in the thread of
	// the session's reports
	IsPrompt     bool
	HasLongText  bool   // what is shown is a text of its own, of several messages if need be
	AllowedLabel string // the label of what was allowed in the terminal
	RefusedLabel string // of what was refused there
}

var kindTraits = map[Kind]KindTraits{
	KindQuestion: {Title: "Question"},
	KindPermission: {
		Title: "Permission", UsesOwnSpace: true, IsPersonal: true, Decides: true, AllowedLabel: LabelAllow, RefusedLabel: LabelDeny,
	},
	KindPlan: {
		Title: "Plan", NotePhrase: "the plan", UsesOwnSpace: true, IsPersonal: true, Decides: true, HasLongText: true,
		AllowedLabel: LabelApprove, RefusedLabel: LabelSendBack,
	},
	KindForm: {
		Title:         "Form",
		NotePhrase:    "the form",
		UsesOwnSpace:  true,
		IsPersonal:    true,
		AsksForValues: true,
	},
	KindNext: {
		Title:       "Waiting for you",
		NotePhrase:  "what to do next",
		IsPersonal:  true,
		IsPrompt:    true,
		HasLongText: true,
	},
	KindPrompt: {
		Title:      "Your message",
		NotePhrase: "your message",
		IsPersonal: true,
		IsPrompt:   true,
	},
}

// Traits is the kind's row. A kind of a later release is for approvers alone.
func (k Kind) Traits() KindTraits {
	if traits, isKnown := kindTraits[k]; isKnown {
		return traits
	}
	return KindTraits{IsPersonal: true}
}
