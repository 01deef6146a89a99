package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// gateway is how a project's messages go: its configuration, and the transport that this leads to.
type gateway struct {
	cfg       *config.Config
	transport transport // nil when err says why
	err       error     // config.ErrNoWebhook, gchat.ErrNotWebhook, of the app, or of the command that prints the webhook
	at        time.Time

	space    string // where it leads to, spaces/S; "" where err says why there is none
	endpoint string // where its messages are read: as configured, else beside a webhook on this machine, else at Google ("")
}

type gateways struct {
	mu      sync.Mutex
	ways    map[configured]*gateway
	apps    map[string]*gchat.App // each has its tokens
	printed map[string]string     // webhook_url_command → what it printed: a password manager is not asked every second
}

// renew has every gateway begun anew, also what commands print: a secret may have been changed.
func (g *gateways) renew() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ways, g.apps, g.printed = map[configured]*gateway{}, map[string]*gchat.App{}, map[string]string{}
}

// gateway is how messages of a project go. A command for the webhook runs once, until what it printed does not work.
func (p *Poller) gateway(ctx context.Context, by configured) *gateway {
	const freshFor = time.Second // then its configuration is read again
	g := &p.ways
	g.mu.Lock()
	defer g.mu.Unlock()
	if way := g.ways[by]; way != nil && p.Now().Sub(way.at).Abs() < freshFor {
		return way
	}
	cfg := p.config(by)
	if cfg.WebhookCommand != "" {
		cfg.WebhookURL = g.printed[cfg.WebhookCommand]
	}
	way := p.open(ctx, cfg)
	way.at = p.Now()
	if ctx.Err() == nil { // a command that we cut says nothing
		g.ways[by], g.printed[cfg.WebhookCommand] = way, cfg.WebhookURL
	}
	return way
}

// open is the gateway that a configuration leads to.
func (p *Poller) open(ctx context.Context, cfg *config.Config) *gateway {
	way := &gateway{cfg: cfg, endpoint: cfg.APIEndpoint}
	if cfg.ReceivesEvents() {
		way.err = p.ways.useApp(ctx, way)
	} else {
		way.err = p.useWebhook(ctx, way)
	}
	if way.err == nil {
		way.space = spaceOf(way.transport)
	}
	return way
}

func (p *Poller) useWebhook(ctx context.Context, way *gateway) error {
	hook, err := gchat.WebhookOf(ctx, way.cfg)
	p.Log.AddSecrets(way.cfg.WebhookURL)
	if err != nil {
		return err
	}
	if way.endpoint == "" {
		way.endpoint = hook.LocalEndpoint()
	}
	way.transport = gchat.ListedWebhook{
		Webhook: hook, Endpoint: way.endpoint, CredentialsFile: way.cfg.CredentialsFile,
	}
	return nil
}

func (g *gateways) useApp(ctx context.Context, way *gateway) error {
	c := way.cfg
	key := strings.Join([]string{c.SpaceID, c.Subscription, c.CredentialsFile, c.APIEndpoint, c.PubSubEndpoint}, "\x00")
	if g.apps[key] == nil {
		app, err := gchat.NewApp(ctx, c)
		if err != nil {
			return err
		}
		g.apps[key] = app
	}
	way.transport = g.apps[key]
	return nil
}

// events are what the gateway hears; nil where people's words come by the list alone, and where
// it leads nowhere.
func (w *gateway) events() eventSource {
	events, _ := w.transport.(eventSource)
	return events
}

// openReader opens what lists the space. Every transport's space is listed alike, and so is one
// into which nothing can be written at present.
func (w *gateway) openReader(ctx context.Context) (*gchat.API, error) {
	return gchat.NewReader(ctx, w.endpoint, w.cfg.CredentialsFile)
}

// config reads a project's configuration afresh: a person who was refused may just have set the allowlist.
func (p *Poller) config(by configured) *config.Config { return p.readConfig(by, nil) }

// readConfig is config. A hub is asked for its policy by policy: for at most three seconds, and not while a record is locked.
func (p *Poller) readConfig(by configured, policy config.PolicyReader) *config.Config {
	c := config.Load(state.ProjectEnv(p.Env, by.projectDir, by.trusted), by.projectDir)
	c.ReadPolicy, c.RenewsPolicy = policy, true
	p.Log.AddSecrets(c.WebhookURL)
	p.Log.ErrorOnce(c.ApplyPolicies(context.Background(), p.Env), "policy")
	return c
}

