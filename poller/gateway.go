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

// projectGateway is how a project's messages go: its configuration, and the transport
// that this leads to.
type projectGateway struct {
	cfg       *config.Config
	transport transport // nil when err says why
	// config.ErrNoWebhook, gchat.ErrNotWebhook, of the app, or of the command that prints
	// the webhook
	err      error
	loadedAt time.Time

	spaceName string // where it leads to, spaces/S; "" where err says why there is none
	// where its messages are read: as configured, else beside a webhook on this machine,
	// else at Google ("")
	readEndpoint string
}

type gatewayCache struct {
	mu       sync.Mutex
	bySource map[configSource]*projectGateway
	apps     map[string]*gchat.App // each has its tokens
	// webhook_url_command → what it printed: a password manager is not asked every second
	webhookOutputs map[string]string
}

// reset has every gateway begun anew, also what commands print: a secret may have been
// changed.
func (g *gatewayCache) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bySource, g.apps, g.webhookOutputs = map[configSource]*projectGateway{}, map[string]*gchat.App{}, map[string]string{}
}

// gatewayFor is how messages of a project go. A command for the webhook runs once, until
// what it printed does not work.
func (p *Poller) gatewayFor(ctx context.Context, source configSource) *projectGateway {
	const maxAge = time.Second // then its configuration is read again
	cache := &p.gateways
	cache.mu.Lock()
	defer cache.mu.Unlock()
	if gateway := cache.bySource[source]; gateway != nil &&
		p.Now().Sub(gateway.loadedAt).Abs() < maxAge {
		return gateway
	}
	cfg := p.loadConfig(source)
	if cfg.WebhookCommand != "" {
		cfg.WebhookURL = cache.webhookOutputs[cfg.WebhookCommand]
	}
	gateway := p.openGateway(ctx, cfg)
	gateway.loadedAt = p.Now()
	if ctx.Err() == nil { // a command that we cut says nothing
		cache.bySource[source], cache.webhookOutputs[cfg.WebhookCommand] = gateway, cfg.WebhookURL
	}
	return gateway
}

// openGateway is the gateway that a configuration leads to.
func (p *Poller) openGateway(ctx context.Context, cfg *config.Config) *projectGateway {
	gateway := &projectGateway{cfg: cfg, readEndpoint: cfg.APIEndpoint}
	if cfg.ReceivesEvents() {
		gateway.err = p.gateways.useApp(ctx, gateway)
	} else {
		gateway.err = p.useWebhook(ctx, gateway)
	}
	if gateway.err == nil {
		gateway.spaceName = spaceOf(gateway.transport)
	}
	return gateway
}

func (p *Poller) useWebhook(ctx context.Context, gateway *projectGateway) error {
	webhook, err := gchat.NewWebhook(ctx, gateway.cfg)
	p.Log.AddSecrets(gateway.cfg.WebhookURL)
	if err != nil {
		return err
	}
	if gateway.readEndpoint == "" {
		gateway.readEndpoint = webhook.LocalEndpoint()
	}
	gateway.transport = gchat.ListedWebhook{
		Webhook: webhook, Endpoint: gateway.readEndpoint, CredentialsFile: gateway.cfg.CredentialsFile,
	}
	return nil
}

func (g *gatewayCache) useApp(ctx context.Context, gateway *projectGateway) error {
	cfg := gateway.cfg
	key := strings.Join(
		[]string{
			cfg.SpaceID,
			cfg.Subscription,
			cfg.CredentialsFile,
			cfg.APIEndpoint,
			cfg.PubSubEndpoint,
		},
		"\x00",
	)
	if g.apps[key] == nil {
		app, err := gchat.NewApp(ctx, cfg)
		if err != nil {
			return err
		}
		g.apps[key] = app
	}
	gateway.transport = g.apps[key]
	return nil
}

// eventSource are what the gateway hears; nil where people's words come by the list
// alone, and where it leads nowhere.
func (w *projectGateway) eventSource() eventSource {
	events, _ := w.transport.(eventSource)
	return events
}

// openReader opens what lists the space. Every transport's space is listed alike, and so
// is one into which nothing can be written at present.
func (w *projectGateway) openReader(ctx context.Context) (*gchat.API, error) {
	return gchat.NewReader(ctx, w.readEndpoint, w.cfg.CredentialsFile)
}

// loadConfig reads a project's configuration afresh: a person who was refused may just
// have set the allowlist.
func (p *Poller) loadConfig(source configSource) *config.Config {
	return p.loadConfigWithPolicy(source, nil)
}

// loadConfigWithPolicy is config. A hub is asked for its policy by policy: for at most
// three seconds, and not while a record is locked.
func (p *Poller) loadConfigWithPolicy(
	source configSource,
	policy config.PolicyReader,
) *config.Config {
	cfg := config.Load(
		state.ProjectEnv(p.Env, source.projectDir, source.isTrusted),
		source.projectDir,
	)
	cfg.ReadPolicy, cfg.RenewsPolicy = policy, true
	p.Log.AddSecrets(cfg.WebhookURL)
	p.Log.ErrorOnce(cfg.ApplyPolicies(context.Background(), p.Env), "policy")
	return cfg
}

