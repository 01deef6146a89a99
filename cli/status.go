package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat"
	"gchat-hooks/poller"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func (p Program) statusCommand() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "show open questions, sessions, what waits for Google Chat, what was put aside, the last errors",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print an object"},
			&cli.BoolFlag{Name: "watch", Usage: "show it again every two seconds, until Ctrl-C"},
		},
		Action: func(c *cli.Context) error {
			s := status{env: os.Getenv, out: p.out, asJSON: c.Bool("json")}
			for tick := time.Tick(2 * time.Second); c.Bool("watch") && c.Context.Err() == nil; {
				if isTerminal(s.out) {
					fmt.Fprint(s.out, "\x1b[H\x1b[2J") // the screen is empty
				}
				if err := s.print(); err != nil {
					return err
				}
				select {
				case <-c.Context.Done():
					return nil
				case <-tick:
				}
			}
			return s.print()
		},
	}
}

// status shows a person what is open and what waits.
type status struct {
	env    state.Getenv
	out    io.Writer
	asJSON bool
}

// print prints how things stand, without secrets, wherever those were written.
func (s status) print() error {
	cfg := config.Load(s.env, state.ProjectDir(s.env))
	var redact state.Redactor
	redact.Hide(cfg.Secrets(s.env)...)
	r := gather(s.env, cfg, &redact)
	text := r.text(isTerminal(s.out), logPath(s.env))
	if s.asJSON {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		if err := e.Encode(r); err != nil {
			return err
		}
		text = state.PrintableJSON(b.String())
	}
	_, err := io.WriteString(s.out, redact.Clean(text))
	return err
}

// statusReport is what status shows, and what --json prints: its keys stay. Times are RFC 3339 in UTC; one that is not known
// is left out. Nothing in it is a secret.
type statusReport struct {
	At            time.Time             `json:"generated_at"`
	Questions     []poller.OpenQuestion `json:"questions"` // the newest first
	Sessions      []sessionStatus       `json:"sessions"`  // seen within a day
	Outbox        outboxStatus          `json:"outbox"`
	Spaces        []spaceStatus         `json:"spaces"`        // that cannot be read or written to at present
	Pollers       []pollerStatus        `json:"pollers"`       // that run
	SetAside      []string              `json:"set_aside"`     // files that do not parse
	Configuration []string              `json:"configuration"` // what is wrong in it
	Errors        []logError            `json:"errors"`        // the last ones of a day, the oldest first
}

// sessionStatus is a session whose end no hook told.
type sessionStatus struct {
	SessionID  string    `json:"session_id"`
	Name       string    `json:"name"`
	ProjectDir string    `json:"project_dir"`
	Since      time.Time `json:"since,omitzero"`
	LastSeen   time.Time `json:"last_seen,omitzero"`
	Questions  int       `json:"questions"` // that are open
}

// outboxStatus is what waits for Google Chat or for an agent, and what was put aside.
type outboxStatus struct {
	ToSend    int             `json:"to_send"` // without what is held back
	Oldest    time.Time       `json:"oldest,omitzero"`
	Held      int             `json:"held"` // for a digest or by quiet hours
	HeldUntil time.Time       `json:"held_until,omitzero"`
	Tried     []messageStatus `json:"tried"` // in vain, so far
	Dead      []messageStatus `json:"dead"`  // they were refused
}

// messageStatus is a message that did not arrive yet.
type messageStatus struct {
	CreatedAt time.Time `json:"created_at"`
	Kind      string    `json:"kind"`
	Text      string    `json:"text"` // how it begins; the agent of a wake message
	Tries     int       `json:"tries"`
	Error     string    `json:"error"`
}

// spaceStatus is a space that a person has to do something about, or that Chat wants to be left alone.
type spaceStatus struct {
	Chat      string    `json:"chat"`
	Since     time.Time `json:"since,omitzero"`
	NotRead   string    `json:"not_read,omitempty"` // why
	Degraded  bool      `json:"degraded,omitempty"` // it is tried once a minute
	NotSent   string    `json:"not_sent,omitempty"` // why nothing goes through a webhook, until a person mends it
	LeftAlone string    `json:"left_alone,omitempty"`
	Until     time.Time `json:"until,omitzero"` // of LeftAlone
}

// pollerStatus is a poller that runs.
type pollerStatus struct {
	state.Heartbeat
	Silent   bool      `json:"silent,omitempty"` // it is stopped, or hangs
	LastPoll time.Time `json:"last_poll,omitzero"`
}

