package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// ErrUnconfigured says that trying again is of no use before a person mends the configuration.
var ErrUnconfigured = errors.New("posting is not configured")

var (
	// errPosting says that another process posts this question at this moment.
	errPosting = errors.New("another process is posting it")
	// errElsewhere says that this process's configuration is for another space.
	errElsewhere = errors.New("it belongs into another space")
)

// linger is how long a send that was begun may go on when its caller is told to end: mostly the answer is a moment
// away, and without it a thread stays that no record names.
const linger = 2 * time.Second

// Post puts a question into its space, once, however often it is called. The message id is derived from the question,
// so that a try after a lost answer, or after kill -9 between the answer and our writing it down, cannot post twice.
// own says that the session's own hook calls.
func (p *Poller) Post(ctx context.Context, path string, own bool) (*state.Question, error) {
	q, err := state.LoadQuestion(path)
	if err != nil || posted(q) {
		return q, err
	}
	lock, err := state.LockPoster(q)
	if errors.Is(err, state.ErrLocked) {
		return q, errPosting
	}
	if err != nil {
		return q, err
	}
	defer lock.Unlock()
	if q, err = state.LoadQuestion(path); err != nil || !toBePosted(q) {
		return q, err
	}
	cfg := p.config(q.ProjectDir)
	if !own && q.Chat == "" && !p.ours(q.ProjectDir) {
		cfg = state.LoadConfig(p.onlyFiles, q.ProjectDir) // this process's environment is another project's
	}
	hook, err := p.webhook(ctx, cfg)
	switch {
	case errors.Is(err, state.ErrNoWebhook), errors.Is(err, gchat.ErrNotWebhook):
		return p.notPosted(q, err, errors.Join(ErrUnconfigured, err))
	case err != nil:
		return p.notPosted(q, err, err)
	case !own && q.Chat != "" && hook.Chat() != q.Chat:
		return q, errElsewhere
	}
	q = p.word(ctx, cfg, q)
	quota := p.outbox().Quota(hook.Chat())
	if wait := quota.Take(p.now(), perWrite(cfg), questionBurst, true); wait > 0 {
		return q, &QuotaError{wait, quota.Why(p.now())}
	}
	before := q.PostTried
	if !before || q.Chat != hook.Chat() {
		if q, err = state.UpdateQuestion(path, func(q *state.Question) error {
			q.PostTried, q.Space, q.Chat = true, hook.Space, hook.Chat()
			return nil
		}); err != nil {
			return q, err
		}
	}
	ctx, cancel := lingering(ctx)
	defer cancel()
	id := messageID("question", q.QuestionID)
	done, err := hook.Post(ctx, gchat.Post{Text: gchat.QuestionText(q), ThreadKey: q.ThreadKey, MessageID: id})
	if gchat.AlreadyExists(err) {
		done, err = p.lookUp(ctx, cfg, hook, id), nil
	}
	if err != nil {
		if !before && !gchat.MayHaveArrived(err) {
			// Nothing is on its way: should the terminal answer now, there is no thread to be told.
			after, uerr := state.UpdateQuestion(path, func(q *state.Question) error { q.PostTried = false; return nil })
			if uerr == nil {
				q = after
			}
		}
		if gchat.AuthFailure(err) {
			p.forgetCommand(cfg)
		}
		if gchat.TooMany(err) {
			p.holdBack(quota, perWrite(cfg), err)
		}
		return p.notPosted(q, err, err)
	}
	quota.Worked(hook.ID(), q.ProjectDir, p.now())
	q, err = state.UpdateQuestion(path, func(q *state.Question) error {
		q.MessageSent, q.MessageName, q.ThreadName = true, done.Name, done.ThreadName
		q.PostError = ""
		if t := done.ServerTime; !t.IsZero() && q.PostedAt == nil {
			q.PostedAt = &t
		}
		return nil
	})
	if err == nil && q.Closed() {
		// It was closed in the terminal while it was on its way: the thread must not look open.
		p.put(closingNote(q))
		p.Send(ctx)
	}
	return q, err
}

// toBePosted says that the question has to get into its space: it is open, or it was closed while a send was on its way,
// which may have arrived.
func toBePosted(q *state.Question) bool {
	return !posted(q) && (q.Status == state.Pending || q.PostTried && q.Closed())
}

// lingering is ctx with a little time to end what was begun.
func lingering(ctx context.Context) (context.Context, context.CancelFunc) {
	c, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(linger, cancel) })
	return c, func() { stop(); cancel() }
}

