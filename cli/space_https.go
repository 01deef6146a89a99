package cli

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// httpsFlags are the flags of setup and space for a page that a phone reaches by https.
func httpsFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: "https",
			Usage: "let a phone reach the page at https://`HOST`/, through a proxy on this machine " +
				"that ends TLS, or with --tls-cert and --tls-key",
		},
		&cli.StringFlag{
			Name: "tls-cert", Usage: "with --https: serve TLS with the certificate in `FILE`",
		},
		&cli.StringFlag{Name: "tls-key", Usage: "the `FILE` of the certificate's key"},
	}
}

// publicPage is where a phone reaches the embedded space's page by https. Its zero value
// is nowhere.
type publicPage struct {
	host     string // HOST or HOST:PORT, as in the address
	certFile string // "" if a proxy ends TLS
	keyFile  string
}

// newPublicPage returns the page that a command's flags describe.
func newPublicPage(c *cli.Context) (page publicPage, err error) {
	const hint = "--https HOST --tls-cert FILE --tls-key FILE, or --https HOST alone behind a proxy"
	certFile, keyFile := c.String("tls-cert"), c.String("tls-key")
	switch {
	case (certFile == "") != (keyFile == ""):
		return page, usageError(errors.New("--tls-cert and --tls-key need each other"), hint)
	case certFile != "" && c.String("https") == "":
		err := errors.New("--tls-cert needs --https HOST, a name of the certificate")
		return page, usageError(err, hint)
	case c.String("https") == "":
		return page, nil
	}
	page.host, err = parseHTTPSHost(c.String("https"))
	if err != nil {
		return page, usageError(err, hint)
	}
	if certFile == "" {
		return page, nil
	}
	// The service runs in another folder.
	page.certFile, err = filepath.Abs(certFile)
	if err == nil {
		page.keyFile, err = filepath.Abs(keyFile)
	}
	return page, err
}

// isHostName reports whether a name is one as a browser sends it.
func isHostName(name string) bool {
	const lettersAndDigits = "abcdefghijklmnopqrstuvwxyz0123456789"
	hasOnly := strings.Trim(name, lettersAndDigits+".-") == ""
	return name != "" && hasOnly && strings.Trim(name, ".-") == name
}

// parseHTTPSHost returns the HOST or HOST:PORT of --https as a browser writes it. A person
// may paste the whole address.
func parseHTTPSHost(text string) (string, error) {
	text = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(text), "https://"), "/")
	u, err := url.Parse("https://" + text)
	if err != nil || u.Host != text {
		return "", fmt.Errorf("%q is not the name of a host", text)
	}
	name := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	ip, err := netip.ParseAddr(name)
	isAddress := err == nil
	isThisMachine := name == "localhost" || strings.HasSuffix(name, ".localhost") ||
		ip.IsLoopback() || ip.IsUnspecified()
	_, portErr := strconv.ParseUint(u.Port(), 10, 16)
	switch {
	case isThisMachine:
		return "", fmt.Errorf("%s is this machine only: no phone reaches it there", name)
	case !isAddress && !isHostName(name), u.Port() != "" && portErr != nil:
		return "", fmt.Errorf("%q is not the name of a host (with other letters than a to z, "+
			"write it as its certificate does: xn--…)", text)
	case u.Port() != "" && u.Port() != "443":
		return net.JoinHostPort(name, u.Port()), nil
	case strings.Contains(name, ":"):
		return "[" + name + "]", nil
	}
	return name, nil
}

// name is the host's name without its port.
func (p publicPage) name() string { return (&url.URL{Host: p.host}).Hostname() }

func (p publicPage) exists() bool    { return p.host != "" }
func (p publicPage) servesTLS() bool { return p.certFile != "" }

// baseURL returns the page's address, if the space listens on a port of this machine.
func (p publicPage) baseURL(port int) string {
	hasPort := (&url.URL{Host: p.host}).Port() != ""
	if p.servesTLS() && !hasPort && port != 443 {
		return fmt.Sprintf("https://%s:%d", p.host, port)
	}
	return "https://" + p.host
}

// flags are the flags by which commands make the same page.
func (p publicPage) flags() []string {
	switch {
	case !p.exists():
		return nil
	case p.servesTLS():
		return []string{"--https", p.host, "--tls-cert", p.certFile, "--tls-key", p.keyFile}
	}
	return []string{"--https", p.host}
}

// check returns why the certificate cannot be used. It is checked where a person sees the
// error. A space that the system runs starts in any case: this machine needs it.
func (p publicPage) check() error {
	if !p.servesTLS() {
		return nil
	}
	certificate := space.Certificate{CertFile: p.certFile, KeyFile: p.keyFile}
	if err := certificate.Check(p.name(), time.Now()); err != nil {
		return exitError(err, "give --tls-cert the certificate of "+p.name()+
			" with its chain, and --tls-key its key", exitFailed)
	}
	return nil
}

// listenTLS returns a listener that serves TLS to the network, if this page does.
func (p publicPage) listenTLS(env state.Getenv, ln net.Listener) net.Listener {
	if !p.servesTLS() {
		return ln
	}
	return space.ListenTLS(ln, &space.Certificate{
		CertFile: p.certFile,
		KeyFile:  p.keyFile,
		OnError: func(err error) {
			state.NewLog(env, "gchat-hooks-space").Error().Err(err).Msg(logCertificateUnusable)
		},
	})
}

const logCertificateUnusable = "the page's certificate cannot be used"

// joinFlags returns flags as the one line that the space's address file keeps. Blanks in a
// word are escaped, since earlier versions split the line at blanks.
func joinFlags(flags []string) string {
	escaper := strings.NewReplacer(
		"%", "%25", " ", "%20", "\t", "%09", "\n", "%0A", "\r", "%0D",
	)
	words := make([]string, len(flags))
	for i, flag := range flags {
		words[i] = escaper.Replace(flag)
	}
	return strings.Join(words, " ")
}

// splitFlags returns the flags in a line of joinFlags.
func splitFlags(line string) []string {
	unescaper := strings.NewReplacer(
		"%25", "%", "%20", " ", "%09", "\t", "%0A", "\n", "%0D", "\r",
	)
	words := strings.Fields(line)
	for i, word := range words {
		words[i] = unescaper.Replace(word)
	}
	return words
}

// setFlags sets a command's flags as they are in a list.
func setFlags(c *cli.Context, flags []string) {
	for len(flags) > 0 {
		name := strings.TrimPrefix(flags[0], "--")
		if name == "phone" || len(flags) == 1 {
			_ = c.Set(name, "true")
			flags = flags[1:]
			continue
		}
		_ = c.Set(name, flags[1])
		flags = flags[2:]
	}
}

// lastPublicPage returns the https address at which the embedded space served its page
// when it ran last, or "".
func lastPublicPage(env state.Getenv) string {
	line, _ := lastSpace(env)
	flags, page, port := splitFlags(line), publicPage{}, 0
	for i := 0; i+1 < len(flags); i++ {
		switch flags[i] {
		case "--https":
			page.host = flags[i+1]
		case "--tls-cert":
			page.certFile = flags[i+1]
		case "--listen":
			_, number, _ := net.SplitHostPort(flags[i+1])
			port, _ = strconv.Atoi(number)
		}
	}
	if !page.exists() {
		return ""
	}
	return page.baseURL(port)
}
