package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/state"
)

const week = 7 // days

func (p Program) statsCommand() *cli.Command {
	return &cli.Command{
		Name:  "stats",
		Usage: "show what was asked and answered, where and how fast, and whether anything was lost",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "days", Value: week, Usage: "of the last `N` days"},
			&cli.BoolFlag{Name: "json", Usage: "print a JSON object"},
		},
		Action: func(c *cli.Context) error {
			r := readStats(p.env, time.Now().AddDate(0, 0, -c.Int("days")))
			text := r.text("day", "project", "session")
			if c.Bool("json") {
				text = inJSON(r)
			}
			_, err := io.WriteString(p.out, plain(text))
			return err
		},
	}
}

// statsReport is what stats shows, and what --json prints: its keys stay.
type statsReport struct {
	Since time.Time                    `json:"since"`
	All   *tally                       `json:"all"`
	By    map[string]map[string]*tally `json:"by"` // day, project, session

	names map[string]string // of sessions
}

// tally is what was counted in a time, a project or a session.
type tally struct {
	Counts  map[string]int `json:"counts"`         // by what is counted: permissions, answered_in_chat, messages_sent …
	Lost    []string       `json:"lost,omitempty"` // ids of questions whose reply was taken, and Claude had no answer
	Posted  seconds        `json:"asked_to_posted"`
	Replied seconds        `json:"posted_to_answered"`
	Told    seconds        `json:"answered_to_told"`
}

// seconds are lengths of time.
type seconds []float64

// add adds the time between two clocks, which may differ, where both are known.
func (s *seconds) add(from, to *time.Time) {
	if from != nil && to != nil {
		*s = append(*s, max(0, to.Sub(*from).Seconds()))
	}
}

// percentile is 0 where there is none.
func (s seconds) percentile(percent int) float64 {
	if len(s) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(s))[len(s)*percent/100]
}

func (s seconds) String() string {
	if len(s) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f s (19 of 20 within %.1f s)", s.percentile(50), s.percentile(95))
}

func (s seconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]float64{"p50": s.percentile(50), "p95": s.percentile(95)})
}

// readStats counts what was asked and sent since then: questions in their records and, when those are gone, in the log of
// decisions; messages in the log, which keeps the last 10 MB. What cannot be read is left out.
func readStats(env state.Getenv, since time.Time) *statsReport {
	by := map[string]map[string]*tally{"day": {}, "project": {}, "session": {}}
	r := &statsReport{Since: since, All: &tally{Counts: map[string]int{}}, By: by, names: map[string]string{}}
	projects := map[string]string{} // by session
	ends := map[string]state.Ending{}
	for _, e := range linesOf[state.Ending](state.AuditPath(env)) {
		ends[e.ID] = e
	}
	qs, _ := state.OpenQuestions(env)
	for _, q := range qs {
		if q.Mode.Row().Asks {
			ends[q.QuestionID] = q.Ending()
		}
	}
	for _, e := range ends {
		projects[e.SessionID], r.names[e.SessionID] = e.Project, e.Session
	}
	sessions, _ := state.SessionsIn(state.UserState(env)).All()
	for _, s := range sessions {
		projects[s.ID], r.names[s.ID] = s.ProjectDir, s.Name
	}
	for _, e := range ends {
		if e.EndedBy == state.Instead { // it goes on in the terminal, or another one came in its place
			continue
		}
		for _, t := range r.tallies(e.Asked, e.Project, e.SessionID) {
			t.count(e)
		}
	}
	type logged struct {
		Time                          time.Time
		Message, ID, Project, Session string
		Tries                         int
	}
	names := map[string]string{state.LogSent: "messages_sent", state.LogRefused: "messages_refused"}
	counted := map[string]bool{} // killed after a message was logged as sent, the poller logs it again
	for _, m := range append(linesOf[logged](state.LogPath(env)+".1"), linesOf[logged](state.LogPath(env))...) {
		name, final := names[m.Message]
		switch {
		case !final && m.Tries > 0:
			name = "messages_tried_again"
		case !final, counted[m.ID]:
			continue
		}
		counted[m.ID] = counted[m.ID] || final
		project := cmp.Or(projects[m.Session], m.Project)
		if project == state.UserState(env) { // it is the person's
			project = ""
		}
		for _, t := range r.tallies(m.Time, project, m.Session) {
			t.Counts[name]++
		}
	}
	return r
}

// linesOf are the lines of a log that have an id.
func linesOf[T any](path string) (all []T) {
	b, _ := os.ReadFile(path)
	for line := range bytes.Lines(b) {
		var one T
		if bytes.Contains(line, []byte(`"id":`)) && json.Unmarshal(line, &one) == nil {
			all = append(all, one)
		}
	}
	return all
}

// tallies are those that something counts in; none where it was before the report begins.
func (r *statsReport) tallies(at time.Time, project, session string) (in []*tally) {
	if at.Before(r.Since) {
		return nil
	}
	for by, key := range map[string]string{"day": at.Local().Format(time.DateOnly), "project": project, "session": session} {
		if key == "" {
			continue
		}
		if r.By[by][key] == nil {
			r.By[by][key] = &tally{Counts: map[string]int{}}
		}
		in = append(in, r.By[by][key])
	}
	return append(in, r.All)
}

func (t *tally) count(e state.Ending) {
	kind, answered := e.Kind+"s", "unanswered"
	if state.Kind(e.Kind).Row().Prompt {
		kind = "instructions"
	}
	switch {
	case e.Status.Open():
		answered = "open"
	case e.EndedBy == "terminal", e.EndedBy == "prompt" && e.By == "" && state.Kind(e.Kind) == state.AskedNext: // went on there
		answered = "answered_in_the_terminal"
	case e.By == state.Local:
		answered = "answered_by_command"
	case e.By != "":
		answered = "answered_in_chat"
	}
	t.Counts[kind]++
	t.Counts[answered]++
	t.Counts["late_replies"] += e.Late
	t.Counts["replies_not_used"] += e.NotUsed
	t.Posted.add(&e.Asked, e.Posted)
	t.Replied.add(e.Posted, e.Replied)
	t.Told.add(e.Replied, e.Told)
	if e.Lost() {
		t.Lost = append(t.Lost, e.ID)
	}
}

// text is the report for a person, as a whole and by what is named.
func (r *statsReport) text(parts ...string) string {
	var text strings.Builder
	say := func(what string, t *tally) {
		for _, name := range slices.Sorted(maps.Keys(t.Counts)) {
			what += fmt.Sprintf(" %d %s,", t.Counts[name], strings.ReplaceAll(name, "_", " "))
		}
		fmt.Fprintln(&text, state.OneLine(fmt.Sprintf("%s %d lost %s", what, len(t.Lost), strings.Join(t.Lost, " "))))
	}
	say("since "+local(r.Since)+":", r.All)
	fmt.Fprintf(&text, "posted after %s, answered after %s more, told to Claude after %s more\n", r.All.Posted, r.All.Replied, r.All.Told)
	for _, by := range parts {
		for _, key := range slices.Sorted(maps.Keys(r.By[by])) {
			say(strings.TrimSpace(by+" "+r.names[key])+" "+key+":", r.By[by][key])
		}
	}
	return text.String()
}
