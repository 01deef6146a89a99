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

// pane is a picture of the session's pane in tmux.
type pane struct {
	inject.Snapshot               // Screen is "" if tmux could not be asked
	askedAt, answeredAt time.Time // when tmux was asked, and when it had answered
	// Lines as a message has them: without box drawing and blank lines
	cleanedLines []string
	parsed       inject.Screen
}

const (
	// tmuxTimeout is how long tmux may take, also on a busy machine. Claude Code waits
	// for this hook, and a stopped tmux server never answers.
	tmuxTimeout = 3 * time.Second

	comparedLines     = 40 // how many last lines of a pane are compared with the earlier ones
	errorSearchLines  = 8  // how many lines above the input box are searched for an error
	statusSearchLines = 5  // how many last lines of a pane are searched for a status line
	criticalPercent   = 80
)

// capturePane asks tmux for the pane. If tmux is gone, it returns a pane without a
// screen, in the tmux session that the session's hooks last ran in.
func (f *wakeHook) capturePane(ctx context.Context) (p pane, err error) {
	p.askedAt = time.Now()
	ctx, cancel := context.WithTimeout(ctx, tmuxTimeout)
	defer cancel()
	server := inject.ServerOf(f.Env("TMUX"))
	p.Snapshot, err = server.Snapshot(ctx, f.Env("TMUX_PANE"), f.loadedRegistry.maxPaneLines)
	p.answeredAt = time.Now()
	if err != nil && f.lastTmuxSession != "" {
		f.Log().Warn().Err(err).Str("session", f.lastTmuxSession).
			Msg("tmux did not answer: the message says nothing about the screen")
		p.Snapshot, err = inject.Snapshot{Session: f.lastTmuxSession}, nil
	}
	return p, err
}

// keepLastLines drops all but the last lines, and reads the screen.
func (p *pane) keepLastLines(lines int) {
	p.Lines = p.Lines[max(0, len(p.Lines)-lines):]
	p.cleanedLines, p.parsed = cleanLines(p.Lines), inject.ReadScreen(p.Screen)
}

// cleanLines prepares lines of a pane for a message: without boxes, hidden characters and
// blank lines.
func cleanLines(lines []string) (cleaned []string) {
	for _, l := range lines {
		l = oneLine(l)
		// These are box drawing and block elements.
		isFrame := func(r rune) bool { return r >= 0x2500 && r <= 0x259f }
		if plain := strings.Join(strings.FieldsFunc(l, isFrame), " "); plain != l {
			// The blanks that a frame leaves mean nothing.
			l = strings.Join(strings.Fields(plain), " ")
		}
		l = strings.TrimRight(l, " ")
		if l != "" {
			cleaned = append(cleaned, l)
		}
	}
	return cleaned
}

// These are the states that a message can name.
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
	// failurePattern matches the beginning of a line about a failure. Claude Code draws
	// an API error below "⎿". A shell writes its own name before a command that it did
	// not find. A count such as "Tests failed: 0" is not a failure.
	failurePattern = state.LazyPattern(`^\s*(?:⎿\s*)?(?:[●⏺]\s*)?` +
		`(?:API Error|Traceback \(most recent|Command failed|(?i:error:|fatal:|panic:)` +
		`|(?:(?:line [0-9]+|[^\s:]+): ){1,3}command not found|\S+: [0-9]+: \S+: not found$` +
		`|(?i:(?:there (?:was|were|has been) )?an error(?: occurred)?: )` +
		`|(?i:(?:the )?(?:build|compilation|installation|deployment|command|request|job|pipeline) ` +
		`(?:has )?failed(?:\s*$|[.:!]| with\b| in [0-9])))`)

	percentPattern   = state.LazyPattern(`(?:^|[^0-9.])([0-9]{1,3})(?:\.[0-9]+)? ?%`)
	contextPattern   = state.LazyPattern(`(?i)\b(?:context|ctx|until auto-?compact)\b`)
	remainingPattern = state.LazyPattern(`(?i)\b(?:left|remaining|until auto-?compact)\b`)
	// separatorPattern matches what separates the parts of a status line.
	separatorPattern = state.LazyPattern(`[|│┃║·•∙\x{E0B0}-\x{E0BF}]|[,;] | [-–—/] | {3,}`)
)

