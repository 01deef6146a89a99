package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/hub"
	"gchat-hooks/state/config"
)

func (p Program) hubCommand() *cli.Command {
	return &cli.Command{
		Name:  "hub",
		Usage: "run a team's hub: one Chat app for all their machines (docs/team.md)",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:8767", Usage: "`ADDRESS` to listen at"},
			&cli.StringFlag{Name: "url", Usage: "`URL` at which machines reach it (default: the address)"},
			&cli.StringFlag{Name: "subscription", Usage: "projects/P/subscriptions/APP: the app's events"},
			&cli.StringFlag{Name: "topic", Usage: "projects/P/topics/T: events on their way to the machines"},
			&cli.StringSliceFlag{Name: "domain", Usage: "`DOMAIN` of the e-mail addresses that may join; may be given several times"},
			&cli.StringFlag{Name: "key-file", Usage: "`FILE` of at least 32 random bytes, the same for all replicas: it signs codes and tokens"},
			&cli.StringFlag{Name: "policy", Usage: "`FILE` of what machines may not do; read anew each time"},
			&cli.StringFlag{Name: "tls-cert", Usage: "`FILE` of the certificate"},
			&cli.StringFlag{Name: "tls-key", Usage: "`FILE` of its key"},
			&cli.BoolFlag{Name: "behind-proxy", Usage: "another program ends TLS before it reaches the hub"},
		},
		Action: func(c *cli.Context) error { return p.runHub(c) },
		Subcommands: []*cli.Command{
			{Name: "machines", Usage: "list the machines that have joined", Flags: []cli.Flag{topicFlag()}, Action: p.hubMachines},
			{
				Name: "revoke", Usage: "take away what machines joined with", ArgsUsage: "MACHINE|users/ID",
				Flags: []cli.Flag{topicFlag()}, Action: p.hubRevoke,
			},
		},
	}
}

func topicFlag() cli.Flag {
	return &cli.StringFlag{Name: "topic", Usage: "projects/P/topics/T of the hub"}
}

// newHub prepares the part of a hub that needs no key.
func (p Program) newHub(c *cli.Context, ctx context.Context) (*hub.Hub, error) {
	if !regexp.MustCompile(`^projects/[^/]+/topics/[^/]+$`).MatchString(c.String("topic")) {
		return nil, usage(fmt.Errorf("--topic takes projects/P/topics/T, not %q", c.String("topic")), "gchat-hooks hub --help")
	}
	cfg := config.Personal(p.env)
	o := hub.Options{
		Topic: c.String("topic"), Subscription: c.String("subscription"), Domains: c.StringSlice("domain"), Policy: c.String("policy"),
		URL: strings.TrimSuffix(c.String("url"), "/"), Version: version(), Log: zerolog.New(p.errOut).With().Timestamp().Logger(),
	}
	var err error
	if o.Chat, o.PubSub, err = gchat.Services(c.Context, cfg); err != nil {
		return nil, failed(err, gchat.AppHint(err), exitFailed)
	}
	if file := c.String("key-file"); file != "" {
		key, err := os.ReadFile(file)
		if o.Key = bytes.TrimSpace(key); err == nil && len(o.Key) < 32 {
			err = fmt.Errorf("%s has less than 32 bytes", file)
		}
		if err != nil {
			return nil, failed(err, "head -c 32 /dev/urandom | base64 > FILE, once, for all replicas", exitFailed)
		}
	}
	return hub.New(ctx, o), nil
}

func (p Program) runHub(c *cli.Context) error {
	listen := c.String("listen")
	host, _, err := net.SplitHostPort(listen)
	certificate, key, behind := c.String("tls-cert"), c.String("tls-key"), c.Bool("behind-proxy")
	ip := net.ParseIP(host)
	switch {
	case err != nil:
		return usage(fmt.Errorf("--listen takes HOST:PORT, not %q", listen), "gchat-hooks hub --help")
	case (certificate == "") != (key == ""):
		return usage(errors.New("--tls-cert and --tls-key go together"), "gchat-hooks hub --help")
	case certificate == "" && !behind && !ip.IsLoopback() && host != "localhost":
		return usage(errors.New("tokens would cross the network in the clear"), "give --tls-cert and --tls-key, or --behind-proxy")
	case c.String("key-file") == "" || c.String("subscription") == "" || len(c.StringSlice("domain")) == 0:
		return usage(errors.New("--key-file, --subscription and --domain are needed"), "gchat-hooks hub --help")
	}
	debug.SetMemoryLimit(128 << 20) // thousands of pulls wait at once: what they hold is small, what they leave behind is not
	// A signal ends the pulls under way, and the rest within a while; the second one ends the process.
	h, err := p.newHub(c, c.Context)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	if h.URL == "" {
		scheme := map[bool]string{true: "https://", false: "http://"}[certificate != ""]
		h.URL = scheme + ln.Addr().String()
	}
	server := &http.Server{
		Handler: h.Handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 3 * time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0),
	}
	h.Log.Info().Str("url", h.URL).Str("version", h.Version).Msg("hub started")
	served, relayed := make(chan error, 1), make(chan struct{})
	go func() {
		if certificate != "" {
			served <- server.ServeTLS(ln, certificate, key)
		} else {
			served <- server.Serve(ln)
		}
	}()
	go func() { defer close(relayed); h.Relay(c.Context) }()
	select {
	case err := <-served:
		return err
	case <-c.Context.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(c.Context), 30*time.Second)
	defer cancel()
	err = server.Shutdown(ending)
	<-relayed
	h.Log.Info().Msg("hub ended")
	return err
}

func (p Program) hubMachines(c *cli.Context) error {
	h, err := p.newHub(c, c.Context)
	if err != nil {
		return err
	}
	all, err := h.Machines(c.Context)
	if err != nil {
		return failed(err, gchat.AppHint(err), exitFailed)
	}
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	for _, m := range all {
		fmt.Fprintf(table, "%s\t%s\tjoined %s\n", m.ID, m.User, m.Made.Format("2006-01-02 15:04"))
	}
	return table.Flush()
}

func (p Program) hubRevoke(c *cli.Context) error {
	who := strings.Replace(c.Args().First(), "/", "-", 1)
	h, err := p.newHub(c, c.Context)
	if err != nil || who == "" {
		return usage(errors.Join(err, errors.New("revoke takes a machine, or users/ID")), "gchat-hooks hub machines --topic …")
	}
	all, err := h.Machines(c.Context)
	if err != nil {
		return failed(err, gchat.AppHint(err), exitFailed)
	}
	found := false
	for _, m := range all {
		if m.ID != who && m.User != who {
			continue
		}
		found = true
		if err := h.Revoke(c.Context, m); err != nil {
			return failed(err, gchat.AppHint(err), exitFailed)
		}
		fmt.Fprintf(p.out, "%s of %s is revoked.\n", m.ID, m.User)
	}
	if !found {
		return failed(fmt.Errorf("no machine and no person is called %s", c.Args().First()), "gchat-hooks hub machines", exitFailed)
	}
	return nil
}
