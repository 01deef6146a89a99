package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

func (p Program) spaceCommand() *cli.Command {
	return &cli.Command{
		Name:        "space",
		Usage:       "run the embedded space: Google Chat's API and a page, on this machine",
		Description: "Use it without Google:   gchat-hooks space --listen 127.0.0.1:8765",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:0", Usage: "`ADDRESS`; beyond loopback a token is demanded"},
			&cli.StringFlag{Name: "data", Usage: "`DIR` to keep the messages in (default: in the state folder)"},
		},
		Action: func(c *cli.Context) error {
			data := c.String("data")
			if data == "" {
				data = filepath.Join(state.UserState(os.Getenv), "space")
			}
			return runSpace(c.Context, p.out, c.String("listen"), data)
		},
	}
}

// runSpace serves the embedded space until ctx ends. Beyond loopback it demands a token, which its links carry; the hooks
// of this machine reach it on loopback all the same, since they send nothing in the clear elsewhere.
func runSpace(ctx context.Context, out io.Writer, listen, data string) error {
	host, _, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err != nil || host != "" && host != "localhost" && !ip.IsLoopback() && !ip.IsUnspecified() {
		return usage(errors.New("--listen takes 127.0.0.1:PORT, or 0.0.0.0:PORT beyond this machine"), "gchat-hooks space --help")
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	defer ln.Close()
	addr := ln.Addr().(*net.TCPAddr)
	open, local := space.Options{Data: data}, base(addr.IP, addr.Port)
	pages := []string{local}
	if addr.IP.IsUnspecified() {
		if open.Token, err = space.KeptToken(data); err != nil {
			return err
		}
		local, pages = base(net.IPv4(127, 0, 0, 1), addr.Port), reachable(addr.Port)
	}
	s, err := space.Open(open)
	if err != nil {
		return err
	}
	defer s.Close()
	for _, p := range pages {
		fmt.Fprintf(out, "page:  %s\n", s.PageURL(p))
	}
	fmt.Fprintf(out, "\nfor the hooks on this machine, in the shell that starts claude (they stay the same):\n")
	fmt.Fprintf(out, "  export GOOGLE_CHAT_WEBHOOK_URL='%s'\n", s.WebhookURL(local))
	fmt.Fprintf(out, "  export GCHAT_API_ENDPOINT='%s'\n", s.APIEndpoint(local))
	fmt.Fprintf(out, "  export GCHAT_ALLOWED_USERS='%s'\n", space.Human)
	return space.Serve(ctx, ln, s)
}

func base(ip net.IP, port int) string {
	return "http://" + net.JoinHostPort(ip.String(), fmt.Sprint(port))
}

// reachable are the addresses that a phone may find this machine at.
func reachable(port int) (bases []string) {
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			bases = append(bases, base(n.IP, port))
		}
	}
	if len(bases) == 0 {
		bases = []string{base(net.IPv4(127, 0, 0, 1), port)}
	}
	return bases
}
