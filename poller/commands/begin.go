package commands

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// BeginBound is how long a Claude Code may take to begin.
const BeginBound = 30 * time.Second

// endBound is how long after its session's end a Claude Code may take to end.
const endBound = 10 * time.Second

// Begin starts the Claude Code of a session that has ended, or of a new one, in a tmux window in its folder: without the words
// that it is started for, since others can read arguments. That it is started is written down before, so it is started once,
// also by a poller that is killed. It returns the session that takes what is said by then; nil without a reason while it is
// being started.
func (r Room) Begin(ctx context.Context, one *state.Session) (begun *state.Session, why string) {
	folder := state.SessionsIn(state.UserStateDir(r.Env))
	if !one.StartingAt.IsZero() && one.ClaudePID == 0 { // by a poller that was killed
		if r.Now().Sub(one.StartingAt).Abs() < BeginBound {
			return nil, ""
		}
		_, err := folder.Change(one.ID, notBegun)
		return nil, r.reason(one, err, "it was started, and not seen to begin")
	}
	if stays := one.ClaudePID > 1 && !inject.Ended(one.ClaudePID, one.ClaudeStart); stays && !one.IsRunning() {
		if r.Now().Sub(one.EndedAt).Abs() < endBound {
			return nil, "" // it is about to end, or the hook of the session that it goes on with says so next
		}
		return nil, "its Claude Code goes on with another session"
	}
	argv, why := r.command(one)
	if why != "" {
		return nil, why
	}
	lives, begins := false, false
	begun, err := folder.Change(one.ID, func(s *state.Session) {
		lives = s.ClaudePID > 1 && s.IsRunning() && !inject.Ended(s.ClaudePID, s.ClaudeStart)
		begins = !s.StartingAt.Equal(one.StartingAt) // by another poller
		if lives || begins {
			return
		}
		if s.IsRunning() { // it was killed
			s.EndedAt = r.Now().UTC()
		}
		s.StartingAt, s.ClaudePID, s.ClaudeStart = r.Now().UTC().Truncate(time.Millisecond), 0, ""
	})
	switch {
	case err != nil:
		return nil, r.reason(one, err, "")
	case lives:
		return begun, ""
	case begins:
		return nil, ""
	}
	server, pane, err := inject.OpenNear(ctx, state.UserStateDir(r.Env), begun, argv)
	if err != nil {
		_, _ = folder.Change(one.ID, notBegun)
		return nil, r.reason(one, err, "")
	}
	r.Log.Info().Str("session", one.ID).Str("pane", pane.ID).Strs("program", argv).Msg("session started")
	begun, err = folder.Change(one.ID, func(s *state.Session) {
		s.TmuxSocket, s.TmuxSession, s.TmuxPane = server.Socket, pane.Session, pane.ID
		s.ClaudePID, s.ClaudeStart = pane.PID, inject.StartOf(pane.PID)
		s.EndedAt, s.LastSeen = time.Time{}, r.Now().UTC()
	})
	return begun, r.reason(one, err, "")
}

func notBegun(s *state.Session) { s.StartingAt = time.Time{} }

// reason is why a session was not begun, for its thread.
func (r Room) reason(one *state.Session, err error, otherwise string) string {
	switch {
	case errors.Is(err, exec.ErrNotFound):
		otherwise = "there is no tmux"
	case err != nil:
		otherwise = r.short(err.Error())
	case otherwise == "":
		return ""
	}
	return wording.InTerminal(one, otherwise)
}

