package state

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Stats is what was asked, answered and sent since a time. Other programs read its JSON
// keys, which do not change.
type Stats struct {
	Since time.Time `json:"since"`
	Total *Tally    `json:"all"`
	// by day, project or session, then by its name
	Groups map[string]map[string]*Tally `json:"by"`

	SessionNames map[string]string `json:"-"` // the names of sessions, by id
}

// Tally is what was counted for a day, a project, a session, or in all.
type Tally struct {
	// by what is counted: permissions, answered_in_chat, messages_sent …
	Counts map[string]int `json:"counts"`
	// ids of questions that have a reply whose answer never reached Claude
	LostQuestions   []string  `json:"lost,omitempty"`
	AskedToPosted   Durations `json:"asked_to_posted"`
	PostedToReplied Durations `json:"posted_to_answered"`
	RepliedToTold   Durations `json:"answered_to_told"`
}

// Durations are durations in seconds. JSON and text show their median and 95th
// percentile.
type Durations []float64

// Add adds the time from one moment to another, where both are known. Two clocks may have
// measured them: a negative time counts as 0.
func (s *Durations) Add(from, to *time.Time) {
	if from != nil && to != nil {
		*s = append(*s, max(0, to.Sub(*from).Seconds()))
	}
}

// Percentile returns the duration in seconds that so many percent do not exceed; 0 where
// there is none.
func (s Durations) Percentile(percent int) float64 {
	if len(s) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(s))[len(s)*percent/100]
}

// String returns two cells of a table.
func (s Durations) String() string {
	if len(s) == 0 {
		return "-\t-"
	}
	return fmt.Sprintf("%.1f s\t%.1f s", s.Percentile(50), s.Percentile(95))
}

func (s Durations) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]float64{"p50": s.Percentile(50), "p95": s.Percentile(95)})
}

// askedCounts are the names under which Tally counts what a person was asked.
var askedCounts = []string{"questions", "permissions", "plans", "instructions"}

// Asked returns how often a person was asked something.
func (t *Tally) Asked() (n int) {
	for _, kind := range askedCounts {
		n += t.Counts[kind]
	}
	return n
}

// Names returns the names of what was counted: first what a person was asked.
func (t *Tally) Names() (names []string) {
	for _, name := range askedCounts {
		if _, isCounted := t.Counts[name]; isCounted {
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Counts)) {
		if !slices.Contains(askedCounts, name) {
			names = append(names, name)
		}
	}
	return names
}

// Text returns tables for a person: what was counted in all, how long it took, and a row
// for each member of the given groups.
func (r *Stats) Text(groups ...string) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "since %s\n", r.Since.Local().Format(time.DateTime))
	for _, name := range r.Total.Names() {
		fmt.Fprintf(table, "  %s\t%d\n", strings.ReplaceAll(name, "_", " "), r.Total.Counts[name])
	}
	lost := r.Total.LostQuestions
	fmt.Fprintf(table, "  lost\t%s\n", OneLine(fmt.Sprint(len(lost), " ", strings.Join(lost, " "))))
	if len(r.Total.AskedToPosted)+len(r.Total.PostedToReplied)+len(r.Total.RepliedToTold) > 0 {
		fmt.Fprintln(table, "\nhow long it took\tmedian\t95 %")
		fmt.Fprintf(table, "  from question to message\t%s\n", r.Total.AskedToPosted)
		fmt.Fprintf(table, "  from message to reply\t%s\n", r.Total.PostedToReplied)
		fmt.Fprintf(table, "  from reply to Claude\t%s\n", r.Total.RepliedToTold)
	}
	for _, group := range groups {
		if len(r.Groups[group]) == 0 {
			continue
		}
		fmt.Fprintf(table, "\n%s\tasked\tanswered in Chat\tin the terminal\tmessages sent\tlost\n", group)
		for _, key := range slices.Sorted(maps.Keys(r.Groups[group])) {
			tally := r.Groups[group][key]
			fmt.Fprintf(table, "  %s\t%d\t%d\t%d\t%d\t%d\n",
				OneLine(r.SessionNames[key]+" "+key), tally.Asked(), tally.Counts["answered_in_chat"], tally.Counts["answered_in_the_terminal"],
				tally.Counts["messages_sent"], len(tally.LostQuestions))
		}
	}
	table.Flush()
	return text.String()
}

// ReadStats counts what was asked and sent since a time. Questions are counted by their
// records or, where those are gone, by the log of decisions; messages by the log, which
// keeps the last 10 MB. What cannot be read is left out.
func ReadStats(env Getenv, since time.Time) *Stats {
	r := &Stats{
		Since:        since,
		Total:        &Tally{Counts: map[string]int{}},
		Groups:       map[string]map[string]*Tally{"day": {}, "project": {}, "session": {}},
		SessionNames: map[string]string{},
	}
	projects := map[string]string{} // the project's folder, by session id
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
			// it went on in the terminal, or another question replaced it
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
	// a poller that is killed just after it logged a message as sent logs it again
	counted := map[string]bool{}
	older := readLogLines[logged](LogPath(env) + ".1")
	for _, m := range append(older, readLogLines[logged](LogPath(env))...) {
		name, isFinal := countNames[m.Message]
		switch {
		case !isFinal && m.Tries > 0:
			name = "messages_tried_again"
		case !isFinal, counted[m.ID]:
			continue
		}
		counted[m.ID] = counted[m.ID] || isFinal
		project := cmp.Or(projects[m.Session], m.Project)
		if project == UserStateDir(env) { // the message belongs to no project
			project = ""
		}
		for _, t := range r.talliesFor(m.Time, project, m.Session) {
			t.Counts[name]++
		}
	}
	return r
}

// readLogLines returns the lines of a log that have an id.
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

// talliesFor returns the tallies that an event counts in; none where it was before the
// report begins.
func (r *Stats) talliesFor(at time.Time, project, session string) (tallies []*Tally) {
	if at.Before(r.Since) {
		return nil
	}
	keys := map[string]string{
		"day": at.Local().Format(time.DateOnly), "project": project, "session": session,
	}
	for group, key := range keys {
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
		// the person went on in the terminal
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