const (
	// recent is how far back sessions and errors are shown.
	recent = 24 * time.Hour
	// mostErrors is how many errors are shown.
	mostErrors = 5
)

// gather is the state of things now. What cannot be read is said in it, and stops nothing.
func gather(env state.Getenv, cfg *config.Config, redact *state.Redactor) *statusReport {
	now, user := time.Now(), state.UserState(env)
	r := &statusReport{
		At: now.UTC().Truncate(time.Second), Sessions: []sessionStatus{},
		Spaces: []spaceStatus{}, Pollers: []pollerStatus{}, SetAside: []string{}, Configuration: []string{},
	}
	var broken []error
	r.Questions, broken = poller.OpenQuestions(env, now)
	names, perSession := map[string]string{}, map[string]int{}
	for _, q := range r.Questions {
		names[q.ClaudeID] = q.SessionName
		perSession[q.ClaudeID]++
	}
	for i := range r.Questions {
		q := &r.Questions[i]
		q.Question = redact.Clean(q.Question) // it may be cut, and half a secret is not known as one
		q.SessionName = distinct(q.SessionName, q.ClaudeID, names)
	}
	sessions, more := state.SessionsIn(user).All()
	for _, s := range sessions {
		if s.Running() && now.Sub(s.LastSeen) < recent {
			r.Sessions = append(r.Sessions, sessionStatus{
				SessionID: s.ID, Name: cmp.Or(s.Name, s.ID), ProjectDir: s.ProjectDir,
				Since: s.StartedAt.UTC(), LastSeen: s.LastSeen.UTC(), Questions: perSession[s.ID],
			})
		}
	}
	slices.SortFunc(r.Sessions, func(a, b sessionStatus) int { return b.LastSeen.Compare(a.LastSeen) })
	broken = append(broken, more...)
	r.Outbox, more = outboxStatusOf(state.OutboxIn(user), now, redact)
	broken = append(broken, more...)
	spaces, more := state.SpacesIn(user).All()
	for _, s := range spaces {
		r.Spaces = append(r.Spaces, spaceStatusesOf(s, now)...)
	}
	for _, h := range state.Pollers(env) {
		if h.Lives {
			r.Pollers = append(r.Pollers, pollerStatusOf(env, h, now))
		}
	}
	for _, err := range append(broken, more...) {
		r.SetAside = append(r.SetAside, err.Error())
	}
	for _, err := range cfg.Problems {
		r.Configuration = append(r.Configuration, err.Error())
	}
	r.Errors = lastErrors(env, now.Add(-recent))
	return r
}

func outboxStatusOf(box state.Outbox, now time.Time, redact *state.Redactor) (o outboxStatus, broken []error) {
	o = outboxStatus{Tried: []messageStatus{}, Dead: []messageStatus{}}
	waiting, broken := box.Waiting()
	for _, m := range waiting {
		if m.Tries > 0 {
			o.Tried = append(o.Tried, messageStatusOf(m, redact))
		} else if now.Before(m.NotBefore) {
			if o.Held++; o.HeldUntil.IsZero() || m.NotBefore.Before(o.HeldUntil) {
				o.HeldUntil = m.NotBefore.UTC()
			}
			continue
		}
		if o.ToSend++; o.Oldest.IsZero() {
			o.Oldest = m.CreatedAt.UTC()
		}
	}
	for _, m := range box.Aside() {
		o.Dead = append(o.Dead, messageStatusOf(m, redact))
	}
	return o, broken
}

func messageStatusOf(m *state.Message, redact *state.Redactor) messageStatus {
	s := messageStatus{CreatedAt: m.CreatedAt.UTC(), Kind: string(m.Kind), Tries: m.Tries}
	switch {
	case m.Wake != nil:
		s.Text = m.Wake.Trigger + " to " + m.Wake.To
	case len(m.Parts) > 0:
		s.Text = m.Parts[min(m.PartsSent, len(m.Parts)-1)]
	case m.Report != nil:
		s.Text = m.Report.Text
	}
	if m.Report != nil {
		s.Kind = cmp.Or(m.Report.Kind, string(m.Report.Type))
	}
	s.Text = gchat.Cut(gchat.Line(redact.Clean(s.Text)), 80)
	s.Error = state.OneLine(redact.Clean(cmp.Or(m.SetAside, m.LastError)))
	return s
}