// command is what starts a session's Claude Code, or why nothing does. Its permission mode is the person's default.
func (r Room) command(one *state.Session) (argv []string, why string) {
	info, err := os.Stat(one.ProjectDir)
	settings := r.settings(one)
	trusted, _ := state.IsFolderTrusted(func(name string) string {
		if name == settingsAt && settings != "" {
			return settings
		}
		return r.Env(name)
	}, one.ProjectDir)
	_, noTranscript := os.Stat(one.TranscriptPath)
	argv = r.program(one)
	switch {
	case r.DryRun:
		return nil, wording.InTerminal(one, "the poller runs with --dry-run")
	case uuid.Validate(one.ID) != nil:
		return nil, "its id is none of Claude Code's"
	case inject.Elsewhere(one.ClaudeStart):
		return nil, "it ran on another machine, or in another container"
	case err != nil || !info.IsDir():
		return nil, "its folder is gone: " + r.short(one.ProjectDir)
	case !trusted:
		why = "Claude Code was not told to trust its folder, or is not any more: " + r.short(one.ProjectDir)
		return nil, wording.InTerminal(one, why)
	case argv == nil:
		return nil, "Claude Code is not where it was, nor on PATH"
	case inject.Lives(cmp.Or(one.TranscriptPath, filepath.Join(state.Home(r.Env), ".claude/projects/-/-")), one.ID):
		return nil, "it runs in another terminal"
	case one.TranscriptPath == "":
		return append(argv, "--session-id", one.ID), ""
	case noTranscript != nil:
		return nil, "its transcript is gone"
	}
	if settings != "" {
		argv = append([]string{"/usr/bin/env", settingsAt + "=" + settings}, argv...)
	}
	return append(argv, "--resume", one.ID), ""
}

const settingsAt = "CLAUDE_CONFIG_DIR"

// settings is the folder of the settings that a session ran with, in which its transcript lies; "" for the usual one.
func (r Room) settings(one *state.Session) string {
	projects := filepath.Dir(filepath.Dir(one.TranscriptPath))
	dir := filepath.Dir(projects)
	if filepath.Base(projects) != "projects" || !filepath.IsAbs(dir) || dir == filepath.Join(state.Home(r.Env), ".claude") {
		return ""
	}
	return dir
}

// program is what the session was started with, else what the last session was, else the claude on PATH; nil where there is none.
func (r Room) program(one *state.Session) []string {
	all, _ := state.SessionsIn(state.UserStateDir(r.Env)).All()
	slices.SortFunc(all, func(a, b *state.Session) int { return b.LastSeen.Compare(a.LastSeen) })
	for _, s := range append([]*state.Session{one}, all...) {
		there := func(path string) bool { _, err := os.Stat(path); return err == nil && filepath.IsAbs(path) }
		if len(s.ClaudeCommand) > 0 && !slices.ContainsFunc(s.ClaudeCommand, func(path string) bool { return !there(path) }) {
			return slices.Clone(s.ClaudeCommand)
		}
	}
	for _, usual := range []string{"claude", filepath.Join(state.Home(r.Env), ".local/bin/claude")} {
		if path, err := exec.LookPath(usual); err == nil && filepath.IsAbs(path) {
			return []string{path}
		}
	}
	return nil
}

// NewID is the id of the session that a message begins.
func NewID(message string) string { return uuid.NewSHA1(uuid.NameSpaceURL, []byte(message)).String() }

// NewNoteID is the id of what a machine tells of the session that a message begins on it.
func NewNoteID(message, machine string) string {
	return state.MessageID("new", message, strings.ToLower(machine))
}

// Named is the first word behind "/new": a machine, or a project.
func Named(text string) string {
	_, rest := cutWord(text)
	name, _ := cutWord(rest)
	return name
}

// Knows says whether "/new" names a project of this machine first.
func (r Room) Knows(text string) bool {
	dir, _, _ := r.project(text)
	return dir != ""
}

