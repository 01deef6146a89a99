package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// doctorFix is the mend of what --fix does by itself.
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
		f := warning(OneLine(err.Error()), "the value is not used",
			"mend the value in the configuration; docs/configuration.md lists what each takes")
		if path, broken := brokenFile(err); broken {
			f = failure(f.What, "neither this file nor those that rank below it are used", "mend the JSON in "+path)
		}
		if errors.Is(err, errUntrusted) {
			f.Means = "your own configuration alone is used here"
			f.Mend = "start claude in that folder and trust it, if its files are yours"
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
		what := fmt.Sprintf("nothing is sent to %s since %s: %s", p.Chat, p.Since.Local().Format(time.DateTime), OneLine(p.Why))
		fs = append(fs, failure(what, "questions and reports of its projects wait",
			"mend the webhook (see chat.webhook), then gchat-hooks flush"))
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
		what := fmt.Sprintf("messages that wait to be sent for more than 10 minutes: %d%s", late, why)
		fs = append(fs, warning(what, "their threads do not know yet", "gchat-hooks flush"))
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
	last := OneLine(dead[len(dead)-1].LastError)
	return []Finding{warning(fmt.Sprintf("messages that were refused for good: %d, the last one: %s", len(dead), last),
		"they never came into the space",
		"gchat-hooks flush --dead; what is refused again goes with gchat-hooks flush --forget-dead")}
}

// checkPIDFiles finds what a daemon that was killed left behind. Locks need no such look: they are the kernel's, and end
// with their holder.
func checkPIDFiles(env Getenv) (fs []Finding) {
	for _, dir := range stateFolders(env) {
		path := filepath.Join(dir, pidFile)
		if !exists(path) || DaemonRuns(dir) {
			continue
		}
		f := warning(fmt.Sprintf("%s names pid %d, and no daemon runs for that folder", path, DaemonPID(dir)),
			"a daemon was killed; scripts that trust the file would signal another process", doctorFix)
		f.Fix = func() (string, error) {
			if DaemonRuns(dir) { // one came up since
				return "left the pid file alone: a daemon runs now", nil
			}
			return "removed " + path, os.Remove(path)
		}
		fs = append(fs, f)
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

// checkDamaged finds state files that did not parse. It moves none aside: a hook or the poller does when it reads one.
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
			fs = append(fs, warning("a state file does not parse: "+path,
				"a question in it, or a message, is out of use", "look whether you need it, then: rm "+ShellQuoted(path)))
		}
	}
	if len(fs) == 0 {
		return Fine("all state files parse")
	}
	return fs
}

// Level says how bad a finding of `gchat-hooks doctor` is.
type Level string

const (
	LevelOK   Level = "ok"
	LevelWarn Level = "warn" // something does not work as it could, or will not before long
	LevelFail Level = "fail" // questions are not asked, or not answered, in Chat; or a secret lies open
	LevelSkip Level = "skip" // it was not looked at, and why
)

// Finding is what a check of `gchat-hooks doctor` has to say in one line. None of its words may be a secret.
type Finding struct {
	ID    string `json:"id"` // of the check, stable: room.thing
	Level Level  `json:"level"`
	What  string `json:"what"`
	Means string `json:"means,omitempty"` // what it keeps from working
	Mend  string `json:"mend,omitempty"`  // the command or the change that mends it
	Fixed string `json:"fixed,omitempty"` // what --fix did about it

	// Fix mends it where that is safe: nothing a person wrote is changed. It says what it did. nil: a person has to.
	Fix func() (did string, err error) `json:"-"`
}

// Check is one look at how things are. It changes nothing, ends soon after its context, and has one finding at least.
type Check struct {
	ID  string
	Run func(ctx context.Context) []Finding
}

func warning(what, means, mend string) Finding {
	return Finding{Level: LevelWarn, What: what, Means: means, Mend: mend}
}

func failure(what, means, mend string) Finding {
	return Finding{Level: LevelFail, What: what, Means: means, Mend: mend}
}

// Fine is the finding of a check that found nothing wrong.
func Fine(what string) []Finding { return []Finding{{Level: LevelOK, What: what}} }

// Skipped is the finding of a check that could not be made, or does not apply.
func Skipped(why string) []Finding { return []Finding{{Level: LevelSkip, What: why}} }

func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// checkFolders looks whether state can be written where it is to be.
func checkFolders(env Getenv) (found []Finding) {
	if Home(env) == noHome {
		return []Finding{failure("HOME is not set",
			"there is no configuration and no state of yours, so questions stay in the terminal", "export HOME=~")}
	}
	missingOnes := []string{}
	for _, dir := range append(stateFolders(env), filepath.Dir(LogPath(env))) {
		info, err := os.Stat(dir)
		switch {
		case err == nil && info.IsDir():
			probe, err := os.CreateTemp(dir, ".new-")
			if err == nil {
				probe.Close()
				err = os.Remove(probe.Name())
			}
			if err != nil {
				is := ShellQuoted(dir)
				found = append(found, failure("nothing can be written to "+dir+": "+reason(err), notKept,
					"see who owns it and whether the disk is full (ls -ld "+is+"; df "+is+"), or set GCHAT_STATE_DIR"))
			}
		case err == nil:
			found = append(found, notAFolder(dir))
		case missing(err):
			if up := nearest(dir); !isDir(up) {
				found = append(found, notAFolder(up))
			} else {
				missingOnes = append(missingOnes, dir)
			}
		default:
			found = append(found, failure("cannot look at "+dir+": "+reason(err), notKept,
				"see who owns its folders: ls -ld "+ShellQuoted(filepath.Dir(dir))))
		}
	}
	if len(found) > 0 {
		return found
	}
	if len(missingOnes) > 0 {
		found = Fine("state folders are made at their first use: " + strings.Join(missingOnes, ", "))
		found[0].Fix = func() (string, error) {
			for _, dir := range missingOnes {
				if err := mkdir(dir); err != nil {
					return "", err
				}
			}
			return "made " + strings.Join(missingOnes, ", "), nil
		}
		return found
	}
	return Fine("state folders can be written")
}

const notKept = "questions cannot be kept, so they stay in the terminal"

func notAFolder(path string) Finding {
	return failure(path+" is a file where a folder has to be", notKept, "mv "+ShellQuoted(path)+" "+ShellQuoted(path+".old"))
}

// nearest is the closest of a path's parents that exists.
func nearest(path string) string {
	for path = filepath.Dir(path); path != filepath.Dir(path) && !exists(path); {
		path = filepath.Dir(path)
	}
	return path
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
