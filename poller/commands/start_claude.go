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

// StartTimeout is how long a Claude Code may take to begin.
const StartTimeout = 30 * time.Second

// exitTimeout is how long after its session's end a Claude Code may take to end.
const exitTimeout = 10 * time.Second

// StartClaude starts the Claude Code of a session that has ended, or of a new one, in a
// tmux window in its folder: without the words that it is started for, since others can
// read arguments. That it is started is written down before, so it is started once, also
// by a poller that is killed. It returns the session that takes what is said by then; nil
// without a reason while it is being started.
func (r Runner) StartClaude(
	ctx context.Context,
	session *state.Session,
) (started *state.Session, why string) {
	folder := state.SessionsIn(state.UserStateDir(r.Env))
	if !session.StartingAt.IsZero() && session.ClaudePID == 0 { // by a poller that was killed
		if r.Now().Sub(session.StartingAt).Abs() < StartTimeout {
			return nil, ""
		}
		_, err := folder.Change(session.ID, clearStart)
		return nil, r.whyNotStarted(session, err, "it was started, and not seen to begin")
	}
	if isClaudeRunning := session.ClaudePID > 1 && !inject.HasEnded(session.ClaudePID, session.ClaudeStart); isClaudeRunning &&
		!session.IsRunning() {
		if r.Now().Sub(session.EndedAt).Abs() < exitTimeout {
			// it is about to end, or the hook of the session that it goes on with says so
			// next
			return nil, ""
		}
		return nil, "its Claude Code goes on with another session"
	}
	argv, why := r.claudeCommand(session)
	if why != "" {
		return nil, why
	}
	isRunning, isStartedElsewhere := false, false
	started, err := folder.Change(session.ID, func(s *state.Session) {
		isRunning = s.ClaudePID > 1 && s.IsRunning() && !inject.HasEnded(s.ClaudePID, s.ClaudeStart)
		isStartedElsewhere = !s.StartingAt.Equal(session.StartingAt) // by another poller
		if isRunning || isStartedElsewhere {
			return
		}
		if s.IsRunning() { // it was killed
			s.EndedAt = r.Now().UTC()
		}
		s.StartingAt, s.ClaudePID, s.ClaudeStart = r.Now().UTC().Truncate(time.Millisecond), 0, ""
	})
	switch {
	case err != nil:
		return nil, r.whyNotStarted(session, err, "")
	case isRunning:
		return started, ""
	case isStartedElsewhere:
		return nil, ""
	}
	server, pane, err := inject.OpenSessionWindow(ctx, state.UserStateDir(r.Env), started, argv)
	if err != nil {
		_, _ = folder.Change(session.ID, clearStart)
		return nil, r.whyNotStarted(session, err, "")
	}
	r.Log.Info().
		Str("session", session.ID).
		Str("pane", pane.ID).
		Strs("program", argv).
		Msg("session started")
	started, err = folder.Change(session.ID, func(s *state.Session) {
		s.TmuxSocket, s.TmuxSession, s.TmuxPane = server.Socket, pane.Session, pane.ID
		s.ClaudePID, s.ClaudeStart = pane.PID, inject.ProcessStart(pane.PID)
		s.EndedAt, s.LastSeen = time.Time{}, r.Now().UTC()
	})
	return started, r.whyNotStarted(session, err, "")
}

func clearStart(s *state.Session) { s.StartingAt = time.Time{} }

// whyNotStarted is why a session was not begun, for its thread.
func (r Runner) whyNotStarted(session *state.Session, err error, reason string) string {
	switch {
	case errors.Is(err, exec.ErrNotFound):
		reason = "there is no tmux"
	case err != nil:
		reason = r.shorten(err.Error())
	case reason == "":
		return ""
	}
	return wording.WithResumeHint(session, reason)
}

