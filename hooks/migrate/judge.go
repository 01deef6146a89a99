package migrate

import "strings"

var (
	judgeDef  = lazy(`(?m)^def check_ask_user_question_presented\([^\n]*:[ \t]*(?:#[^\n]*)?\r?\n`)
	returnAny = lazy(`(?m)^([ \t]+)return\b[ \t]*([^\n#]*?)[ \t]*(?:#[^\n]*)?\r?$`)
)

// judgeHelper is put above the judge's check: a denied question counts as asked, and its marker is what is left of it.
const judgeHelper = `def gchat_question_was_asked(max_age_minutes=30):
    """Says whether gchat-hooks put a question into Google Chat lately: then it has left, or touched, a marker."""
    import os
    import time

    state = os.environ.get("GCHAT_STATE_DIR") or os.path.join(
        os.environ.get("CLAUDE_PROJECT_DIR") or os.getcwd(), ".claude", "state"
    )
    try:
        with os.scandir(os.path.join(state, "gchat-forwarded-ask")) as markers:
            return any(
                m.name.endswith(".json") and time.time() - m.stat().st_mtime < max_age_minutes * 60 for m in markers
            )
    except OSError:
        return False


`

// judge lets the judge's check_ask_user_question_presented, the function that the design names, see denied questions. It
// does so only where every return of the function is True or False: then True is known to mean "asked".
func (t *text) judge() {
	at := judgeDef().FindStringIndex(t.src)
	if at == nil || strings.Contains(t.src, "gchat-forwarded-ask") || strings.Contains(t.src, "gchat_question_was_asked") {
		return
	}
	line := t.lineAt(at[0])
	strs, _, ok := python(t.src)
	const advice = "a denied question has no call in the transcript; let it pass when .claude/state/gchat-forwarded-ask has a fresh marker, or use gchat-stop-gate"
	if !ok || inString(strs, at[0]) {
		t.see(line, advice)
		return
	}
	end := line + 1
	for end < len(t.lines) && (t.blank(end) || strings.IndexByte(" \t", t.words(end)[0]) >= 0) {
		end++
	}
	body := t.src[at[1]:t.lines[end-1].next]
	returns := returnAny().FindAllStringSubmatch(body, -1)
	for _, r := range returns {
		if r[2] != "True" && r[2] != "False" {
			t.see(line, advice)
			return
		}
	}
	if len(returns) == 0 || strings.Contains(body, "\n    def ") {
		t.see(line, advice)
		return
	}
	first := at[1]
	for _, s := range strs {
		if s.doc && s.start >= at[1] && strings.TrimSpace(t.src[at[1]:s.start]) == "" {
			first = min(lineEnd(t.src, s.end)+1, len(t.src))
		}
	}
	rest := strings.TrimLeft(t.src[first:], "\r\n")
	indent := rest[:len(rest)-len(strings.TrimLeft(rest, " \t"))]
	if indent == "" {
		t.see(line, advice)
		return
	}
	t.replace(at[0], at[0], judgeHelper, "a question in Google Chat counts as asked")
	t.replace(first, first, indent+"if gchat_question_was_asked():\n"+indent+indent+"return True\n", "")
}
