package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/mdp/qrterminal/v3"
	"github.com/urfave/cli/v2"

	"gchat-hooks/poller/ntfy"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

const (
	// defaultCallServer is the ntfy server that setup proposes.
	defaultCallServer = "https://ntfy.sh"
	notifyHint        = "--notify random, --notify https://ntfy.sh/TOPIC, or --notify off"
)

func notifyFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "notify",
		Usage: "notify you on a locked phone through the ntfy topic at `ADDRESS`; " +
			"random: a new one on ntfy.sh; off: do not ask (with --phone, setup asks)",
	}
}

// checkNotifyFlag returns an error if --notify names no topic.
func (s *setupWizard) checkNotifyFlag() error {
	wanted := s.flags.String("notify")
	if wanted == "" || wanted == "off" {
		return nil
	}
	if _, err := topicAddress(wanted); err != nil {
		return usageError(err, notifyHint)
	}
	return nil
}

// topicAddress returns the address of the topic that a person named: by its address, by
// its server, which gets a new topic, or as "random".
func topicAddress(named string) (string, error) {
	named = strings.TrimSuffix(strings.TrimSpace(named), "/")
	if named == "" || named == "random" {
		named = defaultCallServer
	}
	if !strings.Contains(named, "://") {
		named = "https://" + named
	}
	if u, err := url.Parse(named); err == nil && u.Path == "" {
		named += "/gchat-hooks-" + strings.ToLower(rand.Text()) // 130 random bits
	}
	if !config.IsTopicURL(named, false) {
		return "", fmt.Errorf("%q is not the address of an ntfy topic", named)
	}
	return named, nil
}

// offerNotify offers to notify the person on a locked phone, through a topic of ntfy. It
// saves the topic only after its server accepted a test notification. What is configured
// stays.
func (s *setupWizard) offerNotify(ctx context.Context) error {
	wanted := s.flags.String("notify")
	opensPhone := s.spaceServer != nil && s.spaceServer.allowsPhone
	if wanted == "off" || wanted == "" && !(opensPhone && s.asker.isInteractive) {
		return nil
	}
	if notify := s.loadConfig().Notify; notify != nil {
		s.printStep("notify", "kept: you are notified through %s", cleanForTerminal(notify.Place()))
		return nil
	}
	if wanted == "" {
		var err error
		wanted, err = s.askForCallServer(ctx)
		if err != nil || wanted == "" {
			return err
		}
	}
	for {
		err := s.tryTopic(ctx, wanted)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if !s.asker.isInteractive {
			err := errors.New("notifications do not work yet: " + s.errorText(err))
			return exitError(err, notifyHint, exitFailed)
		}
		fmt.Fprintln(s.out, "That did not work:", s.errorText(err))
		wanted, err = s.asker.askLine(ctx,
			"Another ntfy server, or a topic's address (or press Enter to do without):")
		if err != nil || wanted == "" {
			return err
		}
	}
}

// askForCallServer asks whether the person wants notifications, and from which server.
func (s *setupWizard) askForCallServer(ctx context.Context) (server string, err error) {
	isWanted, err := s.asker.askYesNo(ctx, "\nNotify you on a locked phone when nobody answers? "+
		"That needs the free app ntfy (https://ntfy.sh).", !s.spaceServer.public.exists())
	if err != nil || !isWanted {
		return "", err
	}
	server, err = s.asker.askLine(ctx,
		"The ntfy server, or a topic's address (or press Enter for "+defaultCallServer+"):")
	if err == nil && server == "" {
		server = defaultCallServer
	}
	return server, err
}

// tryTopic has the person subscribe to a topic, sends a test notification to it, and saves
// it.
func (s *setupWizard) tryTopic(ctx context.Context, named string) error {
	address, err := topicAddress(named)
	if err != nil {
		return err
	}
	s.printTopic(address)
	if s.asker.isInteractive {
		if _, err := s.asker.askLine(ctx, "Press Enter when the app shows the topic:"); err != nil {
			return err
		}
	}
	notify := &config.Notify{URL: address, Page: s.phonePage()}
	err = ntfy.Send(ctx, s.getenv, notify, &state.Call{
		ID: "setup-" + rand.Text(), Title: "gchat-hooks", Text: "This is how you are notified.",
		Link: notify.Page, Priority: 4,
	})
	if err != nil {
		return err
	}
	_ = state.RecordCall(s.getenv, time.Now(), "") // only the doctor reads it
	member := map[string]string{"url": notify.URL}
	if notify.Page != "" {
		member["page"] = notify.Page
	}
	if err := config.SetMember(state.ConfigFile(s.getenv), "notify", member); err != nil {
		return err
	}
	place := cleanForTerminal(notify.Place())
	s.printStep("notify", "%s accepted a test notification: your phone shows it now", place)
	return nil
}

// printTopic says how a phone subscribes to a topic.
func (s *setupWizard) printTopic(address string) {
	u, err := url.Parse(address)
	if err != nil {
		return
	}
	topic := strings.TrimPrefix(u.Path, "/")
	// The Android app takes such links, the one for iPhones does not: ntfy's page "Subscribe
	// from your phone", July 2025.
	link := "ntfy://" + u.Host + "/" + topic
	if u.Scheme == "http" {
		link += "?secure=false"
	}
	fmt.Fprintln(s.out, "\nInstall the app ntfy. On Android, scan this code to subscribe:")
	qrterminal.GenerateHalfBlock(link, qrterminal.L, s.out)
	fmt.Fprintln(s.out, "On an iPhone, add a subscription (+) in the app:")
	fmt.Fprintln(s.out, "topic: ", topic)
	if server := u.Scheme + "://" + u.Host; server != defaultCallServer {
		fmt.Fprintln(s.out, "server:", server)
	}
	fmt.Fprintln(s.out, "Keep the topic's name to yourself: whoever knows it can read the notifications.")
}

// phonePage is the page's address on a phone, without its key. It is "" if no phone
// reaches the page.
func (s *setupWizard) phonePage() string {
	if s.spaceServer == nil || !s.spaceServer.allowsPhone {
		return ""
	}
	page, _, _ := strings.Cut(s.pageURL, "#")
	if strings.HasPrefix(page, s.spaceServer.baseURL()) {
		return ""
	}
	return page
}
