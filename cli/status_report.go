package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// statusReport is what status shows, and what --json prints: its keys stay. Times are RFC 3339 in UTC; one that is not known
// is left out. Nothing in it is a secret.
type statusReport struct {
	At            time.Time             `json:"generated_at"`
	Questions     []poller.OpenQuestion `json:"questions"` // the newest first
	Sessions      []sessionStatus       `json:"sessions"`  // seen within a day, the last seen first
	Outbox        outboxStatus          `json:"outbox"`
	Inboxes       []inboxStatus         `json:"inboxes"` // the spaces that replies are read from
	Daemons       []daemonStatus        `json:"daemons"`
	WakeMessages  wakeStatus            `json:"wake_messages"` // for OpenClaw agents
	SetAside      []string              `json:"set_aside"`     // files that do not parse
	Configuration []string              `json:"configuration"` // what is wrong in it
	Errors        []logError            `json:"errors"`        // the last ones of a day, the oldest first
}

// sessionStatus is a session whose end no hook told.
type sessionStatus struct {
	SessionID  string    `json:"session_id"`
	Name       string    `json:"name"`
	ProjectDir string    `json:"project_dir"`
	Since      time.Time `json:"since,omitzero"`
	LastSeen   time.Time `json:"last_seen,omitzero"`
	Turns      int       `json:"turns"`
	Questions  int       `json:"questions"` // that are open
}

// outboxStatus is what waits for Google Chat, what stops it, and what was put aside.
type outboxStatus struct {
	ToSend    int            `json:"to_send"` // without what is held back
	Oldest    time.Time      `json:"oldest,omitzero"`
	Chats     map[string]int `json:"chats"` // how many of these to which host/spaces/S
	Held      int            `json:"held"`  // for a digest or by quiet hours
	HeldUntil time.Time      `json:"held_until,omitzero"`
	Paused    []pauseStatus  `json:"paused"`
	Tried     []letterStatus `json:"tried"` // in vain, so far
	Dead      []letterStatus `json:"dead"`  // Chat refused them
}

// pauseStatus is why nothing is sent to a space, or nothing read from it.
type pauseStatus struct {
	Chat     string    `json:"chat,omitempty"`
	Since    time.Time `json:"since"`
	Why      string    `json:"why"`
	Degraded bool      `json:"degraded,omitempty"` // it is tried once a minute
}

// letterStatus is a message that did not arrive yet.
type letterStatus struct {
	CreatedAt time.Time `json:"created_at"`
	Kind      string    `json:"kind"`
	Text      string    `json:"text"` // how it begins
	Tries     int       `json:"tries"`
	Error     string    `json:"error"`
}

// inboxStatus is a space that replies are read from.
type inboxStatus struct {
	Chat    string       `json:"chat"`
	Read    bool         `json:"read"`                       // a process reads it now
	Stopped int64        `json:"reader_stopped_s,omitempty"` // for how long the process shows no life that is to read it
	Newest  time.Time    `json:"newest_message,omitzero"`
	Trouble *pauseStatus `json:"trouble,omitempty"`
}

// daemonStatus is a daemon that runs for the person or for this project.
type daemonStatus struct {
	PID      int       `json:"pid"`
	LastPoll time.Time `json:"last_poll,omitzero"`
}

// wakeStatus is what waits for OpenClaw agents.
type wakeStatus struct {
	Waiting int           `json:"waiting"`
	Oldest  time.Time     `json:"oldest,omitzero"`
	Tried   []wakeMessage `json:"tried"`
	Dead    []wakeMessage `json:"dead"`
}

type wakeMessage struct {
	CreatedAt time.Time `json:"created_at"`
	AgentID   string    `json:"agent_id"`
	Trigger   string    `json:"trigger"`
	Tries     int       `json:"tries"`
	Error     string    `json:"error"`
}

// recent is how far back sessions and errors are shown.
const recent = 24 * time.Hour

// mostErrors is how many errors are shown.
const mostErrors = 5

// gatherer looks at everything again and again; what did not change is not parsed again.
type gatherer struct {
	env    state.Getenv
	poller *poller.Poller
	look   poller.Look
	redact state.Redactor
	at     time.Time
}

func newGatherer(env state.Getenv) *gatherer {
	return &gatherer{env: env, poller: &poller.Poller{Env: env, Log: state.NewLog(env, "status")}}
}

// gather is the state of things now. What cannot be read is said in it, and stops nothing.
func (g *gatherer) gather() *statusReport {
	g.at = time.Now()
	cfg := state.LoadConfig(g.env, state.ProjectDir(g.env))
	for _, secret := range []string{cfg.WebhookURL, cfg.AnthropicKey, g.env("GOOGLE_CHAT_WEBHOOK_URL")} {
		g.redact.Hide(secret)
	}
	r := &statusReport{
		At: g.at.UTC().Truncate(time.Second), Sessions: []sessionStatus{},
		SetAside: []string{}, Configuration: []string{}, Errors: []logError{},
	}
	var broken []error
	r.Questions, broken = g.poller.OpenQuestions(&g.look)
	perSession := map[string]int{}
	for i := range r.Questions {
		q := &r.Questions[i]
		perSession[q.ClaudeID]++
		g.clean(&q.Question, &q.PostError, &q.SessionName, &q.ProjectDir, &q.AnsweredBy, &q.QuestionID, &q.ThreadKey)
	}
	running, more := state.LedgersIn(state.UserState(g.env)).Running()
	broken = append(broken, more...)
	for _, l := range running {
		if g.at.Sub(l.LastSeen) > recent {
			continue
		}
		s := sessionStatus{
			SessionID: l.SessionID, Name: cmp.Or(l.SessionName, l.SessionID), ProjectDir: l.ProjectDir,
			Since: l.StartedAt.UTC(), LastSeen: l.LastSeen.UTC(), Turns: l.Turns, Questions: perSession[l.SessionID],
		}
		g.clean(&s.SessionID, &s.Name, &s.ProjectDir)
		r.Sessions = append(r.Sessions, s)
	}
	var unread []error
	r.Outbox, unread = g.outbox()
	broken = append(broken, unread...)
	r.Inboxes, r.Daemons, r.WakeMessages = g.inboxes(), g.daemons(), g.wakes()
	for _, err := range broken {
		r.SetAside = append(r.SetAside, g.redact.Clean(err.Error()))
	}
	for _, err := range cfg.Problems {
		r.Configuration = append(r.Configuration, g.redact.Clean(err.Error()))
	}
	for _, e := range lastErrors(g.env, mostErrors, g.at.Add(-recent)) {
		g.clean(&e.Job, &e.Message, &e.Cause, &e.Hint)
		r.Errors = append(r.Errors, e)
	}
	return r
}

