package state

import "slices"

// Mode is how the answer reaches Claude Code.
type Mode string

const (
	Native Mode = "native" // the PermissionRequest hook waits beside the dialog
	Hold   Mode = "hold"   // the PreToolUse hook waits, no dialog is drawn
	Deny   Mode = "deny"   // the call is denied, the reply delivered later
	Inject Mode = "inject" // the poller types the answer
	Off    Mode = "off"    // nothing is forwarded
	Thread Mode = "thread" // no question: a process waits for a reply in a thread
)

// ModeRow is a row of the table of modes: what differs from one way of the answer to another. Who adds a mode adds a row.
type ModeRow struct {
	Asks   bool // a person is asked: the record brings a message of its own, and its thread gets notes
	Marker bool // the record stands in gchat-forwarded-ask, for stop gates, and the denied session goes on meanwhile
	Dialog bool // a dialog stands in the terminal, where the question may be answered, too
	Hook   bool // only a hook that waits hands the answer over, or the poller where it Types
	Types  bool // the poller may type the answer into the session's pane
	Pane   bool // without its pane the question is given up
	Later  bool // the answer is kept for the process that comes for it, whatever became of the one that asked
}

// modeRows is the table. A question of another program has no mode: it stands in a folder that a person named.
var modeRows = map[Mode]ModeRow{
	Native: {Asks: true, Dialog: true, Hook: true, Types: true},
	Hold:   {Asks: true, Hook: true},
	Deny:   {Asks: true, Marker: true, Later: true},
	Inject: {Asks: true, Dialog: true, Types: true, Pane: true},
	Thread: {Later: true},
	Off:    {},
	"":     {Asks: true, Dialog: true, Types: true},
}

// Row is the mode's row. A mode of a later release is asked and confirmed, and delivered by that.
func (m Mode) Row() ModeRow {
	if row, known := modeRows[m]; known {
		return row
	}
	return ModeRow{Asks: true}
}

// WentOn reports whether a question that was to be denied is asked in the terminal instead. It
// stands in gchat-forwarded-ask, as a denied one.
func (q *Question) WentOn() bool { return q.Mode == Native && q.QuestionID == q.ThreadKey }

// Typed says whether the poller may type the question's answer: its mode says so, it lets Claude do nothing, and no hook has
// handed it over.
func (q *Question) Typed() bool {
	return q.Mode.Row().Types && len(q.Questions) > 0 && !q.Printed && !q.Kind.Row().Decides
}

// shells are the tools of Claude Code that run a command of a shell, as their member
// "command". It holds the command of a Monitor (2.1.332) against its rules for Bash, too.
var shells = []string{"Bash", "Monitor", "PowerShell"}

// Shell says whether a tool is one that runs a command of a shell.
func Shell(tool string) bool { return slices.Contains(shells, tool) }

var (
	// editors are the tools that change a file.
	editors = []string{"Edit", "MultiEdit", "NotebookEdit", "Write"}
	// readers are the tools, beside Read, that tell what is in a file or a folder.
	readers = []string{"Artifact", "Glob", "Grep", "LS", "LSP", "NotebookRead"}
)

// NamedAs are the tools of which a pattern also names a call of this one: they do the same.
func NamedAs(tool string) []string {
	switch {
	case Shell(tool):
		return shells
	case slices.Contains(editors, tool):
		return editors
	case slices.Contains(readers, tool):
		return []string{tool, "Read"}
	}
	return []string{tool}
}

// Kind is what a person is asked.
type Kind string

const (
	AskedQuestion   Kind = ""           // AskUserQuestion
	AskedPermission Kind = "permission" // to use a tool
	AskedPlan       Kind = "plan"       // to carry out a plan (ExitPlanMode)
	AskedNext       Kind = "next"       // what to do next: Claude has ended its turn
	AskedForm       Kind = "form"       // to fill in an MCP server's form, or to open its link
	// Said is nothing: a person told the session something, whatever it does. No record is of
	// this kind: words stay in the inbox. Policies, logs and lists name it.
	Said Kind = "said"
)

// Kinds are what policies may keep in the terminal.
var Kinds = []Kind{AskedQuestion, AskedPermission, AskedPlan, AskedNext, AskedForm, Said}

// KindRow is a row of the table of kinds: what differs from one thing that a person is asked to another. Who adds a kind adds a
// row.
type KindRow struct {
	Called   string // in the header of its card
	Brief    string // in a note of its thread; "" where the record's own words say it
	Own      bool   // it goes to the person's own space, by their own configuration alone
	Values   bool   // the reply is values for another program: no record that is over keeps them
	Personal bool   // a person's power over the machine: kept in their own state, where Claude does not write; for approvers
	Decides  bool   // the reply lets Claude act, or not
	Prompt   bool   // the reply is Claude's next prompt: typed into its pane, and asked in the thread of the session's reports
	Long     bool   // what is shown is a text of its own, of several messages if need be
	Ran      string // the label of what was allowed in the terminal
	Refused  string // of what was refused there
}

var kindRows = map[Kind]KindRow{
	AskedQuestion: {Called: "Question"},
	AskedPermission: {
		Called: "Permission", Own: true, Personal: true, Decides: true, Ran: LabelAllow, Refused: LabelDeny,
	},
	AskedPlan: {
		Called: "Plan", Brief: "the plan", Own: true, Personal: true, Decides: true, Long: true,
		Ran: LabelApprove, Refused: LabelSendBack,
	},
	AskedForm: {Called: "Form", Brief: "the form", Own: true, Personal: true, Values: true},
	AskedNext: {Called: "Waiting for you", Brief: "what to do next", Personal: true, Prompt: true, Long: true},
	Said:      {Called: "Your message", Brief: "your message", Personal: true, Prompt: true},
}

// Row is the kind's row. A kind of a later release is for approvers alone.
func (k Kind) Row() KindRow {
	if row, known := kindRows[k]; known {
		return row
	}
	return KindRow{Personal: true}
}