// personal is what the person alone set; see config.LoadPersonal.
func (p *Poller) personal() *config.Config { return p.config(configured{}) }

// own is the configuration that this process itself goes by. It has a hub's policy read again, also where no hook asks.
func (p *Poller) own() *config.Config {
	return p.readConfig(configured{state.ProjectDir(p.Env), p.Env("CLAUDE_PROJECT_DIR") != ""}, gchat.ReadPolicy)
}

// unreplyable is why a reply to a question could not be used, as things are configured: in deny mode it would wait in vain.
func (p *Poller) unreplyable(ctx context.Context, way *gateway) error {
	switch {
	case len(way.cfg.AllowedUsers) == 0:
		return errors.New("no reply could be used: nobody is on allowed_users")
	case way.err != nil, way.events() != nil:
		return way.err
	}
	_, err := way.openReader(ctx)
	if err != nil {
		return fmt.Errorf("no reply could be used: %w", err)
	}
	if t := state.SpacesIn(p.user).Get(way.transport.Chat()).ReadTrouble; t != nil && (t.IsRefused || t.IsDegraded) {
		return fmt.Errorf("no reply could be used: %s", t.Why)
	}
	return nil
}

func (w *gateway) deliver(ctx context.Context, m *state.Message) (gchat.Posted, error) {
	p := gchat.Post{Text: m.Parts[m.PartsSent], ThreadName: m.ThreadName, ThreadKey: m.ThreadKey, MessageID: partID(m), Viewer: m.Viewer}
	p.About = aboutOf(m)
	if m.PartsSent+1 == len(m.Parts) {
		p.Card = m.Card
	}
	if m.PatchedMessage != "" {
		err := w.transport.Update(ctx, m.PatchedMessage, p)
		if !errors.Is(err, errors.ErrUnsupported) { // else it is told in a message of its own
			return gchat.Posted{Name: m.PatchedMessage}, err
		}
	}
	posted, err := w.transport.Post(ctx, p)
	if err != nil && p.ThreadName != "" && gchat.Malformed(err) { // a thread of another space, for which Chat begins none anew
		p.ThreadName = ""
		posted, err = w.transport.Post(ctx, p)
	}
	if err != nil && gchat.AlreadyExists(err) {
		r, err := w.find(ctx, m)
		if r == nil && err == nil && w.transport.DrawsCards() && m.Type == state.MessageQuestion {
			err = errUnseen // a tap counts only on a message that is known
		}
		return *cmp.Or(r, &gchat.Posted{}), err // where messages cannot be read its thread stays unknown
	}
	return posted, err
}

// aboutOf says what a message is about, which the embedded space's page marks.
func aboutOf(m *state.Message) gchat.About {
	switch {
	case m.Report != nil:
		return gchat.About{Kind: cmp.Or(m.Report.RuleKind, string(m.Report.Type)), Session: m.Report.SessionName}
	case m.Note != nil:
		return gchat.About{Kind: "note " + m.Note.About}
	case m.Parts[0] == wording.DialogOverText:
		return gchat.About{Kind: "gone_on"}
	}
	return gchat.About{Kind: string(m.Type)}
}

var errUnseen = errors.New("not known whether it arrived")

// find looks whether that part is in its space: nil where it is not, or where messages cannot be read. Chat keeps one message for
// an id; that this holds for webhooks was not measured, so the space is asked before a second try.
func (w *gateway) find(ctx context.Context, m *state.Message) (*gchat.Posted, error) {
	if m.PatchedMessage != "" { // twice the same card is one
		return nil, nil
	}
	found, err := w.transport.Find(ctx, partID(m), m.FirstTriedAt.Add(-clockSlack))
	unreadable := errors.Is(err, errors.ErrUnsupported) || gchat.AuthFailure(err)
	switch {
	case err == nil:
		return &found, nil
	case unreadable, gchat.Permanent(err): // it is not there
		return nil, nil
	}
	return nil, fmt.Errorf("%w: %v", errUnseen, err) // not as an error of the webhook
}

// partID is the id that Chat keeps one message of. It depends on the part's text: another text is another message.
func partID(m *state.Message) string {
	if m.PartsSent == 0 {
		return m.ID
	}
	return state.MessageID(m.ID, "part", m.Parts[m.PartsSent], fmt.Sprint(m.PartsSent))
}
