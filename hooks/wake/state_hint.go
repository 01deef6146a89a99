package wake

import (
	"regexp"
	"strings"
	"sync"

	"gchat-hooks/inject"
)

// The states that a message can hint at.
const (
	menuState       = "menu"
	permissionState = "permission_prompt"
	idleState       = "idle"
	errorState      = "error"
	workingState    = "working"
	awaitingState   = "awaiting_user_input"
)

// looks are patterns for screens that the reader does not know, of other versions and other programs.
var looks = sync.OnceValue(func() []look {
	return []look{
		{menuState, regexp.MustCompile(`(?i)enter to (?:select|confirm)|numbered.*option|↑/↓ to navigate`)},
		{permissionState, regexp.MustCompile(
			`(?i)do you want to |allow this action|\(y/n\)|\[y/N\]|would you like to proceed|needs your permission`)},
		{idleState, regexp.MustCompile(`(?i)what can i help|waiting for (your )?(input|response)|^\s*❯\s*$|^> *$`)},
		{errorState, failure()},
	}
})

type look struct {
	state   string
	pattern *regexp.Regexp
}

// failure is how a line begins that tells of a failure. Claude Code draws an API error below "⎿". A shell names itself before
// the command that it did not find; and a sum of tests, "Tests failed: 0", is no failure.
var failure = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*(?:⎿\s*)?(?:[●⏺]\s*)?` +
		`(?:API Error|Traceback \(most recent|Command failed|(?i:error:|fatal:|panic:)` +
		`|(?:(?:line [0-9]+|[^\s:]+): ){1,3}command not found|\S+: [0-9]+: \S+: not found$` +
		`|(?i:(?:there (?:was|were|has been) )?an error(?: occurred)?: )` +
		`|(?i:(?:the )?(?:build|compilation|installation|deployment|command|request|job|pipeline) ` +
		`(?:has )?failed(?:\s*$|[.:!]| with\b| in [0-9])))`)
})

// warm has the patterns compiled that a screen is read with, which takes as long as tmux does to show one.
func warm() {
	s := sight{raw: []string{"1% ctx 1%"}, screen: "1% ctx 1%\n"}
	s.keep(1)
	(&fire{sight: s}).stateHint()
	s.pressure(0)
}

// lastSaid is how far above the input box an error is looked for.
const lastSaid = 8

// stateHint says what the session is about to do, as far as its screen tells: first the reader's word, then patterns, then
// what the event itself means.
func (f *fire) stateHint() string {
	if f.trigger.name == askTrigger {
		return awaitingState
	}
	s := inject.ReadScreen(f.sight.screen)
	switch s.Kind {
	case inject.Question, inject.Review:
		return menuState
	case inject.Permission:
		return permissionState
	case inject.Prompt, inject.Draft:
		switch {
		case s.Busy:
			return workingState
		case f.sight.endsInError():
			return errorState
		}
		return idleState
	}
	if s.Busy {
		return workingState
	}
	shown := f.sight.lines[max(0, len(f.sight.lines)-deltaLines):]
	for _, look := range looks() {
		for _, l := range shown {
			// The mode's own line names permissions, whatever is going on.
			if look.pattern.MatchString(l) && !strings.Contains(l, "shift+tab to cycle") {
				return look.state
			}
		}
	}
	switch {
	case f.trigger.name == permissionTrigger:
		return permissionState
	case f.trigger.kind == "idle_prompt":
		return idleState
	case f.sight.screen == "": // tmux is gone, and the session with it
		return errorState
	}
	return workingState
}

// endsInError says whether the last thing above the input box is an error.
func (s sight) endsInError() bool {
	above := len(s.raw)
	for rules := 0; above > 0 && rules < 2; above-- {
		if isRule(s.raw[above-1]) {
			rules++
		}
	}
	for i := above - 1; i >= max(0, above-lastSaid); i-- {
		switch l := s.raw[i]; {
		case failure().MatchString(l):
			return true
		case strings.HasPrefix(l, "●"), strings.HasPrefix(l, "⏺"), strings.HasPrefix(l, "❯"):
			return false // what came before is over
		}
	}
	return false
}

// isRule says whether a line is one of those around the input box.
func isRule(l string) bool {
	return len([]rune(l)) >= 8 && strings.HasPrefix(l, "───") && strings.HasSuffix(l, "──")
}
