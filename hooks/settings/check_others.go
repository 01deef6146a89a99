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
// tool is mostly a log, but it runs for questions, too, and may decide about them. One in the background cannot.
func (a *audit) checkOthers(context.Context) (fs []state.Finding) {
	for _, s := range a.sources() {
		named := map[string]bool{}
		for _, h := range s.hooks {
			if h.name != "" || h.async || h.Event != "PreToolUse" && h.Event != "PermissionRequest" || !mayMatch(h.Matcher, ask) {
				continue
			}
			every := h.Event == "PreToolUse" && slices.Contains([]string{"", "*", ".*"}, h.Matcher)
			if every && named[h.called()] {
				continue
			}
			what := fmt.Sprintf("another hook is registered on %s for AskUserQuestion in %s: %s", h.Event, s.path, h.called())
			means := "it may answer or deny questions before a reply comes"
			if every {
				named[h.called()] = true
				const words = "another hook is registered on PreToolUse for every tool, so for AskUserQuestion too, in %s: %s"
				what = fmt.Sprintf(words, s.path, h.called())
				means = "it runs before each question, and may answer, deny or delay it"
			}
			fs = append(fs, warned(what, means, "see what it does; "+s.narrow())...)
		}
	}
	if len(fs) == 0 {
		return state.Fine("no other hook decides about questions")
	}
	return fs
}

// narrow is how a hook of another program is kept from questions.
func (s *source) narrow() string {
	switch s.scope {
	case plugin:
		return "if it decides about questions: claude plugin disable " + state.ShellQuoted(s.name)
	case managed:
		return "ask your administrator to narrow its matcher in " + s.path
	}
	return "narrow its matcher in " + s.path + " to the tools that it is for, or take it out"
}

// mayMatch is matches for a hook that is none of ours. Claude Code's expressions are JavaScript's: one that Go does not
// understand, as with (?!…), may take anything.
func mayMatch(matcher, tool string) bool {
	if _, err := regexp.Compile(matcher); err != nil && matcher != "*" {
		return true
	}
	return matches(matcher, tool)
}

// called is the program of another's hook, without its words: they may hold a secret, as may what stands before it.
func (r registered) called() string {
	for _, word := range strings.Fields(r.Command) {
		if strings.ContainsAny(word, "'\"\\") {
			break
		}
		if !strings.Contains(word, "=") {
			return filepath.Base(word)
		}
	}
	return "a shell command"
}
