package commands

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// ListedSession is a session in the list that the page, /sessions and status show. Its
// JSON is what the page and `status --json` get.
type ListedSession struct {
	ID   string `json:"session_id"`
	Name string `json:"name"`
	// FormerIDs are the sessions whose thread goes on in this one, as after /clear.
	FormerIDs  []string `json:"former_ids,omitempty"`
	ProjectDir string   `json:"project_dir"`
	Project    string   `json:"project"` // the name of the project's folder
	// State is one of the words of DescribeThread; "" if it is not known.
	State      string    `json:"state"`
	StateSince time.Time `json:"state_since,omitzero"`
	Since      time.Time `json:"since,omitzero"`
	LastSeen   time.Time `json:"last_seen,omitzero"`
	Chat       string    `json:"chat,omitempty"`
	ThreadName string    `json:"thread_name,omitempty"` // the session's own thread
	// Waits is what waits for a person, the oldest first.
	Waits []Wait `json:"waits"`
	// LastWords is the beginning of what was said last. It is "" for a session that has
	// ended, and if a policy keeps such text in the terminal.
	LastWords string `json:"last_words,omitempty"`
	// IsPersonLast means that a person said it, and not Claude.
	IsPersonLast bool `json:"person_last,omitempty"`
	// Terminal is what only the session's terminal can answer, as a sentence.
	Terminal string `json:"terminal,omitempty"`

	transcript string
	claudePID  int
}

// ClaudeVersion returns the version of the Claude Code that runs the session, or "".
func (s *ListedSession) ClaudeVersion() string {
	return inject.ClaudeVersion(s.transcript, s.claudePID)
}

// HasEnded reports whether nothing of the session runs.
func (s *ListedSession) HasEnded() bool { return s.State == stateEnded }

// WaitKinds are the kinds of what waits for a person, the oldest first.
func (s *ListedSession) WaitKinds() (kinds []string) {
	for _, w := range s.Waits {
		kinds = append(kinds, w.Kind)
	}
	return kinds
}

// Wait is something that waits for a person in a session.
type Wait struct {
	Kind       string    `json:"kind"` // question, permission, plan, form, next or terminal
	ThreadName string    `json:"thread_name,omitempty"`
	Since      time.Time `json:"since,omitzero"`
}

const (
	stateWorks      = "works"
	stateWaits      = "waits for you"
	stateDialogOpen = "dialog open"
	stateIdle       = "idle"
	stateEnded      = "ended"
	stateOutOfReach = "out of reach"
)

// waitInTerminal is the kind of a wait that only the terminal can end.
const waitInTerminal = "terminal"

const (
	// maxLastWords is how much of the last words a list shows, in bytes.
	maxLastWords = 200
	// maxLastWordsRead is for how many sessions the transcript is read.
	maxLastWordsRead = 50
	// maxKnownWords is how many transcripts' last words a SessionLister keeps. It forgets
	// all of them when there are more.
	maxKnownWords = 4 * maxLastWordsRead
)

// SessionLister lists sessions again and again. It reads the last words only of a
// transcript that changed. Its zero value is ready for use.
type SessionLister struct {
	mu    sync.Mutex
	words map[string]knownWords // by the transcript's path
}

// knownWords are the last words of a transcript of that size and time.
type knownWords struct {
	size       int64
	modifiedAt time.Time
	text       string
	isOfPerson bool
}

// ListSessions lists the sessions once; see SessionLister.List.
func ListSessions(
	env state.Getenv, cfg *config.Config, questions []*state.Question, now time.Time,
) (list []*ListedSession, unreadable []error) {
	return new(SessionLister).List(env, cfg, questions, now)
}

// List returns the sessions that hooks have recorded, once for each thread: first
// those that wait for a person, then the others that run, the last seen first, then those
// that have ended. questions are the open questions of all sessions. unreadable are the
// errors of records that cannot be read.
//
// It looks at no terminal and asks no network, so it is quick with many sessions.
func (l *SessionLister) List(
	env state.Getenv, cfg *config.Config, questions []*state.Question, now time.Time,
) (list []*ListedSession, unreadable []error) {
	waits := map[string][]Wait{}
	for _, q := range questions {
		if q.Status == state.Pending && q.Mode.Traits().Asks && q.Kind != state.KindPrompt {
			waits[q.ClaudeSession()] = append(waits[q.ClaudeSession()], waitOf(q))
		}
	}
	sessions, unreadable := state.SessionsIn(state.UserStateDir(env)).All()
	for _, s := range sessions {
		if last := inject.LastWritten(s.TranscriptPath); last.After(s.LastSeen) {
			s.LastSeen = last // hooks do not save a session at every event
		}
	}
	for _, sameThread := range groupByThread(sessions) {
		list = append(list, describeSession(env, sameThread, waits, now))
	}
	slices.SortStableFunc(list, compareListed)
	l.addLastWords(cfg, list)
	return list, unreadable
}

func waitOf(q *state.Question) Wait {
	w := Wait{Kind: cmp.Or(string(q.Kind), "question"), Since: q.AskedAt.UTC()}
	if q.IsMessageSent {
		w.ThreadName = q.ThreadName
	}
	if q.HandedOverAt != nil {
		w.Kind = waitInTerminal
	}
	return w
}

