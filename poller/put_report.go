package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// Report is something that a session tells its person and that is no question.
type Report struct {
	gchat.Report
	Kind       string           // the finer name that rules can use: subagent_done, task_done, permission; "" is the type
	SessionID  string           // Claude Code's; its thread is session-{SessionID}. "" outside a session
	ProjectDir string           // absolute: whose configuration it is sent with
	Default    state.ReportRule // what holds when nothing is configured; "" is on
	Chat       string           // where it goes, when the caller found that out already
	ThreadKey  string           // in place of the session's thread
	ThreadName string           // spaces/S/threads/T, before any key
	Once       string           // names what is reported once a day, however often it is put; "" goes by its words
}

// Outcome is what became of a report.
type Outcome struct {
	Message   *state.Outgoing // as it was put, or as it would have been when Repeated; nil when Off
	Put       bool            // it waits to be sent
	Off       bool            // a rule suppresses it
	Repeated  bool            // the session said the same less than a minute ago
	HeldUntil time.Time       // it goes with a digest then; zero: at once
}

// repeatWithin is how long the same words of the same session are said once.
const repeatWithin = time.Minute

// PutReport writes a report into the outbox, as the rules of its project have it. It does not touch the network, and runs
// no command to learn the webhook. Errors are state.ErrNoWebhook, gchat.ErrNotWebhook, and the disk's.
func (p *Poller) PutReport(r Report) (Outcome, error) {
	cfg := p.config(r.ProjectDir)
	rule := cmp.Or(cfg.ReportRule(r.Kind, string(r.Type)), r.Default, state.ReportOn)
	if rule == state.ReportOff {
		return Outcome{Off: true}, nil
	}
	if r.Chat == "" {
		var err error
		if r.Chat, err = ChatOf(cfg); err != nil {
			return Outcome{}, err
		}
	}
	m := r.outgoing(r.Chat, p.now())
	if r.Chat == "" {
		m.Command = commandID(cfg)
	}
	out := Outcome{Message: m}
	if out.HeldUntil = heldUntil(cfg, rule, m.Urgent, p.now()); !out.HeldUntil.IsZero() {
		m.NotBefore = out.HeldUntil.UTC()
		if r.ThreadKey == "" && r.ThreadName == "" {
			m.Digest, m.ThreadKey, m.ThreadName = true, "digest-"+out.HeldUntil.Format(time.DateOnly), ""
			m.Parts = []string{r.Whole()} // the digest is cut where it is too long
		}
	}
	within := repeatWithin
	if r.Once != "" {
		within = state.MaxAge
	}
	var err error
	out.Put, err = p.outbox().Put(m, within)
	if err != nil {
		return out, err
	}
	out.Repeated = !out.Put
	return out, nil
}

// outgoing is the message that a report becomes.
func (r Report) outgoing(chat string, now time.Time) *state.Outgoing {
	key := r.key(now)
	m := &state.Outgoing{
		Key: key, MessageID: messageID("report", key, now.UTC().Format(time.RFC3339Nano)), Chat: chat, ThreadName: r.ThreadName,
		Parts: r.Texts(), ProjectDir: r.ProjectDir, SessionID: r.SessionID, Kind: r.What(),
		Urgent: r.Type.Urgent(), Low: r.Type.Low(), CreatedAt: now.UTC(),
	}
	m.ThreadKey = r.Thread()
	return m
}

// Thread is the key of the thread that a report goes to; "" when it is named, or begins one of its own.
func (r Report) Thread() string {
	if r.ThreadKey == "" && r.ThreadName == "" && r.SessionID != "" {
		return "session-" + r.SessionID
	}
	return r.ThreadKey
}

// What is the name that rules know a report by.
func (r Report) What() string { return cmp.Or(r.Kind, string(r.Type)) }

// key is equal for what counts as the same report. Outside a session everything counts on its own.
func (r Report) key(now time.Time) string {
	switch {
	case r.Once != "":
		return messageID("once", r.Once)
	case r.SessionID == "":
		return messageID("report", uuid.NewString())
	}
	return messageID("said", r.SessionID, string(r.Type), r.Prefix, r.Session, r.About, r.Title, r.Text,
		r.ThreadKey, r.ThreadName)
}

