package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"gchat-hooks/gchat"
	"gchat-hooks/state/config"
)

// Live is what a live run saw, to be pasted into an issue: the name of the space, and nothing that is private.
type Live struct {
	Version     string  `json:"version"`
	OS          string  `json:"os"`
	Space       string  `json:"space"`       // spaces/S; the embedded one is spaces/local
	Kind        string  `json:"kind"`        // "direct message, threaded messages"
	PostsBy     string  `json:"posts_by"`    // webhook, app
	Credentials string  `json:"credentials"` // "login", or the type of another file
	ExitCode    int     `json:"exit_code"`
	Probes      []Probe `json:"probes"`
}

// A Probe is a question that Google's documents leave open, and what this space did.
type Probe struct {
	ID   string `json:"id"`
	Asks string `json:"asks"`
	Seen string `json:"seen"` // or why it was not tried
}

// probes are tried in this order. What they see is no check.
var probes = []Probe{
	{"same-id", "What is the answer to a second post with one message id?", "not tried: no message could be posted"},
	{"get-by-id", "Does the reader find a message by the id it was posted with?", "not tried: no credentials, or no message"},
	{"thread-key", "Where does a second post with one thread key arrive?", "not tried: no direct message, or no message"},
	{"card-text", "Does a message that is only a card take a text by a patch?", "not tried: no Chat app, or it posts no card"},
	{"same-user", "Is the users/ID of the login that of the person's messages?", "not tried: no login with a users/ID"},
	{"list-lag", "How soon is a message listed?", ""},
}

// prober tries the probes with the clients of the program.
type prober struct {
	*exam
	live   Live
	post   func(context.Context, gchat.Post) (gchat.Posted, error) // nil: there is no way
	app    *gchat.App                                              // nil: a webhook posts
	reader *gchat.Reader                                           // nil: there are no credentials
	user   string                                                  // users/ID of the login
}

// probe tries the probes.
func (e *exam) probe(ctx context.Context, exitCode int) Live {
	p := &prober{exam: e, live: Live{
		Version: e.Version, OS: runtime.GOOS + "/" + runtime.GOARCH, Kind: "unknown", PostsBy: "webhook",
		ExitCode: exitCode, Probes: slices.Clone(probes),
	}}
	tries, cancel := context.WithTimeout(ctx, liveBound)
	defer cancel()
	p.connect(tries)
	if p.post != nil {
		p.tryPosts(tries)
	}
	if p.user != "" {
		me, err := p.reader.Me(tries)
		if me.Name == "" && p.replier != "" {
			me.Name, err = p.replier, nil
		}
		p.saw("same-user", err, either(me.Name == p.user, "same id", "another id, or another person replied"))
	}
	p.saw("list-lag", nil, cmp.Or(p.lag, "not tried: the round trip listed no message"))
	return p.live
}

// connect finds the way to the space, and describes both.
func (p *prober) connect(ctx context.Context) {
	if p.cfg.Subscription != "" {
		p.live.PostsBy = "app"
		if app, err := gchat.NewApp(ctx, p.cfg); err == nil {
			p.post, p.app, p.reader, p.live.Space = app.Post, app, app.Reader(), app.Space
		}
	} else if hook, err := p.webhook(); err == nil {
		p.post, p.live.Space = hook.Post, hook.Space
		p.reader, _ = p.readerOf(ctx, hook)
	}
	if p.reader != nil {
		if s, err := p.reader.Space(ctx, p.live.Space); err == nil {
			p.live.Kind = words(s.SpaceType + ", " + cmp.Or(s.SpaceThreadingState, "threads unknown"))
		}
	}
	var file struct{ Type, User string } // a login's names its person
	b, _ := os.ReadFile(p.cfg.CredentialsFile)
	_ = json.Unmarshal(b, &file)
	p.live.Credentials = words(cmp.Or(file.Type, "no file"))
	if p.reader != nil && p.cfg.CredentialsFile == config.LoginFile(p.Env) {
		p.live.Credentials, p.user = "login", file.User
	}
}

// tryPosts are the probes that post. An app deletes its messages; nobody may delete a webhook's.
func (p *prober) tryPosts(ctx context.Context) {
	var posted []string
	defer func() { p.remove(context.WithoutCancel(ctx), posted) }()
	id := "client-verify-" + uuid.NewString()[:8]
	m := gchat.Post{Text: "[Verify] A probe. " + over, ThreadKey: id}
	send := func(n string) (gchat.Posted, error) {
		m.MessageID = id + n
		posted = append(posted, p.live.Space+"/messages/"+m.MessageID) // Chat may have it where post fails, too
		return p.post(ctx, m)
	}
	first, err := send("-1")
	if err != nil {
		return
	}
	again, err := send("-1")
	p.saw("same-id", err, either(again.Name == first.Name, "same message", "another message"))
	if p.reader != nil {
		m, err := p.reader.ByClientID(ctx, p.live.Space, id+"-1")
		p.saw("get-by-id", err, either(m.Name == first.Name, "200, found", "200, another message"))
	}
	if p.live.Kind == "unknown" || strings.HasPrefix(p.live.Kind, "direct message") {
		second, err := send("-2")
		p.saw("thread-key", err, either(second.ThreadName == first.ThreadName, "same thread", "another thread"))
	}
	if p.app != nil {
		m.Card = gchat.NoticeCard("[Verify] A probe.", "")
		if posted, err := send("-3"); err == nil {
			p.saw("card-text", p.app.Patch(ctx, posted.Name, m.Text, m.Card), "200, taken")
		}
	}
}

// remove deletes an app's messages.
func (p *prober) remove(ctx context.Context, names []string) {
	ctx, cancel := context.WithTimeout(ctx, liveBound)
	defer cancel()
	for _, name := range slices.Compact(names) {
		if p.app != nil {
			_ = p.app.Delete(ctx, name)
		}
	}
}

func either(is bool, yes, no string) string { return map[bool]string{true: yes, false: no}[is] }

// saw writes down what a probe saw, or Chat's answer in short: "409 already exists". Its own words may quote an address.
func (p *prober) saw(id string, err error, what string) {
	var e *gchat.APIError
	if errors.As(err, &e) {
		what = strings.TrimSpace(strconv.Itoa(e.HTTP) + " " + words(e.Status))
	} else if err != nil {
		what = "no answer of use"
	}
	i := slices.IndexFunc(p.live.Probes, func(probe Probe) bool { return probe.ID == id })
	p.live.Probes[i].Seen = what
}

func words(constant string) string { return strings.ToLower(strings.ReplaceAll(constant, "_", " ")) }