// loadPersonalConfig is what the person alone set; see config.LoadPersonal.
func (p *Poller) loadPersonalConfig() *config.Config { return p.loadConfig(configSource{}) }

// loadOwnConfig is the configuration that this process itself goes by. It has a hub's
// policy read again, also where no hook asks.
func (p *Poller) loadOwnConfig() *config.Config {
	return p.loadConfigWithPolicy(
		configSource{state.ProjectDir(p.Env), p.Env("CLAUDE_PROJECT_DIR") != ""},
		gchat.ReadPolicy,
	)
}

// checkCanReply is why a reply to a question could not be used, as things are configured:
// in deny mode it would wait in vain.
func (p *Poller) checkCanReply(ctx context.Context, gateway *projectGateway) error {
	switch {
	case len(gateway.cfg.AllowedUsers) == 0:
		return errors.New("no reply could be used: nobody is on allowed_users")
	case gateway.err != nil, gateway.eventSource() != nil:
		return gateway.err
	}
	_, err := gateway.openReader(ctx)
	if err != nil {
		return fmt.Errorf("no reply could be used: %w", err)
	}
	if trouble := state.SpacesIn(p.userStateDir).Get(gateway.transport.Chat()).ReadTrouble; trouble != nil &&
		(trouble.IsRefused || trouble.IsDegraded) {
		return fmt.Errorf("no reply could be used: %s", trouble.Why)
	}
	return nil
}

func (w *projectGateway) postPart(
	ctx context.Context,
	message *state.Message,
) (gchat.PostedMessage, error) {
	post := gchat.Post{
		Text:       message.Parts[message.PartsSent],
		ThreadName: message.ThreadName,
		ThreadKey:  message.ThreadKey,
		MessageID:  partID(message),
		Viewer:     message.Viewer,
	}
	post.About = aboutOf(message)
	if message.PartsSent+1 == len(message.Parts) {
		post.Card = message.Card
	}
	if message.PatchedMessage != "" {
		err := w.transport.Update(ctx, message.PatchedMessage, post)
		if !errors.Is(err, errors.ErrUnsupported) { // else it is told in a message of its own
			return gchat.PostedMessage{Name: message.PatchedMessage}, err
		}
	}
	posted, err := w.transport.Post(ctx, post)
	if err != nil && post.ThreadName != "" && gchat.IsMalformed(err) {
		// a thread of another space, for which Chat begins none anew
		post.ThreadName = ""
		posted, err = w.transport.Post(ctx, post)
	}
	if err != nil && gchat.IsAlreadyExists(err) {
		found, err := w.findPart(ctx, message)
		if found == nil && err == nil && w.transport.DrawsCards() &&
			message.Type == state.MessageQuestion {
			err = errArrivalUnknown // a tap counts only on a message that is known
		}
		// where messages cannot be read its thread stays unknown
		return *cmp.Or(found, &gchat.PostedMessage{}), err
	}
	return posted, err
}

// aboutOf says what a message is about, which the embedded space's page marks.
func aboutOf(message *state.Message) gchat.About {
	switch {
	case message.Report != nil:
		return gchat.About{
			Kind:    cmp.Or(message.Report.RuleKind, string(message.Report.Type)),
			Session: message.Report.SessionName,
		}
	case message.Note != nil:
		return gchat.About{Kind: "note " + message.Note.About}
	case message.Parts[0] == wording.DialogOverText:
		return gchat.About{Kind: "gone_on"}
	}
	return gchat.About{Kind: string(message.Type)}
}

var errArrivalUnknown = errors.New("not known whether it arrived")

// findPart looks whether that part is in its space: nil where it is not, or where
// messages cannot be read. Chat keeps one message for an id; that this holds for webhooks
// was not measured, so the space is asked before a second try.
func (w *projectGateway) findPart(
	ctx context.Context,
	message *state.Message,
) (*gchat.PostedMessage, error) {
	if message.PatchedMessage != "" { // twice the same card is one
		return nil, nil
	}
	found, err := w.transport.Find(ctx, partID(message), message.FirstTriedAt.Add(-clockSlack))
	isUnreadable := errors.Is(err, errors.ErrUnsupported) || gchat.IsAuthFailure(err)
	switch {
	case err == nil:
		return &found, nil
	case isUnreadable, gchat.IsPermanent(err): // it is not there
		return nil, nil
	}
	return nil, fmt.Errorf("%w: %v", errArrivalUnknown, err) // not as an error of the webhook
}

// partID is the id that Chat keeps one message of. It depends on the part's text: another
// text is another message.
func partID(message *state.Message) string {
	if message.PartsSent == 0 {
		return message.ID
	}
	return state.MessageID(
		message.ID,
		"part",
		message.Parts[message.PartsSent],
		fmt.Sprint(message.PartsSent),
	)
}
