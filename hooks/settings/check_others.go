package settings

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gchat-hooks/state"
)

// checkOthers finds hooks of other programs that may answer, deny or change a question before ours. One that is for every
// tool is mostly a log: that is said and no warning.
func (a *audit) checkOthers(context.Context) (fs []state.Finding) {
	var every []string
	for _, s := range a.sources() {
		for _, h := range s.hooks {
			if h.name != "" || h.Event != "PreToolUse" && h.Event != "PermissionRequest" || !mayMatch(h.Matcher, ask) {
				continue
			}
			if h.Event == "PreToolUse" && slices.Contains([]string{"", "*", ".*"}, h.Matcher) {
				if one := h.called() + " (" + s.path + ")"; !slices.Contains(every, one) {
					every = append(every, one)
				}
				continue
			}
			fs = append(fs, state.Finding{Level: state.LevelWarn, What: fmt.Sprintf("another hook is registered on %s for AskUserQuestion in %s: %s", h.Event, s.path, h.called()),
				Means: "it may answer or deny questions before a reply comes", Mend: "see what it does; narrow its matcher in " + s.path + " or take it out"})
		}
	}
	if len(fs) > 0 {
		return fs
	}
	if len(every) > 0 {
		return state.Fine("no other hook is for questions alone; hooks of other programs that see every tool call: " + strings.Join(every, ", "))
	}
	return state.Fine("no other hook decides about questions")
}

// mayMatch is matches for a hook that is none of ours. Claude Code's expressions are JavaScript's: one that Go does not
// understand, as with (?!…), may take anything.
func mayMatch(matcher, tool string) bool {
	if _, err := regexp.Compile(matcher); err != nil && matcher != "*" {
		return true
	}
	return matches(matcher, tool)
}

// called is the program of another's hook, without its words: they may hold a secret.
func (r registered) called() string {
	words, _ := shellWords(r.Command)
	for len(words) > 0 && assignment().MatchString(words[0]) {
		words = words[1:]
	}
	if len(words) == 0 {
		return "(no command)"
	}
	return filepath.Base(words[0])
}
