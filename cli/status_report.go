package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"slices"
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
	Sessions      []sessionStatus       `json:"sessions"`  // seen within a day
	Outbox        outboxStatus          `json:"outbox"`
	Spaces        []spaceStatus         `json:"spaces"`        // that cannot be read or written to at present
	Pollers       []pollerStatus        `json:"pollers"`       // that run
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
	Questions  int       `json:"questions"` // that are open
}

// outboxStatus is what waits for Google Chat or for an agent, and what was put aside.
type outboxStatus struct {
	ToSend    int             `json:"to_send"` // without what is held back
	Oldest    time.Time       `json:"oldest,omitzero"`
	Held      int             `json:"held"` // for a digest or by quiet hours
	HeldUntil time.Time       `json:"held_until,omitzero"`
	Tried     []messageStatus `json:"tried"` // in vain, so far
	Dead      []messageStatus `json:"dead"`  // they were refused
}

// messageStatus is a message that did not arrive yet.
type messageStatus struct {
	CreatedAt time.Time `json:"created_at"`
	Kind      string    `json:"kind"`
	Text      string    `json:"text"` // how it begins; the agent of a wake message
	Tries     int       `json:"tries"`
	Error     string    `json:"error"`
}

// spaceStatus is a space that a person has to do something about, or that Chat wants to be left alone.
type spaceStatus struct {
	Chat      string    `json:"chat"`
	Since     time.Time `json:"since,omitzero"`
	NotRead   string    `json:"not_read,omitempty"` // why
	Degraded  bool      `json:"degraded,omitempty"` // it is tried once a minute
	NotSent   string    `json:"not_sent,omitempty"` // why nothing goes through a webhook, until a person mends it
	LeftAlone string    `json:"left_alone,omitempty"`
	Until     time.Time `json:"until,omitzero"` // of LeftAlone
}

// pollerStatus is a poller that runs.
type pollerStatus struct {
	state.Heartbeat
	Silent   bool      `json:"silent,omitempty"` // it is stopped, or hangs
	LastPoll time.Time `json:"last_poll,omitzero"`
}

const (
	// recent is how far back sessions and errors are shown.
	recent = 24 * time.Hour
	// mostErrors is how many errors are shown.
	mostErrors = 5
)

// gather is the state of things now. What cannot be read is said in it, and stops nothing.
func gather(env state.Getenv) *statusReport {
	now, user := time.Now(), state.UserState(env)
	cfg := state.LoadConfig(env, state.ProjectDir(env))
	var redact state.Redactor
	redact.Hide(cfg.Secrets(env)...)
	r := &statusReport{
		At: now.UTC().Truncate(time.Second), Sessions: []sessionStatus{},
		Spaces: []spaceStatus{}, Pollers: []pollerStatus{}, SetAside: []string{}, Configuration: []string{}, Errors: []logError{},
	}
	var broken []error
	r.Questions, broken = poller.OpenQuestions(env, now)
	names, perSession := map[string]string{}, map[string]int{}
	for _, q := range r.Questions {
		names[q.ClaudeID] = q.SessionName
		perSession[q.ClaudeID]++
	}
	for i := range r.Questions {
		q := &r.Questions[i]
		q.SessionName = distinct(q.SessionName, q.ClaudeID, names)
		for _, s := range []*string{
			&q.Question, &q.PostError, &q.SessionName, &q.ProjectDir, &q.AnsweredBy, &q.QuestionID, &q.ThreadKey,
		} {
			*s = redact.Clean(*s)
		}
	}
	sessions, more := state.SessionsIn(user).All()
	for _, s := range sessions {
		if s.Running() && now.Sub(s.LastSeen) < recent {
			r.Sessions = append(r.Sessions, sessionStatus{
				SessionID: s.ID, Name: redact.Clean(cmp.Or(s.Name, s.ID)), ProjectDir: redact.Clean(s.ProjectDir),
				Since: s.StartedAt.UTC(), LastSeen: s.LastSeen.UTC(), Questions: perSession[s.ID],
			})
		}
	}
	slices.SortFunc(r.Sessions, func(a, b sessionStatus) int { return b.LastSeen.Compare(a.LastSeen) })
	broken = append(broken, more...)
	r.Outbox, more = outboxStatusOf(state.OutboxIn(user), now, &redact)
	broken = append(broken, more...)
	spaces, more := state.SpacesIn(user).All()
	for _, s := range spaces {
		r.Spaces = append(r.Spaces, spaceStatusesOf(s, now, &redact)...)
	}
	for _, h := range state.Pollers(env) {
		if h.Lives {
			r.Pollers = append(r.Pollers, pollerStatusOf(env, h, now))
		}
	}
	for _, err := range append(broken, more...) {
		r.SetAside = append(r.SetAside, redact.Clean(err.Error()))
	}
	for _, err := range cfg.Problems {
		r.Configuration = append(r.Configuration, redact.Clean(err.Error()))
	}
	for _, e := range lastErrors(env, mostErrors, now.Add(-recent)) {
		for _, s := range []*string{&e.Job, &e.Message, &e.Cause, &e.Hint} {
			*s = redact.Clean(*s)
		}
		r.Errors = append(r.Errors, e)
	}
	return r
}

