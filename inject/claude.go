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

// IdentifySession writes down where a hook's session is: its Claude Code, and its place
// in tmux. window is its window's name.
func IdentifySession(ctx context.Context, env state.Getenv, s *state.Session) (window string) {
	s.ClaudePID, s.ClaudeStart = CallingClaude(env)
	s.ClaudeCommand = ProgramOf(s.ClaudePID)
	server := ServerOf(env("TMUX"))
	s.TmuxSession, s.TmuxPane, s.TmuxSocket, s.HiddenPane = "", env("TMUX_PANE"), server.Socket, ""
	if server.Socket == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second) // a stopped server must not hold a hook
	defer cancel()
	out, err := server.callPane(
		ctx,
		s.TmuxPane,
		"display-message",
		"-p",
		"#{pane_pid}:#{session_name}:#{window_name}",
	)
	pid, names, _ := strings.Cut(strings.TrimSuffix(out, "\n"), ":")
	panePID, _ := strconv.Atoi(pid)
	isBusy := errors.Is(err, context.DeadlineExceeded) // that server may answer the poller
	if !isBusy && (err != nil || s.ClaudePID > 0 && !isBelow(panePID, s.ClaudePID)) {
		s.TmuxPane, s.TmuxSocket, s.HiddenPane = "", "", s.TmuxPane
		return ""
	}
	s.TmuxSession, window, _ = strings.Cut(names, ":") // a session's name has no colon
	return strings.TrimSpace(window)
}

// isBelow says whether a process is root, or a descendant of it, as far as both can be
// seen from here: the variables of tmux may have been passed into a sandbox, or on to
// another terminal, and keys typed into that pane would go astray.
func isBelow(root, pid int) bool {
	const farthest = 100 // parents may form a ring, of processes that came and went
	for range farthest {
		if pid == root || pid <= 1 {
			break
		}
		p, _ := processOf(pid)
		pid = p.parent
	}
	return pid == root && pid > 1
}

// RecordName is what people call the session: $CLAUDE_SESSION_ID, which launch scripts
// set, else its project's folder. Where several sessions run in a project, the tmux
// session's name follows, if it tells them apart, else the window's; and the beginning of
// Claude Code's id where a sibling has that name too, or outside tmux.
//
// siblings are the other sessions that run in the project.
func SessionName(
	env state.Getenv,
	s *state.Session,
	window string,
	siblings []*state.Session,
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
		// its tmux server did not answer
		isUnknown := other.TmuxSession == "" && other.TmuxPane != ""
		return other.TmuxSession != s.TmuxSession && !isUnknown
	})
	if _, err := strconv.Atoi(s.TmuxSession); err != nil && distinguishes && s.TmuxSession != "" {
		place = s.TmuxSession
	}
	name := project + " · " + cmp.Or(place, shortID)
	if slices.ContainsFunc(
		siblings,
		func(other *state.Session) bool { return other.Name == name },
	) {
		name += " " + shortID
	}
	return name
}

// CallingClaude is the Claude Code that runs this hook, and its start time in the
// kernel's words; 0 when it cannot be told.
func CallingClaude(env state.Getenv) (pid int, start string) {
	pid, _ = strconv.Atoi(env("CLAUDE_PID")) // set from 2.1.214 on
	if pid <= 1 || !isAlive(pid) {
		pid = claudeAncestor()
	}
	if pid > 0 {
		start = ProcessStart(pid)
	}
	return pid, start
}

// IsWaiting says whether a session's Claude Code waits for a permission, by its own file
// of sessions, which lies beside the transcripts (2.1.197 and 2.1.329 change it within
// 0.2 s of an answer); known is false where that file does not tell, or is that of
// another session with the same pid, in a container with the same HOME.
func IsWaiting(transcript, id string, pid int) (isWaiting, known bool) {
	file, known := sessionFileOf(transcript, id, pid)
	return file.Status == statusWaiting, known
}

// IdleSince is since when a session's Claude Code neither works nor waits, by that file;
// zero where it does, or where that is not known. It works while an agent of it in the
// background does (2.1.197 and 2.1.332).
func IdleSince(transcript, id string, pid int) (since time.Time) {
	file, _ := sessionFileOf(transcript, id, pid)
	if file.Status == "idle" {
		since = time.UnixMilli(file.StatusSince).UTC()
	}
	return since
}

// statusWaiting is the status of a session that waits for its person.
const statusWaiting = "waiting"

func sessionFileOf(transcript, id string, pid int) (file sessionFile, known bool) {
	file, known = readSessionFile(
		filepath.Join(sessionFilesDir(transcript), strconv.Itoa(pid)+".json"),
	)
	if !known || file.Status == "" || file.ID != "" && file.ID != id {
		return sessionFile{}, false
	}
	return file, true
}

