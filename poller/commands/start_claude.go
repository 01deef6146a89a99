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

// StartTimeout is how long a Claude Code may take to start.
const StartTimeout = 30 * time.Second

// exitTimeout is how long a Claude Code may take to exit after its session's end.
const exitTimeout = 10 * time.Second

// StartClaude starts the Claude Code of a new session, or of one that has ended, in a
// tmux window in the session's folder. The prompt that it is started for is not in its
// arguments, because other users can read those.
//
// The record says that Claude Code is being started before tmux is called. So it is
// started once, even if a poller is killed. StartClaude returns the session that takes
// messages from then on, or why it cannot be started. It returns neither while Claude
// Code is being started.
func (r Runner) StartClaude(
	ctx context.Context,
	session *state.Session,
) (started *state.Session, why string) {
	folder := state.SessionsIn(state.UserStateDir(r.Env))
	if !session.StartingAt.IsZero() && session.ClaudePID == 0 {
		// A poller began to start the session, and may have been killed since. Until
		// StartTimeout is over, no other poller starts it.
		if r.Now().Sub(session.StartingAt).Abs() < StartTimeout {
			return nil, ""
		}
		_, err := folder.Change(session.ID, clearStart)
		return nil, r.whyNotStarted(session, err, "it was started, but it did not begin in time")
	}
	isClaudeRunning := session.ClaudePID > 1 &&
		!inject.HasEnded(session.ClaudePID, session.ClaudeStart)
	if isClaudeRunning && !session.IsRunning() {
		if r.Now().Sub(session.EndedAt).Abs() < exitTimeout {
			// Claude Code is about to exit, or it moves on to another session, and that
			// session's hook reports it soon.
			return nil, ""
		}
		return nil, "its Claude Code has moved on to another session"
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
		if s.IsRunning() { // Claude Code was killed
			s.EndedAt = r.Now().UTC()
		}
		s.StartingAt = r.Now().UTC().Truncate(time.Millisecond)
		s.ClaudePID, s.ClaudeStart = 0, ""
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

// whyNotStarted returns why a session was not started, for its thread.
func (r Runner) whyNotStarted(session *state.Session, err error, reason string) string {
	switch {
	case errors.Is(err, exec.ErrNotFound):
		reason = "tmux is not installed"
	case err != nil:
		reason = r.shorten(err.Error())
	case reason == "":
		return ""
	}
	return wording.WithResumeHint(session, reason)
}

// claudeCommand returns the command that starts a session's Claude Code, or why it
// cannot be started. Claude Code uses the person's default permission mode.
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
	// A session that never ran has no transcript. A path in the usual folder stands for
	// it.
	anyTranscript := filepath.Join(state.Home(r.Env), ".claude/projects/-/-")
	transcriptPath := cmp.Or(session.TranscriptPath, anyTranscript)
	switch {
	case r.DryRun:
		return nil, wording.WithResumeHint(session, "the poller runs with --dry-run")
	case uuid.Validate(session.ID) != nil:
		return nil, "its session id is not one of Claude Code's"
	case inject.IsElsewhere(session.ClaudeStart):
		return nil, "it ran on another machine, or in another container"
	case err != nil || !info.IsDir():
		return nil, "its folder is gone: " + r.shorten(session.ProjectDir)
	case !isTrusted:
		why = "Claude Code was not told to trust its folder: " + r.shorten(session.ProjectDir)
		return nil, wording.WithResumeHint(session, why)
	case argv == nil:
		return nil, "the program claude was not found, neither where it was before nor on PATH"
	case inject.IsSessionRunning(transcriptPath, session.ID):
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

// configDirOf returns the folder of Claude Code's settings that a session ran with,
// which also holds its transcript. It returns "" for the usual folder.
func (r Runner) configDirOf(session *state.Session) string {
	projectsDir := filepath.Dir(filepath.Dir(session.TranscriptPath))
	dir := filepath.Dir(projectsDir)
	isUsual := dir == filepath.Join(state.Home(r.Env), ".claude")
	if filepath.Base(projectsDir) != "projects" || !filepath.IsAbs(dir) || isUsual {
		return ""
	}
	return dir
}

// claudeProgram returns the program that the session was started with, else that of the
// last session, else the claude on PATH. It returns nil if there is none.
func (r Runner) claudeProgram(session *state.Session) []string {
	sessions, _ := state.SessionsIn(state.UserStateDir(r.Env)).All()
	slices.SortFunc(sessions, func(a, b *state.Session) int {
		return b.LastSeen.Compare(a.LastSeen)
	})
	isMissing := func(path string) bool {
		_, err := os.Stat(path)
		return err != nil || !filepath.IsAbs(path)
	}
	for _, s := range append([]*state.Session{session}, sessions...) {
		if len(s.ClaudeCommand) > 0 && !slices.ContainsFunc(s.ClaudeCommand, isMissing) {
			return slices.Clone(s.ClaudeCommand)
		}
	}
	candidates := []string{"claude", filepath.Join(state.Home(r.Env), ".local/bin/claude")}
	for _, candidate := range candidates {
		if path, err := exec.LookPath(candidate); err == nil && filepath.IsAbs(path) {
			return []string{path}
		}
	}
	return nil
}

// NewSessionID returns the id of the session that a "/new" message starts.
func NewSessionID(message string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(message)).String()
}

// NewSessionNoteID returns the id of the note that a machine posts about the session
// that a "/new" message starts there.
func NewSessionNoteID(message, machine string) string {
	return state.MessageID("new", message, strings.ToLower(machine))
}

// TargetOfNew returns the first word after "/new": a machine, or a project.
func TargetOfNew(text string) string {
	_, rest := cutWord(text)
	name, _ := cutWord(rest)
	return name
}

// NamesProject reports whether "/new" names a project of this machine first.
func (r Runner) NamesProject(text string) bool {
	dir, _, _ := r.findProject(text)
	return dir != ""
}

// CreateSession creates the record of the session that a person asks for with "/new
// PROJECT WORDS" or "/new MACHINE PROJECT WORDS", and enqueues a note for its thread.
// The prompt that it returns is for the session, which is started for it.
//
// If it cannot create the session, it returns none, and enqueues a note in the
// message's thread that says why. The same message creates one session, however often
// it is read.
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
	case err == nil: // the message was read before
	case why != "":
		return nil, "", r.Enqueue(&state.Message{
			ID:         noteID,
			Type:       state.MessageNote,
			Parts:      []string{"[Not used] " + why},
			ProjectDir: state.UserStateDir(r.Env),
			Chat:       in.Chat,
			ThreadName: in.ThreadName,
			IsUrgent:   true,
			CreatedAt:  r.Now().UTC(),
		})
	default:
		now := r.Now().UTC()
		session, err = folder.Change(NewSessionID(in.MessageName), func(s *state.Session) {
			if s.ProjectDir != "" {
				return
			}
			s.Name = filepath.Base(dir)
			s.ProjectDir, s.CWD, s.IsTrusted = dir, dir, true
			s.Environment = state.Environment(r.Env)
			s.StateDir = state.SpareStateDir(state.ProjectEnv(r.Env, dir, true))
			s.StartedAt, s.LastSeen, s.EndedAt = now, now, now // ended until it is started
			s.AcceptsCommands, s.Chat = true, in.Chat
		})
		if err != nil {
			return nil, "", err
		}
	}
	return session, prompt, r.EnqueueNote(session, noteID, wording.NewSessionText(session, text))
}

