package poller

import (
	"cmp"
	"context"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// lookFor looks whether a message that was tried is in its space, where messages can be read. Chat's own rule, one message
// for an id, is documented; whether it holds for webhooks was not measured, so the space is asked before the second try.
func (s *sender) lookFor(ctx context.Context, m *letter, tried time.Time) (gchat.Posted, bool) {
	if !s.reads(m.cfg, m.hook) {
		return gchat.Posted{}, false
	}
	r, err := gchat.NewReader(ctx, s.endpoint(m.cfg, m.hook), m.cfg.CredentialsFile)
	if err != nil {
		return gchat.Posted{}, false
	}
	id, text, found := partID(m.Outgoing), m.Parts[m.PartsSent], gchat.Posted{}
	known, threads := s.box.Known()
	_, err = r.Since(ctx, m.hook.Space, tried.Add(-clockSlack), func(page []gchat.Message) {
		since := tried.Add(-clocksApart)
		if ahead, ok := r.Ahead(); ok {
			since = tried.Add(ahead - dateTells)
		}
		for _, got := range page {
			// Where Chat tells no ids, what says the same in the same thread, and is none that we know of.
			same := got.ClientID == id || got.ClientID == "" && !got.Human && !known[got.Name] && sameText(got.Text, text) &&
				sameThread(got, m.Outgoing, threads, since)
			if same && found.Name == "" && !got.Deleted {
				found = gchat.Posted{Name: got.Name, ThreadName: got.ThreadName, ServerTime: got.CreateTime}
			}
		}
	})
	if err != nil {
		s.Log.Warn().Str("error", s.Log.Clean(err.Error())).Msg("cannot look whether a message arrived; its id has to do")
	}
	return found, found.Name != ""
}

// reads says whether reading is configured. Looking for Application Default Credentials would ask the network.
func (s *sender) reads(cfg *state.Config, hook *gchat.Webhook) bool {
	return cfg.CredentialsFile != "" && cfg.CredentialsFile != state.NoCredentials || s.endpoint(cfg, hook) != ""
}

// sameText compares as far as Chat keeps a text: it trims it.
func sameText(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }

const (
	// clocksApart is how far Chat's clock and ours may differ, where it does not tell its own.
	clocksApart = 2 * time.Minute
	// dateTells is how exactly it tells: to the second, and an answer takes its time.
	dateTells = 2 * time.Second
)

// sameThread says whether a message stands in m's thread, as far as that can be told: by its name, which a key has once a
// message of ours arrived there, by the key, and else by its being no older than the try.
func sameThread(got gchat.Message, m *state.Outgoing, threads map[string]string, since time.Time) bool {
	name := cmp.Or(m.ThreadName, threads[m.ThreadKey])
	switch {
	case name != "":
		return got.ThreadName == name
	case m.ThreadKey != "" && got.ThreadKey != "":
		return got.ThreadKey == m.ThreadKey
	}
	return got.CreateTime.After(since)
}
