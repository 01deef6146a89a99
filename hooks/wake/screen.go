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
	inject.Snapshot               // Screen is "" when tmux could not be asked
	askedAt, answeredAt time.Time // when tmux was asked, and when it had answered
	toldLines           []string  // Lines as they are told: without box drawing and blank lines
	parsed              inject.Screen
}

const (
	// tmuxTimeout is how long tmux may take, on a busy machine too. Claude Code waits for
	// us, and a stopped server never answers.
	tmuxTimeout = 3 * time.Second

	comparedLines     = 40 // the last lines of a pane that are compared with those before
	errorSearchLines  = 8  // how far above the input box an error is looked for
	statusSearchLines = 5  // the last lines of a pane that a status line is looked for in
	criticalPercent   = 80 // percent
)

// capturePane asks tmux. When that is gone it is the session that the hooks were last
// called in, without a screen.
func (f *wakeHook) capturePane(ctx context.Context) (p pane, err error) {
	p.askedAt = time.Now()
	ctx, cancel := context.WithTimeout(ctx, tmuxTimeout)
	defer cancel()
	p.Snapshot, err = inject.ServerOf(f.Env("TMUX")).
		Snapshot(ctx, f.Env("TMUX_PANE"), f.loadedRegistry.maxPaneLines)
	p.answeredAt = time.Now()
	if err != nil && f.lastTmuxSession != "" {
		f.Log().
			Warn().
			Err(err).
			Str("session", f.lastTmuxSession).
			Msg("tmux did not answer; the message says nothing about the screen")
		p.Snapshot, err = inject.Snapshot{Session: f.lastTmuxSession}, nil
	}
	return p, err
}

// keepLastLines leaves out what is before the last lines, and reads the screen.
func (p *pane) keepLastLines(lines int) {
	p.Lines = p.Lines[max(0, len(p.Lines)-lines):]
	p.toldLines, p.parsed = cleanLines(p.Lines), inject.ReadScreen(p.Screen)
}

// cleanLines makes lines of a pane ready to be told: without boxes, hidden characters and
// blank lines.
func cleanLines(lines []string) (cleaned []string) {
	for _, l := range lines {
		l = oneLine(l)
		// box drawing and block elements
		isFrame := func(r rune) bool { return r >= 0x2500 && r <= 0x259f }
		if plain := strings.Join(strings.FieldsFunc(l, isFrame), " "); plain != l {
			// What was a frame leaves blanks of no meaning.
			l = strings.Join(strings.Fields(plain), " ")
		}
		l = strings.TrimRight(l, " ")
		if l != "" {
			cleaned = append(cleaned, l)
		}
	}
	return cleaned
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
	// failurePattern is how a line begins that tells of a failure. Claude Code draws an
	// API error below "⎿". A shell names itself before the command that it did not find;
	// and a sum of tests, "Tests failed: 0", is no failure.
	failurePattern = state.LazyPattern(`^\s*(?:⎿\s*)?(?:[●⏺]\s*)?` +
		`(?:API Error|Traceback \(most recent|Command failed|(?i:error:|fatal:|panic:)` +
		`|(?:(?:line [0-9]+|[^\s:]+): ){1,3}command not found|\S+: [0-9]+: \S+: not found$` +
		`|(?i:(?:there (?:was|were|has been) )?an error(?: occurred)?: )` +
		`|(?i:(?:the )?(?:build|compilation|installation|deployment|command|request|job|pipeline) ` +
		`(?:has )?failed(?:\s*$|[.:!]| with\b| in [0-9])))`)

	percentPattern   = state.LazyPattern(`(?:^|[^0-9.])([0-9]{1,3})(?:\.[0-9]+)? ?%`)
	contextPattern   = state.LazyPattern(`(?i)\b(?:context|ctx|until auto-?compact)\b`)
	remainingPattern = state.LazyPattern(`(?i)\b(?:left|remaining|until auto-?compact)\b`)
	// separatorPattern is what status lines put between one part and the next.
	separatorPattern = state.LazyPattern(`[|│┃║·•∙\x{E0B0}-\x{E0BF}]|[,;] | [-–—/] | {3,}`)
)

// screenPatterns are those that the reader does not know, of other versions and other
// programs.
var screenPatterns = []struct {
	state string
	words func() *regexp.Regexp
}{
	{
		menuState,
		state.LazyPattern(`(?i)enter to (?:select|confirm)|numbered.*option|↑/↓ to navigate`),
	},
	{permissionState, state.LazyPattern(
		`(?i)do you want to |allow this action|\(y/n\)|\[y/N\]|would you like to proceed|needs your permission`,
	)},
	{
		idleState,
		state.LazyPattern(
			`(?i)what can i help|waiting for (your )?(input|response)|^\s*❯\s*$|^> *$`,
		),
	},
	{errorState, failurePattern},
}

