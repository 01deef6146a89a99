package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// gateway is how a project's messages go: its configuration, and the webhook that this leads to.
type gateway struct {
	cfg   *config.Config
	hook  *gchat.Webhook // nil when err says why
	err   error          // config.ErrNoWebhook, gchat.ErrNotWebhook, or of the command that prints the webhook
	at    time.Time
	reads bool // its space can be read, as far as that is known without asking
}

// freshFor is how long a gateway is used before its configuration is read again.
const freshFor = time.Second

// gateways are those of the projects. The zero value is ready; it may be used by several goroutines.
type gateways struct {
	mu      sync.Mutex
	ways    map[string]*gateway
	printed map[string]string // webhook_url_command → what it printed: a password manager is not asked every second
}

// renew has every gateway begun anew, also what commands print: a secret may have been changed.
func (g *gateways) renew() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ways, g.printed = map[string]*gateway{}, map[string]string{}
}

// gateway is how messages of a project go. A command for the webhook runs once, until what it printed does not work.
func (p *Poller) gateway(ctx context.Context, projectDir string, trusted bool) *gateway {
	g := &p.ways
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ways == nil {
		g.ways, g.printed = map[string]*gateway{}, map[string]string{}
	}
	key := fmt.Sprint(projectDir, "\x00", trusted)
	if way := g.ways[key]; way != nil && p.now().Sub(way.at).Abs() < freshFor {
		return way
	}
	way := &gateway{cfg: p.config(projectDir, trusted)}
	command := way.cfg.WebhookCommand
	if command != "" {
		way.cfg.WebhookURL = g.printed[command]
	}
	var raw string
	if raw, way.err = way.cfg.Webhook(ctx); way.err == nil {
		g.printed[command] = raw
		p.Log.Hide(raw)
		way.hook, way.err = gchat.ConfiguredWebhook(way.cfg, raw)
	}
	way.reads = way.endpoint() != "" || p.hasCredentials(way.cfg)
	way.at = p.now()
	g.ways[key] = way
	return way
}

// config reads a project's configuration afresh: a person who was refused may just have set the allowlist.
func (p *Poller) config(projectDir string, trusted bool) *config.Config {
	c := config.Load(state.ForProject(p.Env, projectDir, trusted), projectDir)
	p.Log.Hide(c.WebhookURL)
	return c
}

// interval is the time from one round to the next.
func (p *Poller) interval() time.Duration {
	return p.config(state.ProjectDir(p.Env), p.Env("CLAUDE_PROJECT_DIR") != "").PollInterval
}

// configured is an error where no project has anything for a daemon to do: a person has to configure something.
func (p *Poller) configured() error {
	dirs := []string{state.ProjectDir(p.Env)}
	for _, dir := range p.Dirs {
		dirs = append(dirs, p.projectOf(filepath.Dir(dir)))
	}
	known, _ := state.Projects(p.Env)
	for _, project := range known {
		dirs = append(dirs, project.Dir)
	}
	why := errors.New("no webhook and no space are configured")
	for _, dir := range dirs {
		cfg := p.config(dir, true)
		if cfg.WebhookURL != "" || cfg.WebhookCommand != "" || cfg.SpaceID != "" {
			return nil // credentials alone say nowhere to read
		}
		if len(cfg.Problems) > 0 {
			why = cfg.Problems[0]
		}
	}
	return &state.UserError{Err: why, Hint: "gchat-hooks setup, or webhook_url in ~/.config/gchat-hooks/config.json; " +
		"then start the daemon again: gchat-hooks poller install"}
}

// endpoint is where a project's messages are read: as configured, else beside a webhook on this machine, else at Google ("").
func (w *gateway) endpoint() string {
	if w.cfg.APIEndpoint != "" || w.hook == nil {
		return w.cfg.APIEndpoint
	}
	return w.hook.LocalEndpoint()
}

// newReader reads where a gateway leads to, with its credentials as they are now.
func (w *gateway) newReader(ctx context.Context) (*gchat.Reader, error) {
	return gchat.NewReader(ctx, w.endpoint(), w.cfg.CredentialsFile)
}

// unreplyable is why a reply to a question could not be used, as things are configured: no person may answer, or the space cannot
// be read, as far as that is known without asking. A question in deny mode would wait in vain.
func (p *Poller) unreplyable(way *gateway) error {
	switch {
	case len(way.cfg.AllowedUsers) == 0:
		return errors.New("no reply could be used: nobody is on allowed_users")
	case way.err != nil:
		return way.err
	case !way.reads:
		return errors.New("no reply could be used: there are no credentials to read with")
	}
	if t := state.SpacesIn(p.user()).Of(way.hook.Chat()).Trouble; t != nil && (t.Refused || t.Degraded) {
		return fmt.Errorf("no reply could be used: %s", t.Why)
	}
	return nil
}

// hasCredentials says whether there is a file of credentials, the configured one or Google's default. A machine in Google's
// cloud has some without, but none that may read messages.
func (p *Poller) hasCredentials(cfg *config.Config) bool {
	gcloud := cmp.Or(p.Env("CLOUDSDK_CONFIG"), filepath.Join(state.Home(p.Env), ".config", "gcloud"))
	file := cmp.Or(cfg.CredentialsFile, p.Env("GOOGLE_APPLICATION_CREDENTIALS"),
		filepath.Join(gcloud, "application_default_credentials.json"))
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular()
}

// chat is the transport to Google Chat, by one gateway.
type chat struct{ way *gateway }

// deliver posts the part of a message that goes next.
func (c chat) deliver(ctx context.Context, m *state.Message) (receipt, error) {
	posted, err := c.way.hook.Post(ctx, gchat.Post{
		Text: m.Parts[m.PartsSent], ThreadName: m.ThreadName, ThreadKey: m.ThreadKey, MessageID: partID(m),
	})
	if gchat.AlreadyExists(err) {
		r, _ := c.find(ctx, m) // where messages cannot be read its thread stays unknown
		return r, nil
	}
	return receipt{Name: posted.Name, ThreadName: posted.ThreadName, At: posted.ServerTime}, err
}

// find looks whether that part is in its space, where messages can be read. Chat keeps one message for an id; that this holds
// for webhooks was not measured, so the space is asked before a second try.
func (c chat) find(ctx context.Context, m *state.Message) (receipt, bool) {
	if !c.way.reads {
		return receipt{}, false
	}
	reader, err := c.way.newReader(ctx)
	if err != nil {
		return receipt{}, false
	}
	got, err := reader.ByClientID(ctx, c.way.hook.Space, partID(m))
	if err != nil {
		return receipt{}, false
	}
	return receipt{Name: got.Name, ThreadName: got.ThreadName, At: got.CreateTime}, true
}

// partID is the id that Chat keeps one message of. It depends on the part's text: another text is another message.
func partID(m *state.Message) string {
	if m.PartsSent == 0 {
		return m.ID
	}
	return state.MessageID(m.ID, "part", m.Parts[m.PartsSent], fmt.Sprint(m.PartsSent))
}
