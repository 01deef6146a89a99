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
	"path"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/hub"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func (p Program) hubCommand() *cli.Command {
	topic := &cli.StringFlag{
		Name:  "topic",
		Usage: "`projects/P/topics/T`: events on their way to the machines",
	}
	return &cli.Command{
		Name:        "hub",
		Usage:       "run a team's hub: one Chat app for all of its machines",
		Description: "First set up Google Cloud, as docs/team.md describes.",
		Flags: []cli.Flag{
			topic,
			&cli.StringFlag{
				Name:  "subscription",
				Usage: "`projects/P/subscriptions/APP`: the app's events",
			},
			&cli.StringSliceFlag{
				Name:  "domain",
				Usage: "`DOMAIN` whose e-mail addresses may join; for several, give it again",
			},
			&cli.StringFlag{
				Name:  "key-file",
				Usage: "`FILE` of 32 random bytes or more, the same for all replicas",
			},
			&cli.StringFlag{
				Name:  "policy",
				Usage: "`FILE` that says what machines may not do; read at each use",
			},
			&cli.StringFlag{
				Name:  "listen",
				Value: "127.0.0.1:8767",
				Usage: "`ADDRESS` to listen on",
			},
			&cli.StringFlag{
				Name:  "url",
				Usage: "`URL` where machines reach it (default: the address)",
			},
			&cli.StringFlag{Name: "tls-cert", Usage: "`FILE` of the certificate"},
			&cli.StringFlag{Name: "tls-key", Usage: "`FILE` of its key"},
			&cli.BoolFlag{Name: "behind-proxy", Usage: "another program ends TLS before the hub"},
		},
		Action: p.runHub,
		Subcommands: []*cli.Command{{
			Name: "revoke", Usage: "revoke a machine's access, or that of all of a person's machines; without an argument, list them",
			UsageText: "gchat-hooks hub revoke --topic TOPIC [MACHINE|users/ID]", Flags: []cli.Flag{topic}, Action: p.revokeMachines,
		}},
	}
}

// newHub makes a hub from the flags that are given. `hub revoke` gives fewer than `hub`.
func (p Program) newHub(c *cli.Context) (*hub.Hub, error) {
	topic := c.String("topic")
	if isTopic, _ := path.Match("projects/?*/topics/?*", topic); !isTopic {
		err := fmt.Errorf("--topic must look like projects/P/topics/T, not %q", topic)
		return nil, usageError(err, "gchat-hooks hub --help")
	}
	o := hub.Options{
		Topic:        topic,
		Subscription: c.String("subscription"),
		Domains:      c.StringSlice("domain"),
		Policy:       c.String("policy"),
		URL:          strings.TrimSuffix(c.String("url"), "/"),
		Version:      version(),
		Log:          zerolog.New(p.errOut).With().Timestamp().Logger(),
	}
	if _, err := config.ReadHubPolicy(o.Policy); err != nil {
		return nil, exitError(err, "correct "+o.Policy+"; docs/team.md describes it", exitFailed)
	}
	var err error
	o.Chat, o.PubSub, err = gchat.NewServices(c.Context, config.LoadPersonal(p.env), nil)
	if err != nil {
		return nil, exitError(err, "run it as the hub's service account, "+
			"or set GOOGLE_CHAT_CREDENTIALS_FILE to its key", exitFailed)
	}
	if file := c.String("key-file"); file != "" {
		o.SigningKey, err = readHubKey(file)
		if err != nil {
			return nil, exitError(err, "(umask 077; head -c 32 /dev/urandom | base64 > FILE), "+
				"once, for all replicas", exitFailed)
		}
	}
	return hub.New(c.Context, o), nil
}

// readHubKey reads the key that signs join codes and tokens. Its file must be readable by
// its owner alone. It may be behind a link, as containers mount secrets.
func readHubKey(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	// A file that nobody may write is accepted although all may read it: Cloud Run mounts
	// a secret as 0444, in a container that has no other users.
	const othersRead, ownerWrites = 0o004, 0o200
	if mode := info.Mode().Perm(); mode&othersRead != 0 && mode&ownerWrites != 0 {
		return nil, fmt.Errorf("%s can be read by everybody on this machine (mode %#o): "+
			"chmod 600 it, and make a new key", file, mode)
	}
	key, err := state.ReadPlainOrLink(file, 1<<16)
	if err != nil {
		return nil, err
	}
	key = bytes.TrimSpace(key)
	distinctBytes := map[byte]bool{}
	for _, b := range key {
		distinctBytes[b] = true
	}
	const minDistinct = 8 // 32 random bytes have at least twice as many distinct values
	switch {
	case len(key) < 32:
		return nil, fmt.Errorf("%s has fewer than 32 bytes", file)
	case len(distinctBytes) < minDistinct:
		return nil, fmt.Errorf("%s is not random: it has only %d different bytes", file, len(distinctBytes))
	}
	return key, nil
}

