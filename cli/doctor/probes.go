package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
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
}

// probe tries the probes with the clients of the program.
func (e *exam) probe(ctx context.Context, exitCode int) Live {
	ctx, cancel := context.WithTimeout(ctx, liveBound)
	defer cancel()
	e.way, _ = e.findWay(ctx)
	e.live = Live{
		Version: e.Version, OS: runtime.GOOS + "/" + runtime.GOARCH, Space: e.space, Kind: "unknown",
		PostsBy: either(e.cfg.HearsEvents(), "app", "webhook"), ExitCode: exitCode, Probes: slices.Clone(probes),
	}
	if e.reader != nil {
		if s, err := e.reader.Describe(ctx, e.space); err == nil {
			e.live.Kind = words(s.SpaceType + ", " + cmp.Or(s.SpaceThreadingState, "threads unknown"))
		}
	}
	if e.post != nil {
		e.tryPosts(ctx)
	}
	var file struct{ Type, User string } // a login's names its person
	b, _ := state.ReadLinked(e.cfg.CredentialsFile, state.MostRead)
	_ = json.Unmarshal(b, &file)
	e.live.Credentials = words(cmp.Or(file.Type, "no file"))
	if e.reader != nil && e.cfg.CredentialsFile == config.LoginFile(e.Env) {
		e.live.Credentials = "login"
		me, err := e.reader.Me(ctx)
		if me.Name == "" && e.replier != "" {
			me.Name, err = e.replier, nil
		}
		e.saw("same-user", err, either(me.Name == file.User, "same id", "another id, or another person replied"))
	}
	return e.live
}

// tryPosts are the probes that post. An app deletes its messages; no scope of a reader deletes a webhook's.
func (e *exam) tryPosts(ctx context.Context) {
	id := "client-verify-" + uuid.NewString()[:8]
	m := gchat.Post{Text: "[Verify] A probe. " + over, ThreadKey: id}
	send := func(n string) (gchat.Posted, error) {
		m.MessageID = id + n
		return e.post(ctx, m)
	}
	defer e.remove(context.WithoutCancel(ctx), id)
	first, err := send("-1")
	if err != nil {
		return
	}
	again, err := send("-1")
	e.saw("same-id", err, either(again.Name == first.Name, "same message", "another message"))
	if e.reader != nil {
		m, err := e.reader.ByClientID(ctx, e.space, id+"-1")
		e.saw("get-by-id", err, either(m.Name == first.Name, "200, found", "200, another message"))
	}
	if e.live.Kind == "unknown" || strings.HasPrefix(e.live.Kind, "direct message") {
		second, err := send("-2")
		e.saw("thread-key", err, either(second.ThreadName == first.ThreadName, "same thread", "another thread"))
	}
	if e.app != nil {
		m.Card = gchat.StoredCard(wording.NoticeCard("[Verify] A probe.", ""))
		if posted, err := send("-3"); err == nil {
			e.saw("card-text", e.app.Patch(ctx, posted.Name, m.Text, m.Card), "200, taken")
		}
	}
}

// remove deletes the messages of an app by their ids: Chat may have one also where its post failed.
func (e *exam) remove(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, liveBound)
	defer cancel()
	for _, n := range []string{"-1", "-2", "-3"} {
		if e.app != nil {
			_ = e.app.Delete(ctx, gchat.MessageName(e.space, id+n))
		}
	}
}

func either(is bool, yes, no string) string { return map[bool]string{true: yes, false: no}[is] }

// saw writes down what a probe saw, or Chat's answer in short: "409 already exists". Its own words may quote an address.
func (e *exam) saw(id string, err error, what string) {
	if answer, is := errors.AsType[*gchat.APIError](err); is {
		what = strings.TrimSpace(strconv.Itoa(answer.HTTP) + " " + words(answer.Status))
	} else if err != nil {
		what = "no answer of use"
	}
	i := slices.IndexFunc(e.live.Probes, func(probe Probe) bool { return probe.ID == id })
	e.live.Probes[i].Seen = what
}

func words(constant string) string { return strings.ToLower(strings.ReplaceAll(constant, "_", " ")) }
