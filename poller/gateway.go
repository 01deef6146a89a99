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

// projectGateway is a project's configuration and the transport that it leads to.
type projectGateway struct {
	cfg       *config.Config
	transport transport // nil where err says why
	// err is config.ErrNoWebhook, gchat.ErrNotWebhook, an error of the app, or one of the
	// command that prints the webhook.
	err      error
	loadedAt time.Time

	spaceName string // spaces/S; "" where err says why there is none
	// readEndpoint is the server that lists the space: the configured one, else the
	// server of a webhook on this machine, else Google ("").
	readEndpoint string
}

type gatewayCache struct {
	mu       sync.Mutex
	bySource map[configSource]*projectGateway
	apps     map[string]*gchat.App // by their settings; each app keeps its tokens
	// webhookOutputs are what each webhook_url_command printed. So a password manager is
	// not asked every second.
	webhookOutputs map[string]string
}

// reset forgets all gateways, and what the commands printed: a secret may have been
// changed.
func (g *gatewayCache) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bySource = map[configSource]*projectGateway{}
	g.apps = map[string]*gchat.App{}
	g.webhookOutputs = map[string]string{}
}

// gatewayFor returns a project's gateway. It reads the configuration once a second at
// most. A command for the webhook runs once; it runs once more after its webhook failed.
func (p *Poller) gatewayFor(ctx context.Context, source configSource) *projectGateway {
	const maxAge = time.Second
	cache := &p.gateways
	cache.mu.Lock()
	defer cache.mu.Unlock()
	cached := cache.bySource[source]
	if cached != nil && p.Now().Sub(cached.loadedAt).Abs() < maxAge {
		return cached
	}
	cfg := p.loadConfig(source)
	if cfg.WebhookCommand != "" {
		cfg.WebhookURL = cache.webhookOutputs[cfg.WebhookCommand]
	}
	gateway := p.openGateway(ctx, cfg)
	gateway.loadedAt = p.Now()
	if ctx.Err() == nil { // else the command may have been interrupted
		cache.bySource[source] = gateway
		cache.webhookOutputs[cfg.WebhookCommand] = cfg.WebhookURL
	}
	return gateway
}

// openGateway returns the gateway that a configuration leads to.
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
	gateway.readEndpoint = cmp.Or(gateway.readEndpoint, webhook.LocalEndpoint())
	gateway.transport = gchat.ListedWebhook{
		Webhook:         webhook,
		Endpoint:        gateway.readEndpoint,
		CredentialsFile: gateway.cfg.CredentialsFile,
	}
	return nil
}

