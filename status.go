package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// status tells a person what waits for Google Chat, what stops it, and what was put aside.
func status(env state.Getenv, out io.Writer) error {
	box := state.OutboxIn(state.UserState(env))
	waiting, bad := box.Waiting()
	held, until, oldest, chats := 0, time.Time{}, time.Time{}, map[string]int{}
	for _, m := range waiting {
		if m.Tries == 0 && time.Now().Before(m.NotBefore) {
			if held++; until.IsZero() || m.NotBefore.Before(until) {
				until = m.NotBefore
			}
			continue
		}
		chats[cmp.Or(m.Chat, "the space that a command names")]++
		if oldest.IsZero() {
			oldest = m.CreatedAt
		}
	}
	if n := len(waiting) - held; n > 0 {
		fmt.Fprintf(out, "outbox: %d to be sent, the oldest since %s\n", n, oldest.Local().Format(time.DateTime))
	} else {
		fmt.Fprintln(out, "outbox: nothing to be sent")
	}
	for _, chat := range slices.Sorted(maps.Keys(chats)) { // one that no webhook leads to any more shows here
		fmt.Fprintf(out, "  to %s: %d\n", chat, chats[chat])
	}
	if held > 0 {
		fmt.Fprintf(out, "held back: %d, until %s; gchat-hooks flush --held sends them now\n", held, until.Local().Format("Mon 15:04"))
	}
	for _, p := range box.Pauses() {
		fmt.Fprintf(out, "paused: %s since %s: %s\n", p.Chat, p.Since.Local().Format(time.DateTime), p.Why)
	}
	for _, in := range state.TroubledInboxes(state.UserState(env)) {
		how := ""
		if in.Trouble.Degraded {
			how = " (degraded: it is tried once a minute)"
		}
		fmt.Fprintf(out, "replies not read%s: %s since %s: %s\n", how, in.Chat, in.Trouble.Since.Local().Format(time.DateTime), in.Trouble.Why)
	}
	daemon(env, out)
	for _, m := range waiting {
		if m.Tries > 0 {
			fmt.Fprintf(out, "waiting: %s, tried %d times: %s\n", about(m), m.Tries, m.LastError)
		}
	}
	for _, err := range bad {
		fmt.Fprintln(out, "set aside:", err)
	}
	for _, err := range state.LoadConfig(env, state.ProjectDir(env)).Problems {
		fmt.Fprintln(out, "configuration:", err)
	}
	dead := box.Dead()
	for _, m := range dead {
		fmt.Fprintf(out, "dead: %s: %s\n", about(m), m.LastError)
	}
	if len(dead) > 0 {
		fmt.Fprintln(out, "gchat-hooks flush --dead tries the dead ones again")
	}
	return nil
}

// daemon says which daemons run for the person and for this project.
func daemon(env state.Getenv, out io.Writer) {
	seen := map[int]bool{}
	for _, dir := range []string{state.ProjectState(env), state.UserState(env)} {
		if pid := state.DaemonPID(dir); state.DaemonRuns(dir) && !seen[pid] {
			seen[pid] = true
			last := "no cycle yet"
			if at := state.LastPoll(dir); !at.IsZero() {
				last = "last good cycle " + at.Local().Format(time.DateTime)
			}
			fmt.Fprintf(out, "daemon: pid %d, %s\n", pid, last)
		}
	}
	if len(seen) == 0 {
		fmt.Fprintln(out, "daemon: none runs; hooks do its work, except typing into tmux")
	}
}

// about names a message in a line: when, what, and how it begins.
func about(m *state.Outgoing) string {
	beginning := ""
	if len(m.Parts) > 0 {
		beginning = gchat.Cut(gchat.Line(m.Parts[min(m.PartsSent, len(m.Parts)-1)]), 80)
	}
	return fmt.Sprintf("%s %s %q", m.CreatedAt.Local().Format(time.DateTime), m.Kind, beginning)
}