// DialogOf is what a session's Claude Code waits for by that file, nil for nothing.
// Claude Code calls it "permission prompt", "worker request" (a teammate's), "sandbox
// request", "input needed" or "dialog open" (2.1.197 and 2.1.332).
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

// TerminalDialogText says what a session waits for that its terminal alone answers; ""
// for nothing.
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

// SessionIDOf is the session that a Claude Code has by its own file of sessions, which
// names another one right after /clear and /resume (2.1.197 and 2.1.330); "" where that
// file does not tell.
func SessionIDOf(pid int, start, transcript string) string {
	startedAt, _, _ := strings.Cut(start, "@")
	file, known := readSessionFile(
		filepath.Join(sessionFilesDir(transcript), strconv.Itoa(pid)+".json"),
	)
	if !known || startedAt == "" || file.Start != startedAt || IsElsewhere(start) {
		return ""
	}
	return file.ID
}

// ClaudeVersion is that of the Claude Code of a session, by its own file; "" where that
// does not tell.
func ClaudeVersion(transcript string, pid int) string {
	file, _ := readSessionFile(
		filepath.Join(sessionFilesDir(transcript), strconv.Itoa(pid)+".json"),
	)
	return file.Version
}

// sessionFilesDir is the folder of Claude Code's own files of sessions.
func sessionFilesDir(transcript string) string {
	return filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(transcript))), "sessions")
}

// sessionFile is what such a file says.
type sessionFile struct {
	ID      string `json:"sessionId"`
	Status  string `json:"status"`
	Start   string `json:"procStart"` // in the kernel's words, as of process
	Version string `json:"version"`

	WaitingFor  string `json:"waitingFor"`
	StatusSince int64  `json:"statusUpdatedAt"` // in milliseconds
}

func readSessionFile(path string) (file sessionFile, known bool) {
	b, err := state.ReadPlain(path, 1<<20)
	known = err == nil && json.Unmarshal(b, &file) == nil
	return file, known
}

// HasEnded says that a Claude Code that is known has ended: its process is not there, or
// its pid is another process's by now, which its start tells ("" is not known). It is
// false where the pid is not known (0).
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

// ProcessStart is when the process started, and where it is: in the kernel's words, which
// no later process with its pid shares; "" is unknown.
func ProcessStart(pid int) string {
	p, _ := processOf(pid)
	if p.start == "" {
		return ""
	}
	return p.start + "@" + state.PIDScope()
}

// IsElsewhere says that a process which started so is on another machine, or in another
// pid namespace: from here nothing can be said of it, or of the pane that it is in.
func IsElsewhere(start string) bool {
	_, scope, known := strings.Cut(start, "@")
	return known && scope != state.PIDScope()
}

// process is one line of the machine's process table.
type process struct {
	pid, parent int
	group       int
	// the process group that has its terminal's keyboard; 0 or less without a terminal
	foreground int
	terminal   string // "" without one
	stopped    bool
	dead       bool   // ended, and its parent has not asked for its end yet
	name       string // comm: what the kernel calls it
	// clock ticks since boot, or on a Mac the second in UTC; "" where it cannot be told
	start string
}

// hasKeyboard says whether keys typed into a terminal reach the process.
func (p process) hasKeyboard(terminal string) bool {
	return terminal != "" && p.terminal == terminal && p.foreground > 0 &&
		p.group == p.foreground &&
		!p.dead
}

// isClaude says whether a process is a Claude Code. The kernel calls it "claude"
// (2.1.329; cli.js has node call itself so, after its first second), or, as macOS names a
// program by the file behind a link, by its version, claude.exe (npm) or node; then it is
// argv[0] that says claude. args is asked only where the name leaves it open.
func (p process) isClaude(args func(pid int) []string) bool {
	name := filepath.Base(p.name)
	if p.dead {
		return false
	}
	if name == "claude" || name == "claude.exe" {
		return true
	}
	isEngine := name == "node" || name == "nodejs" || name == "bun"
	isVersion := name != "" && name[0] >= '0' && name[0] <= '9'
	if !isEngine && !isVersion {
		return false
	}
	argv := args(p.pid)
	if len(argv) == 0 || filepath.Base(argv[0]) == "claude" {
		return len(argv) > 0
	}
	// The package's script, or the link to it on the PATH.
	return isEngine && len(argv) > 1 &&
		(filepath.Base(argv[1]) == "claude" || slices.ContainsFunc(argv[1:], func(arg string) bool {
			return strings.HasSuffix("/"+arg, "/claude-code/cli.js")
		}))
}

