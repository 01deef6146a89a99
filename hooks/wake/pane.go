package wake

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// pane is the session's pane as tmux showed it.
type pane struct {
	inject.Snapshot           // Screen is "" when tmux could not be asked
	asked, answered time.Time // when tmux was asked, and when it had answered
	told            []string  // Lines as they are told: without box drawing and blank lines
	read            inject.Screen
}

const (
	// tmuxBound is how long tmux may take, on a busy machine too. Claude Code waits for us, and a stopped server never answers.
	tmuxBound = 3 * time.Second

	deltaLines  = 40 // the last lines of a pane that are compared with those before
	lastSaid    = 8  // how far above the input box an error is looked for
	statusLines = 5  // the last lines of a pane that a status line is looked for in
	critical    = 80 // percent
)

// capture asks tmux. When that is gone it is the session that the hooks were last called in, without a screen.
func (f *fire) capture(ctx context.Context) (p pane, err error) {
	p.asked = time.Now()
	ctx, cancel := context.WithTimeout(ctx, tmuxBound)
	defer cancel()
	p.Snapshot, err = inject.ServerOf(f.Env("TMUX")).Snapshot(ctx, f.Env("TMUX_PANE"), f.reg.mostLines)
	p.answered = time.Now()
	if err != nil && f.last != "" {
		f.Log().Warn().Err(err).Str("session", f.last).Msg("tmux did not answer; the message says nothing about the screen")
		p.Snapshot, err = inject.Snapshot{Session: f.last}, nil
	}
	return p, err
}

// keep leaves out what is before the last lines, and reads the screen.
func (p *pane) keep(lines int) {
	p.Lines = p.Lines[max(0, len(p.Lines)-lines):]
	p.told, p.read = clean(p.Lines), inject.ReadScreen(p.Screen)
}

// clean makes lines of a pane ready to be told: without boxes, hidden characters and blank lines.
func clean(lines []string) (kept []string) {
	for _, l := range lines {
		l = oneLine(l)
		frame := func(r rune) bool { return r >= 0x2500 && r <= 0x259f } // box drawing and block elements
		if plain := strings.Join(strings.FieldsFunc(l, frame), " "); plain != l {
			// What was a frame leaves blanks of no meaning.
			l = strings.Join(strings.Fields(plain), " ")
		}
		l = strings.TrimRight(l, " ")
		if l != "" {
			kept = append(kept, l)
		}
	}
	return kept
}

// The states that a message can hint at.
const (
	menuState       = "menu"
	permissionState = "permission_prompt"
	idleState       = "idle"
	errorState      = "error"
	workingState    = "working"
	awaitingState   = "awaiting_user_input"
	terminatedState = "terminated"
)

var (
	// failure is how a line begins that tells of a failure. Claude Code draws an API error below "⎿". A shell names itself
	// before the command that it did not find; and a sum of tests, "Tests failed: 0", is no failure.
	failure = state.Pattern(`^\s*(?:⎿\s*)?(?:[●⏺]\s*)?` +
		`(?:API Error|Traceback \(most recent|Command failed|(?i:error:|fatal:|panic:)` +
		`|(?:(?:line [0-9]+|[^\s:]+): ){1,3}command not found|\S+: [0-9]+: \S+: not found$` +
		`|(?i:(?:there (?:was|were|has been) )?an error(?: occurred)?: )` +
		`|(?i:(?:the )?(?:build|compilation|installation|deployment|command|request|job|pipeline) ` +
		`(?:has )?failed(?:\s*$|[.:!]| with\b| in [0-9])))`)

	percent      = state.Pattern(`(?:^|[^0-9.])([0-9]{1,3})(?:\.[0-9]+)? ?%`)
	aboutContext = state.Pattern(`(?i)\b(?:context|ctx|until auto-?compact)\b`)
	left         = state.Pattern(`(?i)\b(?:left|remaining|until auto-?compact)\b`)
	// separator is what status lines put between one part and the next.
	separator = state.Pattern(`[|│┃║·•∙\x{E0B0}-\x{E0BF}]|[,;] | [-–—/] | {3,}`)
)