// groupByThread groups sessions that share a thread, the last seen first. After /clear
// and /resume, a Claude Code goes on in the thread of its former session.
func groupByThread(sessions []*state.Session) (groups [][]*state.Session) {
	slices.SortStableFunc(sessions, func(a, b *state.Session) int {
		return cmp.Or(b.LastSeen.Compare(a.LastSeen), cmp.Compare(a.ID, b.ID))
	})
	groupOfThread := map[string]int{}
	for _, s := range sessions {
		thread := s.Chat + " " + s.ThreadName
		i, isKnown := groupOfThread[thread]
		if isKnown && s.ThreadName != "" {
			groups[i] = append(groups[i], s)
			continue
		}
		groupOfThread[thread] = len(groups)
		groups = append(groups, []*state.Session{s})
	}
	return groups
}

// describeSession describes the first of several sessions that share a thread.
func describeSession(
	env state.Getenv, sameThread []*state.Session, waits map[string][]Wait, now time.Time,
) *ListedSession {
	s := sameThread[0]
	listed := &ListedSession{
		ID:         s.ID,
		Name:       state.OneLine(cmp.Or(s.Name, s.TmuxSession, folderName(s.ProjectDir), s.ID)),
		ProjectDir: s.ProjectDir,
		Project:    state.OneLine(folderName(s.ProjectDir)),
		Since:      s.StartedAt.UTC(),
		LastSeen:   s.LastSeen.UTC(),
		Chat:       s.Chat,
		ThreadName: s.ThreadName,
		Waits:      []Wait{},
		transcript: s.TranscriptPath,
		claudePID:  s.ClaudePID,
	}
	for _, session := range sameThread {
		listed.Waits = append(listed.Waits, waits[session.ID]...)
		if session != s {
			listed.FormerIDs = append(listed.FormerIDs, session.ID)
		}
	}
	listed.State, listed.StateSince = sessionState(s, now)
	if !listed.HasEnded() {
		listed.addTerminalWait(env, s)
	}
	slices.SortStableFunc(listed.Waits, func(a, b Wait) int { return a.Since.Compare(b.Since) })
	if len(listed.Waits) > 0 && !listed.HasEnded() {
		listed.State, listed.StateSince = stateWaits, listed.Waits[0].Since
	}
	return listed
}

func (s *ListedSession) addTerminalWait(env state.Getenv, session *state.Session) {
	s.Terminal = inject.TerminalDialogText(env, session)
	if s.Terminal == "" {
		return
	}
	wait := Wait{Kind: waitInTerminal, ThreadName: session.ThreadName}
	if session.Dialog != nil {
		wait.Since = session.Dialog.WaitsSince.UTC()
	}
	s.Waits = append(s.Waits, wait)
}

// folderName returns the last part of a folder's path; "" for no folder.
func folderName(dir string) string {
	if dir == "" {
		return ""
	}
	return filepath.Base(dir)
}

// sessionState returns what a session does, by its record and by Claude Code's own file
// of it, and since when.
func sessionState(s *state.Session, now time.Time) (word string, since time.Time) {
	isElsewhere := inject.IsElsewhere(s.ClaudeStart)
	isUnknown := s.ClaudePID <= 1 || isElsewhere
	isLost := isUnknown && now.Sub(s.LastSeen).Abs() >= state.MaxQuestionAge
	switch {
	case !s.IsRunning():
		return stateEnded, s.EndedAt.UTC()
	case isLost, inject.HasEnded(s.ClaudePID, s.ClaudeStart):
		return stateEnded, s.LastSeen.UTC()
	case isElsewhere:
		return stateOutOfReach, time.Time{}
	}
	status, since := inject.StatusOf(s)
	switch status {
	case "busy":
		return stateWorks, since
	case "idle":
		return stateIdle, since
	case "waiting":
		return stateDialogOpen, since
	}
	return "", time.Time{}
}

// compareListed orders the list.
func compareListed(a, b *ListedSession) int {
	rank := func(s *ListedSession) int {
		switch {
		case s.HasEnded():
			return 2
		case len(s.Waits) > 0:
			return 0
		}
		return 1
	}
	byRank := cmp.Compare(rank(a), rank(b))
	return cmp.Or(byRank, b.LastSeen.Compare(a.LastSeen), cmp.Compare(a.ID, b.ID))
}

// addLastWords adds the last words of the sessions that run, unless a policy keeps such
// text in the terminal.
func (l *SessionLister) addLastWords(cfg *config.Config, list []*ListedSession) {
	if !cfg.AccessTo(config.KindScreen, "").CanShow {
		return
	}
	for _, s := range list[:min(maxLastWordsRead, len(list))] {
		if s.HasEnded() {
			return // all that follow have ended, too
		}
		s.LastWords, s.IsPersonLast = l.lastWords(s.transcript)
	}
}

// lastWords returns the beginning of a transcript's last words, without keys.
func (l *SessionLister) lastWords(transcript string) (text string, isOfPerson bool) {
	info, err := os.Stat(transcript)
	if err != nil {
		return "", false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known, isKnown := l.words[transcript]
	if isKnown && known.size == info.Size() && known.modifiedAt.Equal(info.ModTime()) {
		return known.text, known.isOfPerson
	}
	text, isOfPerson = inject.LastWords(transcript)
	// Masking takes long for a long text.
	text = state.OneLine(state.MaskKeys(wording.Truncate(text, 20*maxLastWords)))
	text = wording.Truncate(text, maxLastWords)
	if l.words == nil || len(l.words) >= maxKnownWords {
		l.words = map[string]knownWords{}
	}
	l.words[transcript] = knownWords{info.Size(), info.ModTime(), text, isOfPerson}
	return text, isOfPerson
}
