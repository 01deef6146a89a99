package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

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
	_, err := io.WriteString(s.out, poller.PrintableJSON(b.String()))
	return err
}

// follow goes on until ctx ends or nobody reads it any more, which is what it is for: no error.
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
		x.Newest, x.Read = time.Time{}, false // whoever leads changes; whether replies can be read is Trouble
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