// checkHubFlags returns an error if a hub cannot run with these flags.
func checkHubFlags(c *cli.Context) error {
	host, _, err := net.SplitHostPort(c.String("listen"))
	certificate, key := c.String("tls-cert"), c.String("tls-key")
	isLocal := net.ParseIP(host).IsLoopback() || host == "localhost"
	isUnencrypted := certificate == "" && !c.Bool("behind-proxy") && !isLocal
	_, urlErr := gchat.ParseEndpoint(c.String("url"))
	isSubscription, _ := path.Match("projects/?*/subscriptions/?*", c.String("subscription"))
	isDomain := regexp.MustCompile(`^[\pL\pN-]+(\.[\pL\pN-]+)+$`)
	required := []string{c.String("topic"), c.String("subscription"), c.String("key-file")}
	isIncomplete := slices.Contains(required, "") || len(c.StringSlice("domain")) == 0
	isBadDomain := func(domain string) bool { return !isDomain.MatchString(domain) }
	switch {
	case err != nil:
		return fmt.Errorf("--listen must look like HOST:PORT, not %q", c.String("listen"))
	case (certificate == "") != (key == ""):
		return errors.New("--tls-cert and --tls-key have to be given together")
	case isUnencrypted:
		return errors.New(
			"tokens would cross the network unencrypted: give --tls-cert and --tls-key, or --behind-proxy",
		)
	case isIncomplete:
		return errors.New("--topic, --subscription, --domain and --key-file are required")
	case c.Bool("behind-proxy") && c.String("url") == "":
		return errors.New("--behind-proxy needs --url: the proxy's address, which machines use")
	case urlErr != nil:
		return fmt.Errorf("--url must look like https://HOST, not %q", c.String("url"))
	case !isSubscription:
		return fmt.Errorf("--subscription must look like projects/P/subscriptions/S, not %q",
			c.String("subscription"))
	case slices.ContainsFunc(c.StringSlice("domain"), isBadDomain):
		return fmt.Errorf("--domain must be a name like example.com, not %q", c.StringSlice("domain"))
	}
	return nil
}

// runHub serves until a signal comes. Then the machines' pulls end at once, and other
// requests have 30 seconds to finish.
func (p Program) runHub(c *cli.Context) error {
	if err := checkHubFlags(c); err != nil {
		return usageError(err, "gchat-hooks hub --help")
	}
	certificate, key := c.String("tls-cert"), c.String("tls-key")
	h, err := p.newHub(c)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", c.String("listen"))
	if err != nil {
		return err
	}
	if h.URL == "" && certificate != "" {
		h.URL = "https://" + ln.Addr().String()
	} else if h.URL == "" {
		h.URL = "http://" + ln.Addr().String()
	}
	// Thousands of pulls wait at once. They hold little memory, but leave much garbage.
	debug.SetMemoryLimit(160 << 20)
	server := &http.Server{
		Handler:           h.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      4 * time.Minute,
		IdleTimeout:       3 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	h.Log.Info().Str("url", h.URL).Str("version", h.Version).Msg("hub started")
	serveDone, relayDone := make(chan error, 1), make(chan struct{})
	go func() {
		if certificate != "" {
			serveDone <- server.ServeTLS(ln, certificate, key)
		} else {
			serveDone <- server.Serve(ln)
		}
	}()
	go func() { defer close(relayDone); h.Relay(c.Context) }()
	select {
	case err := <-serveDone:
		return err
	case <-c.Context.Done():
	}
	shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(c.Context), 30*time.Second)
	defer cancel()
	err = server.Shutdown(shutdownCtx)
	<-relayDone
	h.Log.Info().Msg("hub ended")
	return err
}

func (p Program) revokeMachines(c *cli.Context) error {
	target := state.OneLine(c.Args().First())
	listCommand := "gchat-hooks hub revoke --topic " + c.String("topic")
	if c.NArg() > 1 {
		return usageError(errors.New("revoke takes one machine or person, after its flags"),
			listCommand+" MACHINE")
	}
	h, err := p.newHub(c)
	if err != nil {
		return err
	}
	machines, err := h.ListMachines(c.Context)
	var revoked []hub.Machine
	for _, m := range machines {
		if target == "" {
			suffix := map[bool]string{true: "  revoked"}[m.IsRevoked]
			since := m.CreatedAt.Format("2006-01-02 15:04")
			fmt.Fprintf(p.out, "%s  %s  since %s%s\n", m.ID, m.User, since, suffix)
		} else if m.ID == target || m.User == strings.Replace(target, "/", "-", 1) {
			revoked = append(revoked, m)
		}
	}
	if err == nil && target != "" && len(revoked) == 0 {
		return exitError(fmt.Errorf("no machine or person is called %s", target),
			listCommand+" lists them", exitFailed)
	}
	if err == nil {
		err = h.Revoke(c.Context, func(until time.Time) {
			end := until.Add(time.Minute).Format("15:04")
			fmt.Fprintf(p.out, "revoked; waiting until %s: with its join code, it could come back "+
				"until then. Please let this run.\n", end)
		}, revoked...)
	}
	if errors.Is(err, context.Canceled) {
		return errStopped
	} else if err != nil {
		return exitError(err, gchat.AppHint(err), exitFailed)
	}
	for _, m := range revoked {
		fmt.Fprintf(p.out, "revoked: %s  %s\n", m.ID, m.User)
	}
	return nil
}
