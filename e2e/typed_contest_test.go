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

// A answerRace is a dialog that we and a person answer at the same time.
type answerRace struct {
	name       string
	asks       []question
	queued     []question // queued behind it
	ourChoices []inject.Choice
	ourResult  string   // when we were first
	personKeys []string // the person's
	ourTraces  []string // what only our answer says
	// what the person wants to see before the next key; nil for one who types blindly
	isReady   func(screen string) bool
	meanDelay time.Duration
}

func answerRaces() []*answerRace {
	return []*answerRace{
		{
			name:       "choice",
			asks:       []question{deployQuestion},
			ourChoices: []inject.Choice{pickOption(deployQuestion, 2)},
			ourResult:  `"="Rolling deployment"`,
			personKeys: []string{"3"},
			ourTraces:  []string{"Rolling", "neither"},
		},
		{
			name:       "choice by Down, Enter",
			asks:       []question{deployQuestion},
			ourChoices: []inject.Choice{pickOption(deployQuestion, 3)},
			ourResult:  `"="Canary"`,
			personKeys: []string{"Down", "Enter"},
			ourTraces:  []string{"Canary"},
		},
		{
			name:       "choice, another queued",
			asks:       []question{deployQuestion},
			queued:     []question{databaseQuestion},
			ourChoices: []inject.Choice{pickOption(deployQuestion, 2)},
			ourResult:  `"="Rolling deployment"`,
			personKeys: []string{"3"},
			ourTraces:  []string{"Rolling", "neither"},
		},
		{
			name:       "own words",
			asks:       []question{deployQuestion},
			ourChoices: []inject.Choice{choiceOf(deployQuestion, ownWords("neither, wait"))},
			ourResult:  `"="neither, wait"`,
			personKeys: []string{"3"},
			ourTraces:  []string{"Rolling", "neither"},
		},
		{
			name:       "multi, blindly",
			asks:       []question{featuresQuestion},
			ourChoices: []inject.Choice{choiceOf(featuresQuestion, labelAnswer("Auth", "Search"))},
			ourResult:  `"="Auth, Search"`,
			personKeys: []string{"2", "Tab", "1"},
			ourTraces:  []string{"Auth", "Search"},
		},
		{
			name:       "multi",
			asks:       []question{featuresQuestion},
			ourChoices: []inject.Choice{choiceOf(featuresQuestion, labelAnswer("Auth", "Search"))},
			ourResult:  `"="Auth, Search"`,
			personKeys: []string{"2", "Tab", "1"},
			ourTraces:  []string{"Auth", "Search"},
			isReady: func(screen string) bool {
				return !strings.Contains(screen, "[✔] Auth") &&
					!strings.Contains(screen, "[✔] Search") && !strings.Contains(screen, "→ Auth")
			},
		},
		{
			name: "two questions, blindly",
			asks: []question{databaseQuestion, featuresQuestion},
			ourChoices: []inject.Choice{
				pickOption(databaseQuestion, 2), choiceOf(featuresQuestion, labelAnswer("Search")),
			},
			ourResult:  `"Which DB?"="SQLite", "Which features do you want to enable?"="Search"`,
			personKeys: []string{"1", "1", "Tab", "1"},
			ourTraces:  []string{"SQLite", "Search"},
		},
	}
}