func outboxStatusOf(box state.Outbox, now time.Time, redact *state.Redactor) (o outboxStatus, broken []error) {
	o = outboxStatus{Tried: []messageStatus{}, Dead: []messageStatus{}}
	waiting, broken := box.Waiting()
	for _, m := range waiting {
		if m.Tries > 0 {
			o.Tried = append(o.Tried, messageStatusOf(m, redact))
		} else if now.Before(m.NotBefore) {
			if o.Held++; o.HeldUntil.IsZero() || m.NotBefore.Before(o.HeldUntil) {
				o.HeldUntil = m.NotBefore.UTC()
			}
			continue
		}
		if o.ToSend++; o.Oldest.IsZero() {
			o.Oldest = m.CreatedAt.UTC()
		}
	}
	for _, m := range box.Aside() {
		o.Dead = append(o.Dead, messageStatusOf(m, redact))
	}
	return o, broken
}

func messageStatusOf(m *state.Message, redact *state.Redactor) messageStatus {
	s := messageStatus{CreatedAt: m.CreatedAt.UTC(), Kind: string(m.Kind), Tries: m.Tries}
	switch {
	case m.Wake != nil:
		s.Text = m.Wake.Trigger + " to " + m.Wake.To
	case len(m.Parts) > 0:
		s.Text = m.Parts[min(m.PartsSent, len(m.Parts)-1)]
	case m.Report != nil:
		s.Text = m.Report.Text
	}
	if m.Report != nil {
		s.Kind = cmp.Or(m.Report.Kind, string(m.Report.Type))
	}
	s.Text = gchat.Cut(gchat.Line(redact.Clean(s.Text)), 80)
	s.Error = state.OneLine(redact.Clean(cmp.Or(m.SetAside, m.LastError)))
	return s
}

// spaceStatusesOf says what is wrong with a space; nothing where all is well.
func spaceStatusesOf(s *state.Space, now time.Time, redact *state.Redactor) (all []spaceStatus) {
	if t := s.Trouble; t != nil {
		all = append(all, spaceStatus{
			Chat: s.Chat, Since: t.Since.UTC(), NotRead: redact.Clean(t.Why), Degraded: t.Degraded,
		})
	}
	for _, p := range s.Paused {
		all = append(all, spaceStatus{Chat: s.Chat, Since: p.Since.UTC(), NotSent: redact.Clean(p.Why)})
	}
	if s.LeftAlone(now) > 0 {
		all = append(all, spaceStatus{Chat: s.Chat, LeftAlone: redact.Clean(s.Why), Until: s.NotBefore.UTC()})
	}
	return all
}

func pollerStatusOf(env state.Getenv, h state.Heartbeat, now time.Time) pollerStatus {
	s := pollerStatus{Heartbeat: h, Silent: h.Silent(now)}
	if h.Daemon {
		s.LastPoll = state.LastPoll(state.ProjectState(env)).UTC()
		if s.LastPoll.IsZero() {
			s.LastPoll = state.LastPoll(state.UserState(env)).UTC()
		}
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