// clean takes secrets out, wherever the text came from.
func (g *gatherer) clean(texts ...*string) {
	for _, s := range texts {
		*s = g.redact.Clean(*s)
	}
}

func (g *gatherer) outbox() (o outboxStatus, broken []error) {
	box := state.OutboxIn(state.UserState(g.env))
	waiting, broken := box.Waiting()
	o = outboxStatus{Chats: map[string]int{}, Paused: []pauseStatus{}, Tried: []letterStatus{}, Dead: []letterStatus{}}
	for _, m := range waiting {
		if m.Tries > 0 {
			o.Tried = append(o.Tried, g.letter(m))
		}
		if m.Tries == 0 && g.at.Before(m.NotBefore) {
			if o.Held++; o.HeldUntil.IsZero() || m.NotBefore.Before(o.HeldUntil) {
				o.HeldUntil = m.NotBefore.UTC()
			}
			continue
		}
		o.ToSend++
		o.Chats[cmp.Or(m.Chat, "the space that a command names")]++ // one that no webhook leads to any more shows here
		if o.Oldest.IsZero() {
			o.Oldest = m.CreatedAt.UTC()
		}
	}
	for _, p := range box.Pauses() {
		o.Paused = append(o.Paused, pauseStatus{Chat: p.Chat, Since: p.Since.UTC(), Why: g.redact.Clean(p.Why)})
	}
	for _, m := range box.Dead() {
		o.Dead = append(o.Dead, g.letter(m))
	}
	return o, broken
}

func (g *gatherer) letter(m *state.Outgoing) letterStatus {
	l := letterStatus{CreatedAt: m.CreatedAt.UTC(), Kind: m.Kind, Tries: m.Tries, Error: m.LastError}
	if len(m.Parts) > 0 {
		l.Text = gchat.Cut(gchat.Line(m.Parts[min(m.PartsSent, len(m.Parts)-1)]), 80)
	}
	g.clean(&l.Kind, &l.Text, &l.Error)
	return l
}

func (g *gatherer) inboxes() []inboxStatus {
	all := []inboxStatus{}
	for _, in := range state.Inboxes(state.UserState(g.env)) {
		s := inboxStatus{Chat: in.Chat, Read: state.HasLeader(state.UserState(g.env), in.Chat), Newest: in.Watermark.UTC()}
		s.Stopped = int64(state.StoppedLeader(state.UserState(g.env), in.Chat) / time.Second)
		if t := in.Trouble; t != nil {
			s.Trouble = &pauseStatus{Since: t.Since.UTC(), Why: g.redact.Clean(t.Why), Degraded: t.Degraded}
		}
		all = append(all, s)
	}
	return all
}

func (g *gatherer) daemons() []daemonStatus {
	all := []daemonStatus{}
	seen := map[int]bool{}
	for _, dir := range []string{state.ProjectState(g.env), state.UserState(g.env)} {
		if pid := state.DaemonPID(dir); state.DaemonRuns(dir) && !seen[pid] {
			seen[pid] = true
			all = append(all, daemonStatus{pid, state.LastPoll(dir).UTC()})
		}
	}
	return all
}

func (g *gatherer) wakes() wakeStatus {
	box := state.WakeOutboxIn(state.UserState(g.env))
	s := wakeStatus{Tried: []wakeMessage{}, Dead: []wakeMessage{}}
	of := func(w *state.WakeMessage) wakeMessage {
		m := wakeMessage{w.CreatedAt.UTC(), w.AgentID, w.Trigger, w.Tries, w.LastError}
		g.clean(&m.AgentID, &m.Trigger, &m.Error)
		return m
	}
	waiting, _ := box.Waiting()
	if s.Waiting = len(waiting); s.Waiting > 0 {
		s.Oldest = waiting[0].CreatedAt.UTC()
	}
	for _, w := range waiting {
		if w.Tries > 0 {
			s.Tried = append(s.Tried, of(w))
		}
	}
	for _, w := range box.Dead() {
		s.Dead = append(s.Dead, of(w))
	}
	return s
}

// logError is an error line of the log, as status shows it.
type logError struct {
	Time    time.Time `json:"time"`
	Job     string    `json:"job"`
	Message string    `json:"message"`
	Cause   string    `json:"error,omitempty"`
	Hint    string    `json:"hint,omitempty"`
}

// lastErrors are the last n errors of the log since then, the oldest first.
func lastErrors(env state.Getenv, n int, since time.Time) (errs []logError) {
	b, _ := os.ReadFile(state.LogPath(env))
	for line := range bytes.Lines(b) {
		var e logError
		if bytes.Contains(line, []byte(`"level":"error"`)) && json.Unmarshal(line, &e) == nil && !e.Time.Before(since) {
			errs = append(errs, e)
		}
	}
	return errs[max(0, len(errs)-n):]
}