// unknownScreens are those that the reader does not know, of other versions and other programs.
var unknownScreens = []struct {
	state string
	words func() *regexp.Regexp
}{
	{menuState, state.Pattern(`(?i)enter to (?:select|confirm)|numbered.*option|↑/↓ to navigate`)},
	{permissionState, state.Pattern(
		`(?i)do you want to |allow this action|\(y/n\)|\[y/N\]|would you like to proceed|needs your permission`)},
	{idleState, state.Pattern(`(?i)what can i help|waiting for (your )?(input|response)|^\s*❯\s*$|^> *$`)},
	{errorState, failure},
}

// stateHint says what the session does from now on: by the event where that says it, else by the screen.
func (f *fire) stateHint() string {
	shown := f.shownState()
	switch {
	case f.trigger.name == askTrigger:
		return awaitingState
	case f.trigger.name == compactTrigger:
		return workingState
	case f.event.Reason == "clear", f.event.Reason == "resume": // an end, but Claude Code stays, with another session
		return idleState
	case f.trigger.name == endTrigger:
		return terminatedState
	case f.trigger.event == "Stop" && shown == workingState: // the spinner is drawn while the Stop hooks run
		return idleState
	}
	return shown
}

// shownState is what the screen says, by its reader, else by patterns, else by what Claude Code notified of.
func (f *fire) shownState() string {
	s := f.pane.read
	switch {
	case s.Shows == inject.Permission:
		return permissionState
	case s.Dialog():
		return menuState
	case s.Busy:
		return workingState
	case s.Shows != inject.Unknown && f.pane.endsInError():
		return errorState
	case s.Shows != inject.Unknown:
		return idleState
	}
	shown := f.pane.told[max(0, len(f.pane.told)-deltaLines):]
	for _, of := range unknownScreens {
		for _, l := range shown {
			// The mode's own line names permissions, whatever is going on.
			if of.words().MatchString(l) && !strings.Contains(l, "shift+tab to cycle") {
				return of.state
			}
		}
	}
	switch {
	case f.trigger.name == permissionTrigger:
		return permissionState
	case f.trigger.event != "Notification" && f.pane.Screen == "": // tmux is gone, and the session with it
		return errorState
	}
	return idleState
}

// endsInError says whether the last thing above the input box is an error.
func (p pane) endsInError() bool {
	box := len(p.told) - 1
	for box >= 0 && !strings.HasPrefix(p.told[box], "❯") {
		box--
	}
	for i := box - 1; i >= max(0, box-lastSaid); i-- {
		switch l := p.told[i]; {
		case failure().MatchString(l):
			return true
		case strings.HasPrefix(l, "●"), strings.HasPrefix(l, "⏺"), strings.HasPrefix(l, "❯"):
			return false // what came before is over
		}
	}
	return false
}

// pressure is how full Claude's context is, by the status line: "47% [OK]", "[WARNING]" from the threshold on, "[CRITICAL]"
// from 80; "unknown" where none says it.
func (p pane) pressure(threshold int) string {
	used, ok := p.contextUsed()
	level := "OK"
	switch {
	case !ok:
		return "unknown"
	case used >= critical:
		level = "CRITICAL"
	case used >= threshold:
		level = "WARNING"
	}
	return fmt.Sprintf("%d%% [%s]", used, level)
}

// contextUsed reads the percentage: the last one in a part of a status line that names the context, else the last one of all.
// Within a part the first one behind that name goes before others. What Claude Code calls left is what is not used.
func (p pane) contextUsed() (used int, ok bool) {
	named := false
	for _, l := range p.status() {
		for _, part := range separator().Split(l, -1) {
			name, all := aboutContext().FindStringIndex(part), percent().FindAllStringSubmatch(part, -1)
			if name != nil {
				all = append(all, percent().FindAllStringSubmatch(part[name[1]:], 1)...)
			}
			if len(all) == 0 || named && name == nil {
				continue
			}
			value, _ := strconv.Atoi(all[len(all)-1][1]) // three digits at most
			if value > 100 {
				continue
			}
			if name != nil && left().MatchString(part) {
				value = 100 - value
			}
			used, ok, named = value, true, name != nil
		}
	}
	return used, ok
}

// status are the lines where a status line stands: below the input box, else the pane's last ones. A dialog has none.
func (p pane) status() (last []string) {
	if p.read.Dialog() {
		return nil
	}
	for _, l := range p.Lines {
		switch {
		case inject.BoxRule(l): // around the input box
			last = nil
		case strings.TrimSpace(l) != "":
			last = append(last, l)
		}
	}
	return last[max(0, len(last)-statusLines):]
}
