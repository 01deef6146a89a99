package hooks

import (
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

func TestTurnEnd_TextEndsInQuestion(t *testing.T) {
	for text, want := range map[string]bool{
		"Shall I?": true, "Done. *Shall I go on?*\n": true, "コミットしますか？": true,
		`He said "why?"`: true, "Done.": false, "Why? Because.": false, "": false,
	} {
		kit.Equalf(t, endsInQuestion(text), want, "%q", text)
	}
}

// A turn that ends without a question leaves one line. If the person is asked for the
// next instruction, that question replaces the line.
func TestTurnEnd_LeavesALine(t *testing.T) {
	const done = "Done, all tests pass.\n\nThe *details* are in the log."
	long := strings.Repeat("word ", 100)
	for name, c := range map[string]struct {
		text   string
		config string
		want   string // "": none
	}{
		"a text": {done, "", "[Turn Done] orch-epic4\n`Done, all tests pass. The *details* are in the log.`"},
		"a long text": {long, "", "[Turn Done] orch-epic4\n" + strings.Repeat("word ",
			39) + "word…"},
		"a question":      {"Shall I commit?", "", ""},
		"every end waits": {done, `{"idle":"on"}`, ""},
		"no end waits": {"Shall I commit?", `{"idle":"off"}`,
			"[Turn Done] orch-epic4\nShall I commit?"},
		"switched off": {done, `{"reports":{"turn_done":"off"}}`, ""},
		"a key in it": {"The key is sk-ant-api03-" + strings.Repeat("a", 93) + "AA.", "",
			"[Turn Done] orch-epic4\nThe key is sk-ant-api03-•••."},
		"without a text": {"", "", "[Turn Done] orch-epic4"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReportWorld(t)
			w.writeConfig(c.config)
			w.callHook(sessionHook, w.event("single-02-UserPromptSubmit"))
			beginning := reportText(w.reports()[0].Report)
			w.env["TMUX_PANE"] = "%1" // the poller would type the answer, so the hook does not wait
			w.callHook(rewakeHook, w.event("single-07-Stop", "last_assistant_message", c.text))
			w.wantReports(nonEmpty(beginning, c.want)...)
		})
	}
}

// If a session gets nothing from a thread, its turns leave no lines.
func TestTurnEnd_QuietSessionLeavesNothing(t *testing.T) {
	w := newReportWorld(t)
	w.callHook(rewakeHook, w.event("single-07-Stop", "last_assistant_message", "Done."))
	w.wantReports()
}