func (g *gatewayCache) useApp(ctx context.Context, gateway *projectGateway) error {
	cfg := gateway.cfg
	key := strings.Join([]string{
		cfg.SpaceID, cfg.Subscription, cfg.CredentialsFile, cfg.APIEndpoint, cfg.PubSubEndpoint,
	}, "\x00")
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

// eventSource returns the gateway's transport where it brings events. It is nil where
// only the list brings messages, and where the gateway has no transport.
func (g *projectGateway) eventSource() eventSource {
	events, _ := g.transport.(eventSource)
	return events
}

// openReader returns an API client that lists the space. All transports' spaces are
// listed in the same way. A space can be listed even where nothing can be posted to it.
func (g *projectGateway) openReader(ctx context.Context) (*gchat.API, error) {
	return gchat.NewReader(ctx, g.readEndpoint, g.cfg.CredentialsFile)
}

// loadConfig reads a project's configuration from disk each time: a person who was
// refused may just have changed the list of allowed users.
func (p *Poller) loadConfig(source configSource) *config.Config {
	return p.loadConfigWithPolicy(source, nil)
}

// loadConfigWithPolicy is loadConfig. readPolicy asks a hub for its policy, which takes
// up to three seconds. So the caller must hold no record's lock. Nil asks no hub.
func (p *Poller) loadConfigWithPolicy(
	source configSource,
	readPolicy config.PolicyReader,
) *config.Config {
	env := state.ProjectEnv(p.Env, source.projectDir, source.isTrusted)
	cfg := config.Load(env, source.projectDir)
	cfg.ReadPolicy, cfg.RenewsPolicy = readPolicy, true
	p.Log.AddSecrets(cfg.WebhookURL)
	p.Log.ErrorOnce(cfg.ApplyPolicies(context.Background(), p.Env), "policy not applied")
	return cfg
}

// loadPersonalConfig returns what the person alone set; see config.LoadPersonal.
func (p *Poller) loadPersonalConfig() *config.Config { return p.loadConfig(configSource{}) }

// loadOwnConfig returns the configuration that this process itself goes by. It also
// renews the hub's policy where no hook asks for it.
func (p *Poller) loadOwnConfig() *config.Config {
	source := configSource{state.ProjectDir(p.Env), p.Env("CLAUDE_PROJECT_DIR") != ""}
	return p.loadConfigWithPolicy(source, gchat.ReadPolicy)
}

// checkCanReply returns an error where no reply to a question could be used, as things
// are configured. A question in deny mode would then wait for nothing.
func (p *Poller) checkCanReply(ctx context.Context, gateway *projectGateway) error {
	switch {
	case len(gateway.cfg.AllowedUsers) == 0:
		return errors.New("replies cannot be used: nobody is on allowed_users")
	case gateway.err != nil, gateway.eventSource() != nil:
		return gateway.err
	}
	_, err := gateway.openReader(ctx)
	if err != nil {
		return fmt.Errorf("replies cannot be read: %w", err)
	}
	trouble := state.SpacesIn(p.userStateDir).Get(gateway.transport.Chat()).ReadTrouble
	if trouble != nil && (trouble.IsRefused || trouble.IsDegraded) {
		return fmt.Errorf("replies cannot be read: %s", trouble.Why)
	}
	return nil
}

// postPart posts the part of a message that goes next, or updates the message that it
// replaces.
func (g *projectGateway) postPart(
	ctx context.Context,
	message *state.Message,
) (gchat.PostedMessage, error) {
	post := gchat.Post{
		Text:       message.Parts[message.PartsSent],
		ThreadName: message.ThreadName,
		ThreadKey:  message.ThreadKey,
		MessageID:  partID(message),
		Viewer:     message.Viewer,
		About:      aboutOf(message),
	}
	if message.PartsSent+1 == len(message.Parts) {
		post.Card, post.UploadTokens = message.Card, message.UploadTokens
	}
	if message.PatchedMessage != "" {
		err := g.transport.Update(ctx, message.PatchedMessage, post)
		if !errors.Is(err, errors.ErrUnsupported) { // else it goes as a message of its own
			return gchat.PostedMessage{Name: message.PatchedMessage}, err
		}
	}
	posted, err := g.transport.Post(ctx, post)
	if err != nil && post.ThreadName != "" && gchat.IsMalformed(err) {
		// The thread is one of another space, and Chat starts no new one in its place.
		post.ThreadName = ""
		posted, err = g.transport.Post(ctx, post)
	}
	if err == nil || !gchat.IsAlreadyExists(err) {
		return posted, err
	}
	found, err := g.findPart(ctx, message)
	needsName := g.transport.DrawsCards() && message.Type == state.MessageQuestion
	if found == nil && err == nil && needsName {
		err = errArrivalUnknown // a tap counts only on a message whose name is known
	}
	// Where messages cannot be read, its name and thread stay unknown.
	return *cmp.Or(found, &gchat.PostedMessage{}), err
}

// aboutOf returns what a message is about. The embedded space's page marks it so.
func aboutOf(message *state.Message) gchat.About {
	about := gchat.About{Kind: string(message.Type), SessionID: message.SessionID}
	switch {
	case message.Report != nil:
		about.Kind = cmp.Or(message.Report.RuleKind, string(message.Report.Type))
		about.Session = message.Report.SessionName
	case message.Note != nil:
		about.Kind = "note " + message.Note.About
	case message.Parts[0] == wording.DialogOverText:
		about.Kind = "gone_on"
	}
	return about
}

var errArrivalUnknown = errors.New("the message may have arrived; the space cannot be searched")

// findPart searches a message's space for the part that goes next. It returns nil where
// the part is not there, and where messages cannot be read. Chat keeps one message for an
// id. Whether this holds for webhooks was not measured, so the poller searches the space
// before a second try.
func (g *projectGateway) findPart(
	ctx context.Context,
	message *state.Message,
) (*gchat.PostedMessage, error) {
	if message.PatchedMessage != "" { // a second update with the same card does no harm
		return nil, nil
	}
	found, err := g.transport.Find(ctx, partID(message), message.FirstTriedAt.Add(-clockSlack))
	isUnreadable := errors.Is(err, errors.ErrUnsupported) || gchat.IsAuthFailure(err)
	switch {
	case err == nil:
		return &found, nil
	case isUnreadable, gchat.IsPermanent(err): // a permanent error means that it is not there
		return nil, nil
	}
	// %v: a failure to read must not count as one of the webhook.
	return nil, fmt.Errorf("%w: %v", errArrivalUnknown, err)
}

// partID returns the id under which Chat keeps one message for a part. It depends on the
// part's text: another text is another message.
func partID(message *state.Message) string {
	if message.PartsSent == 0 {
		return message.ID
	}
	part, number := message.Parts[message.PartsSent], fmt.Sprint(message.PartsSent)
	return state.MessageID(message.ID, "part", part, number)
}