// ours says whether this process runs for that project: then its environment is the project's too.
func (p *Poller) ours(projectDir string) bool {
	dir, err := filepath.Abs(state.ProjectDir(p.Env))
	return err == nil && dir == projectDir
}

// onlyFiles is the environment without what configures.
func (p *Poller) onlyFiles(name string) string {
	if strings.HasPrefix(name, "GOOGLE_CHAT_") || strings.HasPrefix(name, "GCHAT_") {
		return ""
	}
	return p.Env(name)
}

// posted says that the question is in its space. Its thread may still be unknown: the inbox then finds it by id.
func posted(q *state.Question) bool { return q.MessageSent }

func (p *Poller) webhook(ctx context.Context, cfg *state.Config) (*gchat.Webhook, error) {
	raw := ""
	if known, ok := p.printed.Load(cfg.WebhookCommand); ok && cfg.WebhookURL == "" {
		raw = known.(string)
	} else {
		var err error
		if raw, err = cfg.Webhook(ctx); err != nil {
			return nil, err
		}
		if cfg.WebhookCommand != "" {
			p.printed.Store(cfg.WebhookCommand, raw)
		}
	}
	p.Log.Hide(raw)
	return gchat.ConfiguredWebhook(cfg, raw)
}

// forgetCommand has the command asked again that printed a webhook which does not work: a secret may have been changed.
func (p *Poller) forgetCommand(cfg *state.Config) {
	if cfg.WebhookCommand != "" {
		p.printed.Delete(cfg.WebhookCommand)
	}
}

// lookUp finds the message that an earlier try created. Where messages cannot be read its thread stays unknown.
func (p *Poller) lookUp(ctx context.Context, cfg *state.Config, hook *gchat.Webhook, id string) gchat.Posted {
	r, err := gchat.NewReader(ctx, p.endpoint(cfg, hook), cfg.CredentialsFile)
	if err != nil {
		return gchat.Posted{}
	}
	m, err := r.ByClientID(ctx, hook.Space, id)
	if err != nil {
		return gchat.Posted{}
	}
	return gchat.Posted{Name: m.Name, ThreadName: m.ThreadName, ServerTime: m.CreateTime}
}

// endpoint is where messages are read: as configured, else beside a webhook on this machine, else at Google.
func (p *Poller) endpoint(cfg *state.Config, hook *gchat.Webhook) string {
	if cfg.APIEndpoint != "" {
		return cfg.APIEndpoint
	}
	return hook.LocalEndpoint()
}

// notPosted writes down why a question is not in its space, for `status`, the log and, once, the person at the terminal.
func (p *Poller) notPosted(q *state.Question, cause, err error) (*state.Question, error) {
	why := p.Log.Clean(cause.Error())
	if why == q.PostError {
		return q, err
	}
	hint := gchat.Hint(cause)
	p.Log.Error().Str("question", q.QuestionID).Str("session", q.SessionName).Str("error", why).Str("hint", hint).
		Msg("question not posted; it stays in the terminal")
	if gchat.Permanent(cause) || errors.Is(err, ErrUnconfigured) {
		p.noticeUnposted(q, why+". Hint: "+hint)
	}
	after, uerr := state.UpdateQuestion(q.Path, func(q *state.Question) error { q.PostError = why; return nil })
	if uerr != nil {
		return q, err
	}
	return after, err
}

// noticeUnposted leaves the person at the terminal a notice of why a question is not in its space.
func (p *Poller) noticeUnposted(q *state.Question, why string) {
	_ = state.AddNotice(p.user(), q.ClaudeSession(), "gchat-hooks: a question could not be posted to Google Chat: "+why+".")
}

// PostSoon is Post for a hook that reads the replies, or has them read. It waits for the space's allowance, as long as ctx.
func (p *Poller) PostSoon(ctx context.Context, path string) (*state.Question, error) {
	for {
		q, err := p.Post(ctx, path, true)
		wait := waitOf(err)
		if deadline, ok := ctx.Deadline(); wait == 0 || ok && p.now().Add(wait).After(deadline) {
			return q, err
		}
		if sleep(ctx, wait); ctx.Err() != nil {
			return q, err
		}
	}
}

