package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

func (p Program) statusCommand() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "show open questions, sessions, what waits for Google Chat, what was put aside, the last errors",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print an object"},
			&cli.BoolFlag{Name: "watch", Usage: "go on showing it as it changes, until Ctrl-C"},
		},
		Action: func(c *cli.Context) error {
			s := status{env: os.Getenv, out: p.out, asJSON: c.Bool("json")}
			if c.Bool("watch") {
				return s.watch(c.Context)
			}
			return s.print(gather(s.env), "  ")
		},
	}
}

// status shows a person what is open and what waits.
type status struct {
	env    state.Getenv
	out    io.Writer
	asJSON bool
}

// print prints a report once.
func (s status) print(r *statusReport, indent string) error {
	if !s.asJSON {
		_, err := io.WriteString(s.out, r.text(terminalOf(s.out, s.env), logPath(s.env)))
		return err
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetIndent("", indent)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return err
	}
	_, err := io.WriteString(s.out, state.PrintableJSON(b.String()))
	return err
}

// watchEvery is the time from one look of --watch to the next.
const watchEvery = 2 * time.Second

// watch prints the report again as it changes, until ctx ends or its reader is gone; neither is an error. On a terminal it has
// the screen that full-screen programs have for themselves, so that the person's stays as it was.
func (s status) watch(ctx context.Context) error {
	draws := terminalOf(s.out, s.env).width > 0 && !s.asJSON && s.env("TERM") != "dumb"
	if draws {
		io.WriteString(s.out, "\x1b[?1049h\x1b[?25l")
		defer io.WriteString(s.out, "\x1b[?25h\x1b[?1049l")
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var last []byte
	for ctx.Err() == nil && !nobodyReads(s.out) {
		r := gather(s.env)
		is := r.lasting()
		var err error
		switch {
		case draws:
			t := terminalOf(s.out, s.env) // it may have another size by now
			screen := strings.ReplaceAll(t.fit(r.text(t, logPath(s.env))), "\n", "\x1b[K\n")
			_, err = io.WriteString(s.out, "\x1b[H"+screen+"\x1b[J")
		case !bytes.Equal(is, last):
			if last != nil && !s.asJSON {
				fmt.Fprintln(s.out)
			}
			err = s.print(r, "")
		}
		if last = is; err != nil {
			return fmt.Errorf("print status: %w", err)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}

// lasting is the report without what time alone changes.
func (r *statusReport) lasting() []byte {
	same := *r
	same.At, same.Sessions, same.Pollers = time.Time{}, nil, nil
	for _, x := range r.Sessions {
		x.LastSeen = time.Time{}
		same.Sessions = append(same.Sessions, x)
	}
	for _, x := range r.Pollers {
		x.Beat, x.LastPoll = time.Time{}, time.Time{}
		same.Pollers = append(same.Pollers, x)
	}
	b, _ := json.Marshal(same)
	return b
}

// statusRow is a line of status: "key: cell, cell, below". On a terminal the rows of one kind stand under their head, their
// cells in columns, and what stands below gets lines of its own.
type statusRow struct {
	key   string
	item  bool // of the block whose head is above
	cells []string
	below []string
	how   tone
}

// mostItems is how many of one kind a screen shows.
const mostItems = 50

func (r *statusReport) rows(logPath string) (rows []statusRow) {
	say := func(how tone, key, format string, args ...any) {
		rows = append(rows, statusRow{key: key, cells: []string{state.OneLine(fmt.Sprintf(format, args...))}, how: how})
	}
	count := func(key, what string, n int) {
		if n == 0 {
			say(head, key, "none %s", what)
		} else {
			say(head, key, "%d %s", n, what)
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
		say(head, "outbox", "%d to be sent, the oldest since %s", o.ToSend, local(o.Oldest))
	} else {
		say(head, "outbox", "nothing to be sent")
	}
	if r.Outbox.Held > 0 {
		until := r.Outbox.HeldUntil.Local().Format("Mon 15:04")
		say(head, "held back", "%d, until %s; gchat-hooks flush --held sends them now", r.Outbox.Held, until)
	}
	for _, s := range r.Spaces {
		switch {
		case s.NotSent != "":
			say(warn, "paused", "%s since %s: %s", s.Chat, local(s.Since), s.NotSent)
		case s.LeftAlone != "":
			say(warn, "left alone", "%s until %s: %s", s.Chat, local(s.Until), s.LeftAlone)
		case s.Degraded:
			say(warn, "replies not read (degraded: it is tried once a minute)", "%s since %s: %s",
				s.Chat, local(s.Since), s.NotRead)
		default:
			say(warn, "replies not read", "%s since %s: %s", s.Chat, local(s.Since), s.NotRead)
		}
	}
	for _, p := range r.Pollers {
		switch {
		case p.Silent:
			silent := ago(r.At.Sub(p.Beat))
			say(warn, "poller stopped", "pid %d has shown no life for %s: fg in its terminal, or end it", p.PID, silent)
		case p.Daemon && p.LastPoll.IsZero():
			say(head, "daemon", "pid %d, no cycle yet", p.PID)
		case p.Daemon:
			say(head, "daemon", "pid %d, last good cycle %s", p.PID, local(p.LastPoll))
		default:
			say(head, "poller", "pid %d since %s, questions that it serves: %d", p.PID, local(p.Started), p.Open)
		}
	}
	if len(r.Pollers) == 0 {
		say(head, "poller", "none runs; the next hook or command starts one")
	}
	for _, m := range r.Outbox.Tried {
		say(warn, "waiting", "%s %s %q, tried %d times: %s", local(m.CreatedAt), m.Kind, m.Text, m.Tries, m.Error)
	}
	for _, what := range r.SetAside {
		say(warn, "set aside", "%s", what)
	}
	for _, what := range r.Configuration {
		say(warn, "configuration", "%s", what)
	}
	for _, m := range r.Outbox.Dead {
		say(bad, "dead", "%s %s %q: %s", local(m.CreatedAt), m.Kind, m.Text, m.Error)
	}
	if len(r.Outbox.Dead) > 0 {
		say(calm, "", "gchat-hooks flush --dead tries the dead ones again, --forget-dead drops them")
	}
	if len(r.Errors) > 0 {
		say(head, "errors", "the last of a day; gchat-hooks logs shows %s", logPath)
	}
	for _, e := range r.Errors {
		row := statusRow{key: "error", item: true, how: bad}
		row.cells = []string{local(e.Time), state.OneLine(e.Job), state.OneLine(e.Message)}
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
	} else if q.Waiter == poller.TerminalOnly {
		row.how = warn
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
		row.below, row.how = append(row.below, "not posted: "+state.OneLine(q.PostError)), warn
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
func (r *statusReport) text(t terminal, logPath string) string {
	var b strings.Builder
	rows := r.rows(logPath)
	for len(rows) > 0 {
		n := 1
		for rows[0].item && n < len(rows) && rows[n].item && rows[n].key == rows[0].key {
			n++
		}
		switch {
		case t.width == 0:
			for _, row := range rows[:n] {
				b.WriteString(row.plain() + "\n")
			}
		case rows[0].item:
			t.block(&b, rows[:n])
		default:
			t.line(&b, rows[0])
		}
		rows = rows[n:]
	}
	return b.String()
}

func (row statusRow) plain() string {
	text := strings.Join(append(row.cells, row.below...), ", ")
	if row.key != "" {
		text = row.key + ": " + text
	}
	return text
}

// line draws a row that is no item; of a head the key alone stands out.
func (t terminal) line(b *strings.Builder, row statusRow) {
	line := t.cut(row.plain())
	if key := row.key + ":"; row.how == head && strings.HasPrefix(line, key) {
		b.WriteString(t.paint(key, head) + line[len(key):] + "\n")
		return
	}
	b.WriteString(t.paint(line, row.how) + "\n")
}

// block draws items of one kind, their cells in columns. A link is not cut: a part of it leads nowhere.
func (t terminal) block(b *strings.Builder, rows []statusRow) {
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	more := len(rows) - mostItems
	rows = rows[:min(len(rows), mostItems)]
	for _, row := range rows {
		fmt.Fprintln(w, "  "+strings.Join(row.cells, "\t"))
	}
	w.Flush()
	lines := strings.Split(table.String(), "\n")
	for i, row := range rows {
		b.WriteString(t.paint(t.cut(lines[i]), row.how) + "\n")
		for _, below := range row.below {
			if below = "      " + below; !strings.Contains(below, "://") {
				below = t.cut(below)
			}
			b.WriteString(below + "\n")
		}
	}
	if more > 0 {
		fmt.Fprintf(b, "  … and %d more: gchat-hooks status --json\n", more)
	}
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
