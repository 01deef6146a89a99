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

// Stats is what was asked, answered and sent since a time. Its JSON keys stay: other
// programs read them.
type Stats struct {
	Since  time.Time                    `json:"since"`
	Total  *Tally                       `json:"all"`
	Groups map[string]map[string]*Tally `json:"by"` // day, project, session

	SessionNames map[string]string `json:"-"` // of sessions, by id
}

// Tally is what was counted in a time, a project or a session.
type Tally struct {
	// by what is counted: permissions, answered_in_chat, messages_sent …
	Counts map[string]int `json:"counts"`
	// ids of questions whose reply was taken, and Claude had no answer
	LostQuestions   []string  `json:"lost,omitempty"`
	AskedToPosted   Durations `json:"asked_to_posted"`
	PostedToReplied Durations `json:"posted_to_answered"`
	RepliedToTold   Durations `json:"answered_to_told"`
}

// Durations are lengths of time; in JSON, and as text, their median and 95th percentile.
type Durations []float64

// Add adds the time between two clocks, which may differ, where both are known.
func (s *Durations) Add(from, to *time.Time) {
	if from != nil && to != nil {
		*s = append(*s, max(0, to.Sub(*from).Seconds()))
	}
}

// Percentile is the length that so many percent stay below; 0 where there is none.
func (s Durations) Percentile(percent int) float64 {
	if len(s) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(s))[len(s)*percent/100]
}

func (s Durations) String() string {
	if len(s) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f s (19 of 20 within %.1f s)", s.Percentile(50), s.Percentile(95))
}

func (s Durations) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]float64{"p50": s.Percentile(50), "p95": s.Percentile(95)})
}

// Text is the report for a person, as a whole and by what is named.
func (r *Stats) Text(parts ...string) string {
	var text strings.Builder
	// they go first, then what became of them
	asked := []string{"questions", "permissions", "plans", "instructions"}
	writeTally := func(what string, t *Tally) {
		others := slices.DeleteFunc(slices.Sorted(maps.Keys(t.Counts)), func(name string) bool {
			return slices.Contains(asked, name)
		})
		for _, name := range slices.Concat(asked, others) {
			if n, counted := t.Counts[name]; counted {
				what += fmt.Sprintf(" %s %d,", strings.ReplaceAll(name, "_", " "), n)
			}
		}
		fmt.Fprintln(
			&text,
			OneLine(
				fmt.Sprintf(
					"%s lost %d %s",
					what,
					len(t.LostQuestions),
					strings.Join(t.LostQuestions, " "),
				),
			),
		)
	}
	writeTally("since "+r.Since.Local().Format(time.DateTime)+":", r.Total)
	if len(r.Total.AskedToPosted)+len(r.Total.PostedToReplied)+len(r.Total.RepliedToTold) > 0 {
		const times = "asked to posted: %s, posted to answered: %s, answered to told Claude: %s\n"
		fmt.Fprintf(
			&text,
			times,
			r.Total.AskedToPosted,
			r.Total.PostedToReplied,
			r.Total.RepliedToTold,
		)
	}
	for _, group := range parts {
		for _, key := range slices.Sorted(maps.Keys(r.Groups[group])) {
			writeTally(
				strings.TrimSpace(group+" "+r.SessionNames[key])+" "+key+":",
				r.Groups[group][key],
			)
		}
	}
	return text.String()
}

