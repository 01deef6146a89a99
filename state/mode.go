package state

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

// Way is a row of the table of modes: what differs from one way of the answer to another. Who adds a mode adds a row.
type Way struct {
	Asks   bool // a person is asked: the record brings a message of its own, and its thread gets notes
	Marker bool // the record stands in gchat-forwarded-ask, for stop gates, and the denied session goes on meanwhile
	Dialog bool // a dialog stands in the terminal, where the question may be answered, too
	Hook   bool // only a hook that waits hands the answer over, or the poller where it Types
	Types  bool // the poller may type the answer into the session's pane
	Pane   bool // without its pane the question is given up
	Later  bool // the answer is kept for the process that comes for it, whatever became of the one that asked
}

// ways is the table. A question of another program has no mode: it stands in a folder that a person named.
var ways = map[Mode]Way{
	Native: {Asks: true, Dialog: true, Hook: true, Types: true},
	Hold:   {Asks: true, Hook: true},
	Deny:   {Asks: true, Marker: true, Later: true},
	Inject: {Asks: true, Dialog: true, Types: true, Pane: true},
	Thread: {Later: true},
	"":     {Asks: true, Dialog: true, Types: true},
}

// Way is the row of the question's mode. A mode of a later release is asked and confirmed, and delivered by that.
func (q *Question) Way() Way {
	if row, known := ways[q.Mode]; known {
		return row
	}
	return Way{Asks: true}
}

// WentOn says that a denied question goes on in the terminal: in another file than its marker, under the same id.
func (q *Question) WentOn() bool { return q.QuestionID == q.ThreadKey && !q.Way().Marker }

// Typed says whether the poller may type the question's answer: its mode says so, it lets Claude do nothing, and no hook has
// handed it over.
func (q *Question) Typed() bool {
	return q.Way().Types && len(q.Questions) > 0 && !q.Printed && !q.Matter().Decides
}