// A person answers in the terminal while we type. Claude must be told our answer or the
// person's, never something of both, and nothing of ours may be left over.
//
// GCHAT_E2E_RACES=N is a long run of N rounds for each version, over all shapes or those
// whose name holds GCHAT_E2E_RACE.
func TestTyping_WhileAPersonAnswers(t *testing.T) {
	// the other shapes may end as mixtures, which are reported; see what the long run
	// counts
	rounds, only := 6, "choice"
	if n, err := strconv.Atoi(os.Getenv("GCHAT_E2E_RACES")); err == nil {
		rounds, only = n, os.Getenv("GCHAT_E2E_RACE")
	}
	eachClaude(t, testedVersions, func(t *testing.T, cl claude) {
		all := slices.DeleteFunc(answerRaces(),
			func(c *answerRace) bool { return only != "" && !strings.Contains(c.name, only) })
		tally := map[string]int{}
		var s *session
		for i := range rounds {
			if i%40 == 0 || s == nil {
				if s != nil {
					s.runTmux("kill-server")
				}
				s = startSession(t, cl, config{})
			}
			c := all[i%len(all)]
			id := fmt.Sprintf("toolu_race%d", i)
			s.askContest(c, id)
			verdict := s.runRace(t, c, id)
			tally[c.name+": "+verdict]++
			if strings.HasPrefix(verdict, "BAD") {
				t.Errorf("round %d, %s: %s\n%s", i, c.name, verdict, s.Screen())
				s.runTmux("kill-server")
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

const dialogOpen, dialogUnknown, dialogGone = "open", "unseen", "gone"

// dialogState says whether a dialog is on the screen, once that stands; unseen where the
// screen shows something unknown.
func (y *typistSession) dialogState(choices []inject.Choice) string {
	y.awaitStill()
	capture, err := inject.ServerOf(y.TMUX()).Capture(context.Background(), y.Pane())
	switch s := inject.ReadScreen(capture); {
	case err != nil || s.Shows == inject.Unknown:
		return dialogUnknown
	case s.Shows == inject.Review ||
		s.Shows == inject.Question && slices.ContainsFunc(choices, func(c inject.Choice) bool {
			return inject.SameText(s.Question, c.SubQuestion.Question) ||
				s.IsCut && inject.IsEndOf(s.Question, c.SubQuestion.Question)
		}):
		return dialogOpen
	}
	return dialogGone
}

func (s *session) askContest(c *answerRace, id string) {
	s.t.Helper()
	asks := turn{questionCall(c.asks...)}
	asks[0].ID = id
	if c.queued != nil {
		asks = append(asks, questionCall(c.queued...))
	}
	s.API.DropTurns()
	s.API.AddTurns(asks, thanksTurn)
	s.Prompt("go ahead")
	s.WaitScreen("Esc to cancel")
}

// runRace answers once, with a person at it after a random time, and says how it ended.
func (s *session) runRace(t *testing.T, c *answerRace, id string) string {
	y := newTypistSession(t, s)
	at := y.target()
	if c.meanDelay == 0 {
		c.meanDelay = 800 * time.Millisecond
	}
	delay := time.Duration(rand.Float64() * 1.3 * float64(c.meanDelay))
	person := make(chan struct{})
	go func() {
		defer close(person)
		time.Sleep(delay)
		for _, k := range c.personKeys {
			if c.isReady != nil && k != c.personKeys[0] {
				if _, ok := s.pollScreen(3*time.Second, c.isReady); !ok {
					return
				}
			}
			_, _ = s.tmux.run("send-keys", "-t", "=claude:", k)
			time.Sleep(time.Duration(100+rand.IntN(150)) * time.Millisecond)
		}
	}()
	began := time.Now()
	out := y.AnswerDialog(context.Background(), at, c.ourChoices)
	if out.Result == inject.Injected && time.Since(began) < 4*c.meanDelay {
		c.meanDelay = (3*c.meanDelay + time.Since(began)) / 4
	}
	<-person
	detail := fmt.Sprintf(" (%s, %q, person after %v: %s)", out.Result, out.Steps, delay, out.Why)
	standing := y.dialogState(c.ourChoices)
	if standing == dialogOpen {
		left := fmt.Sprintf("open, %s", out.Result)
		if out.Result == inject.Injected {
			return "BAD: " + left + detail
		}
		s.Keys("Escape")
		if _, ok := s.pollScreen(retryAfter,
			func(screen string) bool { return !strings.Contains(screen, "Esc to cancel") }); !ok {
			s.Keys("Escape")
		}
		s.answerQueued(c)
		s.WaitIdle()
		return left
	}
	if c.queued != nil {
		// The queued one must be open.
		next := []inject.Choice{pickOption(databaseQuestion, 1)}
		s.pollScreen(retryAfter,
			func(string) bool { standing = y.dialogState(next); return standing != dialogUnknown })
		if standing != dialogOpen && out.Result != inject.Injected {
			return "BAD: the queued one is " + standing + detail
		}
		s.answerQueued(c)
	}
	s.WaitIdle()
	if rest := inputText(s.Screen()); rest != "" {
		late := strings.NewReplacer("Tab", "", "Down", "", "Enter",
			"").Replace(strings.Join(c.personKeys, ""))
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
	case strings.Contains(got, c.ourResult) && out.Result == inject.Unchanged:
		return "BAD: ours, but " + detail
	case strings.Contains(got, c.ourResult):
		if out.Result == inject.Dirty {
			t.Log("ours" + detail)
		}
		return "ours, " + string(out.Result)
	case slices.ContainsFunc(c.ourTraces, func(m string) bool { return strings.Contains(got, m) }):
		if !strings.HasPrefix(c.name, "choice") {
			// a key that is pressed in the same few milliseconds as ours cannot be seen
			// before it
			return "both, " + string(out.Result)
		}
		return fmt.Sprintf("BAD: Claude was told %.300q", got) + detail
	}
	if out.Result == inject.Injected {
		return "theirs, injected" + detail
	}
	return "theirs, " + string(out.Result)
}

// answerQueued answers what else is open with its first option. 2.1.197 may show the
// second of two dialogs first.
func (s *session) answerQueued(c *answerRace) {
	open := func(screen string) bool { return strings.Contains(screen, "Esc to cancel") }
	for range 4 {
		if c.queued == nil {
			return
		}
		if _, there := s.pollScreen(time.Second, open); !there {
			return
		}
		screen := s.awaitStill()
		if strings.Contains(screen, "❯ 3. Type") || strings.Contains(screen, "❯ 4. Type") ||
			!strings.Contains(screen, "Type something.") {
			// a late key of the person's
			s.Keys("Up")
			s.awaitStill()
		}
		s.Keys("1")
		s.pollScreen(2*time.Second, func(screen string) bool { return !open(screen) })
	}
}
