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

// Live is what a live run saw, for a person to paste into an issue. It has the name of
// the space, and nothing private.
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

// Probe is a question that Google's documents leave open, and what this space did.
type Probe struct {
	ID       string `json:"id"`
	Question string `json:"asks"`
	Result   string `json:"seen"` // or why it was not tried
}

// probes are tried in this order. Their results change no exit code.
var probes = []Probe{
	{
		"same-id",
		"What is the answer to a second post with one message id?",
		"not tried: no message could be posted",
	},
	{
		"get-by-id",
		"Does the reader find a message by the id it was posted with?",
		"not tried: no credentials, or no message",
	},
	{
		"thread-key",
		"Where does a second post with one thread key arrive?",
		"not tried: no direct message, or no message",
	},
	{
		"card-text",
		"Does a message that is only a card take a text by a patch?",
		"not tried: no Chat app, or it posts no card",
	},
	{
		"same-user",
		"Is the users/ID of the login that of the person's messages?",
		"not tried: no login with a users/ID",
	},
}

// runProbes tries the probes through the same clients that the poller uses.
func (e *exam) runProbes(ctx context.Context, exitCode int) Live {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	e.transport, _ = e.findTransport(ctx)
	e.live = Live{
		Version: e.Version, OS: runtime.GOOS + "/" + runtime.GOARCH, Space: e.space, Kind: "unknown",
		PostsBy:  choose(e.cfg.ReceivesEvents(), "app", "webhook"),
		ExitCode: exitCode, Probes: slices.Clone(probes),
	}
	if e.reader != nil {
		if s, err := e.reader.GetSpace(ctx, e.space); err == nil {
			threading := cmp.Or(s.SpaceThreadingState, "threads unknown")
			e.live.Kind = lowerWords(s.SpaceType + ", " + threading)
		}
	}
	if e.post != nil {
		e.probePosts(ctx)
	}
	var file struct{ Type, User string } // a login's names its person
	b, _ := state.ReadPlainOrLink(e.cfg.CredentialsFile, state.MaxFileSize)
	_ = json.Unmarshal(b, &file)
	e.live.Credentials = lowerWords(cmp.Or(file.Type, "no file"))
	if e.reader != nil && e.cfg.CredentialsFile == config.LoginFile(e.Env) {
		e.live.Credentials = "login"
		me, err := e.reader.Me(ctx)
		if me.Name == "" && e.replier != "" {
			me.Name, err = e.replier, nil
		}
		seen := choose(me.Name == file.User, "same id", "another id, or another person replied")
		e.recordResult("same-user", err, seen)
	}
	return e.live
}

// probePosts tries the probes that post messages. A Chat app deletes its messages
// afterwards. A webhook's messages stay: no scope of a reader allows deleting them.
func (e *exam) probePosts(ctx context.Context) {
	id := "client-verify-" + uuid.NewString()[:8]
	m := gchat.Post{Text: "[Verify] A probe. " + testIsOver, ThreadKey: id}
	send := func(suffix string) (gchat.PostedMessage, error) {
		m.MessageID = id + suffix
		return e.post(ctx, m)
	}
	defer e.deletePosts(context.WithoutCancel(ctx), id)
	first, err := send("-1")
	if err != nil {
		return
	}
	repeated, err := send("-1")
	seen := choose(repeated.Name == first.Name, "same message", "another message")
	e.recordResult("same-id", err, seen)
	if e.reader != nil {
		m, err := e.reader.GetByClientID(ctx, e.space, id+"-1")
		seen := choose(m.Name == first.Name, "200, found", "200, another message")
		e.recordResult("get-by-id", err, seen)
	}
	if e.live.Kind == "unknown" || strings.HasPrefix(e.live.Kind, "direct message") {
		second, err := send("-2")
		seen := choose(second.ThreadName == first.ThreadName, "same thread", "another thread")
		e.recordResult("thread-key", err, seen)
	}
	if e.app != nil {
		m.Card = gchat.StoredCard(wording.NoticeCard("[Verify] A probe.", ""))
		if posted, err := send("-3"); err == nil {
			e.recordResult("card-text", e.app.Patch(ctx, posted.Name, m.Text, m.Card), "200, taken")
		}
	}
}

// deletePosts deletes the app's messages by their ids. Chat may have a message although
// its post failed.
func (e *exam) deletePosts(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	for _, suffix := range []string{"-1", "-2", "-3"} {
		if e.app != nil {
			_ = e.app.Delete(ctx, gchat.MessageName(e.space, id+suffix))
		}
	}
}

func choose(condition bool, yes, no string) string {
	return map[bool]string{true: yes, false: no}[condition]
}

// recordResult records what a probe saw, or a short form of Chat's error, such as "409
// already exists". The error's own text is left out: it may quote an address.
func (e *exam) recordResult(id string, err error, seen string) {
	if answer, isAPIError := errors.AsType[*gchat.APIError](err); isAPIError {
		seen = strings.TrimSpace(strconv.Itoa(answer.HTTP) + " " + lowerWords(answer.Status))
	} else if err != nil {
		seen = "no answer of use"
	}
	i := slices.IndexFunc(e.live.Probes, func(probe Probe) bool { return probe.ID == id })
	e.live.Probes[i].Result = seen
}

func lowerWords(constant string) string {
	return strings.ToLower(strings.ReplaceAll(constant, "_", " "))
}
