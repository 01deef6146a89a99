package state

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Stats is what was asked, answered and sent since a time. Its JSON keys stay: other programs read them.
type Stats struct {
	Since time.Time                    `json:"since"`
	All   *Tally                       `json:"all"`
	By    map[string]map[string]*Tally `json:"by"` // day, project, session

	Names map[string]string `json:"-"` // of sessions, by id
}

// Tally is what was counted in a time, a project or a session.
type Tally struct {
	Counts  map[string]int `json:"counts"`         // by what is counted: permissions, answered_in_chat, messages_sent …
	Lost    []string       `json:"lost,omitempty"` // ids of questions whose reply was taken, and Claude had no answer
	Posted  Seconds        `json:"asked_to_posted"`
	Replied Seconds        `json:"posted_to_answered"`
	Told    Seconds        `json:"answered_to_told"`
}

// Seconds are lengths of time; in JSON, and as text, their median and 95th percentile.
type Seconds []float64

// Add adds the time between two clocks, which may differ, where both are known.
func (s *Seconds) Add(from, to *time.Time) {
	if from != nil && to != nil {
		*s = append(*s, max(0, to.Sub(*from).Seconds()))
	}
}

// Percentile is the length that so many percent stay below; 0 where there is none.
func (s Seconds) Percentile(percent int) float64 {
	if len(s) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(s))[len(s)*percent/100]
}

func (s Seconds) String() string {
	if len(s) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f s (19 of 20 within %.1f s)", s.Percentile(50), s.Percentile(95))
}

func (s Seconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]float64{"p50": s.Percentile(50), "p95": s.Percentile(95)})
}

// Text is the report for a person, as a whole and by what is named.
func (r *Stats) Text(parts ...string) string {
	var text strings.Builder
	asked := []string{"questions", "permissions", "plans", "instructions"} // they go first, then what became of them
	say := func(what string, t *Tally) {
		others := slices.DeleteFunc(slices.Sorted(maps.Keys(t.Counts)), func(name string) bool {
			return slices.Contains(asked, name)
		})
		for _, name := range slices.Concat(asked, others) {
			if n, counted := t.Counts[name]; counted {
				what += fmt.Sprintf(" %s %d,", strings.ReplaceAll(name, "_", " "), n)
			}
		}
		fmt.Fprintln(&text, OneLine(fmt.Sprintf("%s lost %d %s", what, len(t.Lost), strings.Join(t.Lost, " "))))
	}
	say("since "+r.Since.Local().Format(time.DateTime)+":", r.All)
	if len(r.All.Posted)+len(r.All.Replied)+len(r.All.Told) > 0 {
		const times = "asked to posted: %s, posted to answered: %s, answered to told Claude: %s\n"
		fmt.Fprintf(&text, times, r.All.Posted, r.All.Replied, r.All.Told)
	}
	for _, by := range parts {
		for _, key := range slices.Sorted(maps.Keys(r.By[by])) {
			say(strings.TrimSpace(by+" "+r.Names[key])+" "+key+":", r.By[by][key])
		}
	}
	return text.String()
}

// ReadStats counts what was asked and sent since then: questions in their records and, when those are gone, in the log of
// decisions; messages in the log, which keeps the last 10 MB. What cannot be read is left out.
func ReadStats(env Getenv, since time.Time) *Stats {
	by := map[string]map[string]*Tally{"day": {}, "project": {}, "session": {}}
	r := &Stats{Since: since, All: &Tally{Counts: map[string]int{}}, By: by, Names: map[string]string{}}
	projects := map[string]string{} // by session
	ends := map[string]Ending{}
	for _, e := range linesOf[Ending](AuditPath(env)) {
		ends[e.ID] = e
	}
	qs, _ := OpenQuestions(env)
	for _, q := range append(qs, KeptWords(env)...) {
		if q.Mode.Row().Asks {
			ends[q.QuestionID] = q.Ending()
		}
	}
	for _, e := range ends {
		projects[e.SessionID], r.Names[e.SessionID] = e.Project, e.Session
	}
	sessions, _ := SessionsIn(UserState(env)).All()
	for _, s := range sessions {
		projects[s.ID], r.Names[s.ID] = s.ProjectDir, s.Name
	}
	for _, e := range ends {
		if e.EndedBy == Instead { // it goes on in the terminal, or another one came in its place
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
	names := map[string]string{LogSent: "messages_sent", LogRefused: "messages_refused"}
	counted := map[string]bool{} // killed after a message was logged as sent, the poller logs it again
	for _, m := range append(linesOf[logged](LogPath(env)+".1"), linesOf[logged](LogPath(env))...) {
		name, final := names[m.Message]
		switch {
		case !final && m.Tries > 0:
			name = "messages_tried_again"
		case !final, counted[m.ID]:
			continue
		}
		counted[m.ID] = counted[m.ID] || final
		project := cmp.Or(projects[m.Session], m.Project)
		if project == UserState(env) { // it is the person's
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
	b, _ := ReadLinked(path, MostRead)
	for line := range bytes.Lines(b) {
		var one T
		if bytes.Contains(line, []byte(`"id":`)) && json.Unmarshal(line, &one) == nil {
			all = append(all, one)
		}
	}
	return all
}

// tallies are those that something counts in; none where it was before the report begins.
func (r *Stats) tallies(at time.Time, project, session string) (in []*Tally) {
	if at.Before(r.Since) {
		return nil
	}
	for by, key := range map[string]string{"day": at.Local().Format(time.DateOnly), "project": project, "session": session} {
		if key == "" {
			continue
		}
		if r.By[by][key] == nil {
			r.By[by][key] = &Tally{Counts: map[string]int{}}
		}
		in = append(in, r.By[by][key])
	}
	return append(in, r.All)
}

func (t *Tally) count(e Ending) {
	kind, answered := e.Kind+"s", "unanswered"
	if Kind(e.Kind).Row().Prompt {
		kind = "instructions"
	}
	switch {
	case e.Status.Open():
		answered = "open"
	case e.EndedBy == "terminal", e.EndedBy == "prompt" && e.By == "" && Kind(e.Kind) == AskedNext: // went on there
		answered = "answered_in_the_terminal"
	case e.Declined != "":
		answered = "turned_down"
	case e.By == Local:
		answered = "answered_by_command"
	case e.By != "":
		answered = "answered_in_chat"
	}
	t.Counts[kind]++
	t.Counts[answered]++
	t.Counts["late_replies"] += e.Late
	t.Counts["replies_not_used"] += e.NotUsed
	t.Posted.Add(&e.Asked, e.Posted)
	t.Replied.Add(e.Posted, e.Replied)
	t.Told.Add(e.Replied, e.Told)
	if e.Lost() {
		t.Lost = append(t.Lost, e.ID)
	}
}
