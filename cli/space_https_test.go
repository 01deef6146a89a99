package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// getPage returns the status of the space's page, asked for with a Host header.
func getPage(t *testing.T, client *http.Client, address, host string) int {
	t.Helper()
	request, err := http.NewRequest("GET", address, nil)
	kit.NoError(t, err)
	request.Host = host
	response, err := client.Do(request)
	kit.NoError(t, err)
	response.Body.Close()
	return response.StatusCode
}

// networkAddress is an address of this machine that is not loopback, or "".
func networkAddress() string {
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	return ""
}

// Behind a proxy that ends TLS, the space listens on loopback and answers to the proxy's
// name. What a person taps there is the answer. The space keeps its flags when it starts
// by itself.
func TestSpace_BehindAProxy(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	upstream, err := url.Parse("http://" + p.address)
	kit.NoError(t, err)
	proxy := kit.NewTLSServer(t, &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(upstream)
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
	})
	local := p.readFile(configFile)
	out := p.mustRun("setup", "--https", "https://Box.Example/", "--listen", p.address, "--no-hooks")
	for _, want := range []string{
		"page:  https://box.example/#key=", "█ ▄▄▄▄▄ █", "Answer on the page, https://box.example/#key=",
		"A proxy on this machine has to serve https://box.example/ and pass it on to http://" + p.address,
	} {
		kit.Containsf(t, out, want, "setup --https")
	}
	kit.Equalf(t, p.readFile(configFile), local, "the configuration")
	if elsewhere := networkAddress(); elsewhere != "" {
		_, err := net.Dial("tcp", net.JoinHostPort(elsewhere, fmt.Sprint(p.port())))
		kit.True(t, err != nil, "the space listens on %s", elsewhere)
	}
	for host, want := range map[string]int{
		"box.example": 200, p.address: 200, "evil.example": 403, "192.0.2.1": 403,
	} {
		kit.Equalf(t, getPage(t, proxy.Client(), proxy.URL, host), want, "by the proxy, as %s", host)
	}

	doctor, _ := p.run("doctor")
	kit.Containsf(t, doctor, "page.https", "the doctor")
	kit.Containsf(t, doctor, "no phone reaches this page at https://box.example/", "the doctor")

	endSpace(p.getenv)
	thread, answer := p.ask("one") // a poller starts the space
	out = p.wantRun(0, "is already running", "space")
	page := regexp.MustCompile(`https://box.example/#key=\S+`).FindString(out)
	transport := proxy.Client().Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.ServerName = "example.com" // the proxy's certificate
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, proxy.Listener.Addr().String())
	}
	defer transport.CloseIdleConnections()
	p.phone = &http.Client{Transport: transport}
	p.replyOnPage(page, thread, "2")
	kit.Containsf(t, answer(), `"Which DB in one?":"Postgres"`, "answered by the proxy")
}

// With a certificate the space serves TLS at its own port. This machine's programs reach
// it as before. A pair that cannot be used is refused in words.
func TestSpace_ServesTLS(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	cert, key := kit.WriteCertificate(t, p.path("my keys"), "box.example", time.Now().Add(time.Hour))
	expired, expiredKey := kit.WriteCertificate(t, p.path("old"), "box.example",
		time.Now().Add(-time.Minute))
	setup := func(host, cert, key string) []string {
		return []string{
			"setup", "--no-hooks", "--listen", p.address,
			"--https", host, "--tls-cert", cert, "--tls-key", key,
		}
	}
	p.wantRun(1, "does not belong to the certificate", setup("box.example", cert, expiredKey)...)
	p.wantRun(1, "expired on", setup("box.example", expired, expiredKey)...)
	p.wantRun(1, "not for other.example", setup("other.example", cert, key)...)
	p.wantRun(4, "need each other", "space", "--https", "box.example", "--tls-cert", cert)
	p.wantRun(4, "needs --https", "space", "--tls-key", key, "--tls-cert", cert)
	p.wantRun(4, "no phone reaches it", "space", "--https", "localhost")
	p.wantRun(4, "is not the name of a host", "space", "--https", "box.example/path")

	address := fmt.Sprintf("https://box.example:%d/", p.port())
	out := p.mustRun(setup("box.example", cert, key)...)
	kit.Containsf(t, out, "page:  "+address+"#key=", "setup --tls-cert")
	kit.True(t, !strings.Contains(out, "A proxy"), "it speaks of a proxy:\n%s", out)
	endSpace(p.getenv)
	p.mustRun("send", "words") // starts the space, with a blank in the paths
	insecure := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer insecure.CloseIdleConnections()
	client := &http.Client{Transport: insecure}
	ips := []string{"127.0.0.1"}
	if elsewhere := networkAddress(); elsewhere != "" {
		ips = append(ips, elsewhere)
	}
	for _, ip := range ips {
		at := fmt.Sprintf("https://%s:%d/", ip, p.port())
		kit.Equalf(t, getPage(t, client, at, "box.example"), 200, "by https at %s", ip)
		kit.Equalf(t, getPage(t, client, at, "evil.example"), 403, "by https at %s, as another host", ip)
	}
	kit.Equalf(t, getPage(t, client, "http://"+p.address, ""), 200, "by http on loopback")
	if len(ips) > 1 {
		plain := fmt.Sprintf("http://%s:%d/", ips[1], p.port())
		kit.Equalf(t, getPage(t, client, plain, "box.example"), 400, "by http from the network")
	}

	// without its certificate it serves this machine, and the log says why no phone
	endSpace(p.getenv)
	p.mustExecute("mv", cert, cert+".away")
	p.mustRun("send", "words")
	_, err := client.Get("https://" + p.address)
	kit.True(t, err != nil, "TLS without a certificate")
	bound.Until(t, "the log has it", func() bool {
		return strings.Contains(p.readFile(".claude/logs/gchat-hooks.log"), logCertificateUnusable)
	})
}

func TestPublicPage_HostAsABrowserWritesIt(t *testing.T) {
	for text, want := range map[string]string{
		"box.example": "box.example", "https://Box.Example/": "box.example",
		"box.example.": "box.example", "box.example:443": "box.example",
		"box.example:8443": "box.example:8443", "192.0.2.1": "192.0.2.1",
		"[2001:db8::1]:8443": "[2001:db8::1]:8443", "[2001:db8::1]": "[2001:db8::1]",
		"": "", "localhost": "", "a.localhost:1": "", "127.0.0.1": "", "0.0.0.0": "", "[::1]": "",
		"http://box.example": "", "box.example/x": "", "box.example?x": "", "a@box.example": "",
		"bücher.example": "", "box example": "", "box.example:99999": "", "-x": "", "a\nb": "",
	} {
		got, err := parseHTTPSHost(text)
		kit.True(t, got == want && (err == nil) == (want != ""), "%q: %q, %v", text, got, err)
	}
}

// The flags of the last space are read as they were written, and as earlier versions
// wrote them.
func TestPublicPage_FlagsSurvive(t *testing.T) {
	flags := []string{
		"--listen", "127.0.0.1:8765", "--phone", "--https", "box.example", "--tls-cert", "/a b/%20\tc",
	}
	kit.Equal(t, splitFlags(joinFlags(flags)), flags)
	kit.Equal(t, splitFlags("--listen 127.0.0.1:1 --phone"), []string{"--listen", "127.0.0.1:1", "--phone"})
}
