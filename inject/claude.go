package inject

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gchat-hooks/state"
)

// IdentifySession records in s where the session of a hook runs: its Claude Code and its
// place in tmux. window is the name of its tmux window.
func IdentifySession(ctx context.Context, env state.Getenv, s *state.Session) (window string) {
	s.ClaudePID, s.ClaudeStart = CallingClaude(env)
	s.ClaudeCommand = ProgramOf(s.ClaudePID)
	server := ServerOf(env("TMUX"))
	s.TmuxPane, s.TmuxSocket = env("TMUX_PANE"), server.Socket
	s.TmuxSession, s.HiddenPane = "", ""
	if server.Socket == "" {
		return ""
	}
	// A stopped server must not hold up a hook.
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	out, err := server.callPane(ctx, s.TmuxPane, "display-message", "-p",
		"#{pane_pid}:#{session_name}:#{window_name}")
	pid, names, _ := strings.Cut(strings.TrimSuffix(out, "\n"), ":")
	panePID, _ := strconv.Atoi(pid)
	isOtherPane := err != nil || s.ClaudePID > 0 && !isBelow(panePID, s.ClaudePID)
	// A tmux that is only too busy may answer the poller later.
	if isOtherPane && !errors.Is(err, context.DeadlineExceeded) {
		s.TmuxPane, s.TmuxSocket, s.HiddenPane = "", "", s.TmuxPane
		return ""
	}
	s.TmuxSession, window, _ = strings.Cut(names, ":") // tmux allows no colon in the name
	return strings.TrimSpace(window)
}

// isBelow reports whether a process is root or a descendant of it, as far as both can be
// seen from here. tmux's variables may have been passed into a sandbox or to another
// terminal. Keys typed into the pane that they name would then reach the wrong program.
func isBelow(root, pid int) bool {
	const farthest = 100 // parents can form a ring while processes come and go
	for range farthest {
		if pid == root || pid <= 1 {
			break
		}
		p, _ := processOf(pid)
		pid = p.parent
	}
	return pid == root && pid > 1
}

// SessionName returns what people call the session: $CLAUDE_SESSION_ID, which launch
// scripts set, or else its project's folder. If other sessions run in the project, a
// second part follows: the tmux session's name if it distinguishes them, else the
// window's, and outside tmux the beginning of Claude Code's id. That id is also appended
// if a sibling has the same name.
//
// siblings are the other sessions that run in the project.
func SessionName(
	env state.Getenv, s *state.Session, window string, siblings []*state.Session,
) string {
	if name := env("CLAUDE_SESSION_ID"); name != "" {
		return name
	}
	project := filepath.Base(state.ProjectDir(env))
	if len(siblings) == 0 {
		return project
	}
	shortID, place := s.ID[:min(8, len(s.ID))], window
	distinguishes := slices.ContainsFunc(siblings, func(other *state.Session) bool {
		// isUnknown means that the tmux server of that session did not answer.
		isUnknown := other.TmuxSession == "" && other.TmuxPane != ""
		return other.TmuxSession != s.TmuxSession && !isUnknown
	})
	_, err := strconv.Atoi(s.TmuxSession) // tmux numbers sessions that nobody named
	if distinguishes && err != nil && s.TmuxSession != "" {
		place = s.TmuxSession
	}
	name := project + " · " + cmp.Or(place, shortID)
	for _, other := range siblings {
		if other.Name == name {
			return name + " " + shortID
		}
	}
	return name
}

// CallingClaude returns the Claude Code that runs this hook, and its start as
// ProcessStart describes it. pid is 0 if it cannot be found.
func CallingClaude(env state.Getenv) (pid int, start string) {
	pid, _ = strconv.Atoi(env("CLAUDE_PID")) // Claude Code sets it from 2.1.214 on
	if pid <= 1 || !isAlive(pid) {
		pid = claudeAncestor()
	}
	if pid > 0 {
		start = ProcessStart(pid)
	}
	return pid, start
}

// IsWaiting reports whether a session's Claude Code waits for its person, e.g. for a
// permission. It reads Claude Code's own file of the session, which lies beside the
// transcripts. 2.1.197 and 2.1.329 update that file within 0.2 s of an answer. known is
// false if the file does not tell, or if it belongs to another session with the same pid,
// in a container with the same HOME.
func IsWaiting(transcript, id string, pid int) (isWaiting, known bool) {
	file, known := sessionFileOf(transcript, id, pid)
	return file.Status == statusWaiting, known
}