// ReadStats counts what was asked and sent since then: questions in their records and,
// when those are gone, in the log of decisions; messages in the log, which keeps the last
// 10 MB. What cannot be read is left out.
func ReadStats(env Getenv, since time.Time) *Stats {
	by := map[string]map[string]*Tally{"day": {}, "project": {}, "session": {}}
	r := &Stats{
		Since:        since,
		Total:        &Tally{Counts: map[string]int{}},
		Groups:       by,
		SessionNames: map[string]string{},
	}
	projects := map[string]string{} // by session
	endings := map[string]EndingLine{}
	for _, e := range readLogLines[EndingLine](AuditPath(env)) {
		endings[e.ID] = e
	}
	questions, _ := ReadIndexedQuestions(env)
	for _, q := range append(questions, WaitingPromptQuestions(env)...) {
		if q.Mode.Traits().Asks {
			endings[q.QuestionID] = q.Ending()
		}
	}
	for _, e := range endings {
		projects[e.SessionID], r.SessionNames[e.SessionID] = e.Project, e.Session
	}
	sessions, _ := SessionsIn(UserStateDir(env)).All()
	for _, s := range sessions {
		projects[s.ID], r.SessionNames[s.ID] = s.ProjectDir, s.Name
	}
	for _, e := range endings {
		if e.EndedBy == EndedReplaced {
			// it goes on in the terminal, or another one came in its place
			continue
		}
		for _, t := range r.talliesFor(e.AskedAt, e.Project, e.SessionID) {
			t.addEnding(e)
		}
	}
	type logged struct {
		Time                          time.Time
		Message, ID, Project, Session string
		Tries                         int
	}
	countNames := map[string]string{
		LogMessageSent:    "messages_sent",
		LogMessageRefused: "messages_refused",
	}
	// killed after a message was logged as sent, the poller logs it again
	counted := map[string]bool{}
	for _, m := range append(readLogLines[logged](LogPath(env)+".1"), readLogLines[logged](LogPath(env))...) {
		name, isFinal := countNames[m.Message]
		switch {
		case !isFinal && m.Tries > 0:
			name = "messages_tried_again"
		case !isFinal, counted[m.ID]:
			continue
		}
		counted[m.ID] = counted[m.ID] || isFinal
		project := cmp.Or(projects[m.Session], m.Project)
		if project == UserStateDir(env) { // it is the person's
			project = ""
		}
		for _, t := range r.talliesFor(m.Time, project, m.Session) {
			t.Counts[name]++
		}
	}
	return r
}

// readLogLines are the lines of a log that have an id.
func readLogLines[T any](path string) (all []T) {
	b, _ := ReadPlainOrLink(path, MaxFileSize)
	for line := range bytes.Lines(b) {
		var entry T
		if bytes.Contains(line, []byte(`"id":`)) && json.Unmarshal(line, &entry) == nil {
			all = append(all, entry)
		}
	}
	return all
}

// talliesFor are those that something counts in; none where it was before the report
// begins.
func (r *Stats) talliesFor(at time.Time, project, session string) (tallies []*Tally) {
	if at.Before(r.Since) {
		return nil
	}
	for group, key := range map[string]string{"day": at.Local().Format(time.DateOnly), "project": project, "session": session} {
		if key == "" {
			continue
		}
		if r.Groups[group][key] == nil {
			r.Groups[group][key] = &Tally{Counts: map[string]int{}}
		}
		tallies = append(tallies, r.Groups[group][key])
	}
	return append(tallies, r.Total)
}

func (t *Tally) addEnding(e EndingLine) {
	kind, answered := e.Kind+"s", "unanswered"
	if Kind(e.Kind).Traits().IsPrompt {
		kind = "instructions"
	}
	switch {
	case e.Status.IsOpen():
		answered = "open"
	case e.EndedBy == "terminal",
		e.EndedBy == "prompt" && e.AnsweredBy == "" && Kind(e.Kind) == KindNext:
		// went on there
		answered = "answered_in_the_terminal"
	case e.Declined != "":
		answered = "turned_down"
	case e.AnsweredBy == LocalSender:
		answered = "answered_by_command"
	case e.AnsweredBy != "":
		answered = "answered_in_chat"
	}
	t.Counts[kind]++
	t.Counts[answered]++
	t.Counts["late_replies"] += e.LateReplies
	t.Counts["replies_not_used"] += e.UnusedReplies
	t.AskedToPosted.Add(&e.AskedAt, e.PostedAt)
	t.PostedToReplied.Add(e.PostedAt, e.RepliedAt)
	t.RepliedToTold.Add(e.RepliedAt, e.ToldAt)
	if e.isLost() {
		t.LostQuestions = append(t.LostQuestions, e.ID)
	}
}