// claudeCommand is what starts a session's Claude Code, or why nothing does. Its
// permission mode is the person's default.
func (r Runner) claudeCommand(session *state.Session) (argv []string, why string) {
	info, err := os.Stat(session.ProjectDir)
	configDir := r.configDirOf(session)
	isTrusted, _ := state.IsFolderTrusted(func(name string) string {
		if name == configDirVariable && configDir != "" {
			return configDir
		}
		return r.Env(name)
	}, session.ProjectDir)
	_, transcriptErr := os.Stat(session.TranscriptPath)
	argv = r.claudeProgram(session)
	switch {
	case r.DryRun:
		return nil, wording.WithResumeHint(session, "the poller runs with --dry-run")
	case uuid.Validate(session.ID) != nil:
		return nil, "its id is none of Claude Code's"
	case inject.IsElsewhere(session.ClaudeStart):
		return nil, "it ran on another machine, or in another container"
	case err != nil || !info.IsDir():
		return nil, "its folder is gone: " + r.shorten(session.ProjectDir)
	case !isTrusted:
		why = "Claude Code was not told to trust its folder, or is not any more: " + r.shorten(
			session.ProjectDir,
		)
		return nil, wording.WithResumeHint(session, why)
	case argv == nil:
		return nil, "Claude Code is not where it was, nor on PATH"
	case inject.IsSessionRunning(cmp.Or(session.TranscriptPath, filepath.Join(state.Home(r.Env), ".claude/projects/-/-")), session.ID):
		return nil, "it runs in another terminal"
	case session.TranscriptPath == "":
		return append(argv, "--session-id", session.ID), ""
	case transcriptErr != nil:
		return nil, "its transcript is gone"
	}
	if configDir != "" {
		argv = append([]string{"/usr/bin/env", configDirVariable + "=" + configDir}, argv...)
	}
	return append(argv, "--resume", session.ID), ""
}

const configDirVariable = "CLAUDE_CONFIG_DIR"

// configDirOf is the folder of the settings that a session ran with, in which its
// transcript lies; "" for the usual one.
func (r Runner) configDirOf(session *state.Session) string {
	projectsDir := filepath.Dir(filepath.Dir(session.TranscriptPath))
	dir := filepath.Dir(projectsDir)
	if filepath.Base(projectsDir) != "projects" || !filepath.IsAbs(dir) ||
		dir == filepath.Join(state.Home(r.Env), ".claude") {
		return ""
	}
	return dir
}

// claudeProgram is what the session was started with, else what the last session was,
// else the claude on PATH; nil where there is none.
func (r Runner) claudeProgram(session *state.Session) []string {
	sessions, _ := state.SessionsIn(state.UserStateDir(r.Env)).All()
	slices.SortFunc(
		sessions,
		func(a, b *state.Session) int { return b.LastSeen.Compare(a.LastSeen) },
	)
	for _, s := range append([]*state.Session{session}, sessions...) {
		exists := func(path string) bool { _, err := os.Stat(path); return err == nil && filepath.IsAbs(path) }
		if len(s.ClaudeCommand) > 0 &&
			!slices.ContainsFunc(s.ClaudeCommand, func(path string) bool { return !exists(path) }) {
			return slices.Clone(s.ClaudeCommand)
		}
	}
	for _, candidate := range []string{"claude", filepath.Join(state.Home(r.Env), ".local/bin/claude")} {
		if path, err := exec.LookPath(candidate); err == nil && filepath.IsAbs(path) {
			return []string{path}
		}
	}
	return nil
}

// NewSessionID is the id of the session that a message begins.
func NewSessionID(message string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(message)).String()
}

// NewSessionNoteID is the id of what a machine tells of the session that a message begins
// on it.
func NewSessionNoteID(message, machine string) string {
	return state.MessageID("new", message, strings.ToLower(machine))
}

// TargetOfNew is the first word behind "/new": a machine, or a project.
func TargetOfNew(text string) string {
	_, rest := cutWord(text)
	name, _ := cutWord(rest)
	return name
}

// NamesProject says whether "/new" names a project of this machine first.
func (r Runner) NamesProject(text string) bool {
	dir, _, _ := r.findProject(text)
	return dir != ""
}