// heldUntil is when a report may go; zero for at once. Quiet hours hold everything but what cannot wait.
func heldUntil(cfg *state.Config, rule state.ReportRule, urgent bool, now time.Time) time.Time {
	at := time.Time{}
	if rule == state.ReportDigest {
		at = now.Truncate(state.DigestEvery).Add(state.DigestEvery)
	}
	if !urgent {
		if end, quiet := cfg.Quiet.Until(cmpTime(at, now)); quiet {
			at = end
		}
	}
	return at
}

// cmpTime is a, else b.
func cmpTime(a, b time.Time) time.Time {
	if a.IsZero() {
		return b
	}
	return a
}

// ChatOf is where a configuration posts to, as far as it says so without running a command; "" when one has to be asked.
func ChatOf(cfg *state.Config) (string, error) {
	if cfg.WebhookURL == "" {
		if cfg.WebhookCommand != "" {
			return "", nil
		}
		return "", errors.Join(append([]error{state.ErrNoWebhook}, cfg.Problems...)...)
	}
	hook, err := gchat.ConfiguredWebhook(cfg, cfg.WebhookURL)
	if err != nil {
		return "", fmt.Errorf("webhook: %w", err)
	}
	return hook.Chat(), nil
}

// Fate is what became of a message that was put into the outbox; the zero value while it waits.
type Fate struct {
	Arrived    bool
	Name       string // spaces/S/messages/M, where Chat said it
	ThreadName string
	Refused    string // why it was put aside
	LastError  string // of a try, while it waits
}

// Known says that the message waits no more.
func (f Fate) Known() bool { return f.Arrived || f.Refused != "" }

// FateOf tells what became of a message. Of a repetition it is the fate of what was said first.
func (p *Poller) FateOf(o Outcome) Fate {
	box, m := p.outbox(), o.Message
	id := m.MessageID
	if o.Repeated {
		id = ""
	}
	if r, ok := box.Arrived(m.Key, id); ok {
		return Fate{Arrived: true, Name: r.Name, ThreadName: r.ThreadName}
	}
	if m.Path == "" {
		return Fate{} // it was put by another process, which knows where it is
	}
	if now, err := box.Load(m.Path); now != nil {
		f := Fate{LastError: cmp.Or(now.LastError, box.Quota(now.Chat).Why(p.now()))}
		for _, pause := range box.Pauses() {
			if pause.Chat == now.Chat {
				f.LastError = pause.Why
			}
		}
		return f
	} else if err != nil {
		return Fate{Refused: err.Error()}
	}
	for _, d := range box.Dead() {
		if d.MessageID == m.MessageID {
			return Fate{Refused: d.LastError}
		}
	}
	return Fate{}
}

// Webhook is the webhook of a project's configuration. Errors are state.ErrNoWebhook, gchat.ErrNotWebhook, and those of the
// command that prints it.
func (p *Poller) Webhook(ctx context.Context, projectDir string) (*gchat.Webhook, error) {
	return p.webhook(ctx, p.config(projectDir))
}

// PostNow sends a report past the outbox, once, within what the space allows. It returns what Chat says of its first part.
func (p *Poller) PostNow(ctx context.Context, r Report) (first gchat.Posted, err error) {
	cfg := p.config(r.ProjectDir)
	hook, err := p.webhook(ctx, cfg)
	if err != nil {
		return first, err
	}
	quota := p.outbox().Quota(hook.Chat())
	for m := r.outgoing(hook.Chat(), p.now()); m.PartsSent < len(m.Parts); m.PartsSent++ {
		for {
			wait := quota.Take(p.now(), perWrite(cfg), burst, true)
			if wait == 0 {
				break
			}
			if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
				return first, &QuotaError{wait, quota.Why(p.now())}
			}
			sleep(ctx, wait)
		}
		done, err := hook.Post(ctx, partPost(m))
		if gchat.TooMany(err) {
			p.holdBack(quota, perWrite(cfg), err)
		}
		if err != nil {
			return first, err
		}
		if m.PartsSent == 0 {
			first = done
		}
	}
	return first, nil
}
