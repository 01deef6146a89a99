package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gchat-hooks/inject"
)

// A contest is a dialog that we and a person answer at the same time.
type contest struct {
	name    string
	asks    []question
	also    []question // queued behind it
	ours    []inject.Choice
	told    string                   // when we were first
	keys    []string                 // the person's
	marks   []string                 // what only our answer says
	sees    func(screen string) bool // what the person wants to see before the next key; nil for one who types blindly
	average time.Duration
}

func contests() []*contest {
	return []*contest{
		{name: "choice", asks: []question{deploy}, ours: []inject.Choice{pick(deploy, 2)}, told: `"="Rolling deployment"`, keys: []string{"3"}, marks: []string{"Rolling", "neither"}},
		{name: "choice by Down, Enter", asks: []question{deploy}, ours: []inject.Choice{pick(deploy, 3)}, told: `"="Canary"`, keys: []string{"Down", "Enter"}, marks: []string{"Canary"}},
		{name: "choice, another queued", asks: []question{deploy}, also: []question{database}, ours: []inject.Choice{pick(deploy, 2)}, told: `"="Rolling deployment"`, keys: []string{"3"}, marks: []string{"Rolling", "neither"}},
		{name: "own words", asks: []question{deploy}, ours: []inject.Choice{choice(deploy, own("neither, wait"))}, told: `"="neither, wait"`, keys: []string{"3"}, marks: []string{"Rolling", "neither"}},
		{name: "multi, blindly", asks: []question{features}, ours: []inject.Choice{choice(features, labels("Auth", "Search"))}, told: `"="Auth, Search"`, keys: []string{"2", "Tab", "1"}, marks: []string{"Auth", "Search"}},
		{name: "multi", asks: []question{features}, ours: []inject.Choice{choice(features, labels("Auth", "Search"))}, told: `"="Auth, Search"`, keys: []string{"2", "Tab", "1"}, marks: []string{"Auth", "Search"},
			sees: func(screen string) bool {
				return !strings.Contains(screen, "[✔] Auth") && !strings.Contains(screen, "[✔] Search") && !strings.Contains(screen, "→ Auth")
			}},
		{name: "two questions, blindly", asks: []question{database, features}, ours: []inject.Choice{pick(database, 2), choice(features, labels("Search"))},
			told: `"Which DB?"="SQLite", "Which features do you want to enable?"="Search"`, keys: []string{"1", "1", "Tab", "1"}, marks: []string{"SQLite", "Search"}},
	}
}

// A person answers in the terminal while we type. Claude must be told our answer or the person's, never something of
// both, and nothing of ours may be left over.
//
// GCHAT_E2E_RACES=N is a long run of N rounds for each version, over all shapes or those whose name holds GCHAT_E2E_RACE.
func TestInjectedWhileAPersonAnswers(t *testing.T) {
	rounds, only := 6, "choice" // the other shapes may end as mixtures, which are reported; see what the long run counts
	if n, err := strconv.Atoi(os.Getenv("GCHAT_E2E_RACES")); err == nil {
		rounds, only = n, os.Getenv("GCHAT_E2E_RACE")
	}
	eachClaude(t, ours, func(t *testing.T, cl claude) {
		all := slices.DeleteFunc(contests(), func(c *contest) bool { return only != "" && !strings.Contains(c.name, only) })
		tally := map[string]int{}
		var s *session
		for i := range rounds {
			if i%40 == 0 || s == nil {
				if s != nil {
					s.command("kill-server")
				}
				s = start(t, cl, config{})
			}
			c := all[i%len(all)]
			id := fmt.Sprintf("toolu_race%d", i)
			s.ask(c, id)
			verdict := s.race(t, c, id)
			tally[c.name+": "+verdict]++
			if strings.HasPrefix(verdict, "BAD") {
				t.Errorf("round %d, %s: %s\n%s", i, c.name, verdict, s.Screen())
				s.command("kill-server")
				s = nil
			}
		}
		var lines []string
		for k, n := range tally {
			lines = append(lines, fmt.Sprintf("%4d %s", n, k))
		}
		slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[5:], b[5:]) })
		t.Logf("%s, %d rounds:\n%s", cl.Version, rounds, strings.Join(lines, "\n"))
	})
}

const open, unseen, gone = "open", "unseen", "gone"

// standing says whether a dialog is on the screen, once that stands; unseen where the screen shows something unknown.
func (y *typing) standing(choices []inject.Choice) string {
	y.still()
	capture, err := inject.ServerOf(y.TMUX()).Capture(context.Background(), y.Pane())
	switch s := inject.ReadScreen(capture); {
	case err != nil || s.Shows == inject.Unknown:
		return unseen
	case s.Shows == inject.Review || s.Shows == inject.Question && slices.ContainsFunc(choices, func(c inject.Choice) bool {
		return inject.Same(s.Question, c.Prompt.Question) || s.Cut && inject.Ends(s.Question, c.Prompt.Question)
	}):
		return open
	}
	return gone
}

