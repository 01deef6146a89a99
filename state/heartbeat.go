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

// ReadHeartbeat reads the heartbeat of an environment's poller; it is the zero value
// where there is none.
func ReadHeartbeat(env Getenv, environment string) (h Heartbeat) {
	b, err := ReadPlain(filepath.Join(pollersDir(env), environment+".json"), 64<<10)
	if err != nil || json.Unmarshal(b, &h) != nil {
		return Heartbeat{}
	}
	if h.PIDScope != "" && h.PIDScope != PIDScope() {
		// its process cannot be seen from here
		h.IsAlive = !isTooLong(time.Since(h.BeatAt))
		return h
	}
	err = syscall.Kill(h.PID, 0)
	// the machine restarted since, and the pid may belong to another process
	isRestarted := h.AwakeTime > AwakeTime()
	h.IsAlive = h.PID > 0 && !isRestarted && (err == nil || errors.Is(err, syscall.EPERM))
	return h
}

// Heartbeat is what a poller writes about itself every HeartbeatInterval, to the file
// pollers/{environment}.json.
type Heartbeat struct {
	PID      int    `json:"pid"`
	Program  string `json:"program"`
	IsDaemon bool   `json:"daemon"`
	// it types nothing, and keeps every other poller from typing
	IsDryRun      bool      `json:"dry_run,omitempty"`
	StartedAt     time.Time `json:"started"`
	BeatAt        time.Time `json:"beat"`
	OpenQuestions int       `json:"open"` // the questions that the poller serves
	// some of the folders of questions that the system does not let the poller read
	UnreadableFolders []string `json:"unread,omitempty"`
	Machine           string   `json:"machine"` // the host name
	PIDScope          string   `json:"where"`   // see the function PIDScope
	// how long the machine had run, without sleep; nanoseconds
	AwakeTime time.Duration `json:"awake"`

	// whether its process lives. That is found without the poller's lock: a hook that saw
	// us hold the lock would take us for the poller
	IsAlive bool `json:"-"`
}

// DescribeUnreadable returns, for a person, what the system does not let a living poller
// read, and what to do about it; both are "" where it can read all. A launchd agent has
// permissions of its own: the person's terminal may read what the daemon may not.
func (h Heartbeat) DescribeUnreadable() (problem, hint string) {
	if !h.IsAlive || len(h.UnreadableFolders) == 0 {
		return "", ""
	}
	problem = fmt.Sprintf(
		"the poller (pid %d) may not read the questions in %s",
		h.PID,
		strings.Join(h.UnreadableFolders, ", "),
	)
	return problem, "check the permissions of that folder. A Mac guards Documents, Desktop, Downloads, " +
		"iCloud Drive and other volumes: there, allow " + h.Program +
		" in System Settings > Privacy & Security > Full Disk Access. " +
		"Then run: gchat-hooks poller install"
}

// HeartbeatInterval is how often a poller shows that it is running. A poller that missed
// three of them is stopped, or hangs.
const HeartbeatInterval = 10 * time.Second

// WriteHeartbeat writes the heartbeat of this environment's poller. It fills in the
// machine and the PIDScope.
func WriteHeartbeat(env Getenv, h Heartbeat) error {
	h.Machine, _ = os.Hostname()
	h.PIDScope = PIDScope()
	b, _ := json.Marshal(h) // texts, numbers and times
	return overwrite(pollerFile(env, ".json"), append(b, '\n'))
}

const dryRunExt = ".dry-run"

// MarkDryRun keeps every poller of this person, in every environment, from typing until
// the returned lock is released or this process ends.
func MarkDryRun(env Getenv) (*Lock, error) { return TryLock(pollerFile(env, dryRunExt)) }

// IsDryRunMarked reports whether a living process called MarkDryRun.
func IsDryRunMarked(env Getenv) bool {
	dir := pollersDir(env)
	return slices.ContainsFunc(folderEntries(dir), func(name string) bool {
		return filepath.Ext(name) == dryRunExt && IsLocked(filepath.Join(dir, name))
	})
}

// RemoveHeartbeat removes the heartbeat of this environment's poller.
func RemoveHeartbeat(env Getenv) { os.Remove(pollerFile(env, ".json")) }

// ReadHeartbeats reads the heartbeats of the pollers of all environments.
func ReadHeartbeats(env Getenv) (all []Heartbeat) {
	for _, name := range folderEntries(pollersDir(env)) {
		if environment, ok := strings.CutSuffix(name, ".json"); ok {
			all = append(all, ReadHeartbeat(env, environment))
		}
	}
	return all
}

// IsSilent reports whether a living poller has missed its heartbeats: it is stopped, or
// hangs. Time in which the machine slept does not count.
func (h Heartbeat) IsSilent(now time.Time) bool {
	since := now.Sub(h.BeatAt)
	if awake := AwakeTime(); h.PIDScope == PIDScope() && h.AwakeTime > 0 && awake >= h.AwakeTime {
		since = awake - h.AwakeTime
	}
	return h.IsAlive && isTooLong(since)
}

func isTooLong(since time.Duration) bool { return since.Abs() > 3*HeartbeatInterval }

// Files that gchat-response-poller writes into a state folder for other programs.
const (
	PIDFile      = "gchat-poller.pid"
	LastPollFile = "gchat-poller-last-poll.txt" // the time of the last good cycle, as RFC 3339
)

// WriteDaemonPID writes the pid of this process, the daemon, into a state folder.
func WriteDaemonPID(dir string) error {
	return WriteFile(filepath.Join(dir, PIDFile), []byte(strconv.Itoa(os.Getpid())+"\n"))
}

// ReadDaemonPID reads the daemon's pid from a state folder; 0 where there is none. After
// kill -9 the pid is stale.
func ReadDaemonPID(dir string) int {
	b, _ := ReadPlain(filepath.Join(dir, PIDFile), 1024)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return pid
}

// WriteLastPoll writes into a state folder when the daemon last completed a cycle without
// an error. It does not create a folder that is gone.
func WriteLastPoll(dir string, now time.Time) error {
	if _, err := os.Stat(dir); IsMissing(err) {
		return nil
	}
	return WriteFile(filepath.Join(dir, LastPollFile), []byte(now.UTC().Format(time.RFC3339)+"\n"))
}

// ReadLastPoll returns the time of the daemon's last good cycle; the zero time where
// there was none.
func ReadLastPoll(dir string) time.Time {
	b, _ := ReadPlain(filepath.Join(dir, LastPollFile), 1024)
	t, _ := time.Parse(time.RFC3339, strings.TrimSpace(string(b)))
	return t
}