// spaceStatusesOf says what is wrong with a space; nothing where all is well.
func spaceStatusesOf(s *state.Space, now time.Time) (all []spaceStatus) {
	if t := s.Trouble; t != nil {
		all = append(all, spaceStatus{Chat: s.Chat, Since: t.Since.UTC(), NotRead: t.Why, Degraded: t.Degraded})
	}
	for _, p := range s.Paused {
		all = append(all, spaceStatus{Chat: s.Chat, Since: p.Since.UTC(), NotSent: p.Why})
	}
	if s.LeftAlone(now) > 0 {
		all = append(all, spaceStatus{Chat: s.Chat, LeftAlone: s.Why, Until: s.NotBefore.UTC()})
	}
	return all
}

func pollerStatusOf(env state.Getenv, h state.Heartbeat, now time.Time) pollerStatus {
	s := pollerStatus{Heartbeat: h, Silent: h.Silent(now)}
	if h.Daemon {
		s.LastPoll = state.LastPoll(state.ProjectState(env)).UTC()
		if s.LastPoll.IsZero() {
			s.LastPoll = state.LastPoll(state.UserState(env)).UTC()
		}
	}
	return s
}

// logError is an error line of the log, as status shows it.
type logError struct {
	Time    time.Time `json:"time"`
	Job     string    `json:"job"`
	Message string    `json:"message"`
	Cause   string    `json:"error,omitempty"`
	Hint    string    `json:"hint,omitempty"`
}

// lastErrors are the last errors of the log since then, the oldest first.
func lastErrors(env state.Getenv, since time.Time) []logError {
	errs := []logError{}
	b, _ := os.ReadFile(state.LogPath(env))
	for line := range bytes.Lines(b) {
		var e logError
		if bytes.Contains(line, []byte(`"level":"error"`)) && json.Unmarshal(line, &e) == nil && !e.Time.Before(since) {
			errs = append(errs, e)
		}
	}
	return errs[max(0, len(errs)-mostErrors):]
}

// statusRow is a line of status: "key: cell, cell, below". On a terminal the rows of one kind stand under their head, their
// cells in columns, and what stands below gets lines of its own.
type statusRow struct {
	key   string
	item  bool // of the block whose head is above
	cells []string
	below []string
}

func (r *statusReport) rows(logPath string) (rows []statusRow) {
	say := func(key, format string, args ...any) {
		rows = append(rows, statusRow{key: key, cells: []string{state.OneLine(fmt.Sprintf(format, args...))}})
	}
	count := func(key, what string, n int) {
		if n == 0 {
			say(key, "none %s", what)
		} else {
			say(key, "%d %s", n, what)
		}
	}
	count("questions", "open", len(r.Questions))
	for _, q := range r.Questions {
		rows = append(rows, questionRow(q, r.At))
	}
	count("sessions", "seen within a day", len(r.Sessions))
	for _, s := range r.Sessions {
		seen := "last seen " + ago(r.At.Sub(s.LastSeen)) + " ago"
		cells := []string{state.OneLine(s.Name), "since " + local(s.Since), seen, state.OneLine(s.ProjectDir)}
		rows = append(rows, statusRow{key: "session", item: true, cells: cells})
	}
	if o := r.Outbox; o.ToSend > 0 {
		say("outbox", "%d to be sent, the oldest since %s", o.ToSend, local(o.Oldest))
	} else {
		say("outbox", "nothing to be sent")
	}
	if r.Outbox.Held > 0 {
		until := r.Outbox.HeldUntil.Local().Format("Mon 15:04")
		say("held back", "%d, until %s; gchat-hooks flush --held sends them now", r.Outbox.Held, until)
	}
	for _, s := range r.Spaces {
		switch {
		case s.NotSent != "":
			say("paused", "%s since %s: %s", s.Chat, local(s.Since), s.NotSent)
		case s.LeftAlone != "":
			say("left alone", "%s until %s: %s", s.Chat, local(s.Until), s.LeftAlone)
		case s.Degraded:
			say("replies not read", "%s since %s, tried once a minute (degraded): %s", s.Chat, local(s.Since), s.NotRead)
		default:
			say("replies not read", "%s since %s: %s", s.Chat, local(s.Since), s.NotRead)
		}
	}
	for _, p := range r.Pollers {
		switch {
		case p.Silent:
			silent := ago(r.At.Sub(p.Beat))
			say("poller stopped", "pid %d has shown no life for %s: fg in its terminal, or end it", p.PID, silent)
		case p.Daemon && p.LastPoll.IsZero():
			say("daemon", "pid %d, no cycle yet", p.PID)
		case p.Daemon:
			say("daemon", "pid %d, last good cycle %s", p.PID, local(p.LastPoll))
		default:
			say("poller", "pid %d since %s, questions that it serves: %d", p.PID, local(p.Started), p.Open)
		}
	}
	if len(r.Pollers) == 0 {
		say("poller", "none runs; the next hook or command starts one")
	}
	for _, m := range r.Outbox.Tried {
		say("waiting", "%s %s %q, tried %d times: %s", local(m.CreatedAt), m.Kind, m.Text, m.Tries, m.Error)
	}
	for _, what := range r.SetAside {
		say("set aside", "%s", what)
	}
	for _, what := range r.Configuration {
		say("configuration", "%s", what)
	}
	for _, m := range r.Outbox.Dead {
		say("dead", "%s %s %q: %s", local(m.CreatedAt), m.Kind, m.Text, m.Error)
	}
	if len(r.Outbox.Dead) > 0 {
		say("", "gchat-hooks flush --dead tries the dead ones again, --forget-dead drops them")
	}
	if len(r.Errors) > 0 {
		say("errors", "the last of a day; gchat-hooks logs shows %s", logPath)
	}
	for _, e := range r.Errors {
		cells := []string{local(e.Time), state.OneLine(e.Job), state.OneLine(e.Message)}
		row := statusRow{key: "error", item: true, cells: cells}
		if e.Cause != "" {
			row.below = append(row.below, state.OneLine(e.Cause))
		}
		if e.Hint != "" {
			row.below = append(row.below, "hint: "+state.OneLine(e.Hint))
		}
		rows = append(rows, row)
	}
	return rows
}