// findProject returns the known and trusted project that "/new PROJECT WORDS" names by
// the beginning of its name, and the words as the prompt. why says why there is none.
func (r Runner) findProject(text string) (dir, prompt, why string) {
	_, rest := cutWord(text)
	name, prompt := cutWord(rest)
	if strings.EqualFold(name, state.MachineName()) {
		rest = prompt
		name, prompt = cutWord(rest)
	}
	projects, _ := state.KnownProjects(r.Env)
	for _, p := range projects { // a project's name may have blanks, as the page offers it
		base := filepath.Base(p.Dir)
		length := len(base)
		if length <= len(name) || length >= len(rest) || !strings.EqualFold(rest[:length], base) {
			continue
		}
		after := strings.TrimSpace(rest[length:])
		isWholeName := after != rest[length:] // a blank follows the name
		if isWholeName {
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
	why = "Name a project and what to do there: /new PROJECT WORDS."
	switch {
	case name == "":
	case len(exact) == 0:
		why = "No project here is called " + r.shorten(name) + "."
	case len(exact) > 1:
		why, dirs = "Several projects have this name:", exact
	case wording.ActsAtPrompt(prompt): // a command needs a session that runs
		return "", "", "The words after the project must not begin with !, / or #, " +
			"and no word may begin with @."
	case prompt != "":
		return exact[0], prompt, ""
	}
	return "", "", why + r.projectLines(dirs)
}

// StartableProjects returns the folders that a session may start in: known projects
// whose folder exists and is trusted in Claude Code.
func StartableProjects(env state.Getenv) (dirs []string) {
	known, _ := state.KnownProjects(env)
	for _, p := range known {
		isTrusted, _ := state.IsFolderTrusted(env, p.Dir)
		info, err := os.Stat(p.Dir)
		isFolder := err == nil && info.IsDir()
		if isFolder && isTrusted && !slices.Contains(dirs, p.Dir) {
			dirs = append(dirs, p.Dir)
		}
	}
	return dirs
}

// projectLines lists projects, each by its name and its parent folder's name.
func (r Runner) projectLines(dirs []string) (text string) {
	const maxLines = 30
	for _, dir := range dirs[:min(maxLines, len(dirs))] {
		parent := filepath.Base(filepath.Dir(dir))
		text += "\n• " + r.shorten(filepath.Join(parent, filepath.Base(dir)))
	}
	return text
}

// cutWord returns a text's first word and the rest.
func cutWord(text string) (word, rest string) {
	text = strings.TrimSpace(text)
	i := strings.IndexFunc(text, unicode.IsSpace)
	if i < 0 {
		return text, ""
	}
	return text[:i], strings.TrimSpace(text[i:])
}