// IdleSince returns the time since which a session's Claude Code has neither worked nor
// waited, by Claude Code's own file of the session. It is zero if Claude Code works or
// waits, or if the file does not tell. Claude Code counts as working while one of its
// background agents works (2.1.197 and 2.1.332).
func IdleSince(transcript, id string, pid int) (since time.Time) {
	file, _ := sessionFileOf(transcript, id, pid)
	if file.Status == "idle" {
		since = time.UnixMilli(file.StatusSince).UTC()
	}
	return since
}

// StatusOf returns what a session's Claude Code does, by its own file of the session:
// busy, idle or waiting (2.1.284 to 2.1.332), and since when. It is "" if the file does
// not tell.
func StatusOf(session *state.Session) (status string, since time.Time) {
	file, _ := sessionFileOf(session.TranscriptPath, session.ID, session.ClaudePID)
	if file.Status == "" || file.StatusSince == 0 {
		return file.Status, time.Time{}
	}
	return file.Status, time.UnixMilli(file.StatusSince).UTC()
}

// statusWaiting is the status of a session that waits for its person.
const statusWaiting = "waiting"

// sessionFileOf reads Claude Code's file of a session. known is false if that file has no
// status or belongs to another session.
func sessionFileOf(transcript, id string, pid int) (file sessionFile, known bool) {
	file, known = readSessionFile(sessionFilePath(transcript, pid))
	if !known || file.Status == "" || file.ID != "" && file.ID != id {
		return sessionFile{}, false
	}
	return file, true
}

// DialogOf returns what a session's Claude Code waits for, by its own file of the
// session, or nil. Claude Code calls it "permission prompt", "worker request" (a
// teammate's), "sandbox request", "input needed" or "dialog open" (2.1.197 and 2.1.332).
func DialogOf(session *state.Session) (dialog *state.Dialog, known bool) {
	file, known := sessionFileOf(session.TranscriptPath, session.ID, session.ClaudePID)
	if file.Status != statusWaiting || HasEnded(session.ClaudePID, session.ClaudeStart) {
		return nil, known
	}
	permissions := []string{"permission prompt", "worker request", "sandbox request"}
	dialog = state.NewDialog(slices.Contains(permissions, file.WaitingFor), file.WaitingFor)
	dialog.WaitsSince = time.UnixMilli(file.StatusSince).UTC()
	dialog.IsMenu = file.WaitingFor == "dialog open"
	return dialog, known
}

// TerminalDialogText describes the dialog that a session waits for and that only its
// terminal can answer. It is "" if there is none, or if an open record already asks the
// person about it in a thread.
func TerminalDialogText(env state.Getenv, session *state.Session) string {
	dialog := session.Dialog
	if dialog == nil {
		dialog, _ = DialogOf(session)
	}
	hasEnded := !session.IsRunning() || HasEnded(session.ClaudePID, session.ClaudeStart)
	if dialog == nil || hasEnded || state.IsDialogExplained(env, session.ID) {
		return ""
	}
	return dialog.Text
}

// SessionIDOf returns the id of the session that a Claude Code runs, by its own file.
// Right after /clear and /resume that file names another session than before (2.1.197 and
// 2.1.330). The id is "" if the file does not tell.
func SessionIDOf(pid int, start, transcript string) string {
	startedAt, _, _ := strings.Cut(start, "@")
	file, known := readSessionFile(sessionFilePath(transcript, pid))
	if !known || startedAt == "" || file.Start != startedAt || IsElsewhere(start) {
		return ""
	}
	return file.ID
}

// ClaudeVersion returns the version of a session's Claude Code, by its own file, or "".
func ClaudeVersion(transcript string, pid int) string {
	file, _ := readSessionFile(sessionFilePath(transcript, pid))
	return file.Version
}

// sessionFilesDir is the folder in which Claude Code keeps a file for each running
// session.
func sessionFilesDir(transcript string) string {
	return filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(transcript))), "sessions")
}

func sessionFilePath(transcript string, pid int) string {
	return filepath.Join(sessionFilesDir(transcript), strconv.Itoa(pid)+".json")
}

// sessionFile is what we read of Claude Code's own file of a session.
type sessionFile struct {
	ID      string `json:"sessionId"`
	Status  string `json:"status"`
	Start   string `json:"procStart"` // as in process.start
	Version string `json:"version"`

	WaitingFor  string `json:"waitingFor"`
	StatusSince int64  `json:"statusUpdatedAt"` // in milliseconds
}

func readSessionFile(path string) (file sessionFile, known bool) {
	b, err := state.ReadPlain(path, 1<<20)
	known = err == nil && json.Unmarshal(b, &file) == nil
	return file, known
}

// HasEnded reports whether a known Claude Code has ended: its process does not exist, or
// another process has its pid, which the start shows. start may be "" if it is not known.
// If the pid is not known (0), HasEnded is false.
func HasEnded(pid int, start string) bool {
	switch {
	case pid <= 1, IsElsewhere(start):
		return false
	case !isAlive(pid):
		return true
	}
	startedAt, _, _ := strings.Cut(start, "@")
	p, _ := processOf(pid)
	return startedAt != "" && p.start != "" && p.start != startedAt
}

