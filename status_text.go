package main

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// mostItems is how many of one kind a screen shows.
const mostItems = 50

func (r *statusReport) rows(t terminal, logPath string) (rows []statusRow) {
	say := func(how tone, key, format string, args ...any) {
		rows = append(rows, statusRow{key: key, cells: []string{oneLine(fmt.Sprintf(format, args...))}, how: how})
	}
	if len(r.Questions) == 0 {
		say(head, "questions", "none open")
	} else {
		say(head, "questions", "%d open", len(r.Questions))
	}
	for i, q := range r.Questions {
		if t.width > 0 && i == mostItems {
			say(calm, "", "  … and %d more: gchat-hooks status --json", len(r.Questions)-i)
			break
		}
		rows = append(rows, questionRow(q, r.At))
	}
	if len(r.Sessions) == 0 {
		say(head, "sessions", "none seen within a day")
	} else {
		say(head, "sessions", "%d seen within a day", len(r.Sessions))
	}
	for i, s := range r.Sessions {
		if t.width > 0 && i == mostItems {
			say(calm, "", "  … and %d more: gchat-hooks status --json", len(r.Sessions)-i)
			break
		}
		cells := []string{oneLine(s.Name), "since " + local(s.Since), "last seen " + ago(r.At.Sub(s.LastSeen)) + " ago", oneLine(s.ProjectDir)}
		rows = append(rows, statusRow{key: "session", item: true, cells: cells})
	}
	if o := r.Outbox; o.ToSend > 0 {
		say(head, "outbox", "%d to be sent, the oldest since %s", o.ToSend, local(o.Oldest))
	} else {
		say(head, "outbox", "nothing to be sent")
	}
	for _, chat := range slices.Sorted(maps.Keys(r.Outbox.Chats)) {
		say(calm, "  to "+oneLine(chat), "%d", r.Outbox.Chats[chat])
	}
	if r.Outbox.Held > 0 {
		say(head, "held back", "%d, until %s; gchat-hooks flush --held sends them now", r.Outbox.Held, r.Outbox.HeldUntil.Local().Format("Mon 15:04"))
	}
	for _, p := range r.Outbox.Paused {
		say(warn, "paused", "%s since %s: %s", p.Chat, local(p.Since), p.Why)
	}
	for _, in := range r.Inboxes {
		if in.Stopped > 0 {
			say(warn, "reader stopped", "the process that reads %s has shown no life for %s: fg in its terminal, or end it", in.Chat, ago(time.Duration(in.Stopped)*time.Second))
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
		say(head, "wake messages", "%d to be handed over, the oldest since %s; gchat-hooks wake tries them now", w.Waiting, local(w.Oldest))
	}
	for _, w := range r.WakeMessages.Tried {
		say(warn, "  to "+oneLine(w.AgentID), "%s, tried %d times: %s", w.Trigger, w.Tries, w.Error)
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
		row := statusRow{key: "error", item: true, cells: []string{local(e.Time), oneLine(e.Job), oneLine(e.Message)}, how: bad}
		if e.Cause != "" {
			row.below = append(row.below, oneLine(e.Cause))
		}
		if e.Hint != "" {
			row.below = append(row.below, "hint: "+oneLine(e.Hint))
		}
		rows = append(rows, row)
	}
	return rows
}

// mostWords is how much of a question a line shows, in bytes.
const mostWords = 200

func questionRow(q poller.OpenQuestion, now time.Time) statusRow {
	row := statusRow{key: "question", item: true, link: q.ThreadURL, cells: []string{
		oneLine(q.ThreadKey), ago(now.Sub(q.AskedAt)) + " old", oneLine(q.SessionName), string(q.Mode), waits(q.Waiter),
	}}
	if q.Status == state.Answered {
		row.cells[len(row.cells)-1] = "answered by " + oneLine(cmp.Or(q.AnsweredBy, "somebody")) + ", on its way to Claude"
	} else if q.Waiter.Kind == poller.NobodyIs {
		row.how = warn
	}
	words := fmt.Sprintf("%q", gchat.Cut(oneLine(q.Question), mostWords))
	if q.Questions > 1 {
		words += fmt.Sprintf(" and %d more", q.Questions-1)
	}
	row.below = append(row.below, words)
	if q.Status == state.TimedOut {
		row.below = append(row.below, "nobody replied in time; a reply still counts")
	}
	switch {
	case q.PostError != "":
		row.below, row.how = append(row.below, "not posted: "+oneLine(q.PostError)), warn
	case !q.Posted:
		row.below = append(row.below, "not posted yet")
	case q.ThreadURL == "" && q.ThreadName != "":
		row.below = append(row.below, "posted in "+oneLine(q.ThreadName))
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
