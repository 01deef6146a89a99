package wake

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// pane is the session's pane as tmux showed it.
type pane struct {
	inject.Snapshot               // Screen is "" when tmux could not be asked
	seen            inject.Screen // what it is, by its reader
	told            []string      // Lines as they are told: without box drawing and blank lines
}

const (
	// tmuxBound is how long tmux may take, on a busy machine too. Claude Code waits for us, and a stopped server never answers.
	tmuxBound = 3 * time.Second

	statusLines = 5  // the last lines of a pane that a status line is looked for in
	critical    = 80 // percent
)

// capture asks tmux. When that is gone it is the session that the hooks were last called in, without a screen.
func (f *fire) capture(ctx context.Context) (p pane, err error) {
	ctx, cancel := context.WithTimeout(ctx, tmuxBound)
	defer cancel()
	p.Snapshot, err = inject.ServerOf(f.Env("TMUX")).Snapshot(ctx, f.Env("TMUX_PANE"), mostLines)
	if err != nil && f.last != "" {
		f.Log().Warn().Err(err).Str("session", f.last).Msg("tmux did not answer; the message says nothing about the screen")
		p.Snapshot, err = inject.Snapshot{Session: f.last}, nil
	}
	return p, err
}

// keep reads the screen, and leaves out what is before the last lines.
func (p *pane) keep(lines int) {
	p.seen = inject.ReadScreen(p.Screen)
	p.Lines = p.Lines[max(0, len(p.Lines)-lines):]
	p.told = clean(p.Lines)
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
	percent      = state.Pattern(`(?:^|[^0-9.])([0-9]{1,3})(?:\.[0-9]+)? ?%`)
	aboutContext = state.Pattern(`(?i)\b(?:context|ctx|until auto-?compact)\b`)
	left         = state.Pattern(`(?i)\b(?:left|remaining|until auto-?compact)\b`)
	// separator is what status lines put between one part and the next.
	separator = state.Pattern(`[|│┃║·•∙\x{E0B0}-\x{E0BF}]|[,;] | [-–—/] | {3,}`)
)

// dialogs are how screens ask that the reader does not know, of other versions and other programs.
var dialogs = []struct {
	state string
	words func() *regexp.Regexp
}{
	{menuState, state.Pattern(`(?i)enter to (?:select|confirm)|numbered.*option|↑/↓ to navigate`)},
	{permissionState, state.Pattern(
		`(?i)do you want to |allow this action|\(y/n\)|\[y/N\]|would you like to proceed|needs your permission`)},
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
	p := f.pane
	switch {
	case p.seen.Kind == inject.Question, p.seen.Kind == inject.Review:
		return menuState
	case p.seen.Kind == inject.Permission:
		return permissionState
	case p.seen.Busy:
		return workingState
	}
	for _, dialog := range dialogs {
		asks := func(l string) bool { // the mode's own line names permissions, whatever is going on
			return dialog.words().MatchString(l) && !strings.Contains(l, "shift+tab to cycle")
		}
		if p.seen.Kind == inject.Unknown && slices.ContainsFunc(p.told, asks) {
			return dialog.state
		}
	}
	switch {
	case f.trigger.name == permissionTrigger && p.seen.Kind == inject.Unknown:
		return permissionState
	case f.trigger.kind == "" && p.Screen == "": // tmux is gone, and the session with it
		return errorState
	}
	return idleState
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
// What Claude Code calls left is what is not used.
func (p pane) contextUsed() (used int, ok bool) {
	named := false
	for _, l := range p.status() {
		for _, part := range separator().Split(l, -1) {
			names, all := aboutContext().MatchString(part), percent().FindAllStringSubmatch(part, -1)
			if len(all) == 0 || named && !names {
				continue
			}
			value, err := strconv.Atoi(all[len(all)-1][1])
			if err != nil || value > 100 {
				continue
			}
			if names && left().MatchString(part) {
				value = 100 - value
			}
			used, ok, named = value, true, names
		}
	}
	return used, ok
}

// status are the lines where a status line stands: below the input box, else the pane's last ones. A dialog has none.
func (p pane) status() (last []string) {
	if p.seen.Dialog() {
		return nil
	}
	for _, l := range p.Lines {
		switch {
		case len(l) >= len("────────") && strings.HasPrefix(l, "───") && strings.HasSuffix(l, "──"): // around the input box
			last = nil
		case strings.TrimSpace(l) != "":
			last = append(last, l)
		}
	}
	return last[max(0, len(last)-statusLines):]
}