// keepPosting tries until the question is in its space, is closed, or cannot be posted as things are configured.
func (p *Poller) keepPosting(ctx context.Context, path string) {
	wait, unconfigured := time.Second, 0
	for ctx.Err() == nil {
		q, err := p.Post(ctx, path, true)
		if err == nil || q != nil && q.Status != state.Pending {
			return
		}
		if errors.Is(err, ErrUnconfigured) {
			// Once more a little later: a file may just have been caught half-written.
			if unconfigured++; unconfigured > 2 {
				return
			}
		}
		pause := max(wait, gchat.RetryAfter(err))
		switch {
		case errors.Is(err, errPosting):
			pause = 100 * time.Millisecond
		case waitOf(err) > 0:
			pause = waitOf(err)
		default:
			wait = min(2*wait, 30*time.Second)
		}
		sleep(ctx, pause)
	}
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// word has a model reword the question's text, where the configuration wants that, before it is sent for the first time:
// another text of the same message would not be known again. Whatever fails leaves it to Claude's own words.
func (p *Poller) word(ctx context.Context, cfg *state.Config, q *state.Question) *state.Question {
	if cfg.Format != "haiku" || q.Wording != nil || q.FormatTried || q.PostTried {
		return q
	}
	p.Log.Hide(cfg.AnthropicKey)
	w, err := gchat.Haiku{Key: cfg.AnthropicKey, BaseURL: p.Env("ANTHROPIC_BASE_URL")}.Word(ctx, q.Questions)
	if w.InputTokens+w.OutputTokens > 0 { // a wording of no use costs, too
		p.noteCost(q, w)
	}
	if err == nil {
		var after *state.Question
		after, err = state.UpdateQuestion(q.Path, func(q *state.Question) error { q.Wording = w.Texts; return nil })
		if err == nil {
			return after
		}
	}
	p.Log.Warn().Str("question", q.QuestionID).Str("error", p.Log.Clean(err.Error())).
		Msg("not worded by the model: Claude's own words are used")
	after, err := state.UpdateQuestion(q.Path, func(q *state.Question) error { q.FormatTried = true; return nil })
	if err == nil {
		return after // it is not paid for again with the next try to post
	}
	return q
}

// noteCost writes into the session's ledger and into the log what the wording of a question cost.
func (p *Poller) noteCost(q *state.Question, w gchat.Wording) {
	usd := w.USD()
	p.Log.Info().Str("question", q.QuestionID).Str("model", w.Model).Int64("input_tokens", w.InputTokens).
		Int64("output_tokens", w.OutputTokens).Float64("usd", usd).Msg("a model was asked for a wording")
	err := state.LedgersIn(p.user()).Update(q.ClaudeSession(), func(l *state.Ledger, known bool) error {
		if !known {
			*l = state.Ledger{
				SessionID: q.ClaudeSession(), SessionName: q.SessionName, ProjectDir: q.ProjectDir, CWD: q.CWD,
				StartedAt: q.AskedAt, LastSeen: q.AskedAt, Source: state.Unknown,
			}
		}
		l.FormattingQuestions++
		l.FormattingUSD += usd
		return nil
	})
	if err != nil {
		p.Log.Error().Err(err).Msg("cost not written down")
	}
}

// ErrNoReplies says that a question put into the space would wait in vain: a reply could not be used.
var ErrNoReplies = errors.New("no reply could be used")

// Replyable says whether a reply to a question could be used, as things are configured: a person may answer, and the space can
// be read, as far as that is known without asking. Errors are ErrNoReplies and those of the webhook.
func (p *Poller) Replyable(ctx context.Context, cfg *state.Config) error {
	if len(cfg.AllowedUsers) == 0 {
		return fmt.Errorf("%w: nobody is on allowed_users", ErrNoReplies)
	}
	hook, err := p.webhook(ctx, cfg)
	if err != nil {
		return err
	}
	if p.endpoint(cfg, hook) == "" && !p.hasCredentials(cfg) {
		return fmt.Errorf("%w: there are no credentials to read with", ErrNoReplies)
	}
	for _, in := range state.TroubledInboxes(p.user()) {
		if in.Chat == hook.Chat() && (in.Trouble.Refused || in.Trouble.Degraded) {
			return fmt.Errorf("%w: %s", ErrNoReplies, in.Trouble.Why)
		}
	}
	return nil
}

// hasCredentials says whether there is a file of credentials, the configured one or Google's default. A machine in Google's
// cloud has some without, but none that may read messages.
func (p *Poller) hasCredentials(cfg *state.Config) bool {
	gcloud := cmp.Or(p.Env("CLOUDSDK_CONFIG"), filepath.Join(state.Home(p.Env), ".config", "gcloud"))
	byDefault := filepath.Join(gcloud, "application_default_credentials.json")
	for _, path := range []string{cfg.CredentialsFile, p.Env("GOOGLE_APPLICATION_CREDENTIALS"), byDefault} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}
