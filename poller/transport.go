package poller

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// transport takes messages to where they go.
type transport interface {
	// deliver takes the part of a message that goes next.
	deliver(context.Context, *state.Message) (receipt, error)
	// find looks whether an earlier try of that part arrived: nil where not, or where none can know; errUnseen: not yet known.
	find(context.Context, *state.Message) (*receipt, error)
}

// receipt is what a transport knows of a message that it delivered.
type receipt struct {
	Name, ThreadName string    // where Chat said them
	At               time.Time // the server's clock
	Answer           string    // of an agent
}

// outlet is what writes into a space: a webhook, or a Chat app.
type outlet interface {
	Post(context.Context, gchat.Post) (gchat.Posted, error)
	Chat() string // host/spaces/S
	ID() string   // tells one from another
}

// gateway is how a project's messages go: its configuration, and the webhook or the Chat app that this leads to.
type gateway struct {
	cfg   *config.Config
	out   outlet     // nil when err says why
	app   *gchat.App // out, where it is one
	err   error      // config.ErrNoWebhook, gchat.ErrNotWebhook, of the app, or of the command that prints the webhook
	at    time.Time
	reads bool // its space can be read, as far as that is known without asking
}

// gateways are those of the projects, for several goroutines.
type gateways struct {
	mu      sync.Mutex
	ways    map[string]*gateway
	apps    map[string]*gchat.App // each has its tokens
	printed map[string]string     // webhook_url_command → what it printed: a password manager is not asked every second
}

// renew has every gateway begun anew, also what commands print: a secret may have been changed.
func (g *gateways) renew() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ways, g.apps, g.printed = map[string]*gateway{}, map[string]*gchat.App{}, map[string]string{}
}

// gateway is how messages of a project go. A command for the webhook runs once, until what it printed does not work.
func (p *Poller) gateway(ctx context.Context, projectDir string, trusted bool) *gateway {
	const freshFor = time.Second // then its configuration is read again
	g := &p.ways
	g.mu.Lock()
	defer g.mu.Unlock()
	key := fmt.Sprint(projectDir, "\x00", trusted)
	if way := g.ways[key]; way != nil && p.now().Sub(way.at).Abs() < freshFor {
		return way
	}
	way := &gateway{cfg: p.config(projectDir, trusted)}
	if way.cfg.Subscription != "" {
		way.err = g.useApp(ctx, way)
	} else {
		way.err = p.useWebhook(ctx, way)
	}
	way.reads = way.app != nil || way.endpoint() != "" || p.hasCredentials(way.cfg)
	way.at = p.now()
	if ctx.Err() == nil { // a command that we cut says nothing
		g.ways[key] = way
	}
	return way
}

func (p *Poller) useWebhook(ctx context.Context, way *gateway) error {
	command := way.cfg.WebhookCommand
	if command != "" {
		way.cfg.WebhookURL = p.ways.printed[command]
	}
	raw, err := way.cfg.Webhook(ctx)
	if err != nil {
		return err
	}
	p.ways.printed[command] = raw
	p.Log.Hide(raw)
	hook, err := gchat.ConfiguredWebhook(way.cfg, raw)
	if err == nil {
		way.out = hook
	}
	return err
}

// useApp has a project's messages go through the Chat app, which is kept with its tokens.
func (g *gateways) useApp(ctx context.Context, way *gateway) error {
	c := way.cfg
	key := strings.Join([]string{c.SpaceID, c.Subscription, c.CredentialsFile, c.APIEndpoint, c.PubSubEndpoint}, "\x00")
	if way.app = g.apps[key]; way.app == nil {
		app, err := gchat.NewApp(ctx, c)
		if err != nil {
			return err
		}
		way.app, g.apps[key] = app, app
	}
	way.out = way.app
	return nil
}

// space is where a gateway leads to, spaces/S.
func (w *gateway) space() string {
	_, space, _ := strings.Cut(w.out.Chat(), "/")
	return space
}

// config reads a project's configuration afresh: a person who was refused may just have set the allowlist.
func (p *Poller) config(projectDir string, trusted bool) *config.Config {
	c := config.Load(state.ForProject(p.Env, projectDir, trusted), projectDir)
	p.Log.Hide(c.WebhookURL)
	return c
}

// personal is what the person alone set; see config.Personal.
func (p *Poller) personal() *config.Config { return p.config("", false) }

