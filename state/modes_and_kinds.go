package state

import "slices"

// Mode is how an answer reaches Claude Code.
type Mode string

const (
	// the PermissionRequest hook waits while the dialog is drawn
	ModeNative Mode = "native"
	ModeHold   Mode = "hold"   // the PreToolUse hook waits, and no dialog is drawn
	ModeDeny   Mode = "deny"   // the call is denied, and the answer is delivered later
	ModeInject Mode = "inject" // the poller types the answer
	ModeOff    Mode = "off"    // nothing is asked in Chat
	ModeThread Mode = "thread" // no question: a process waits for a reply in a thread
)

// ModeTraits is a row of the table of modes: what one mode does differently from others.
// To add a mode, add a row.
type ModeTraits struct {
	// a person is asked: the record has a message of its own, and its thread gets notes
	Asks bool
	// the record is in the folder gchat-forwarded-ask, for stop gates, and the denied
	// session goes on meanwhile
	HasMarker bool
	// the terminal shows a dialog, in which the question may be answered as well
	HasDialog bool
	// only a waiting hook delivers the answer, or the poller where CanType is set
	NeedsHook bool
	CanType   bool // the poller may type the answer into the session's pane
	NeedsPane bool // without its pane the question is abandoned
	// the answer is kept for a later hook or gchat-wait, whatever became of the process
	// that asked
	KeepsAnswer bool
}

// modeTraits is the table of modes. A question that another program wrote into a folder
// that a person named has no mode.
var modeTraits = map[Mode]ModeTraits{
	ModeNative: {Asks: true, HasDialog: true, NeedsHook: true, CanType: true},
	ModeHold:   {Asks: true, NeedsHook: true},
	ModeDeny:   {Asks: true, HasMarker: true, KeepsAnswer: true},
	ModeInject: {Asks: true, HasDialog: true, CanType: true, NeedsPane: true},
	ModeThread: {KeepsAnswer: true},
	ModeOff:    {},
	"":         {Asks: true, HasDialog: true, CanType: true},
}

// Traits returns the mode's row. A question with a mode of a later release is asked, and
// its end is noted; only that release delivers its answer.
func (m Mode) Traits() ModeTraits {
	if traits, isKnown := modeTraits[m]; isKnown {
		return traits
	}
	return ModeTraits{Asks: true}
}

// isAskedInTerminalInstead reports whether a question of deny mode was asked in the
// terminal instead. Its file is in gchat-forwarded-ask, as that of a denied one.
func (q *Question) isAskedInTerminalInstead() bool {
	return q.Mode == ModeNative && q.QuestionID == q.ThreadKey
}

// CanBeTyped reports whether the poller may type the question's answer: the mode allows
// it, the answer does not let Claude act, and no hook has delivered it yet.
func (q *Question) CanBeTyped() bool {
	return q.Mode.Traits().CanType && len(q.SubQuestions) > 0 && !q.IsPrinted &&
		!q.Kind.Traits().Decides
}

// shellTools are the tools of Claude Code that run a shell command, which is their input
// "command". Claude Code applies the rules for Bash to the command of a Monitor, too
// (2.1.332).
var shellTools = []string{"Bash", "Monitor", "PowerShell"}

// IsShellTool reports whether a tool runs a shell command.
func IsShellTool(tool string) bool { return slices.Contains(shellTools, tool) }

var (
	// editTools are the tools that change a file.
	editTools = []string{"Edit", "MultiEdit", "NotebookEdit", "Write"}
	// readTools are the tools, besides Read, that show what is in a file or folder.
	readTools = []string{"Artifact", "Glob", "Grep", "LS", "LSP", "NotebookRead"}
)

// EquivalentTools returns tool and the tools that do the same: a pattern that names one
// of them also matches a call of tool.
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
	// KindPrompt is no question: a person sent the session a prompt. No record has this
	// kind, since prompts stay in the inbox. Policies, logs and lists name it.
	KindPrompt Kind = "said"
)

// Kinds are the kinds that a policy may keep in the terminal.
var Kinds = []Kind{KindQuestion, KindPermission, KindPlan, KindNext, KindForm, KindPrompt}

// KindTraits is a row of the table of kinds: what one kind of question does differently
// from others. To add a kind, add a row.
type KindTraits struct {
	Title string // the header of its card
	// how it is counted: "a plan" for one, "plans" for several
	OneName, ManyName string
	// Contract is what Claude Code has to do for it, a row of `doctor --claude`
	Contract string
	// what notes in its thread call it; "" where they use the record's own text
	NotePhrase string
	// it goes to the person's own space, by the person's own configuration alone
	UsesOwnSpace bool
	// the reply is values for another program: a closed record does not keep them
	AsksForValues bool
	// it is power over the person's machine: its record is kept in the person's own
	// state, where Claude does not write, and only approvers answer it
	IsPersonal bool
	Decides    bool // the reply lets Claude act, or not
	// the reply is Claude's next prompt: the poller types it into the session's pane, and
	// the question is asked in the thread of the session's reports
	IsPrompt     bool
	HasLongText  bool   // it is shown as a text of its own, in several messages if need be
	AllowedLabel string // the label where the person allowed it in the terminal
	RefusedLabel string // the label where the person refused it there
}

var kindTraits = map[Kind]KindTraits{
	KindQuestion: {
		Title: "Question", OneName: "a question", ManyName: "questions",
		Contract: ContractQuestion,
	},
	KindPermission: {
		Title: "Permission", OneName: "a permission", ManyName: "permissions",
		Contract: ContractPermission, UsesOwnSpace: true, IsPersonal: true, Decides: true,
		AllowedLabel: LabelAllow, RefusedLabel: LabelDeny,
	},
	KindPlan: {
		Title: "Plan", OneName: "a plan", ManyName: "plans", NotePhrase: "the plan",
		Contract: ContractPlan, UsesOwnSpace: true, IsPersonal: true, Decides: true,
		HasLongText: true, AllowedLabel: LabelApprove, RefusedLabel: LabelSendBack,
	},
	KindForm: {
		Title: "Form", OneName: "a form", ManyName: "forms", NotePhrase: "the form",
		Contract: ContractForm, UsesOwnSpace: true, IsPersonal: true, AsksForValues: true,
	},
	KindNext: {
		Title: "Waiting for you", OneName: "the next instruction", ManyName: "instructions",
		NotePhrase: "what to do next", IsPersonal: true, IsPrompt: true, HasLongText: true,
	},
	KindPrompt: {
		Title: "Your message", NotePhrase: "your message", IsPersonal: true, IsPrompt: true,
	},
}

// Traits returns the kind's row. A kind of a later release is for approvers alone.
func (k Kind) Traits() KindTraits {
	if traits, isKnown := kindTraits[k]; isKnown {
		return traits
	}
	return KindTraits{IsPersonal: true}
}
