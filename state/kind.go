package state

// Kind is what a person is asked.
type Kind string

const (
	AskedQuestion   Kind = ""           // AskUserQuestion
	AskedPermission Kind = "permission" // to use a tool
	AskedPlan       Kind = "plan"       // to carry out a plan (ExitPlanMode)
	AskedNext       Kind = "next"       // what to do next: Claude has ended its turn
)

// Matter is a row of the table of kinds: what differs from one thing that a person is asked to another. Who adds a kind adds a
// row.
type Matter struct {
	Called   string // in the header of its card
	Brief    string // in a note of its thread; "" where the record's own words say it
	Personal bool   // a person's power over the machine: kept in their own state, where Claude does not write; for approvers
	Decides  bool   // the reply lets Claude act, or not
	Prompt   bool   // the reply is Claude's next prompt: typed into its pane, and asked in the thread of the session's reports
	Long     bool   // what is shown is a text of its own, of several messages if need be
	Ran      string // the label of what was allowed in the terminal
	Refused  string // of what was refused there
}

// matters is the table.
var matters = map[Kind]Matter{
	AskedQuestion:   {Called: "Question"},
	AskedPermission: {Called: "Permission", Personal: true, Decides: true, Ran: LabelAllow, Refused: LabelDeny},
	AskedPlan: {
		Called: "Plan", Brief: "the plan", Personal: true, Decides: true, Long: true, Ran: LabelApprove, Refused: LabelSendBack,
	},
	AskedNext: {Called: "Waiting for you", Brief: "what to do next", Personal: true, Prompt: true, Long: true},
}

// Matter is the row of the question's kind. A kind of a later release is for approvers alone.
func (q *Question) Matter() Matter {
	if row, known := matters[q.Kind]; known {
		return row
	}
	return Matter{Personal: true}
}