// formatLstart is a process's start on macOS as `ps -o lstart` printed it with LC_ALL=C
// and TZ=UTC, which earlier releases wrote into records.
func formatLstart(t time.Time) string { return t.UTC().Format("Mon Jan 2 15:04:05 2006") }

// splitProcArgs reads macOS's kern.procargs2: argc in four bytes (of a little-endian
// machine), the program's path, NULs that pad it, argc arguments, and the environment.
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

// claudeAncestor is the Claude Code that started this process; 0 when there is none.
func claudeAncestor() int {
	// processes stand at most between a hook and its Claude Code: shells, wrappers
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

// depth is how far below root a process is: 0 is root itself, -1 not below it. The table
// was read while processes came and went: a pid may stand for two, and parents may form a
// ring.
func depth(root, pid int, all map[int]process) int {
	for steps := range len(all) {
		if pid == root {
			return steps
		}
		pid = all[pid].parent
	}
	return -1
}

// ErrNoClaude says that keys typed into a pane would not reach a Claude Code, or not the
// intended one. What the error says besides is for a person.
var ErrNoClaude = errors.New("no Claude Code to type to")

// FindClaude finds the Claude Code that has the keyboard of this pane: in the process
// tree of what tmux started there and in the foreground of the pane's terminal, not of
// one that a program in between opened (script, sudo). wantPID 0 takes any, and of
// several the outermost; else it must be that very process, which started at wantStart
// (see ProcessStart; "" is unknown).
func (p Pane) FindClaude(wantPID int, wantStart string) (int, error) {
	if IsElsewhere(wantStart) {
		return 0, fmt.Errorf(
			"%w: the Claude Code that asked runs on another machine, or in another container",
			ErrNoClaude,
		)
	}
	all, err := listProcesses()
	if err != nil {
		return 0, err
	}
	root, isKnown := all[p.PID]
	if p.Dead || !isKnown || root.dead {
		return 0, fmt.Errorf("%w: what ran in the pane has ended", ErrNoClaude)
	}
	why := "the pane runs " + filepath.Base(cmp.Or(p.Program, "another program"))
	if wantPID != 0 {
		why = fmt.Sprintf(
			"the Claude Code that asked (pid %d) has ended or is not in front, ",
			wantPID,
		) + why
	}
	found, outermost := 0, len(all)
	for pid, candidate := range all {
		isMeant := wantPID == 0 || pid == wantPID && !HasEnded(wantPID, wantStart)
		if !isMeant || !candidate.hasKeyboard(root.terminal) || candidate.stopped ||
			!candidate.isClaude(argsOf) {
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

// OpenTranscript opens a session's transcript, which another program names: a plain file,
// by its absolute path. Errors are those of state.OpenPlain, and one for another path.
func OpenTranscript(path string) (*os.File, error) {
	if !filepath.IsAbs(path) || !strings.HasSuffix(path, ".jsonl") {
		return nil, fmt.Errorf(
			"open %s: not a transcript: no absolute path that ends in .jsonl",
			filepath.Base(path),
		)
	}
	f, _, err := state.OpenPlain(path, os.O_RDONLY)
	return f, err
}

// TranscriptEnd reads the last lines of a transcript, at most so many bytes; all says
// that it has no others.
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
	if err != nil && !errors.Is(err, io.EOF) { // it may have become shorter
		return nil, false, err
	}
	lines = lines[:n]
	if start > 0 { // most probably in the middle of a line
		_, lines, _ = bytes.Cut(lines, []byte("\n"))
	}
	return lines, start == 0, nil
}

// pastedContent is how a longer paste stands in what Claude Code tells of a prompt
// (2.1.330).
var pastedContent = pattern(
	`(?s)^\s*<pasted_content id="(\w+)">\n?(.*?)\n?</pasted_content[^>]*>\s*$`,
)

// StripPasteTags is a prompt as it was typed.
func StripPasteTags(prompt string) string { return pastedContent().ReplaceAllString(prompt, "$2") }

// TranscriptHasPrompt says whether Claude Code took typed words since then, by the
// session's transcript: into its queue, while it worked, or, where that counts, as a
// prompt. 2.1.197 tells no hook of the queue, and hooks may be switched off. Of a long
// transcript the end is read.
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
		// a result is no text
		isPrompt := countsPrompts && entry.Type == "user" &&
			json.Unmarshal(entry.Message.Content, &entry.Content) == nil
		if (isPrompt || entry.Type == "queue-operation" && entry.Operation == "enqueue") &&
			SameText(StripPasteTags(entry.Content), prompt) {
			return true
		}
	}
	return false
}
