package poller

import (
	"cmp"
	"path/filepath"
	"slices"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/poller/service"
	"gchat-hooks/state"
)

// OpenQuestion is a question that still wants an answer, or whose answer is on its way, as status shows it.
type OpenQuestion struct {
	QuestionID  string       `json:"question_id"`
	ThreadKey   string       `json:"thread_key"`
	SessionID   string       `json:"session_id"`
	ClaudeID    string       `json:"claude_session_id"`
	SessionName string       `json:"session_name"`
	ProjectDir  string       `json:"project_dir,omitempty"`
	AskedAt     time.Time    `json:"asked_at"`
	Question    string       `json:"question"`  // the words of the first one
	Questions   int          `json:"questions"` // how many it asks
	Mode        state.Mode   `json:"mode"`
	Status      state.Status `json:"status"`                // pending, answered (unconfirmed by Claude), timeout (a reply counts)
	Posted      bool         `json:"posted"`                // it is in its space
	PostError   string       `json:"post_error,omitempty"`  // why it is not
	ThreadName  string       `json:"thread_name,omitempty"` // spaces/S/threads/T
	ThreadURL   string       `json:"thread_url,omitempty"`  // opens the thread in a browser, where that is known
	AnsweredBy  string       `json:"answered_by,omitempty"` // a name, else users/ID
	Waiter      Waiter       `json:"waiter"`
}

// Waiter is who delivers a reply to a question.
type Waiter struct {
	Kind string `json:"kind"`           // hook, rewake, gchat-wait, daemon, nobody; process when it did not say
	PID  int    `json:"pid,omitempty"`  // 0 when it is not known
	Name string `json:"name,omitempty"` // that the process runs under
}

// Kinds of Waiter.
const (
	HookWaits   = "hook"       // that holds the dialog or the call
	RewakeWaits = "rewake"     // that wakes the session (deny)
	ScriptWaits = "gchat-wait" // a person's script
	DaemonWaits = "daemon"     // it types the answer
	NobodyIs    = "nobody"
	UnknownIs   = "process"
)

// Look reads questions again and again without touching them.
type Look struct{ scan state.Scan }

// OpenQuestions are the open questions of all projects that are known and of this process's own, the newest first, and
// those that were timed out and would still take a reply. What cannot be read is returned in bad, and stays where it is.
func (p *Poller) OpenQuestions(l *Look) (open []OpenQuestion, bad []error) {
	open = []OpenQuestion{}
	qs, bad := p.allQuestions(l)
	chats := map[string]string{} // by project: a thousand questions read its configuration once
	for _, q := range qs {
		if q.Status.Open() || q.Late(p.now()) {
			o := p.describe(q)
			o.ThreadURL = gchat.ThreadLink(p.saidChat(q, chats), q.ThreadName)
			open = append(open, o)
		}
	}
	return open, bad
}

// AllQuestions are the questions of the last day, the newest first, also the closed ones. They must not be changed.
func (p *Poller) AllQuestions() []*state.Question {
	qs, _ := p.allQuestions(&Look{})
	return qs
}

// Unanswered are the questions that a reply would answer, the newest first. They must not be changed.
func (p *Poller) Unanswered() (qs []*state.Question) {
	return slices.DeleteFunc(p.AllQuestions(), func(q *state.Question) bool {
		return q.Status != state.Pending && !q.Late(p.now())
	})
}

// allQuestions are ours, and those that other programs left in the daemon's folders, the newest first.
func (p *Poller) allQuestions(l *Look) (qs []*state.Question, bad []error) {
	dirs, err := p.stateDirs()
	if err != nil {
		bad = append(bad, err)
	}
	for _, dir := range []string{state.ProjectState(p.Env), state.SpareState(p.Env)} {
		if abs, err := filepath.Abs(dir); err == nil && !slices.Contains(dirs, abs) {
			dirs = append(dirs, abs)
		}
	}
	folders := p.Folders
	for _, dir := range filepath.SplitList(p.Env("GCHAT_POLLER_PENDING_DIR")) {
		if abs, err := filepath.Abs(dir); err == nil && !slices.Contains(folders, abs) {
			folders = append(slices.Clip(folders), abs)
		}
	}
	l.scan.LeaveAlone = true
	qs, more := l.scan.Questions(dirs, folders...)
	return qs, append(bad, more...)
}

func (p *Poller) describe(q *state.Question) OpenQuestion {
	o := OpenQuestion{
		QuestionID: q.QuestionID, ThreadKey: cmp.Or(q.ThreadKey, q.QuestionID),
		SessionID: q.SessionID, ClaudeID: q.ClaudeSession(), SessionName: cmp.Or(q.SessionName, q.TmuxSession, q.SessionID),
		ProjectDir: q.ProjectDir, AskedAt: q.AskedAt.UTC(), Questions: len(q.Questions),
		Mode: cmp.Or(q.Mode, state.Inject), Status: q.Status, Posted: posted(q), ThreadName: q.ThreadName,
		AnsweredBy: cmp.Or(q.AnsweredByName, q.AnsweredBy), Waiter: p.WaiterOf(q),
	}
	if len(q.Questions) > 0 {
		o.Question = q.Questions[0].Question
	}
	if !o.Posted {
		o.PostError = q.PostError
	}
	return o
}

// saidChat is where a question's thread is: what its record says, else, for one that another program wrote down, what its
// project's configuration says without a command being run. A look asks no password manager.
func (p *Poller) saidChat(q *state.Question, chats map[string]string) string {
	if q.Chat != "" || q.ThreadName == "" {
		return q.Chat
	}
	project := cmp.Or(q.ProjectDir, p.projectOf(stateDirOf(q)))
	chat, known := chats[project]
	if !known {
		cfg := p.config(project)
		if chat, _ = ChatOf(cfg); chat == "" && cfg.WebhookURL == "" {
			chat, _ = namedSpace(cfg)
		}
		chats[project] = chat
	}
	return chat
}

// WaiterOf is who delivers a reply to the question: the process that holds its lock, else the daemon where it can type it.
func (p *Poller) WaiterOf(q *state.Question) Waiter {
	byDaemon := p.daemonWaits(q)
	if pid, name, waits := state.WaiterOf(q); waits && (pid != 0 || !byDaemon) { // that one looks at it now and then, unsigned
		kind := UnknownIs
		switch name {
		case "gchat-ask-user-forward":
			kind = HookWaits
		case "gchat-ask-user-rewake":
			kind = RewakeWaits
		case "gchat-wait":
			kind = ScriptWaits
		case service.Name:
			kind = DaemonWaits
		}
		return Waiter{kind, pid, name}
	}
	if byDaemon {
		pid := 0
		for _, dir := range []string{stateDirOf(q), p.user()} {
			if state.DaemonRuns(dir) {
				pid = cmp.Or(pid, state.DaemonPID(dir))
			}
		}
		return Waiter{DaemonWaits, pid, service.Name}
	}
	return Waiter{Kind: NobodyIs}
}