// mostWords is how much of a question a line shows, in bytes.
const mostWords = 200

// delivers says what delivers a reply.
var delivers = map[string]string{
	poller.HookWaits: "a process waits", poller.PollerTypes: "the poller types it",
	poller.ClaudeLater: "read with Claude's next step", poller.TerminalOnly: "nobody waits",
}

func questionRow(q poller.OpenQuestion, now time.Time) statusRow {
	row := statusRow{key: "question", item: true, cells: []string{
		state.OneLine(q.ThreadKey), ago(now.Sub(q.AskedAt)) + " old", state.OneLine(q.SessionName), string(q.Mode),
		delivers[q.Waiter], state.OneLine(q.ProjectDir),
	}}
	if q.Status == state.Answered {
		row.cells[4] = "answered by " + state.OneLine(cmp.Or(q.AnsweredBy, "a person")) + ", on its way to Claude"
	}
	words := fmt.Sprintf("%q", gchat.Cut(state.OneLine(q.Question), mostWords))
	if q.Questions > 1 {
		words += fmt.Sprintf(" and %d more", q.Questions-1)
	}
	row.below = append(row.below, words)
	if q.Status == state.TimedOut {
		row.below = append(row.below, "nobody replied in time; a reply still counts")
	}
	switch {
	case q.PostError != "":
		row.below = append(row.below, "not posted: "+state.OneLine(q.PostError))
	case !q.Posted:
		row.below = append(row.below, "not posted yet")
	case q.ThreadURL != "":
		row.below = append(row.below, q.ThreadURL)
	case q.ThreadName != "":
		row.below = append(row.below, "posted in "+state.OneLine(q.ThreadName))
	}
	return row
}

// text is the report for a person. Piped, each thing is one plain line.
func (r *statusReport) text(onTerminal bool, logPath string) string {
	var b, table strings.Builder
	rows := r.rows(logPath)
	columns := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		switch {
		case onTerminal && row.item:
			fmt.Fprintln(columns, "  "+strings.Join(row.cells, "\t"))
		case row.key == "":
			fmt.Fprintln(columns, row.cells[0])
		default:
			fmt.Fprintln(columns, row.key+": "+strings.Join(row.cells, ", "))
		}
	}
	columns.Flush()
	between := ", "
	if onTerminal {
		between = "\n      "
	}
	for i, line := range strings.Split(strings.TrimSuffix(table.String(), "\n"), "\n") {
		b.WriteString(strings.Join(append([]string{line}, rows[i].below...), between) + "\n")
	}
	return b.String()
}

func local(t time.Time) string { return t.Local().Format(time.DateTime) }

// ago is a time span as people glance at it: 45s, 3m, 2h05m, 3d.
func ago(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// logPath is where the log is, as a person writes it.
func logPath(env state.Getenv) string {
	path := state.LogPath(env)
	if rel, err := filepath.Rel(env("HOME"), path); err == nil && filepath.IsLocal(rel) {
		return "~/" + rel
	}
	return path
}