// ProcessStart returns when and where a process started: process.start, "@", and the pid
// namespace. No later process with this pid has the same value. It is "" if not known.
func ProcessStart(pid int) string {
	p, _ := processOf(pid)
	if p.start == "" {
		return ""
	}
	return p.start + "@" + state.PIDScope()
}

// IsElsewhere reports whether a process with this start runs on another machine or in
// another pid namespace. From here nothing can be said about it or about its pane.
func IsElsewhere(start string) bool {
	_, scope, known := strings.Cut(start, "@")
	return known && scope != state.PIDScope()
}

// process is one line of the machine's process table.
type process struct {
	pid, parent int
	group       int
	// foreground is the process group that has the terminal's keyboard. It is 0 or less
	// without a terminal.
	foreground int
	terminal   string // "" without one
	stopped    bool
	dead       bool   // has ended, but its parent has not collected its exit code yet
	name       string // comm: what the kernel calls it
	// start is in clock ticks since boot, or on a Mac a date in UTC. It is "" if not
	// known.
	start string
}

// hasKeyboard reports whether keys typed into a terminal reach the process.
func (p process) hasKeyboard(terminal string) bool {
	return terminal != "" && p.terminal == terminal && !p.dead &&
		p.foreground > 0 && p.group == p.foreground
}

// isClaude reports whether a process is a Claude Code. The kernel calls it "claude"
// (2.1.329; cli.js renames its node process so after the first second). macOS names a
// program by the file behind a link: by its version, claude.exe (npm) or node. In these
// cases argv[0] says claude. isClaude calls args only if the name leaves it open.
func (p process) isClaude(args func(pid int) []string) bool {
	name := filepath.Base(p.name)
	if p.dead {
		return false
	}
	if name == "claude" || name == "claude.exe" {
		return true
	}
	isEngine := name == "node" || name == "nodejs" || name == "bun"
	// The native installer names the program's file by its version, as in "2.1.332".
	isVersion := name != "" && name[0] >= '0' && name[0] <= '9'
	if !isEngine && !isVersion {
		return false
	}
	argv := args(p.pid)
	if len(argv) == 0 {
		return false
	}
	if filepath.Base(argv[0]) == "claude" {
		return true
	}
	// The package's script may follow the engine's options. A link to it is argv[1].
	isScript := func(arg string) bool { return strings.HasSuffix("/"+arg, "/claude-code/cli.js") }
	return isEngine && len(argv) > 1 &&
		(filepath.Base(argv[1]) == "claude" || slices.ContainsFunc(argv[1:], isScript))
}

// formatLstart formats a process's start on macOS as `ps -o lstart` prints it with
// LC_ALL=C and TZ=UTC. Earlier releases wrote that into records.
func formatLstart(t time.Time) string { return t.UTC().Format("Mon Jan 2 15:04:05 2006") }

// splitProcArgs reads macOS's kern.procargs2: argc in four bytes (of a little-endian
// machine), the program's path, NULs as padding, argc arguments, and the environment.
func splitProcArgs(b []byte) []string {
	if len(b) < 4 {
		return nil
	}
	argc := binary.LittleEndian.Uint32(b)
	_, rest, _ := strings.Cut(string(b[4:]), "\x00")
	args := strings.SplitAfter(strings.TrimLeft(rest, "\x00"), "\x00")
	if int64(len(args)) < int64(argc) {
		return nil
	}
	args = args[:argc]
	for i, arg := range args {
		args[i] = strings.TrimSuffix(arg, "\x00")
	}
	return args
}

// claudeAncestor returns the pid of the Claude Code that started this process, or 0.
func claudeAncestor() int {
	// At most this many processes stand between a hook and its Claude Code: shells and
	// wrappers.
	const farthest = 6
	pid := os.Getppid()
	for range farthest {
		p, ok := processOf(pid)
		if !ok || pid <= 1 {
			return 0
		}
		if p.isClaude(argsOf) {
			return pid
		}
		pid = p.parent
	}
	return 0
}

// depth is how far below root a process is: 0 for root itself, -1 if it is not below it.
// Processes came and went while the table was read, so a pid may stand for two processes,
// and parents may form a ring.
func depth(root, pid int, all map[int]process) int {
	for steps := range len(all) {
		if pid == root {
			return steps
		}
		pid = all[pid].parent
	}
	return -1
}

// ErrNoClaude means that keys typed into a pane would not reach a Claude Code, or not the
// intended one. The error's further text explains it to a person.
var ErrNoClaude = errors.New("no Claude Code to type to")

