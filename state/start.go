package state

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// environment are the variables that decide where, as whom and for whom messages go and replies are read.
var environment = []string{
	"GOOGLE_CHAT_WEBHOOK_URL", "GOOGLE_CHAT_SPACE_ID", "GOOGLE_CHAT_CREDENTIALS_FILE", "GOOGLE_APPLICATION_CREDENTIALS",
	"CLOUDSDK_CONFIG", "GCHAT_API_ENDPOINT", "GCHAT_PUBSUB_SUBSCRIPTION", "GCHAT_PUBSUB_ENDPOINT", "GCHAT_ALLOWED_USERS",
	"GCHAT_APPROVERS", "GCHAT_CONFIG", "GCHAT_FORMAT", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL",
	"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"OPENCLAW_HOME", "OPENCLAW_STATE_DIR", "OPENCLAW_CONFIG_PATH", "OPENCLAW_PROFILE",
	"OPENCLAW_GATEWAY_TOKEN", "OPENCLAW_GATEWAY_PASSWORD", "OPENCLAW_GATEWAY_PORT", "OPENCLAW_GATEWAY_URL",
}

// Environment names this machine, and what this process's environment says about where messages go: a salted hash, so that no
// secret reaches the disk. One poller serves the records of one environment: machines that share a HOME have one each.
func Environment(env Getenv) string {
	h := sha256.New()
	h.Write(salt(env))
	fmt.Fprintf(h, "machine=%s\x00", machine())
	for _, name := range environment {
		fmt.Fprintf(h, "%s=%s\x00", name, env(name))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// salts are what salt returned, by its file: a process asks for it with each lock.
var salts sync.Map

// salt is 16 random bytes of this user's state, made with the first call. Where they cannot be written it is none: then
// nothing else of ours can be, either.
func salt(env Getenv) []byte {
	path := filepath.Join(UserState(env), "salt")
	if known, ok := salts.Load(path); ok {
		return known.([]byte)
	}
	b, err := ReadPlain(path, 64)
	if err == nil && len(b) > 0 {
		salts.Store(path, b)
		return b
	}
	fresh := make([]byte, 16)
	_, _ = rand.Read(fresh)
	l, err := lockSoon(path)
	if err != nil {
		return fresh
	}
	defer l.Unlock()
	if b, _ := ReadPlain(path, 64); len(b) > 0 { // another process was faster
		return b
	}
	_, _ = l.file.Write(fresh)
	return fresh
}

// CardID is what the buttons of a question's card carry in place of its id: no other program can guess it.
func CardID(env Getenv, questionID string) string {
	h := hmac.New(sha256.New, salt(env))
	h.Write([]byte("card " + questionID))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// ForProject is the environment in which a project's record was written, as far as its configuration goes: a project's files
// count where the record's Open says so.
func ForProject(env Getenv, projectDir string, trusted bool) Getenv {
	return func(name string) string {
		switch {
		case name != "CLAUDE_PROJECT_DIR":
			return env(name)
		case trusted:
			return projectDir
		}
		return ""
	}
}

func pollersDir(env Getenv) string { return filepath.Join(UserState(env), "pollers") }

func pollerFile(env Getenv, ext string) string {
	return filepath.Join(pollersDir(env), Environment(env)+ext)
}

// TakePollerLock makes the caller the poller of its environment; ErrLocked when there is one.
func TakePollerLock(env Getenv) (*Lock, error) { return TryLock(pollerFile(env, ".lock")) }

// Inherited is the descriptor of the lock that Pass passes.
const Inherited = 3

// InheritPollerLock is the lock that the process which started this poller took for it, under a descriptor. Another file there, or a
// lock that another process has, is an error.
func InheritPollerLock(env Getenv, descriptor uintptr) (*Lock, error) {
	f, path := os.NewFile(descriptor, "poller.lock"), pollerFile(env, ".lock")
	passed, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("the lock that was passed to this poller: %w", err)
	}
	if is, err := os.Lstat(path); err != nil || !os.SameFile(is, passed) {
		return nil, errors.New("what was passed to this poller is not its environment's lock")
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil { // ours already, or free
		return nil, fmt.Errorf("the lock that was passed to this poller: %w", err)
	}
	syscall.CloseOnExec(int(f.Fd()))
	return &Lock{f, path}, nil
}

// What a program is told that is to be the poller; see Pass.
const (
	Orphan   = "--orphan"
	Detached = "--detached"
)

// Pass has self become the detached poller that has the lock from now on: in a session of its own, in /, with no descriptor of
// ours but the lock. The caller has it no more, also when that fails. Started as an Orphan, self only starts the poller, as
// Detached, and ends: on Esc Claude Code ends a waiting hook with all its children (2.1.197, 2.1.329).
func (l *Lock) Pass(self, as string) error {
	kept := slices.DeleteFunc(os.Environ(), func(pair string) bool { // the poller belongs to no session and to no pane
		return strings.HasPrefix(pair, "CLAUDE") || strings.HasPrefix(pair, "TMUX")
	})
	cmd := &exec.Cmd{
		Path: self, Args: []string{"gchat-hooks", "poller", as}, // self may be a copy that is called as a hook
		Dir: "/", Env: kept, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		ExtraFiles: []*os.File{l.file}, // the three before it are the null device
	}
	if err := cmd.Start(); err != nil {
		l.Unlock()
		return fmt.Errorf("start poller: %w", err)
	}
	_ = l.file.Close() // without LOCK_UN: the child has the lock
	go func() { _ = cmd.Wait() }()
	return nil
}

// StartPoller makes sure that a poller of this environment runs; self is this program's path. It is called after the work was
// written. What is the poller by then may be about to end, and not look for work any more: so it is called first.
func StartPoller(env Getenv, self string) error {
	CallPoller(env, Environment(env))
	lock, err := TakePollerLock(env)
	if errors.Is(err, ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	return lock.Pass(self, Orphan)
}

// CallPoller has the process that is an environment's poller know of work, also where it is about to end: each call writes a byte
// to the file of its lock. Where there is no such file, no process is the poller.
func CallPoller(env Getenv, environment string) {
	f, err := os.OpenFile(filepath.Join(pollersDir(env), environment+".lock"), os.O_WRONLY|os.O_APPEND|plainFlags, 0)
	if err != nil {
		return
	}
	_, _ = f.Write([]byte{'\n'})
	_ = f.Close()
}

// PollerCalls is how often a poller of this environment was called. It is to be asked before work is looked for.
func PollerCalls(env Getenv) int64 {
	info, err := os.Lstat(pollerFile(env, ".lock"))
	if err != nil {
		return 0
	}
	return info.Size()
}

// EndPoller gives the poller's lock up. Where a poller was called since there were so many PollerCalls, another one begins.
func (l *Lock) EndPoller(env Getenv, self string, calls int64) error {
	l.Unlock()
	if self == "" || PollerCalls(env) == calls {
		return nil
	}
	return StartPoller(env, self)
}

// WantPoller notes that the daemon, or a single round, waits for the lock of this environment's poller: a detached one yields to
// it. The caller takes the note away when it has the lock.
func WantPoller(env Getenv) (done func(), err error) {
	l, err := TryLock(pollerFile(env, ".want"))
	if err != nil {
		return nil, err
	}
	return l.Unlock, nil
}

// PollerWanted says whether a living process waits for the lock of this environment's poller.
func PollerWanted(env Getenv) bool { return Held(pollerFile(env, ".want")) }

// ReadBeat is the heartbeat of this environment's poller; the zero one when there is none.
func ReadBeat(env Getenv) Heartbeat { return readBeat(pollerFile(env, ".json")) }

func readBeat(file string) (h Heartbeat) {
	b, err := ReadPlain(file, 64<<10)
	if err != nil || json.Unmarshal(b, &h) != nil {
		return Heartbeat{}
	}
	if h.Where != "" && h.Where != Here() {
		h.Lives = !tooLong(time.Since(h.Beat)) // its process is not to be seen from here
		return h
	}
	err = syscall.Kill(h.PID, 0)
	h.Lives = h.PID > 0 && (err == nil || errors.Is(err, syscall.EPERM))
	return h
}

// Heartbeat is what a poller writes about itself every BeatEvery: file pollers/{environment}.json.
type Heartbeat struct {
	PID     int           `json:"pid"`
	Program string        `json:"program"`
	Daemon  bool          `json:"daemon"`
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
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return overwrite(pollerFile(env, ".json"), append(b, '\n'))
}

// EndBeat removes the heartbeat of a poller that ends.
func EndBeat(env Getenv) { os.Remove(pollerFile(env, ".json")) }

// Pollers are the heartbeats of all environments' pollers.
func Pollers(env Getenv) (all []Heartbeat) {
	for _, name := range namesIn(pollersDir(env)) {
		if filepath.Ext(name) == ".json" {
			all = append(all, readBeat(filepath.Join(pollersDir(env), name)))
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
	if err := MakeDir(dir); err != nil {
		return err
	}
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
