package migrate

import (
	"path"
	"regexp"
	"strings"
)

var constantDef = lazy(`(?m)^[ \t]*([A-Z][A-Z0-9_]*)(?:[ \t]*:[ \t]*[\w.\[\]]+)?[ \t]*=[ \t]*["']` + relay + `["'][ \t]*(?:#.*)?\r?$`)

// agentsDef is the constant that the checker compares with. The relay stays in it: where it still runs, it keeps counting.
const agentsDef = "# Any of these keeps the session's team alive.\nPERSISTENT_AGENTS = (\"s3-heartbeat\", \"s3-validator\", \"" + relay + "\")\n"

// checkPersistent rewrites a stop gate's checker that looks for the relay so that it looks for any persistent agent. It
// understands comparisons with the name, or with a constant that holds it: name == "…", "…" in names. It changes all of
// them or, when one is used in another way, nothing, and says which.
func checkPersistent(t *text) bool {
	strs, comments, ok := python(t.src)
	if !ok {
		t.see(0, "the stop gate's checker cannot be read as Python")
		return false
	}
	if strings.Contains(t.src, "PERSISTENT_AGENTS") {
		return false // somebody was here
	}
	constants := constantDef().FindAllStringSubmatchIndex(t.src, -1)
	compared := 0
	for _, s := range strs {
		switch {
		case s.value == relay && inAny(constants, s.start):
		case s.value == relay && !s.doc:
			if !t.compare(s.start, s.end) {
				t.forget()
				t.see(t.lineAt(s.start), "the stop gate's checker uses the relay's name in a way that is not understood")
				return false
			}
			compared++
		case s.doc:
		case names(t.src[s.start:s.end]) && !otherAgents(t.src[s.start:s.end]):
			// Words for Claude: what it is told to start must not be the relay.
			for _, at := range relayName().FindAllStringIndex(t.src[s.start:s.end], -1) {
				t.replace(s.start+at[0], s.start+at[1], "s3-heartbeat", "the message names an agent that there is")
			}
		}
	}
	for _, c := range constants {
		n, ok := t.compareConstant(c, strs, comments)
		if !ok {
			t.forget()
			return false
		}
		compared += n
	}
	if compared == 0 {
		t.forget()
		return false
	}
	for _, c := range constants {
		t.see(t.lineAt(c[0]), "nothing here compares with it any longer, but other files may use it")
	}
	t.defineAgents(strs)
	return true
}

// compareConstant rewrites the comparisons with a constant that holds the name. The constant stays: other files may import it.
func (t *text) compareConstant(def []int, strs []pyString, comments []span) (compared int, ok bool) {
	name := t.src[def[2]:def[3]]
	use := regexp.MustCompile(`\b(?:self\.|cls\.|[A-Z]\w*\.)?` + name + `\b`)
	for _, at := range use.FindAllStringIndex(t.src, -1) {
		if at[0] >= def[0] && at[1] <= def[1] || within(comments, at[0]) {
			continue
		}
		if inString(strs, at[0]) || !t.compare(at[0], at[1]) {
			t.see(t.lineAt(at[0]), "the stop gate's checker uses the relay's name in a way that is not understood")
			return 0, false
		}
		compared++
	}
	return compared, true
}

func (t *text) defineAgents(strs []pyString) {
	at := importsEnd(t.src, strs)
	words := agentsDef
	if at > len("\ufeff") {
		words = "\n" + words
	}
	if at < len(t.src) && t.src[at] != '\n' && t.src[at] != '\r' {
		words += "\n"
	}
	t.replace(at, at, words, "the agents that count")
}

// isChecker says whether a file is the stop gate's checker of the relay, by the name that the design gave it.
func isChecker(p string) bool {
	return path.Base(p) == oldModule+".py" && strings.HasPrefix(p, ".claude/hooks/")
}

func inAny(places [][]int, at int) bool {
	for _, p := range places {
		if p[0] <= at && at < p[1] {
			return true
		}
	}
	return false
}

func within(spans []span, at int) bool {
	for _, s := range spans {
		if s.start <= at && at < s.end {
			return true
		}
	}
	return false
}

func inString(strs []pyString, at int) bool {
	for _, s := range strs {
		if s.start <= at && at < s.end {
			return true
		}
	}
	return false
}