// screenPatterns match screens that inject.ReadScreen does not know: those of other
// versions and other programs.
var screenPatterns = []struct {
	state   string
	pattern func() *regexp.Regexp
}{
	{menuState, state.LazyPattern(
		`(?i)enter to (?:select|confirm)|numbered.*option|↑/↓ to navigate`)},
	{permissionState, state.LazyPattern(`(?i)do you want to |allow this action|\(y/n\)|\[y/N\]` +
		`|would you like to proceed|needs your permission`)},
	{idleState, state.LazyPattern(
		`(?i)what can i help|waiting for (your )?(input|response)|^\s*❯\s*$|^> *$`)},
	{errorState, failurePattern},
}

// stateHint is the state that the session is in from now on: by the event if that says
// it, else by the screen.
func (f *wakeHook) stateHint() string {
	shown := f.screenState()
	switch {
	case f.trigger.name == questionTrigger:
		return awaitingState
	case f.trigger.name == compactTrigger:
		return workingState
	case f.event.Reason == "clear", f.event.Reason == "resume":
		// One session ends, but Claude Code goes on with another.
		return idleState
	case f.trigger.name == endTrigger:
		return terminatedState
	case f.trigger.hookEvent == "Stop" && shown == workingState:
		// Claude Code draws the spinner while the Stop hooks run.
		return idleState
	}
	return shown
}

// screenState is the state that the screen shows: as inject.ReadScreen reads it, else by
// screenPatterns, else by the type of Claude Code's notification.
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
	shown := f.pane.cleanedLines[max(0, len(f.pane.cleanedLines)-comparedLines):]
	for _, known := range screenPatterns {
		for _, l := range shown {
			// The line that names the mode can name permissions at any time.
			isModeLine := strings.Contains(l, "shift+tab to cycle")
			if known.pattern().MatchString(l) && !isModeLine {
				return known.state
			}
		}
	}
	switch {
	case f.trigger.name == permissionTrigger:
		return permissionState
	case f.trigger.hookEvent != "Notification" && f.pane.Screen == "":
		// tmux is gone, and the session with it.
		return errorState
	}
	return idleState
}

// endsInError reports whether the last thing above the input box is an error.
func (p pane) endsInError() bool {
	boxIndex := len(p.cleanedLines) - 1
	for boxIndex >= 0 && !strings.HasPrefix(p.cleanedLines[boxIndex], "❯") {
		boxIndex--
	}
	for i := boxIndex - 1; i >= max(0, boxIndex-errorSearchLines); i-- {
		switch l := p.cleanedLines[i]; {
		case failurePattern().MatchString(l):
			return true
		case strings.HasPrefix(l, "●"), strings.HasPrefix(l, "⏺"), strings.HasPrefix(l, "❯"):
			return false // an error further up is over
		}
	}
	return false
}

// contextPressure says how full Claude's context is, by the status line: "47% [OK]",
// "[WARNING]" from the threshold on, "[CRITICAL]" from 80 on. It is "unknown" if no line
// says it.
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

// contextPercent reads from the status lines how much of the context is used, in percent.
// A percentage in a part that names the context counts before any other; among equals,
// the last one counts. A percentage that is called "left" is one that is not used.
func (p pane) contextPercent() (used int, ok bool) {
	isNamed := false
	for _, l := range p.statusLines() {
		for _, part := range separatorPattern().Split(l, -1) {
			name := contextPattern().FindStringIndex(part)
			value, isFound := percentIn(part, name)
			if !isFound || value > 100 || isNamed && name == nil {
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

// percentIn returns the first percentage in part behind the context's name, if part has
// one there; otherwise the last percentage in part.
func percentIn(part string, name []int) (value int, ok bool) {
	all := percentPattern().FindAllStringSubmatch(part, -1)
	if name != nil {
		all = append(all, percentPattern().FindAllStringSubmatch(part[name[1]:], 1)...)
	}
	if len(all) == 0 {
		return 0, false
	}
	value, _ = strconv.Atoi(all[len(all)-1][1]) // at most three digits, so it is a number
	return value, true
}

// statusLines are the lines in which a status line may be: below the input box, else the
// pane's last ones. A dialog has none.
func (p pane) statusLines() (last []string) {
	if p.parsed.IsDialog() {
		return nil
	}
	for _, l := range p.Lines {
		switch {
		case inject.IsBoxRule(l): // a border of the input box
			last = nil
		case strings.TrimSpace(l) != "":
			last = append(last, l)
		}
	}
	return last[max(0, len(last)-statusSearchLines):]
}
