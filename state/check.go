package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// doctorFix is the mend of whatever --fix does by itself.
const doctorFix = "gchat-hooks doctor --fix"

// waitsLong is from when on it is odd that a message still waits to be sent: Chat was tried several times by then.
const waitsLong = 10 * time.Minute

// Checks are the checks of what is on disk.
func Checks(env Getenv, now func() time.Time) []Check {
	return []Check{
		{"config.parse", func(context.Context) []Finding { return checkConfig(env) }},
		{"config.members", func(context.Context) []Finding { return checkMembers(env) }},
		{"config.secrets", func(ctx context.Context) []Finding { return checkSecretPlaces(ctx, env) }},
		{"files.private", func(context.Context) []Finding { return checkPrivate(env) }},
		{"files.folders", func(context.Context) []Finding { return checkFolders(env) }},
		{"files.damaged", func(context.Context) []Finding { return checkDamaged(env) }},
		{"files.log", func(ctx context.Context) []Finding { return checkLog(ctx, env) }},
		{"daemon.pid", func(context.Context) []Finding { return checkPIDFiles(env) }},
		{"outbox.waiting", func(context.Context) []Finding { return checkWaiting(env, now()) }},
		{"outbox.dead", func(context.Context) []Finding { return checkDead(env) }},
	}
}

// checkConfig has a line for each file that does not parse, and for each value that means nothing.
func checkConfig(env Getenv) (fs []Finding) {
	cfg := LoadConfig(env, ProjectDir(env))
	for _, err := range cfg.Problems {
		f := Finding{Level: LevelWarn, What: OneLine(err.Error()), Means: "the value is not used", Mend: "mend the value in the configuration; docs/configuration.md lists what each takes"}
		if path, broken := brokenFile(err); broken {
			f.Level, f.Means, f.Mend = LevelFail, "neither this file nor those that rank below it are used", "mend the JSON in "+path
		}
		if errors.Is(err, errUntrusted) {
			f.Means, f.Mend = "your own configuration alone is used here", "start claude in that folder and trust it, if its files are yours"
		}
		fs = append(fs, f)
	}
	if len(fs) == 0 {
		return Fine("the configuration files parse")
	}
	return fs
}

// brokenFile is the file that LoadConfig stopped at.
func brokenFile(err error) (path string, ok bool) {
	rest, ok := strings.CutPrefix(err.Error(), "read configuration ")
	path, _, found := strings.Cut(rest, ": ")
	return path, ok && found
}

// checkWaiting looks at what is to be sent.
func checkWaiting(env Getenv, now time.Time) (fs []Finding) {
	box := OutboxIn(UserState(env))
	for _, p := range box.Pauses() {
		fs = append(fs, Finding{Level: LevelFail, What: fmt.Sprintf("nothing is sent to %s since %s: %s", p.Chat, p.Since.Local().Format(time.DateTime), OneLine(p.Why)),
			Means: "questions and reports of its projects wait", Mend: "mend the webhook (see chat.webhook), then gchat-hooks flush"})
	}
	waiting, _ := box.Waiting()
	n, late, why := 0, 0, ""
	for _, m := range waiting {
		if m.Tries == 0 && now.Before(m.NotBefore) {
			continue // held back for a digest, or by quiet hours
		}
		if n++; now.Sub(m.CreatedAt) > waitsLong {
			if late++; why == "" && m.LastError != "" {
				why = ", " + OneLine(m.LastError)
			}
		}
	}
	if late > 0 {
		fs = append(fs, Finding{Level: LevelWarn, What: fmt.Sprintf("messages that wait to be sent for more than 10 minutes: %d%s", late, why),
			Means: "their threads do not know yet", Mend: "gchat-hooks flush"})
	}
	if len(fs) > 0 {
		return fs
	}
	return Fine(fmt.Sprintf("messages to be sent: %d", n))
}

// checkDead looks at what Chat refused.
func checkDead(env Getenv) []Finding {
	dead := OutboxIn(UserState(env)).Dead()
	if len(dead) == 0 {
		return Fine("no message was refused for good")
	}
	return []Finding{{Level: LevelWarn, What: fmt.Sprintf("messages that were refused for good: %d, the last one: %s", len(dead), OneLine(dead[len(dead)-1].LastError)),
		Means: "they never came into the space", Mend: "gchat-hooks flush --dead; what is refused again goes with gchat-hooks flush --forget-dead"}}
}

// checkPIDFiles finds what a daemon that was killed left behind. Locks need no such look: they are the kernel's, and end
// with their holder.
func checkPIDFiles(env Getenv) (fs []Finding) {
	for _, dir := range stateFolders(env) {
		pid := DaemonPID(dir)
		if _, err := os.Lstat(filepath.Join(dir, pidFile)); err != nil || DaemonRuns(dir) {
			continue
		}
		fs = append(fs, Finding{Level: LevelWarn, What: fmt.Sprintf("%s names pid %d, and no daemon runs for that folder", filepath.Join(dir, pidFile), pid),
			Means: "a daemon was killed; scripts that trust the file would signal another process", Mend: doctorFix,
			Fix: func() (string, error) {
				if DaemonRuns(dir) { // one came up since
					return "left the pid file alone: a daemon runs now", nil
				}
				return "removed " + filepath.Join(dir, pidFile), os.Remove(filepath.Join(dir, pidFile))
			}})
	}
	if len(fs) == 0 {
		return Fine("no daemon left its pid file behind")
	}
	return fs
}

// stateFolders are the state folders that this project and this person have, each once.
func stateFolders(env Getenv) (dirs []string) {
	own, err := filepath.Abs(ProjectState(env))
	if err == nil {
		dirs = append(dirs, own)
	}
	return append(dirs, UserState(env))
}

// checkDamaged finds state files that did not parse. It moves none aside: that is for whoever needs them.
func checkDamaged(env Getenv) (fs []Finding) {
	for _, dir := range append(stateFolders(env), SpareState(env)) {
		var found []string
		for _, pattern := range []string{"*.corrupt-*", "*/*.corrupt-*"} {
			files, _ := filepath.Glob(filepath.Join(dir, pattern))
			found = append(found, files...)
		}
		folder := QuestionsIn(dir)
		names, _ := folder.names()
		for _, name := range names {
			var damaged *Corrupt
			path := filepath.Join(folder.Dir, name)
			if _, err := PeekQuestion(path); errors.As(err, &damaged) {
				found = append(found, path)
			}
		}
		for _, path := range found {
			fs = append(fs, Finding{Level: LevelWarn, What: "a state file does not parse: " + path, Means: "what it held is out of use: a question, or what waited",
				Mend: "look whether you need it, then: rm " + ShellQuoted(path)})
		}
	}
	if len(fs) == 0 {
		return Fine("all state files parse")
	}
	return fs
}