// New writes down the session that a person asks for, "/new PROJECT words" or "/new MACHINE PROJECT words", and tells its thread;
// or it tells the thread of the message why it does not, and returns no session. The words are for the session, and have it
// started. The same message is one session, however often it is read.
func (r Room) New(in *state.Incoming) (one *state.Session, words string, err error) {
	folder := state.SessionsIn(state.UserStateDir(r.Env))
	text := state.Clean(state.ForAgent, in.Text)
	dir, words, why := r.project(text)
	if r.Now().Sub(in.LocalCreatedAt) > TooOld {
		why = "/new was read too late. Send it again if you still want it."
	}
	one, err = folder.Get(NewID(in.MessageName))
	note := NewNoteID(in.MessageName, state.MachineName())
	switch {
	case err == nil: // it was read already
	case why != "":
		return nil, "", r.Put(&state.Message{
			ID: note, Type: state.MessageNote, Parts: []string{"[Not used] " + why},
			ProjectDir: state.UserStateDir(r.Env), Chat: in.Chat, ThreadName: in.ThreadName, IsUrgent: true, CreatedAt: r.Now().UTC(),
		})
	default:
		now := r.Now().UTC()
		one, err = folder.Change(NewID(in.MessageName), func(s *state.Session) {
			if s.ProjectDir != "" {
				return
			}
			s.Name, s.ProjectDir, s.CWD, s.Environment, s.IsTrusted = filepath.Base(dir), dir, dir, state.Environment(r.Env), true
			s.StateDir = state.SpareStateDir(state.ProjectEnv(r.Env, dir, true))
			s.StartedAt, s.LastSeen, s.EndedAt = now, now, now // it runs when it is started
			s.AcceptsCommands, s.Chat = true, in.Chat
		})
		if err != nil {
			return nil, "", err
		}
	}
	return one, words, r.Tell(one, note, wording.NewSessionText(one, text))
}

// project is the known and trusted project that "/new PROJECT words" names by the beginning of its name, and the words.
func (r Room) project(text string) (dir, words, why string) {
	_, rest := cutWord(text)
	name, words := cutWord(rest)
	if strings.EqualFold(name, state.MachineName()) {
		rest = words
		name, words = cutWord(rest)
	}
	all, _ := state.KnownProjects(r.Env)
	for _, p := range all { // one whose name has blanks, as the page offers it
		called := filepath.Base(p.Dir)
		n := len(called)
		if n <= len(name) || n >= len(rest) || !strings.EqualFold(rest[:n], called) {
			continue
		}
		if after := strings.TrimSpace(rest[n:]); after != rest[n:] { // a blank follows
			name, words = called, after
		}
	}
	var exact, begin []string
	names := Projects(r.Env)
	for _, dir := range names {
		called := filepath.Base(dir)
		within := filepath.Join(filepath.Base(filepath.Dir(dir)), called)
		switch lower := strings.ToLower(name); {
		case strings.EqualFold(called, name), strings.EqualFold(within, name):
			exact = append(exact, dir)
		case strings.HasPrefix(strings.ToLower(called), lower), strings.HasPrefix(strings.ToLower(within), lower):
			begin = append(begin, dir)
		}
	}
	if len(exact) == 0 {
		exact = begin
	}
	why = "Say what is to be done: /new PROJECT words."
	switch {
	case name == "":
	case len(exact) == 0:
		why = "No project here is called " + r.short(name) + "."
	case len(exact) > 1:
		why, names = "Several projects are called so:", exact
	case wording.ActsAtPrompt(words): // a command is for a session that runs
		return "", "", "What is to be done does not begin with !, / or #, and has no word that begins with @."
	case words != "":
		return exact[0], words, ""
	}
	return "", "", why + r.list(names)
}

// Projects are the folders that a session may begin in: known ones, which are there, and which Claude Code was told to trust.
func Projects(env state.Getenv) (dirs []string) {
	all, _ := state.KnownProjects(env)
	for _, p := range all {
		trusted, _ := state.IsFolderTrusted(env, p.Dir)
		if info, err := os.Stat(p.Dir); err == nil && info.IsDir() && trusted && !slices.Contains(dirs, p.Dir) {
			dirs = append(dirs, p.Dir)
		}
	}
	return dirs
}

// list are projects by their names, and the folders that they are in.
func (r Room) list(dirs []string) (text string) {
	const most = 30
	for _, dir := range dirs[:min(most, len(dirs))] {
		text += "\n• " + r.short(filepath.Join(filepath.Base(filepath.Dir(dir)), filepath.Base(dir)))
	}
	return text
}

// cutWord is a text's first word, and what follows it.
func cutWord(text string) (word, rest string) {
	text = strings.TrimSpace(text)
	i := strings.IndexFunc(text, unicode.IsSpace)
	if i < 0 {
		return text, ""
	}
	return text[:i], strings.TrimSpace(text[i:])
}
