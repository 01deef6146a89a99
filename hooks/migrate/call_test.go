package migrate

import (
	"os/exec"
	"strings"
	"testing"

	"gchat-hooks/gchat"
)

// command gives what becomes of a call in a code block, or why it stays.
func command(t *testing.T, spelled string) string {
	t.Helper()
	at := sendName().FindStringIndex(spelled)
	if at == nil {
		t.Fatalf("no call in %q", spelled)
	}
	c, err := parseCall(spelled, at[0], at[1]-1)
	if err != nil {
		return "not read: " + err.Error()
	}
	if c.end != len(spelled) {
		return "ends before " + spelled[c.end:]
	}
	s, _, err := sendCommand(c)
	if err != nil {
		return "stays: " + err.Error()
	}
	return s
}

func TestCalls(t *testing.T) {
	for spelled, want := range map[string]string{
		// Spellings of one and the same message.
		`SendMessage(type="message", recipient="s3-communicator", content="a b")`:                                                                       `gchat-send --type plain 'a b'`,
		`SendMessage(recipient='s3-communicator', content='a b')`:                                                                                       `gchat-send --type plain 'a b'`,
		`SendMessage( content = "a b" , to = "s3-communicator" , )`:                                                                                     `gchat-send --type plain 'a b'`,
		"SendMessage(\n    type=\"message\",  # as always\n    recipient=\"s3-communicator\",\n    content=(\n        \"a \"\n        \"b\"\n    ),\n)": `gchat-send --type plain 'a b'`,
		`SendMessage(recipient="s3-communicator", message="a " + 'b')`:                                                                                  `gchat-send --type plain 'a b'`,
		`SendMessage("s3-communicator", "a b")`:                                                                                                         `gchat-send --type plain 'a b'`,
		`SendMessage({type: "message", recipient: "s3-communicator", content: "a b"})`:                                                                  `gchat-send --type plain 'a b'`,
		`SendMessage({"type":"message","recipient":"s3-communicator","content":"a b"})`:                                                                 `gchat-send --type plain 'a b'`,
		`SendMessage(recipient="s3-communicator", content="""a b""")`:                                                                                   `gchat-send --type plain 'a b'`,
		`SendMessage(recipient="s3-communicator", content=f"a {b} {{c}}")`:                                                                              `gchat-send --type plain "a $b {c}"`,
		`SendMessage(recipient="s3-communicator", content="a {b}")`:                                                                                     `gchat-send --type plain 'a {b}'`,
		`SendMessage(recipient="s3-communicator", content=f"Session started: {session_id}")`:                                                            `gchat-send --type session_start "Session started: $session_id"`,
		`SendMessage(recipient="s3-communicator", content=f"ERROR: {error}")`:                                                                           `gchat-send --type error "ERROR: $error"`,
		`SendMessage(recipient="s3-communicator", content=f"ERROR: {task} failed")`:                                                                     `gchat-send --type error "$task failed"`,
		`SendMessage(recipient="s3-communicator", content=f"{epic.name}s: {done/total:.0%} {len(left)!r} {d['k']} {0}")`:                                `gchat-send --type progress_update "${epic_name}s: $done_total $len_left $d_k $value_0"`,
		`SendMessage(recipient="s3-communicator", content=f"it's \"{x}\" $5 \\ " + "{y} {{z}}")`:                                                        `gchat-send --type plain "it's \"$x\" \$5 \\ {y} {{z}}"`,
		`SendMessage(recipient="s3-communicator", content=f"open {x")`:                                                                                  `gchat-send --type plain 'open {x'`,
		`SendMessage(recipient="s3-communicator", content=r"a\n")`:                                                                                      `gchat-send --type plain 'a\n'`,
		`SendMessage(recipient="s3-communicator", content="a\nb\t\u00e4\x41\q")`:                                                                        "gchat-send --type plain 'a\nb\täA\\q'",
		"SendMessage(recipient=\"s3-communicator\", content=\"\"\"a\r\nb\"\"\")":                                                                        "gchat-send --type plain 'a\nb'",
		`SendMessage(recipient="s3-communicator", content="f(a, [b) } # c")`:                                                                            `gchat-send --type plain 'f(a, [b) } # c'`,
		`SendMessage(recipient="s3-communicator", summary="Epic 3 done")`:                                                                               `gchat-send --type task_completion 'Epic 3 done'`,
		`SendMessage(recipient="s3-communicator", ...)`:                                                                                                 `gchat-send ...`,
		`SendMessage(recipient="s3-communicator", content="...")`:                                                                                       `gchat-send --type plain '...'`,
		`SendMessage(recipient="s3-communicator", content="-v")`:                                                                                        `gchat-send --type plain -- '-v'`,
		`SendMessage(recipient="s3-communicator", content="it's $HOME \"x\" ` + "`id`" + ` \\ !")`:                                                      `gchat-send --type plain 'it'\''s $HOME "x" ` + "`id`" + ` \ !'`,
		`SendMessage(recipient="s3-communicator", content="TASK_COMPLETION: Epic 3 done", summary="x")`:                                                 `gchat-send --type task_completion 'Epic 3 done'`,
		// What a person has to look at.
		`SendMessage(recipient="s3-communicator", content=report)`:                                     `stays: its content is no text but report`,
		`SendMessage(recipient="s3-communicator", content="a" + report)`:                               `stays: its content is no text but "a" + report`,
		`SendMessage(recipient="s3-communicator", content="%s" % report)`:                              `stays: its content is no text but "%s" % report`,
		`SendMessage(recipient="s3-communicator", content="a".format(x))`:                              `stays: its content is no text but "a".format(x)`,
		`SendMessage(recipient=[ "s3-communicator", "x" ], content="a")`:                               `stays: its recipient is not just the relay`,
		`SendMessage(type="shutdown_request", recipient="s3-communicator", content="a")`:               `stays: it is no message but shutdown_request`,
		`SendMessage(recipient="s3-communicator", content="a", thread="x")`:                            `stays: it has an argument that gchat-send does not know: thread`,
		`SendMessage(recipient="s3-communicator")`:                                                     `stays: it has no content`,
		`SendMessage(recipient="s3-communicator", content="")`:                                         `stays: it has no content`,
		`SendMessage(recipient="s3-communicator", content="-")`:                                        `stays: its content is "-", which gchat-send takes for standard input`,
		`SendMessage(recipient="s3-communicator", content="Check GChat for replies")`:                  `stays: it orders the relay to do something, which no message can`,
		`SendMessage(recipient="s3-communicator", content="a\u0000")`:                                  `gchat-send --type plain 'a\u0000'`,
		`SendMessage(recipient="s3-communicator", "a", "b")`:                                           `stays: an argument has no name`,
		`SendMessage(recipient="s3-communicator", content="a`:                                          `not read: it has no end`,
		`SendMessage(recipient="s3-communicator", content=f(a])`:                                       `not read: its brackets do not match`,
		`SendMessage(recipient="s3-communicator", ])`:                                                  `not read: its brackets do not match`,
		`SendMessage({recipient: "s3-communicator"}, "a")`:                                             `not read: its brackets do not match`,
		`SendMessage(recipient="s3-communicator", content="` + strings.Repeat("a", longestCall) + `")`: `not read: it has no end`,
	} {
		if got := command(t, spelled); got != want {
			t.Errorf("%.200s\nbecomes %s\nwant    %s", spelled, got, want)
		}
	}
}

