package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/space"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/state"
)

// localSpace is the embedded space as setup uses it. A nil one is none.
type localSpace struct {
	base  string // http://HOST:PORT
	here  bool   // setup itself serves it
	ended chan error
}

// openSpace has questions go to the embedded space: to one that runs, else to one that setup serves while it talks.
func (s *setup) openSpace(ctx context.Context) error {
	host, _, err := net.SplitHostPort(s.address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return usage(fmt.Errorf("--address %s: hooks reach the space on this machine only, 127.0.0.1:PORT", s.address), "gchat-hooks setup --help")
	}
	data := filepath.Join(state.UserState(s.env), "space")
	if err := s.mayReplace(ctx); err != nil {
		return err
	}
	prefix, err := s.serveSpace(ctx, data)
	if err != nil {
		return err
	}
	raw, err := space.KeptWebhookURL(data, s.space.base)
	if err != nil {
		return err
	}
	members := []settings.Member{{Name: "api_endpoint", Value: nil}}
	if prefix != "" {
		members[0].Value = s.space.base + prefix
	}
	s.endpoint = "" // its own goes before what the environment says
	if err := s.set(ctx, members...); err != nil {
		return err
	}
	if cfg := s.config(); cfg.WebhookURL != raw {
		err = s.tryWebhook(ctx, raw)
	} else {
		s.done("webhook", "the embedded space, %s/", s.space.base)
	}
	return err
}

// mayReplace asks before a webhook is given up that posts somewhere else: its URL stands nowhere but in the configuration.
func (s *setup) mayReplace(ctx context.Context) error {
	known, err := s.known(ctx, s.config())
	if err != nil || known.LocalEndpoint() != "" || s.replace {
		return nil // none that could be lost
	}
	const flag = "gchat-hooks setup --space --replace, or GCHAT_SETUP_REPLACE=1"
	if s.ask.terminal {
		yes, err := s.ask.yes(ctx, "Questions go to "+gchat.Line(known.Chat())+" now. Give that webhook up for the embedded space?", false, flag)
		if err != nil || yes {
			return err
		}
		return errStopped
	}
	return usage(fmt.Errorf("questions go to %s now, and its URL would be lost", gchat.Line(known.Chat())), flag)
}

// openAgain goes on with the embedded space where that is what is configured: the person's own, by its webhook.
func (s *setup) openAgain(ctx context.Context, known *gchat.Webhook) error {
	local, err := url.Parse(known.LocalEndpoint())
	if err != nil || local.Host == "" {
		return nil
	}
	data := filepath.Join(state.UserState(s.env), "space")
	if raw, err := space.KeptWebhookURL(data, "http://"+local.Host); err != nil || idOf(raw, &state.Config{}) != known.ID() {
		return nil
	}
	s.address = local.Host
	_, err = s.serveSpace(ctx, data)
	return err
}

// serveSpace finds the space that runs at the address, or serves it. prefix is what stands before the API's paths, for one
// that demands its token.
func (s *setup) serveSpace(ctx context.Context, data string) (prefix string, err error) {
	if err := s.begun(); err != nil {
		return "", err
	}
	s.space = &localSpace{base: "http://" + s.address}
	if prefix, err = s.space.runs(ctx, data); !errors.Is(err, syscall.ECONNREFUSED) {
		return prefix, err
	}
	ln, err := net.Listen("tcp", s.address)
	if err != nil {
		return "", fmt.Errorf("open the embedded space: %w", err)
	}
	opened, err := space.Open(space.Options{Data: data})
	if err != nil {
		ln.Close()
		return "", failed(err, "a space runs on another address: give that with --address", exitFailed)
	}
	s.space.here, s.space.ended = true, make(chan error, 1)
	go func() {
		err := space.Serve(ctx, ln, opened)
		s.space.ended <- errors.Join(err, opened.Close())
	}()
	return "", nil
}

// runs asks what answers at the address.
func (l *localSpace) runs(ctx context.Context, data string) (prefix string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	status := func(path string) (int, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.base+path+"v1/"+space.Name, nil)
		if err != nil {
			return 0, err
		}
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req) // no proxy: it is this machine
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
		return resp.StatusCode, nil
	}
	code, err := status("/")
	if err == nil && code == http.StatusUnauthorized {
		var token string
		if token, err = space.KeptToken(data); err == nil {
			prefix = "/t/" + token + "/"
			code, err = status(prefix)
		}
	}
	if err != nil {
		return "", fmt.Errorf("ask for the embedded space: %w", err)
	}
	if code != http.StatusOK {
		return "", failed(fmt.Errorf("something else answers at %s", l.base), "gchat-hooks setup --space --address 127.0.0.1:PORT", exitFailed)
	}
	return prefix, nil
}

// person is who types on the space's page.
func (l *localSpace) person() string {
	if l == nil {
		return ""
	}
	return space.Human
}

// page says where the person replies.
func (l *localSpace) page() string {
	if l == nil {
		return ""
	}
	return ", on the page " + l.base + "/"
}

// stay goes on serving the space for a person at the terminal, until they end it; and says how it is served from then on.
func (l *localSpace) stay(ctx context.Context, s *setup) error {
	if l == nil || !l.here {
		return nil
	}
	again := s.command() + " space --listen " + strings.TrimPrefix(l.base, "http://")
	if !s.ask.terminal {
		fmt.Fprintf(s.out, "The space is where questions go, and has to run:  %s\n", again)
		return nil
	}
	fmt.Fprintf(s.out, "The space runs here until you end it with Ctrl-C: %s/\nFrom then on:  %s\n", l.base, again)
	<-ctx.Done()
	return <-l.ended
}