// own is the configuration that this process itself goes by.
func (p *Poller) own() *config.Config {
	return p.config(state.ProjectDir(p.Env), p.Env("CLAUDE_PROJECT_DIR") != "")
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
		if cfg.Sends() || cfg.SpaceID != "" {
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
	if hook, ok := w.out.(*gchat.Webhook); ok && w.cfg.APIEndpoint == "" {
		return hook.LocalEndpoint()
	}
	return w.cfg.APIEndpoint
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
	case way.app != nil:
		return nil
	case !way.reads:
		return errors.New("no reply could be used: there are no credentials to read with")
	}
	if t := state.SpacesIn(p.user()).Of(way.out.Chat()).Trouble; t != nil && (t.Refused || t.Degraded) {
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
	p := gchat.Post{Text: m.Parts[m.PartsSent], ThreadName: m.ThreadName, ThreadKey: m.ThreadKey, MessageID: partID(m)}
	if app := c.way.app; app != nil {
		if m.PartsSent+1 == len(m.Parts) && len(m.Card) > 0 {
			if err := json.Unmarshal(m.Card, &p.Card); err != nil {
				return receipt{}, err
			}
		}
		if m.Patch != "" {
			return receipt{Name: m.Patch}, app.Patch(ctx, m.Patch, p.Text, p.Card)
		}
		if direct, err := app.Direct(ctx); err == nil && !direct {
			p.Viewer = m.Viewer
		}
	}
	posted, err := c.way.out.Post(ctx, p)
	if p.ThreadName != "" && gchat.Malformed(err) { // a thread of another space, for which Chat begins none anew
		p.ThreadName = ""
		posted, err = c.way.out.Post(ctx, p)
	}
	if gchat.AlreadyExists(err) {
		r, err := c.find(ctx, m)
		return *cmp.Or(r, &receipt{}), err // where messages cannot be read its thread stays unknown
	}
	return receipt{Name: posted.Name, ThreadName: posted.ThreadName, At: posted.ServerTime}, err
}

// find looks whether that part is in its space, where messages can be read. Chat keeps one message for an id; that this holds
// for webhooks was not measured, so the space is asked before a second try, and asked again where that fails for a moment.
func (c chat) find(ctx context.Context, m *state.Message) (*receipt, error) {
	if !c.way.reads || m.Patch != "" { // twice the same card is one
		return nil, nil
	}
	var got gchat.Message
	var err error
	if c.way.app != nil {
		got, err = c.way.app.Reader().ByClientID(ctx, c.way.space(), partID(m))
	} else if reader, rerr := c.way.newReader(ctx); rerr != nil {
		return nil, nil
	} else {
		got, err = reader.Posted(ctx, c.way.space(), partID(m), m.TriedAt.Add(-clockSlack))
	}
	switch {
	case err == nil:
		return &receipt{Name: got.Name, ThreadName: got.ThreadName, At: got.CreateTime}, nil
	case gchat.Permanent(err) || gchat.AuthFailure(err): // it is not there, or may not be read
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

const (
	// inArgument is how long a message may be in a command line, in bytes: Linux takes 128 KiB in one argument.
	inArgument = 32 << 10
	// turnBound ends an openclaw that hangs. It waits for the agent's whole turn, which it ends itself after ten minutes.
	turnBound = 15 * time.Minute
	// longestAnswer bounds an agent's answer, in bytes.
	longestAnswer = 4 << 20

	// wakePause is how long a message for an agent waits after its first failure.
	wakePause = 5 * time.Second
	// oldWake is how long a message that was tried often enough is kept.
	oldWake = 24 * time.Hour
	// An agent whose turns fail on a message that it has is given it again for so long, and so often at least.
	failingTurns    = 8
	failingTurnsFor = time.Hour
)

var (
	errUnseen = errors.New("not known whether it arrived")
	// errNoOpenClaw says that there is no openclaw to give a message to.
	errNoOpenClaw = errors.New("openclaw is not in PATH")
	// errTurnFailed says that the gateway has the message, and the agent's turn on it failed: its model did, most probably.
	errTurnFailed = errors.New("the agent has the message, and its turn failed")
)

// openclaw is the transport to OpenClaw's agents.
type openclaw struct{ env state.Getenv }

// find never finds one: openclaw cannot be asked what an agent was told. After a poller that was killed, an agent may be told
// twice.
func (o openclaw) find(context.Context, *state.Message) (*receipt, error) { return nil, nil }

// deliver gives a message to the agent and waits for its turn. An error means that the agent may not have it, or that it could
// not act on it (errTurnFailed).
func (o openclaw) deliver(ctx context.Context, m *state.Message) (receipt, error) {
	program, err := o.program(m.Wake)
	if err != nil {
		return receipt{}, err
	}
	args, text := slices.Clone(m.Wake.Args), ""
	if i := slices.Index(args, "--message"); i >= 0 && i+1 < len(args) {
		text = args[i+1]
		if len(text) > inArgument {
			file := strings.TrimSuffix(m.Path, ".json") + ".txt"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				return receipt{}, fmt.Errorf("message file: %w", err)
			}
			defer os.Remove(file)
			args[i], args[i+1] = "--message-file", file
		}
	}
	ctx, cancel := context.WithTimeout(ctx, turnBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Dir = o.environment(m.Wake), state.Home(o.env) // the session's own folder may be gone before it ends
	out, errs := &bounded{most: longestAnswer}, &bounded{most: 64 << 10}
	cmd.Stdout, cmd.Stderr = out, errs
	// In a session of its own, so that it ends with its children: node starts some.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second // for a child that keeps our pipe open
	err = cmd.Run()
	switch {
	case errors.Is(err, exec.ErrWaitDelay): // it ended well, and left a child behind
		err = nil
	case ctx.Err() != nil:
		return receipt{}, fmt.Errorf("openclaw did not end within %s", state.InWords(turnBound))
	case err != nil:
		err = wakeFailed(err, text, out.String(), errs.String())
	}
	if !m.Wake.Reply {
		return receipt{}, err
	}
	return receipt{Answer: out.String()}, err
}

// wakeFailed is what an exit code other than 0 means, nil when the agent has the message and wants no other. It goes by what
// openclaw 2026.9.6 prints with exit code 1.
func wakeFailed(err error, text, out, errs string) error {
	said := out + "\n" + errs
	if text != "" {
		said = strings.ReplaceAll(said, text, "") // whose words are none of openclaw's
	}
	why := gchat.Cut(gchat.Line(cmp.Or(strings.TrimSpace(errs), strings.TrimSpace(out), "it said nothing")), 300)
	switch {
	case strings.Contains(said, "Agent couldn't generate a response"): // it chose to say nothing; again would be another turn
		return nil
	case strings.Contains(said, "\"runId\"") || strings.Contains(said, "⚠️"):
		return fmt.Errorf("openclaw: %w: %s", errTurnFailed, why)
	}
	return fmt.Errorf("openclaw: %w: %s", err, why)
}

// folders are where openclaw, and node beside it, are looked for: on the PATH of the message's hook, on ours, and where npm and
// Homebrew put them on machines whose daemons get a short PATH. A project's own folder is no place to take programs from.
func (o openclaw) folders(w *state.Wake) []string {
	dirs := append(filepath.SplitList(w.Path), filepath.SplitList(o.env("PATH"))...)
	home := state.Home(o.env)
	dirs = append(dirs, filepath.Join(home, ".npm-global", "bin"), filepath.Join(home, ".local", "bin"),
		"/opt/homebrew/bin", "/usr/local/bin", "/usr/bin")
	return slices.DeleteFunc(dirs, func(dir string) bool { return !filepath.IsAbs(dir) })
}

// program is openclaw, which may have been installed since the message was put.
func (o openclaw) program(w *state.Wake) (string, error) {
	for _, dir := range o.folders(w) {
		if path, err := exec.LookPath(filepath.Join(dir, "openclaw")); err == nil {
			return path, nil
		}
	}
	return "", errNoOpenClaw
}

// environment is ours without our own settings, secrets that are none of openclaw's.
func (o openclaw) environment(w *state.Wake) []string {
	ours := config.Variables()
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		forChat := strings.HasPrefix(name, "GOOGLE_CHAT_") && slices.Contains(ours, name)
		return name == "PATH" || strings.HasPrefix(name, "GCHAT_") || forChat
	})
	return append(env, "PATH="+strings.Join(o.folders(w), string(filepath.ListSeparator)))
}

// notTaken writes down that a message could not be given to its agent, and when it is tried again.
func (s *sender) notTaken(m *state.Message, cause error) step {
	why := s.Log.Clean(cause.Error())
	line := s.Log.Error()
	if m.Tries > 0 {
		line = s.Log.Warn()
	}
	line.Str("error", why).Str("session", m.SessionID).Str("agent", m.Wake.To).Str("trigger", m.Wake.Trigger).
		Int("tries", m.Tries+1).Str("hint", wakeHint(cause)).Msg("wake message not delivered; it waits in the outbox")
	age := s.now().Sub(m.CreatedAt)
	old := age > oldWake || age > failingTurnsFor && errors.Is(cause, errTurnFailed)
	if m.Tries+1 >= failingTurns && old {
		return s.setAside(m, "the agent does not take it: "+why)
	}
	return s.failed(m, why, false, step{until: s.now().Add(backoff(wakePause, m.Tries+1))})
}

func wakeHint(err error) string {
	switch {
	case errors.Is(err, errNoOpenClaw):
		return "npm install -g openclaw, or put it into the PATH that Claude Code runs with"
	case strings.Contains(err.Error(), "inter-session attribution"):
		return "the session was started by an agent's own command, and openclaw refuses what such a one sends; " +
			"start it with: env -u OPENCLAW_SHELL tmux new-session ..."
	}
	return "it is tried again; `gchat-hooks status` shows what waits"
}

// bounded keeps the beginning of what is written to it.
type bounded struct {
	bytes.Buffer
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.most - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
