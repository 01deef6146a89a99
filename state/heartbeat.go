package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ReadBeat is the heartbeat of an environment's poller; the zero one when there is none.
func ReadBeat(env Getenv, environment string) (h Heartbeat) {
	b, err := ReadPlain(filepath.Join(pollersDir(env), environment+".json"), 64<<10)
	if err != nil || json.Unmarshal(b, &h) != nil {
		return Heartbeat{}
	}
	if h.Where != "" && h.Where != Here() {
		h.Lives = !tooLong(time.Since(h.Beat)) // its process is not to be seen from here
		return h
	}
	err = syscall.Kill(h.PID, 0)
	restarted := h.Awake > Awake() // the machine, since then: its pid is another process's
	h.Lives = h.PID > 0 && !restarted && (err == nil || errors.Is(err, syscall.EPERM))
	return h
}

// Heartbeat is what a poller writes about itself every BeatEvery: file pollers/{environment}.json.
type Heartbeat struct {
	PID     int           `json:"pid"`
	Program string        `json:"program"`
	Daemon  bool          `json:"daemon"`
	DryRun  bool          `json:"dry_run,omitempty"` // it types nothing, and has no other poller type
	Started time.Time     `json:"started"`
	Beat    time.Time     `json:"beat"`
	Open    int           `json:"open"`             // questions that it serves
	Unread  []string      `json:"unread,omitempty"` // folders of questions that the system does not let it read, some of them
	Machine string        `json:"machine"`          // as people call it: its host's name
	Where   string        `json:"where"`            // see Here
	Awake   time.Duration `json:"awake"`            // how long the machine had run by then, without its sleep, nanoseconds

	Lives bool `json:"-"` // its process is there. The lock is not tried: for that instant a hook would take us for the poller
}

// Unreadable says what the system does not let a living poller read, and what a person can do about it; "" where it reads all. A
// launchd agent has permissions of its own: the person's terminal may read what the daemon may not.
func (h Heartbeat) Unreadable() (what, hint string) {
	if !h.Lives || len(h.Unread) == 0 {
		return "", ""
	}
	what = fmt.Sprintf("the poller (pid %d) may not read the questions in %s", h.PID, strings.Join(h.Unread, ", "))
	return what, "see who may read that folder; on a Mac, which guards Documents, Desktop, Downloads, iCloud Drive and other " +
		"volumes, allow " + h.Program + " in System Settings > Privacy & Security > Full Disk Access; " +
		"then gchat-hooks poller install"
}

// BeatEvery is how often a poller shows that it goes on; one that has not for three times as long is stopped, or hangs.
const BeatEvery = 10 * time.Second

// Beat writes the heartbeat of this environment's poller.
func Beat(env Getenv, h Heartbeat) error {
	h.Machine, _ = os.Hostname()
	h.Where = Here()
	b, _ := json.Marshal(h) // texts, numbers and times
	return overwrite(pollerFile(env, ".json"), append(b, '\n'))
}

const dryRunExt = ".dry-run"

// MarkDryRun has every poller of this person's type nothing, whatever its environment, until the lock is given up or this
// process ends.
func MarkDryRun(env Getenv) (*Lock, error) { return TryLock(pollerFile(env, dryRunExt)) }

// DryRuns says whether a living process marks a dry run.
func DryRuns(env Getenv) bool {
	dir := pollersDir(env)
	return slices.ContainsFunc(namesIn(dir), func(name string) bool {
		return filepath.Ext(name) == dryRunExt && Held(filepath.Join(dir, name))
	})
}

func EndBeat(env Getenv) { os.Remove(pollerFile(env, ".json")) }

// Pollers are the heartbeats of all environments' pollers.
func Pollers(env Getenv) (all []Heartbeat) {
	for _, name := range namesIn(pollersDir(env)) {
		if environment, is := strings.CutSuffix(name, ".json"); is {
			all = append(all, ReadBeat(env, environment))
		}
	}
	return all
}

// Silent says whether a living poller shows no sign of going on: it is stopped, or hangs. A machine that sleeps gives it no time.
func (h Heartbeat) Silent(now time.Time) bool {
	since := now.Sub(h.Beat)
	if is := Awake(); h.Where == Here() && h.Awake > 0 && is >= h.Awake {
		since = is - h.Awake
	}
	return h.Lives && tooLong(since)
}

func tooLong(since time.Duration) bool { return since.Abs() > 3*BeatEvery }

// The files of gchat-response-poller in a state folder, which other programs read.
const (
	PIDFile      = "gchat-poller.pid"
	LastPollFile = "gchat-poller-last-poll.txt" // the time of the last good cycle, as RFC 3339
)

// WritePID writes the daemon's pid into a state folder.
func WritePID(dir string) error {
	return WriteFile(filepath.Join(dir, PIDFile), []byte(strconv.Itoa(os.Getpid())+"\n"))
}

// DaemonPID is what the pid file of a state folder says; 0 when there is none. After kill -9 it is out of date.
func DaemonPID(dir string) int {
	b, _ := ReadPlain(filepath.Join(dir, PIDFile), 1024)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return pid
}

// NoteLastPoll writes down in a state folder that a cycle of the daemon went well. A folder that is gone is not made again.
func NoteLastPoll(dir string, now time.Time) error {
	if _, err := os.Stat(dir); Missing(err) {
		return nil
	}
	return WriteFile(filepath.Join(dir, LastPollFile), []byte(now.UTC().Format(time.RFC3339)+"\n"))
}

// LastPoll is the time of the daemon's last good cycle; the zero time when there was none.
func LastPoll(dir string) time.Time {
	b, _ := ReadPlain(filepath.Join(dir, LastPollFile), 1024)
	t, _ := time.Parse(time.RFC3339, strings.TrimSpace(string(b)))
	return t
}
