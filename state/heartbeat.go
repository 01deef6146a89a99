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

// ReadHeartbeat is the heartbeat of an environment's poller; the zero one when there is
// none.
func ReadHeartbeat(env Getenv, environment string) (h Heartbeat) {
	b, err := ReadPlain(filepath.Join(pollersDir(env), environment+".json"), 64<<10)
	if err != nil || json.Unmarshal(b, &h) != nil {
		return Heartbeat{}
	}
	if h.PIDScope != "" && h.PIDScope != PIDScope() {
		h.IsAlive = !isTooLong(time.Since(h.BeatAt)) // its process is not to be seen from here
		return h
	}
	err = syscall.Kill(h.PID, 0)
	// the machine, since then: its pid is another process's
	isRestarted := h.AwakeTime > AwakeTime()
	h.IsAlive = h.PID > 0 && !isRestarted && (err == nil || errors.Is(err, syscall.EPERM))
	return h
}

// Heartbeat is what a poller writes about itself every HeartbeatInterval: file
// pollers/{environment}.json.
type Heartbeat struct {
	PID      int    `json:"pid"`
	Program  string `json:"program"`
	IsDaemon bool   `json:"daemon"`
	// it types nothing, and has no other poller type
	IsDryRun      bool      `json:"dry_run,omitempty"`
	StartedAt     time.Time `json:"started"`
	BeatAt        time.Time `json:"beat"`
	OpenQuestions int       `json:"open"` // questions that it serves
	// folders of questions that the system does not let it read, some of them
	UnreadableFolders []string `json:"unread,omitempty"`
	Machine           string   `json:"machine"` // as people call it: its host's name
	PIDScope          string   `json:"where"`   // see Here
	// how long the machine had run by then, without its sleep, nanoseconds
	AwakeTime time.Duration `json:"awake"`

	// its process is there. The lock is not tried: for that instant a hook would take us
	// for the poller
	IsAlive bool `json:"-"`
}

// DescribeUnreadable says what the system does not let a living poller read, and what a
// person can do about it; "" where it reads all. A launchd agent has permissions of its
// own: the person's terminal may read what the daemon may not.
func (h Heartbeat) DescribeUnreadable() (problem, hint string) {
	if !h.IsAlive || len(h.UnreadableFolders) == 0 {
		return "", ""
	}
	problem = fmt.Sprintf(
		"the poller (pid %d) may not read the questions in %s",
		h.PID,
		strings.Join(h.UnreadableFolders, ", "),
	)
	return problem, "see who may read that folder; on a Mac, which guards Documents, Desktop, Downloads, iCloud Drive and other " +
		"volumes, allow " + h.Program + " in System Settings > Privacy & Security > Full Disk Access; " +
		"then gchat-hooks poller install"
}

// HeartbeatInterval is how often a poller shows that it goes on; one that has not for
// three times as long is stopped, or hangs.
const HeartbeatInterval = 10 * time.Second

// WriteHeartbeat writes the heartbeat of this environment's poller.
func WriteHeartbeat(env Getenv, h Heartbeat) error {
	h.Machine, _ = os.Hostname()
	h.PIDScope = PIDScope()
	b, _ := json.Marshal(h) // texts, numbers and times
	return overwrite(pollerFile(env, ".json"), append(b, '\n'))
}

const dryRunExt = ".dry-run"

// MarkDryRun has every poller of this person's type nothing, whatever its environment,
// until the lock is given up or this process ends.
func MarkDryRun(env Getenv) (*Lock, error) { return TryLock(pollerFile(env, dryRunExt)) }

// IsDryRunMarked says whether a living process marks a dry run.
func IsDryRunMarked(env Getenv) bool {
	dir := pollersDir(env)
	return slices.ContainsFunc(folderEntries(dir), func(name string) bool {
		return filepath.Ext(name) == dryRunExt && IsLocked(filepath.Join(dir, name))
	})
}

func RemoveHeartbeat(env Getenv) { os.Remove(pollerFile(env, ".json")) }

// ReadHeartbeats are the heartbeats of all environments' pollers.
func ReadHeartbeats(env Getenv) (all []Heartbeat) {
	for _, name := range folderEntries(pollersDir(env)) {
		if environment, ok := strings.CutSuffix(name, ".json"); ok {
			all = append(all, ReadHeartbeat(env, environment))
		}
	}
	return all
}

// IsSilent says whether a living poller shows no sign of going on: it is stopped, or
// hangs. A machine that sleeps gives it no time.
func (h Heartbeat) IsSilent(now time.Time) bool {
	since := now.Sub(h.BeatAt)
	if awake := AwakeTime(); h.PIDScope == PIDScope() && h.AwakeTime > 0 && awake >= h.AwakeTime {
		since = awake - h.AwakeTime
	}
	return h.IsAlive && isTooLong(since)
}

func isTooLong(since time.Duration) bool { return since.Abs() > 3*HeartbeatInterval }

// The files of gchat-response-poller in a state folder, which other programs read.
const (
	PIDFile      = "gchat-poller.pid"
	LastPollFile = "gchat-poller-last-poll.txt" // the time of the last good cycle, as RFC 3339
)

// WriteDaemonPID writes the daemon's pid into a state folder.
func WriteDaemonPID(dir string) error {
	return WriteFile(filepath.Join(dir, PIDFile), []byte(strconv.Itoa(os.Getpid())+"\n"))
}

// ReadDaemonPID is what the pid file of a state folder says; 0 when there is none. After
// kill -9 it is out of date.
func ReadDaemonPID(dir string) int {
	b, _ := ReadPlain(filepath.Join(dir, PIDFile), 1024)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return pid
}

// WriteLastPoll writes down in a state folder that a cycle of the daemon went well. A
// folder that is gone is not made again.
func WriteLastPoll(dir string, now time.Time) error {
	if _, err := os.Stat(dir); IsMissing(err) {
		return nil
	}
	return WriteFile(filepath.Join(dir, LastPollFile), []byte(now.UTC().Format(time.RFC3339)+"\n"))
}

// ReadLastPoll is the time of the daemon's last good cycle; the zero time when there was
// none.
func ReadLastPoll(dir string) time.Time {
	b, _ := ReadPlain(filepath.Join(dir, LastPollFile), 1024)
	t, _ := time.Parse(time.RFC3339, strings.TrimSpace(string(b)))
	return t
}