// FindClaude returns the pid of the Claude Code that has the keyboard of this pane. It is
// in the process tree of the program that tmux started there, and in the foreground of
// the pane's own terminal, not of one that a program in between opened (script, sudo). If
// wantPID is 0, any Claude Code will do, the outermost first. Otherwise it must be that
// process, started at wantStart (see ProcessStart; "" if unknown).
func (p Pane) FindClaude(wantPID int, wantStart string) (int, error) {
	if IsElsewhere(wantStart) {
		return 0, fmt.Errorf("%w: the Claude Code that asked runs on another machine, "+
			"or in another container", ErrNoClaude)
	}
	all, err := listProcesses()
	if err != nil {
		return 0, err
	}
	root, isKnown := all[p.PID]
	if p.Dead || !isKnown || root.dead {
		return 0, fmt.Errorf("%w: the program in the pane has ended", ErrNoClaude)
	}
	why := "the pane runs " + filepath.Base(cmp.Or(p.Program, "another program"))
	if wantPID != 0 {
		why = fmt.Sprintf("the Claude Code that asked (pid %d) has ended or is not in front, %s",
			wantPID, why)
	}
	found, outermost := 0, len(all)
	for pid, candidate := range all {
		isWanted := wantPID == 0 || pid == wantPID && !HasEnded(wantPID, wantStart)
		canType := candidate.hasKeyboard(root.terminal) && !candidate.stopped
		if !isWanted || !canType || !candidate.isClaude(argsOf) {
			continue
		}
		if n := depth(p.PID, pid, all); n >= 0 && n < outermost {
			found, outermost = pid, n
		}
	}
	if found == 0 {
		return 0, fmt.Errorf("%w: %s", ErrNoClaude, why)
	}
	return found, nil
}

// OpenTranscript opens a session's transcript. Its path comes from another program, so it
// must be absolute and name a plain .jsonl file. See state.OpenPlain for errors.
func OpenTranscript(path string) (*os.File, error) {
	if !filepath.IsAbs(path) || !strings.HasSuffix(path, ".jsonl") {
		return nil, fmt.Errorf("open transcript %s: want an absolute path that ends in .jsonl",
			filepath.Base(path))
	}
	f, _, err := state.OpenPlain(path, os.O_RDONLY)
	return f, err
}

// TranscriptEnd reads the last lines of a transcript, at most limit bytes. isWhole means
// that the transcript has no other lines.
func TranscriptEnd(path string, limit int64) (lines []byte, isWhole bool, err error) {
	f, err := OpenTranscript(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, false, err
	}
	start := max(0, size-limit)
	lines = make([]byte, size-start)
	n, err := f.ReadAt(lines, start)
	if err != nil && !errors.Is(err, io.EOF) { // EOF: the file may have become shorter
		return nil, false, err
	}
	lines = lines[:n]
	if start > 0 { // probably in the middle of a line
		_, lines, _ = bytes.Cut(lines, []byte("\n"))
	}
	return lines, start == 0, nil
}

// pastedContent matches how Claude Code reports a prompt that was a long paste (2.1.330).
var pastedContent = pattern(
	`(?s)^\s*<pasted_content id="(\w+)">\n?(.*?)\n?</pasted_content[^>]*>\s*$`)

// StripPasteTags returns a prompt as it was typed.
func StripPasteTags(prompt string) string { return pastedContent().ReplaceAllString(prompt, "$2") }

// TranscriptHasPrompt reports whether Claude Code accepted a typed prompt after since,
// by the session's transcript. Claude Code may have queued it while it worked. If
// countsPrompts is true, a prompt that began a turn counts as well. The transcript is
// needed because 2.1.197 calls no hook for its queue, and hooks may be switched off. Only
// the end of a long transcript is read.
func TranscriptHasPrompt(transcript, prompt string, since time.Time, countsPrompts bool) bool {
	end, _, _ := TranscriptEnd(transcript, 1<<20)
	for line := range bytes.Lines(end) {
		var entry struct {
			Type, Operation, Content string
			Timestamp                time.Time
			Message                  struct{ Content json.RawMessage }
		}
		if json.Unmarshal(line, &entry) != nil ||
			entry.Timestamp.Before(since.Truncate(time.Millisecond)) {
			continue
		}
		isQueued := entry.Type == "queue-operation" && entry.Operation == "enqueue"
		if countsPrompts && entry.Type == "user" {
			// The content of a tool's result is not a string, so Unmarshal fails for it.
			isQueued = json.Unmarshal(entry.Message.Content, &entry.Content) == nil
		}
		if isQueued && SameText(StripPasteTags(entry.Content), prompt) {
			return true
		}
	}
	return false
}