func (s *session) ask(c *contest, id string) {
	s.t.Helper()
	asks := turn{ask(c.asks...)}
	asks[0].ID = id
	if c.also != nil {
		asks = append(asks, ask(c.also...))
	}
	s.API.mu.Lock()
	s.API.script = append(s.API.script[:min(s.API.played, len(s.API.script))], asks, thanks)
	s.API.mu.Unlock()
	s.Prompt("go ahead")
	s.WaitScreen("Esc to cancel")
}

// race answers once, with a person at it after a random time, and says how it ended.
func (s *session) race(t *testing.T, c *contest, id string) string {
	y := typist(t, s)
	at := y.target()
	if c.average == 0 {
		c.average = 800 * time.Millisecond
	}
	delay := time.Duration(rand.Float64() * 1.3 * float64(c.average))
	person := make(chan struct{})
	go func() {
		defer close(person)
		time.Sleep(delay)
		for _, k := range c.keys {
			if c.sees != nil && k != c.keys[0] {
				if _, ok := s.look(3*time.Second, c.sees); !ok {
					return
				}
			}
			_, _ = s.tmux.run("send-keys", "-t", "=claude:", k)
			time.Sleep(time.Duration(100+rand.IntN(150)) * time.Millisecond)
		}
	}()
	began := time.Now()
	out := y.Answer(context.Background(), at, c.ours)
	if out.Result == inject.Injected && time.Since(began) < 4*c.average {
		c.average = (3*c.average + time.Since(began)) / 4
	}
	<-person
	detail := fmt.Sprintf(" (%s, %q, person after %v: %s)", out.Result, out.Steps, delay, out.Why)
	standing := y.standing(c.ours)
	if standing == open {
		left := fmt.Sprintf("open, %s", out.Result)
		if out.Result == inject.Injected {
			return "BAD: " + left + detail
		}
		s.Keys("Escape")
		if _, ok := s.look(stubborn, func(screen string) bool { return !strings.Contains(screen, "Esc to cancel") }); !ok {
			s.Keys("Escape")
		}
		s.endQueued(c)
		s.WaitIdle()
		return left
	}
	if c.also != nil {
		// The queued one must be open.
		next := []inject.Choice{pick(database, 1)}
		s.look(stubborn, func(string) bool { standing = y.standing(next); return standing != unseen })
		if standing != open && out.Result != inject.Injected {
			return "BAD: the queued one is " + standing + detail
		}
		s.endQueued(c)
	}
	s.WaitIdle()
	if rest := boxed(s.Screen()); rest != "" {
		late := strings.NewReplacer("Tab", "", "Down", "", "Enter", "").Replace(strings.Join(c.keys, ""))
		if !strings.Contains(late, rest) { // what the person typed too late is the person's
			return "BAD: left in the box: " + rest + detail
		}
		s.Keys("C-u")
	}
	results := s.API.ToolResults()
	i := slices.IndexFunc(results, func(r toolResult) bool { return r.ToolUseID == id })
	if i < 0 {
		if out.Result == inject.Injected {
			return "BAD: Claude was told nothing" + detail
		}
		return "nothing, " + string(out.Result)
	}
	got := results[i].Text
	switch {
	case strings.Contains(got, c.told) && out.Result == inject.Unchanged:
		return "BAD: ours, but " + detail
	case strings.Contains(got, c.told):
		if out.Result == inject.Dirty {
			t.Log("ours" + detail)
		}
		return "ours, " + string(out.Result)
	case slices.ContainsFunc(c.marks, func(m string) bool { return strings.Contains(got, m) }):
		if !strings.HasPrefix(c.name, "choice") {
			return "both, " + string(out.Result) // a key that is pressed in the same few milliseconds as ours cannot be seen before it
		}
		return fmt.Sprintf("BAD: Claude was told %.300q", got) + detail
	}
	if out.Result == inject.Injected {
		return "theirs, injected" + detail
	}
	return "theirs, " + string(out.Result)
}

// endQueued answers what else is open with its first option. 2.1.197 may show the second of two dialogs first.
func (s *session) endQueued(c *contest) {
	open := func(screen string) bool { return strings.Contains(screen, "Esc to cancel") }
	for range 4 {
		if c.also == nil {
			return
		}
		if _, there := s.look(time.Second, open); !there {
			return
		}
		screen := s.still()
		if strings.Contains(screen, "❯ 3. Type") || strings.Contains(screen, "❯ 4. Type") || !strings.Contains(screen, "Type something.") { // a late key of the person's
			s.Keys("Up")
			s.still()
		}
		s.Keys("1")
		s.look(2*time.Second, func(screen string) bool { return !open(screen) })
	}
}