// CreateSession writes down the session that a person asks for, "/new PROJECT words" or
// "/new MACHINE PROJECT words", and tells its thread; or it tells the thread of the
// message why it does not, and returns no session. The words are for the session, and
// have it started. The same message is one session, however often it is read.
func (r Runner) CreateSession(
	in *state.Incoming,
) (session *state.Session, prompt string, err error) {
	folder := state.SessionsIn(state.UserStateDir(r.Env))
	text := state.Clean(state.ForAgent, in.Text)
	dir, prompt, why := r.findProject(text)
	if r.Now().Sub(in.LocalCreatedAt) > MaxCommandAge {
		why = "/new was read too late. Send it again if you still want it."
	}
	session, err = folder.Get(NewSessionID(in.MessageName))
	noteID := NewSessionNoteID(in.MessageName, state.MachineName())
	switch {
	case err == nil: // it was read already
	case why != "":
		return nil, "", r.Enqueue(&state.Message{
			ID: noteID, Type: state.MessageNote, Parts: []string{"[Not used] " + why},
			ProjectDir: state.UserStateDir(
				r.Env,
			), Chat: in.Chat, ThreadName: in.ThreadName, IsUrgent: true, CreatedAt: r.Now().UTC(),
		})
	default:
		now := r.Now().UTC()
		session, err = folder.Change(NewSessionID(in.MessageName), func(s *state.Session) {
			if s.ProjectDir != "" {
				return
			}
			s.Name, s.ProjectDir, s.CWD, s.Environment, s.IsTrusted = filepath.Base(
				dir,
			), dir, dir, state.Environment(
				r.Env,
			), true
			s.StateDir = state.SpareStateDir(state.ProjectEnv(r.Env, dir, true))
			s.StartedAt, s.LastSeen, s.EndedAt = now, now, now // it runs when it is started
			s.AcceptsCommands, s.Chat = true, in.Chat
		})
		if err != nil {
			return nil, "", err
		}
	}
	return session, prompt, r.EnqueueNote(session, noteID, wording.NewSessionText(session, text))
}

// findProject is the known and trusted project that "/new PROJECT words" names by the
// beginning of its name, and the words.
func (r Runner) findProject(text string) (dir, prompt, why string) {
	_, rest := cutWord(text)
	name, prompt := cutWord(rest)
	if strings.EqualFold(name, state.MachineName()) {
		rest = prompt
		name, prompt = cutWord(rest)
	}
	projects, _ := state.KnownProjects(r.Env)
	for _, p := range projects { // one whose name has blanks, as the page offers it
		base := filepath.Base(p.Dir)
		length := len(base)
		if length <= len(name) || length >= len(rest) || !strings.EqualFold(rest[:length], base) {
			continue
		}
		if after := strings.TrimSpace(rest[length:]); after != rest[length:] { // a blank follows
			name, prompt = base, after
		}
	}
	var exact, partial []string
	dirs := StartableProjects(r.Env)
	for _, dir := range dirs {
		base := filepath.Base(dir)
		withParent := filepath.Join(filepath.Base(filepath.Dir(dir)), base)
		switch lower := strings.ToLower(name); {
		case strings.EqualFold(base, name), strings.EqualFold(withParent, name):
			exact = append(exact, dir)
		case strings.HasPrefix(strings.ToLower(base), lower),
			strings.HasPrefix(strings.ToLower(withParent), lower):
			partial = append(partial, dir)
		}
	}
	if len(exact) == 0 {
		exact = partial
	}
	why = "Say what is to be done: /new PROJECT words."
	switch {
	case name == "":
	case len(exact) == 0:
		why = "No project here is called " + r.shorten(name) + "."
	case len(exact) > 1:
		why, dirs = "Several projects are called so:", exact
	case wording.ActsAtPrompt(prompt): // a command is for a session that runs
		return "", "", "What is to be done does not begin with !, / or #, and has no word that begins with @."
	case prompt != "":
		return exact[0], prompt, ""
	}
	return "", "", why + r.projectLines(dirs)
}

// StartableProjects are the folders that a session may begin in: known ones, which are
// there, and which Claude Code was told to trust.
func StartableProjects(env state.Getenv) (dirs []string) {
	known, _ := state.KnownProjects(env)
	for _, p := range known {
		isTrusted, _ := state.IsFolderTrusted(env, p.Dir)
		if info, err := os.Stat(p.Dir); err == nil && info.IsDir() && isTrusted &&
			!slices.Contains(dirs, p.Dir) {
			dirs = append(dirs, p.Dir)
		}
	}
	return dirs
}

// projectLines are projects by their names, and the folders that they are in.
func (r Runner) projectLines(dirs []string) (text string) {
	const maxLines = 30
	for _, dir := range dirs[:min(maxLines, len(dirs))] {
		text += "\n• " + r.shorten(
			filepath.Join(filepath.Base(filepath.Dir(dir)), filepath.Base(dir)),
		)
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
