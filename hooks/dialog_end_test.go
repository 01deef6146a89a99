package hooks

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// recordedEnd is what the lines of a transcript say about a permission that nobody in Chat
// decided: after the call, after its result, and after the line that follows.
type recordedEnd struct {
	result []callResult
	status state.Status
	by     string
	label  string
}

// recordedEnds were recorded with Claude Code 2.1.197 and 2.1.332, as a person ended the
// permission's dialog in the terminal.
var recordedEnds = map[string]recordedEnd{
	"2.1.197/permission-dismissed": {
		[]callResult{"", "", resultDismissed}, state.Cancelled, state.EndedDismissed, "",
	},
	"2.1.332/permission-dismissed": {
		[]callResult{"", resultDismissed, resultDismissed}, state.Cancelled, state.EndedDismissed, "",
	},
	"2.1.197/permission-no": {
		[]callResult{"", "", resultDismissed}, state.Cancelled, state.EndedDismissed, "",
	},
	"2.1.332/permission-no": {
		[]callResult{"", resultDismissed, resultDismissed}, state.Cancelled, state.EndedDismissed, "",
	},
	"2.1.197/permission-no-with-words": {
		[]callResult{"", resultRefused, resultRefused}, state.Resolved, "terminal", state.LabelDeny,
	},
	"2.1.332/permission-no-with-words": {
		[]callResult{"", resultRefused, resultRefused}, state.Resolved, "terminal", state.LabelDeny,
	},
	"2.1.197/permission-yes": {
		[]callResult{"", resultRan, resultRan}, state.Resolved, "terminal", state.LabelAllow,
	},
	"2.1.332/permission-yes": {
		[]callResult{"", resultRan, resultRan}, state.Resolved, "terminal", state.LabelAllow,
	},
	// Esc interrupted the call that was allowed and ran.
	"2.1.197/permission-yes-interrupted": {
		[]callResult{"", "", resultFailed}, state.Resolved, "terminal", "",
	},
	"2.1.332/permission-yes-interrupted": {
		[]callResult{"", "", resultFailed}, state.Resolved, "terminal", "",
	},
}

// Whoever reads the transcript, at whatever moment, says what became of a permission, or
// that it is not known yet.
func TestDialogEnd_ToldByTranscript(t *testing.T) {
	for name, recorded := range recordedEnds {
		lines, q := recordedPermission(t, name)
		for i, want := range recorded.result {
			w := newWorld(t)
			path := transcript(t, strings.Join(lines[:i+2], ""))
			got := readUnlistedResult(&Event{TranscriptPath: LooseText(path)}, q)
			kit.Equalf(t, got, want, "%s: the result after line %d", name, i+2)
			current := *q
			kit.NoError(t, state.QuestionsIn(w.dir).Create("q", &current))
			session := &state.Session{ID: "s", TranscriptPath: path}
			isClosed := CloseByTranscript(w.getenv, session, &current)
			kit.Equalf(t, isClosed, want != "", "%s: closed after line %d", name, i+2)
			if isClosed {
				w.wantDecided(&current, recorded.status, recorded.by, recorded.label)
			} else {
				kit.Equalf(t, w.reload(&current).Status, state.Pending, "%s: status", name)
			}
		}
	}
}

// Claude Code ends the hook before it writes the result. Then the poller says what became
// of the permission. Without a poller, or without a transcript, the hook does.
func TestDialogEnd_HookIsEndedFirst(t *testing.T) {
	dismissed := recordedEnds["2.1.332/permission-dismissed"]
	for name, c := range map[string]struct {
		recorded string
		lines    int
		self     string
		agent    string
		status   state.Status
		by       string
	}{
		"its result is there": {
			"2.1.332/permission-dismissed", 3, "/none", "", dismissed.status, dismissed.by,
		},
		"it ran, and was interrupted": {
			"2.1.332/permission-yes-interrupted", 4, "/none", "", state.Resolved, "terminal",
		},
		"not yet": {
			"2.1.332/permission-dismissed", 2, "/none", "", state.Pending, "",
		},
		"between the two lines of 2.1.197": {
			"2.1.197/permission-dismissed", 3, "/none", "", state.Pending, "",
		},
		"no transcript": {
			"2.1.332/permission-dismissed", 0, "/none", "", dismissed.status, dismissed.by,
		},
		"no poller can be started": {
			"2.1.332/permission-dismissed", 2, "", "", dismissed.status, dismissed.by,
		},
		"an agent's": {
			"2.1.332/permission-dismissed", 2, "/none", "a1", dismissed.status, dismissed.by,
		},
	} {
		t.Run(name, func(t *testing.T) {
			lines, q := recordedPermission(t, c.recorded)
			w := newWorld(t)
			q.AgentID = c.agent
			kit.NoError(t, state.QuestionsIn(w.dir).Create("q", q))
			h := w.newHook()
			h.Self = c.self
			path := transcript(t, strings.Join(lines[:c.lines], ""))
			h.dismissQuestion(&Event{TranscriptPath: LooseText(path)}, q)
			stored := w.reload(q)
			kit.Equal(t, fmt.Sprint(stored.Status, stored.ResolvedBy), fmt.Sprint(c.status, c.by))
		})
	}
}

// If no hook and no poller said that a permission was dismissed, the next prompt does.
func TestDialogEnd_ToldByNextPrompt(t *testing.T) {
	for _, version := range []string{"2.1.197", "2.1.332"} {
		lines, q := recordedPermission(t, version+"/permission-dismissed")
		w := newWorld(t)
		kit.NoError(t, state.QuestionsIn(w.dir).Create("q", q))
		e := &Event{
			HookEventName:  "UserPromptSubmit",
			TranscriptPath: LooseText(transcript(t, strings.Join(lines, ""))),
		}
		w.newHook().closeOpenQuestions(e, []*state.Question{q}, nil)
		w.wantDecided(q, state.Cancelled, state.EndedDismissed, "")
	}
}

// recordedPermission returns the lines of a recorded transcript, and the permission that
// was asked for the call in it.
func recordedPermission(t *testing.T, name string) (lines []string, q *state.Question) {
	t.Helper()
	lines = strings.SplitAfter(kit.ReadFile(t, filepath.Join("testdata", name+".jsonl")), "\n")
	entry, calls, _ := readEntry([]byte(lines[1]))
	askedAt, err := time.Parse(time.RFC3339, string(entry.Timestamp))
	kit.NoError(t, err)
	return lines, &state.Question{
		QuestionID: "q", SessionID: "s", ClaudeSessionID: "s", Kind: state.KindPermission,
		ToolName: "Bash", Status: state.Pending, Mode: state.ModeNative, AskedAt: askedAt,
		InputHash:    callHash("Bash", calls[0].Input),
		SubQuestions: []state.SubQuestion{{Question: "Bash"}},
	}
}