// What a shell, and before it the Bash tool's string, make of the words is the message again.
func TestQuoting(t *testing.T) {
	cmd := "x=1; " + "printf %s " + shellText("it's `a` \"$b\" \\ \\$x "+blankMark+"x"+blankMark+"2\n!")
	if out, err := exec.Command("sh", "-c", cmd).Output(); err != nil || string(out) != "it's `a` \"$b\" \\ \\$x 12\n!" {
		t.Errorf("sh makes %q of %s (%v)", out, cmd, err)
	}
	for _, words := range []string{"it's", `a "b" $c ` + "`d` $(e)" + ` \n \\ ! * ~ {f} # g`, "two\nlines\tand a tab", "''", `\`, "ü 🙂", "-- -x"} {
		cmd := "printf %s " + shellQuote(words)
		out, err := exec.Command("sh", "-c", cmd).Output()
		if err != nil || string(out) != words {
			t.Errorf("sh makes %q of %q (%v)", out, words, err)
		}
		call := bashCall(cmd)
		if value, end, err := readString(call, len("Bash(")); err != nil || value != cmd || call[end:] != ")" {
			t.Errorf("%s reads as %q", call, value)
		}
	}
}

func TestMessageType(t *testing.T) {
	for _, tt := range []struct{ content, summary, kind, words string }{
		// The content's own marker, which goes.
		{"TASK_COMPLETION: Epic 3 done", "", "task_completion", "Epic 3 done"},
		{"task_completion: Epic 3 failed", "blocked", "task_completion", "Epic 3 failed"},
		{"Session started: epic 4", "Status", "session_start", "Session started: epic 4"},
		{"[Done] Epic 3", "", "task_completion", "Epic 3"},
		{"**[BLOCKED]** Need keys", "", "blocked_alert", "Need keys"},
		{"**BLOCKED:** Need keys", "", "blocked_alert", "Need keys"},
		{"PROGRESS_UPDATE - 60%", "", "progress_update", "60%"},
		{"HEARTBEAT: ok", "", "heartbeat", "ok"},
		{"SESSION_START: goals", "", "session_start", "goals"},
		{"Session end: 3h", "", "session_end", "3h"},
		{"Error: build failed", "", "error", "build failed"},
		{"Heartbeat", "", "heartbeat", "Heartbeat"},
		{"[Heartbeat]", "", "heartbeat", "[Heartbeat]"},
		// The summary's marker, then its words.
		{"Need keys", "BLOCKED: keys", "blocked_alert", "Need keys"},
		{"Need keys", "blocked_alert", "blocked_alert", "Need keys"},
		{"All 12 validated", "Build failed", "error", "All 12 validated"},
		// Words.
		{"Session started. Goal: ship", "", "session_start", "Session started. Goal: ship"},
		{"The session has ended", "", "session_end", "The session has ended"},
		{"System healthy. 3 orchestrators active.", "", "heartbeat", "System healthy. 3 orchestrators active."},
		{"Need your decision on the schema", "", "blocked_alert", "Need your decision on the schema"},
		{"Done, but the deploy failed", "", "error", "Done, but the deploy failed"},
		{"Epic 3 completed, no errors", "", "task_completion", "Epic 3 completed, no errors"},
		{"12 tests, 0 failed, merged", "", "task_completion", "12 tests, 0 failed, merged"},
		{"Working on F2.1. 60% complete.", "", "progress_update", "Working on F2.1. 60% complete."},
		{"100% complete", "", "task_completion", "100% complete"},
		{"Starting epic 4", "", "progress_update", "Starting epic 4"},
		{"Hello", "", "plain", "Hello"},
		{"undone is no word of ours", "", "plain", "undone is no word of ours"},
		{"", "", "plain", ""},
	} {
		kind, words := messageType(tt.content, tt.summary)
		if kind != tt.kind || words != tt.words {
			t.Errorf("%q, summary %q: --type %s %q, want %s %q", tt.content, tt.summary, kind, words, tt.kind, tt.words)
		}
	}
}

// The types are those that gchat-send takes.
func TestTypesAreKnown(t *testing.T) {
	for _, m := range typeMarkers {
		if !gchat.ReportType(m.kind).Known() {
			t.Errorf("gchat-send knows no type %s", m.kind)
		}
	}
	for _, w := range typeWords {
		if !gchat.ReportType(w.kind).Known() {
			t.Errorf("gchat-send knows no type %s", w.kind)
		}
	}
	if len(typeMarkers) != len(gchat.ReportTypes()) {
		t.Errorf("%d markers for %d types", len(typeMarkers), len(gchat.ReportTypes()))
	}
}
