package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat"
	"gchat-hooks/inject"
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
			return status{env: os.Getenv, out: p.out, asJSON: c.Bool("json"), watch: c.Bool("watch")}.run(c.Context)
		},
	}
}

// status shows a person what is open and what waits: questions, sessions, outbox and inbox, the daemon, the last errors.
type status struct {
	env    state.Getenv
	out    io.Writer
	asJSON bool
	watch  bool
}

// statusPause is the least time from one look of --watch to the next.
const statusPause = 2 * time.Second

func (s status) run(ctx context.Context) error {
	g := newGatherer(s.env)
	if s.watch {
		return s.follow(ctx, g)
	}
	return s.print(g.gather(), "  ")
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

// follow goes on until ctx ends or its reader is gone; neither is an error.
func (s status) follow(ctx context.Context, g *gatherer) error {
	draw, end := s.drawing()
	defer end()
	tick := time.NewTicker(statusPause)
	defer tick.Stop()
	for ctx.Err() == nil && !poller.NobodyReads(s.out) {
		if err := draw(g.gather()); err != nil {
			return fmt.Errorf("print status: %w", err)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}

// drawing is how a report replaces the one before: on a terminal in its place, on the screen that full-screen programs have
// for themselves, so that end leaves the person's as it was; else as a new block, one line with --json, when something
// changed but the clock.
func (s status) drawing() (draw func(*statusReport) error, end func()) {
	if t := terminalOf(s.out, s.env); t.width == 0 || s.asJSON || s.env("TERM") == "dumb" {
		last := []byte(nil)
		return func(r *statusReport) error {
			is := r.lasting()
			if bytes.Equal(is, last) {
				return nil
			}
			if last != nil && !s.asJSON {
				fmt.Fprintln(s.out)
			}
			last = is
			return s.print(r, "")
		}, func() {}
	}
	shown := ""
	io.WriteString(s.out, "\x1b[?1049h\x1b[?25l")
	return func(r *statusReport) error {
		t := terminalOf(s.out, s.env) // it may have another size by now
		screen := t.fit(r.text(t, logPath(s.env)))
		if screen == shown {
			return nil
		}
		shown = screen
		_, err := io.WriteString(s.out, "\x1b[H"+strings.ReplaceAll(screen, "\n", "\x1b[K\n")+"\x1b[J")
		return err
	}, func() { io.WriteString(s.out, "\x1b[?25h\x1b[?1049l") }
}

// lasting is the report without what time alone changes.
func (r *statusReport) lasting() []byte {
	same := *r
	same.At, same.Sessions, same.Daemons, same.Inboxes = time.Time{}, nil, nil, nil
	for _, x := range r.Sessions {
		x.LastSeen = time.Time{}
		same.Sessions = append(same.Sessions, x)
	}
	for _, x := range r.Daemons {
		same.Daemons = append(same.Daemons, daemonStatus{PID: x.PID})
	}
	for _, x := range r.Inboxes {
		x.Newest, x.Read = time.Time{}, false // the leader changes; whether replies can be read is Trouble
		same.Inboxes = append(same.Inboxes, x)
	}
	b, _ := json.Marshal(same)
	return b
}

// fit is what of a text has room on the screen, without a last newline, which would scroll it.
func (t terminal) fit(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	most, used := max(t.height, 2), 0
	for i, line := range lines {
		rows := 1
		if !strings.Contains(line, "\x1b") { // a painted line was cut; a link was not
			rows = max(1, (inject.Width(line)+t.width-1)/t.width)
		}
		if used += rows; used > most-1 && (i < len(lines)-1 || used > most) {
			return strings.Join(append(lines[:i:i], t.cut(fmt.Sprintf("… %d more lines; Ctrl-C ends", len(lines)-i))), "\n")
		}
	}
	return strings.Join(lines, "\n")
}

// mostItems is how many of one kind a screen shows.
const mostItems = 50

func (r *statusReport) rows(t terminal, logPath string) (rows []statusRow) {
	say := func(how tone, key, format string, args ...any) {
		rows = append(rows, statusRow{key: key, cells: []string{state.OneLine(fmt.Sprintf(format, args...))}, how: how})
	}
	items := func(key, what string, n int, row func(i int) statusRow) {
		if n == 0 {
			say(head, key, "none %s", what)
		} else {
			say(head, key, "%d %s", n, what)
		}
		for i := range n {
			if t.width > 0 && i == mostItems {
				say(calm, "", "  … and %d more: gchat-hooks status --json", n-i)
				break
			}
			rows = append(rows, row(i))
		}
	}
	items("questions", "open", len(r.Questions), func(i int) statusRow { return questionRow(r.Questions[i], r.At) })
	items("sessions", "seen within a day", len(r.Sessions), func(i int) statusRow {
		s := r.Sessions[i]
		seen := "last seen " + ago(r.At.Sub(s.LastSeen)) + " ago"
		cells := []string{state.OneLine(s.Name), "since " + local(s.Since), seen, state.OneLine(s.ProjectDir)}
		return statusRow{key: "session", item: true, cells: cells}
	})
	if o := r.Outbox; o.ToSend > 0 {
		say(head, "outbox", "%d to be sent, the oldest since %s", o.ToSend, local(o.Oldest))
	} else {
		say(head, "outbox", "nothing to be sent")
	}
	for _, chat := range slices.Sorted(maps.Keys(r.Outbox.Chats)) {
		say(calm, "  to "+state.OneLine(chat), "%d", r.Outbox.Chats[chat])
	}
	if r.Outbox.Held > 0 {
		until := r.Outbox.HeldUntil.Local().Format("Mon 15:04")
		say(head, "held back", "%d, until %s; gchat-hooks flush --held sends them now", r.Outbox.Held, until)
	}
	for _, p := range r.Outbox.Paused {
		say(warn, "paused", "%s since %s: %s", p.Chat, local(p.Since), p.Why)
	}
	for _, in := range r.Inboxes {
		if in.Stopped > 0 {
			silent := ago(time.Duration(in.Stopped) * time.Second)
			say(warn, "reader stopped", "the process that reads %s has shown no life for %s: fg in its terminal, or end it",
				in.Chat, silent)
		}
		if in.Trouble == nil {
			if in.Read {
				say(head, "inbox", "%s is read for replies now", in.Chat)
			}
			continue
		}
		how := ""
		if in.Trouble.Degraded {
			how = " (degraded: it is tried once a minute)"
		}
		say(warn, "replies not read"+how, "%s since %s: %s", in.Chat, local(in.Trouble.Since), in.Trouble.Why)
	}
	for _, d := range r.Daemons {
		last := "no cycle yet"
		if !d.LastPoll.IsZero() {
			last = "last good cycle " + local(d.LastPoll)
		}
		say(head, "daemon", "pid %d, %s", d.PID, last)
	}
	if len(r.Daemons) == 0 {
		say(head, "daemon", "none runs; hooks do its work, except typing into tmux")
	}
	if w := r.WakeMessages; w.Waiting > 0 {
		say(head, "wake messages", "%d to be handed over, the oldest since %s; gchat-hooks wake tries them now",
			w.Waiting, local(w.Oldest))
	}
	for _, w := range r.WakeMessages.Tried {
		say(warn, "  to "+state.OneLine(w.AgentID), "%s, tried %d times: %s", w.Trigger, w.Tries, w.Error)
	}
	for _, w := range r.WakeMessages.Dead {
		say(bad, "dead", "%s %s to %s: %s", local(w.CreatedAt), w.Trigger, w.AgentID, w.Error)
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
		cells := []string{local(e.Time), state.OneLine(e.Job), state.OneLine(e.Message)}
		row := statusRow{key: "error", item: true, cells: cells, how: bad}
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

func questionRow(q poller.OpenQuestion, now time.Time) statusRow {
	row := statusRow{key: "question", item: true, link: q.ThreadURL, cells: []string{
		state.OneLine(q.ThreadKey), ago(now.Sub(q.AskedAt)) + " old", state.OneLine(q.SessionName),
		string(q.Mode), waits(q.Waiter),
	}}
	if q.Status == state.Answered {
		row.cells[len(row.cells)-1] = "answered by " + state.OneLine(cmp.Or(q.AnsweredBy, "somebody")) + ", on its way to Claude"
	} else if q.Waiter.Kind == poller.NobodyIs {
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
	case q.ThreadURL == "" && q.ThreadName != "":
		row.below = append(row.below, "posted in "+state.OneLine(q.ThreadName))
	}
	return row
}

// waits says who delivers a reply.
func waits(w poller.Waiter) string {
	if w.Kind == poller.NobodyIs {
		return "nobody waits"
	}
	if w.PID == 0 {
		return "a " + w.Kind + " waits"
	}
	return fmt.Sprintf("%s waits (pid %d)", w.Kind, w.PID)
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

// statusRow is a line of status: "key: cell, cell, below". On a terminal the rows of a block are aligned under their head,
// and what stands below gets lines of its own.
type statusRow struct {
	key   string
	item  bool // of the block whose head is above
	cells []string
	below []string
	link  string // never cut
	how   tone
}

// text is the report for a person. Piped, each thing is one plain line.
func (r *statusReport) text(t terminal, logPath string) string {
	var b strings.Builder
	rows := r.rows(t, logPath)
	for i := 0; i < len(rows); {
		n := 1
		for rows[i].item && i+n < len(rows) && rows[i+n].item && rows[i+n].key == rows[i].key {
			n++
		}
		if t.width == 0 {
			for _, row := range rows[i : i+n] {
				b.WriteString(row.plain() + "\n")
			}
		} else {
			t.block(&b, rows[i:i+n])
		}
		i += n
	}
	return b.String()
}

func (row statusRow) plain() string {
	all := slices.Concat(row.cells, row.below)
	if row.link != "" {
		all = append(all, row.link)
	}
	text := strings.Join(all, ", ")
	if row.key != "" {
		text = row.key + ": " + text
	}
	return text
}

// block draws rows of one kind, their cells in columns.
func (t terminal) block(b *strings.Builder, rows []statusRow) {
	var columns []int
	for _, row := range rows {
		for i, c := range row.cells {
			if i == len(columns) {
				columns = append(columns, 0)
			}
			columns[i] = max(columns[i], inject.Width(c))
		}
	}
	for _, row := range rows {
		if !row.item {
			line := t.cut(row.plain())
			if row.how == head { // the key alone stands out
				if key := row.key + ":"; strings.HasPrefix(line, key) {
					line = t.paint(key, head) + line[len(key):]
				}
			} else {
				line = t.paint(line, row.how)
			}
			b.WriteString(line + "\n")
			continue
		}
		var cells []string
		for i, c := range row.cells {
			cells = append(cells, padded(c, columns[i]))
		}
		b.WriteString(t.paint(t.cut("  "+strings.TrimRight(strings.Join(cells, "  "), " ")), row.how) + "\n")
		for _, line := range row.below {
			b.WriteString(t.cut("      "+line) + "\n")
		}
		if row.link != "" {
			b.WriteString("      " + row.link + "\n")
		}
	}
}
