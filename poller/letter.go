package poller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// letter is a waiting message with the way that it goes.
type letter struct {
	*state.Outgoing
	cfg   *state.Config
	hook  *gchat.Webhook // nil when this process has none for it
	quiet time.Time      // when the quiet hours end that hold it now; zero for none
}

// gateway is what a project's configuration says in this process's environment.
type gateway struct {
	cfg  *state.Config
	hook *gchat.Webhook
	err  error // of the command that prints the webhook
}

// letter loads a message, once a pass; nil when it is gone or cannot be read.
func (s *sender) letter(ctx context.Context, path string) *letter {
	if l, ok := s.loaded[path]; ok {
		return l
	}
	m, err := s.box.Load(path)
	if err != nil {
		s.Log.Error().Err(err).Msg("outgoing message not read")
	}
	if m == nil {
		s.loaded[path] = nil
		return nil
	}
	l := &letter{Outgoing: m}
	way := s.way(ctx, m)
	l.cfg, l.hook = way.cfg, way.hook
	if hook := way.hook; hook != nil && hook.Chat() != m.Chat && (m.Chat != "" || m.Command != commandID(way.cfg)) {
		l.hook = nil
	}
	if !m.Urgent && m.Kind != noteKind && !s.Loud {
		// What was put before the quiet hours and could not be sent is held in them all the same.
		if end, quiet := way.cfg.Quiet.Until(s.now()); quiet {
			l.quiet = end
		}
	}
	s.loaded[path] = l
	return l
}

// way is how the messages of m's project go. A command for the webhook is run for this process's own project only, since
// what it prints depends on who runs it; the daemon, which belongs to no project, runs those of all.
func (s *sender) way(ctx context.Context, m *state.Outgoing) *gateway {
	if w := s.ways[m.ProjectDir]; w != nil {
		return w
	}
	w := &gateway{cfg: s.config(m.ProjectDir)}
	if w.cfg.WebhookURL != "" || w.cfg.WebhookCommand != "" && (s.Steady || s.ours(m.ProjectDir)) {
		w.hook, w.err = s.webhook(ctx, w.cfg)
	}
	if w.err != nil && w.cfg.WebhookCommand != "" {
		s.Log.Error().Str("error", s.Log.Clean(w.err.Error())).Msg("the webhook could not be found out; messages wait")
		s.again(s.now().Add(commandPause))
	}
	s.ways[m.ProjectDir] = w
	return w
}

// commandPause is when a command that printed no webhook is asked again.
const commandPause = 10 * time.Second

// commandID names the command that prints the webhook, without its words; "" when there is none.
func commandID(cfg *state.Config) string {
	if cfg.WebhookCommand == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(cfg.WebhookCommand))
	return hex.EncodeToString(sum[:8])
}