// stateHint says what the session does from now on: by the event where that says it, else
// by the screen.
func (f *wakeHook) stateHint() string {
	shown := f.screenState()
	switch {
	case f.trigger.name == questionTrigger:
		return awaitingState
	case f.trigger.name == compactTrigger:
		return workingState
	case f.event.Reason == "clear", f.event.Reason == "resume":
		// an end, but Claude Code stays, with another session
		return idleState
	case f.trigger.name == endTrigger:
		return terminatedState
	case f.trigger.hookEvent == "Stop" && shown == workingState:
		// the spinner is drawn while the Stop hooks run
		return idleState
	}
	return shown
}

// screenState is what the screen says, by its reader, else by patterns, else by what
// Claude Code notified of.
func (f *wakeHook) screenState() string {
	screen := f.pane.parsed
	switch {
	case screen.Shows == inject.Permission:
		return permissionState
	case screen.IsDialog():
		return menuState
	case screen.Busy:
		return workingState
	case screen.Shows != inject.Unknown && f.pane.endsInError():
		return errorState
	case screen.Shows != inject.Unknown:
		return idleState
	}
	shown := f.pane.toldLines[max(0, len(f.pane.toldLines)-comparedLines):]
	for _, known := range screenPatterns {
		for _, l := range shown {
			// The mode's own line names permissions, whatever is going on.
			if known.words().MatchString(l) && !strings.Contains(l, "shift+tab to cycle") {
				return known.state
			}
		}
	}
	switch {
	case f.trigger.name == permissionTrigger:
		return permissionState
	case f.trigger.hookEvent != "Notification" && f.pane.Screen == "":
		// tmux is gone, and the session with it
		return errorState
	}
	return idleState
}

// endsInError says whether the last thing above the input box is an error.
func (p pane) endsInError() bool {
	boxIndex := len(p.toldLines) - 1
	for boxIndex >= 0 && !strings.HasPrefix(p.toldLines[boxIndex], "❯") {
		boxIndex--
	}
	for i := boxIndex - 1; i >= max(0, boxIndex-errorSearchLines); i-- {
		switch l := p.toldLines[i]; {
		case failurePattern().MatchString(l):
			return true
		case strings.HasPrefix(l, "●"), strings.HasPrefix(l, "⏺"), strings.HasPrefix(l, "❯"):
			return false // what came before is over
		}
	}
	return false
}

// contextPressure is how full Claude's context is, by the status line: "47% [OK]",
// "[WARNING]" from the threshold on, "[CRITICAL]" from 80; "unknown" where none says it.
func (p pane) contextPressure(threshold int) string {
	used, ok := p.contextPercent()
	level := "OK"
	switch {
	case !ok:
		return "unknown"
	case used >= criticalPercent:
		level = "CRITICAL"
	case used >= threshold:
		level = "WARNING"
	}
	return fmt.Sprintf("%d%% [%s]", used, level)
}

// contextPercent reads the percentage: the last one in a part of a status line that names
// the context, else the last one of all. Within a part the first one behind that name
// goes before others. What Claude Code calls left is what is not used.
func (p pane) contextPercent() (used int, ok bool) {
	isNamed := false
	for _, l := range p.statusLines() {
		for _, part := range separatorPattern().Split(l, -1) {
			name, all := contextPattern().FindStringIndex(part),
				percentPattern().FindAllStringSubmatch(part, -1)
			if name != nil {
				all = append(all, percentPattern().FindAllStringSubmatch(part[name[1]:], 1)...)
			}
			if len(all) == 0 || isNamed && name == nil {
				continue
			}
			value, _ := strconv.Atoi(all[len(all)-1][1]) // three digits at most
			if value > 100 {
				continue
			}
			if name != nil && remainingPattern().MatchString(part) {
				value = 100 - value
			}
			used, ok, isNamed = value, true, name != nil
		}
	}
	return used, ok
}

// statusLines are the lines where a status line stands: below the input box, else the
// pane's last ones. A dialog has none.
func (p pane) statusLines() (last []string) {
	if p.parsed.IsDialog() {
		return nil
	}
	for _, l := range p.Lines {
		switch {
		case inject.IsBoxRule(l): // around the input box
			last = nil
		case strings.TrimSpace(l) != "":
			last = append(last, l)
		}
	}
	return last[max(0, len(last)-statusSearchLines):]
}
