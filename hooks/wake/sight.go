package wake

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// sight is the session as tmux shows it.
type sight struct {
	session string
	others  []string  // sessions that share the pane
	pane    string    // its id; "" when tmux could not be asked
	wanted  int       // lines that were asked for
	asked   time.Time // when tmux was asked
	seen    time.Time // when it had answered
	screen  string    // with styles; "" when tmux could not be asked
	raw     []string  // the last lines of the pane
	lines   []string  // the same as they are told: without box drawing and blank lines
}

// keep leaves out what is before the last lines.
func (s *sight) keep(lines int) {
	s.raw = s.raw[max(0, len(s.raw)-lines):]
	s.lines = clean(s.raw)
}

// hash tells one look of the pane from another; a bar that fills is another one.
func (s *sight) hash() string { return hash(s.raw...) }

// look asks tmux. When that is gone it is the session that the pane was last seen in, without a screen.
func (f *fire) look(ctx context.Context, lines int) (sight, error) {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, tmuxBound)
	defer cancel()
	seen, err := inject.ServerOf(f.Env("TMUX")).Snapshot(ctx, f.Env("TMUX_PANE"), lines)
	user := state.UserState(f.Env)
	if err != nil {
		if name := state.WakePane(user, f.place()); name != "" {
			f.Log().Warn().Err(err).Str("session", name).Msg("tmux not asked; the message says nothing of the screen")
			return sight{session: name, asked: asked, wanted: lines}, nil
		}
		return sight{}, err
	}
	_ = state.RememberWakePane(user, f.place(), seen.Session) // only for when tmux is gone
	return sight{
		session: seen.Session, others: seen.Others, pane: seen.Pane,
		wanted: lines, asked: asked, seen: time.Now(), screen: seen.Screen, raw: seen.Lines,
	}, nil
}

// place is the pane, as this process knows it.
func (f *fire) place() string { return f.Env("TMUX") + " " + f.Env("TMUX_PANE") }

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

const (
	critical    = 80 // percent
	statusLines = 5  // the last lines of a pane that a status line is looked for in
)

var (
	percent = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:^|[^0-9.])([0-9]{1,3})(?:\.[0-9]+)? ?%`)
	})
	aboutContext = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)\b(?:context|ctx|until auto-?compact)\b`)
	})
	leftBefore = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)\b(?:left|remaining|until auto-?compact)\b[^0-9]*$`)
	})
	leftAfter = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)^\)? *(?:of )?(?:the )?(?:context |ctx )?(?:left|remaining|until auto-?compact)\b`)
	})
	// between are what status lines put between one part and the next.
	between = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`[|│┃║·•∙\x{E0B0}-\x{E0BF}]|[,;] | [-–—/] | {3,}`)
	})
	// wordsNumber and numbersWord are what stands between the word and its own number, or a number and its own word.
	wordsNumber = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:[^\pL0-9]|\b(?i:left|until|auto|compact|remaining|used|usage|window|size|` +
			`is|at|now|low|full|of|the|tokens?|[0-9.]+[km]?)\b)*$`)
	})
	numbersWord = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)^\)? *(?:of )?(?:the |your )?(?:left )?$`)
	})
)

// pressure is how full Claude's context is, by the status line: "47% [OK]", "[WARNING]" from the threshold on, "[CRITICAL]"
// from 80; "unknown" where none says it.
func (s sight) pressure(threshold int) string {
	used, ok := s.contextUsed()
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

// contextUsed reads the percentage. A line that names the context goes before one that does not; of several numbers in a
// line the word's own counts, or else the last. What Claude Code calls left is what is not used.
func (s sight) contextUsed() (used int, ok bool) {
	named := false
	for _, l := range s.status() {
		word := aboutContext().FindStringIndex(l)
		if word == nil && named {
			continue
		}
		numbers := percent().FindAllStringSubmatchIndex(l, -1)
		if len(numbers) == 0 {
			continue
		}
		n, from := numbers[len(numbers)-1], 0
		if word != nil {
			n, from = wordsOwn(l, numbers)
		}
		number, err := strconv.Atoi(l[n[2]:n[3]])
		if err != nil || number > 100 {
			continue
		}
		if word != nil && leftBefore().MatchString(l[min(from, n[2]):n[2]]) || leftAfter().MatchString(l[n[1]:]) {
			number = 100 - number
		}
		used, ok, named = number, true, named || word != nil
	}
	return used, ok
}

// wordsOwn is the number that a line's word for the context means, and where that word begins: "47% ctx | 5h 90%" and
// "5h 90% | ctx 47%" say the same. One in the word's own part of the line goes before others; after the word before one before
// it, but where the line reads the other way round.
func wordsOwn(l string, numbers [][]int) (n []int, from int) {
	start := 0
	for _, cut := range append(between().FindAllStringIndex(l, -1), []int{len(l), len(l)}) {
		var own [][]int
		for _, n := range numbers {
			if n[2] >= start && n[3] <= cut[0] {
				own = append(own, n)
			}
		}
		if word := aboutContext().FindStringIndex(l[start:cut[0]]); word != nil && len(own) > 0 {
			return beside(l, start, start+word[0], start+word[1], own), start + word[0]
		}
		start = cut[1]
	}
	word := aboutContext().FindStringIndex(l)
	return beside(l, 0, word[0], word[1], numbers), word[0]
}

// beside is the one of some numbers that belongs to the word which stands from..to in the part of l that begins at start.
func beside(l string, start, from, to int, numbers [][]int) []int {
	var before, after []int
	for _, n := range numbers {
		switch {
		case n[3] <= from:
			before = n
		case after == nil:
			after = n
		}
	}
	switch {
	case before == nil:
		return after
	case after == nil:
		return before
	}
	numberFirst := !strings.ContainsFunc(l[start:numbers[0][2]], unicode.IsLetter) // what comes after has a word of its own
	if numbersWord().MatchString(l[before[1]:from]) && (numberFirst || !wordsNumber().MatchString(l[to:after[2]])) {
		return before
	}
	return after
}

// status are the lines where a status line stands: below the input box, else the pane's last ones. A dialog has none.
func (s sight) status() []string {
	switch inject.ReadScreen(s.screen).Kind {
	case inject.Question, inject.Review, inject.Permission:
		return nil
	case inject.Prompt, inject.Draft:
		for i := len(s.raw) - 1; i >= 0; i-- {
			if isRule(s.raw[i]) {
				return s.raw[i+1:]
			}
		}
	}
	var last []string
	for _, l := range s.raw {
		if strings.TrimSpace(l) != "" {
			last = append(last, l)
		}
	}
	return last[max(0, len(last)-statusLines):]
}
