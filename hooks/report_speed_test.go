package hooks_test

import (
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hanging is a bench world whose Chat takes every request and answers none.
func hanging(b *testing.B) *world {
	b.Helper()
	w := benchWorld(b)
	release := make(chan struct{})
	b.Cleanup(func() { close(release) })
	w.trace.set(func(http.ResponseWriter, *http.Request) bool { <-release; return true })
	return w
}

// bench measures a hook's whole process, each time with an event of its own and no flusher running.
func (w *world) bench(b *testing.B, name string, event func(i int) []byte) {
	b.Helper()
	var ds []time.Duration
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		e := event(i)
		b.StartTimer()
		ds = append(ds, once(b, w.environ(), e, program, "hook", name))
		b.StopTimer()
		w.stopFlushers()
		b.StartTimer()
	}
	report(b, "process", ds)
}

// BenchmarkSuppressedNotification is the notification that every idle minute brings.
func BenchmarkSuppressedNotification(b *testing.B) {
	w := benchWorld(b)
	event := recorded(b, "timing-09-Notification")
	w.bench(b, notify, func(int) []byte { return event })
}

func BenchmarkSubagentStopChatHanging(b *testing.B) {
	w := hanging(b)
	w.bench(b, notify, func(i int) []byte {
		return recorded(b, "plan-12-SubagentStop", "last_assistant_message", "sub text "+strconv.Itoa(i))
	})
}

// BenchmarkPermissionPromptChatHanging reads the end of a transcript of many megabytes.
func BenchmarkPermissionPromptChatHanging(b *testing.B) {
	w := hanging(b)
	path := w.dir + "/long.jsonl"
	writeFile(b, path, longTranscript())
	w.bench(b, notify, func(i int) []byte {
		return recorded(b, "timing-05-Notification", "message", strconv.Itoa(i), "transcript_path", path)
	})
}

func BenchmarkStopChatHanging(b *testing.B) {
	w := hanging(b)
	w.run(sessionHook, w.event("single-01-SessionStart"))
	w.bench(b, sessionHook, func(i int) []byte { return w.event("single-07-Stop", "prompt_id", strconv.Itoa(i)) })
}

func BenchmarkSessionEndChatHanging(b *testing.B) {
	w := hanging(b)
	w.bench(b, sessionHook, func(i int) []byte {
		id := "session-" + strconv.Itoa(i)
		w.run(sessionHook, w.event("single-07-Stop", "session_id", id))
		return w.event("timing-10-SessionEnd", "session_id", id)
	})
}

// BenchmarkSessionStart is in a git repository: git is asked for branch and commit.
func BenchmarkSessionStart(b *testing.B) {
	w := benchWorld(b)
	w.repository()
	w.bench(b, sessionHook, func(i int) []byte { return w.event("single-01-SessionStart", "session_id", "session-"+strconv.Itoa(i)) })
}

// longTranscript is 8 MB of one turn: tools with long results, and a command that waits.
func longTranscript() string {
	var long []byte
	result := make([]byte, 8000)
	for i := range result {
		result[i] = 'x'
	}
	for i := 0; len(long) < 8<<20; i++ {
		id := strconv.Itoa(i)
		long = append(long, `{"type":"assistant","message":{"id":"msg_`+id+`","content":[{"type":"tool_use","id":"`+id+`","name":"Read","input":{"file_path":"/home/dev/a.go"}}]}}`+"\n"...)
		long = append(long, `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"`+id+`","content":"`+string(result)+`"}]}}`+"\n"...)
	}
	return string(long) + `{"type":"assistant","message":{"id":"msg_last","content":[{"type":"tool_use","id":"last","name":"Bash","input":{"command":"make"}}]}}` + "\n"
}

// BenchmarkBesidePythonNotification runs our hook and the Python hook of the first design in turn, with a notification that
// is suppressed and with one that is sent. The other posts before it returns; ours has it done.
func BenchmarkBesidePythonNotification(b *testing.B) {
	python, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output() // not a version manager's shim
	if err != nil {
		b.Skip("needs python3: ", err)
	}
	w := benchWorld(b)
	suppressed := firstForm(b, "idle", "Idle", "Waiting.", "")
	var ours, py, oursSent, pySent []time.Duration
	for i := 0; b.Loop(); i++ {
		sent := firstForm(b, "subagent_complete", "Subagent finished", "Number "+strconv.Itoa(i), "tester")
		ours = append(ours, once(b, w.environ(), suppressed, program, "hook", notify))
		py = append(py, once(b, w.environ(), suppressed, strings.TrimSpace(string(python)), "../e2e/bench/notification.py"))
		oursSent = append(oursSent, once(b, w.environ(), sent, program, "hook", notify))
		w.stopFlushers()
		pySent = append(pySent, once(b, w.environ(), sent, strings.TrimSpace(string(python)), "../e2e/bench/notification.py"))
	}
	report(b, "suppressed", ours)
	report(b, "python-suppressed", py)
	report(b, "sent", oursSent)
	report(b, "python-sent", pySent)
	b.ReportMetric(ms(median(py))/ms(median(ours)), "python/ours-suppressed")
	b.ReportMetric(ms(median(pySent))/ms(median(oursSent)), "python/ours-sent")
	b.ReportMetric(0, "ns/op")
}
