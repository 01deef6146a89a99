package space

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/pushservice"
)

// pushDesk is a space with devices at a push service's stand-in, and its app.
type pushDesk struct {
	*cardDesk
	service *pushservice.Service
	dir     string

	mu       sync.Mutex
	settings PushSettings
}

func newPushDesk(t *testing.T) *pushDesk {
	t.Helper()
	d := &pushDesk{service: pushservice.New(t), dir: t.TempDir()}
	d.settings.AllowedHosts = []string{d.service.Host()}
	d.open(t)
	return d
}

// open opens the space, or opens it again after d.s was closed.
func (d *pushDesk) open(t *testing.T) {
	t.Helper()
	s, err := Open(d.options())
	kit.NoError(t, err)
	srv := serveWith(t, s, s.Handler().ServeHTTP)
	asked := map[string]*askedQuestion{}
	if d.cardDesk != nil {
		asked = d.asked
	}
	d.cardDesk = newCardDeskOf(t, s, srv.URL, newApp(t, s, srv.URL))
	d.asked = asked
}

func (d *pushDesk) options() Options {
	return Options{
		DataDir: d.dir, IsDirect: true, HTTPSHost: "chat.example.org", PushSettings: d.pushSettings,
		pushRoots: d.service.Roots(), pushRetryPause: time.Millisecond,
	}
}

func (d *pushDesk) pushSettings() PushSettings {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.settings
}

func (d *pushDesk) set(change func(*PushSettings)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.settings)
}

// call makes a request as the page does.
func (d *pushDesk) call(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	headers = append([]string{
		pageKeyField(d.s), "Content-Type: application/json", "Host: chat.example.org",
	}, headers...)
	return callHandler(d.s, method, path, body, headers...)
}

func (d *pushDesk) wantStatus(want int, method, path, body string) {
	d.t.Helper()
	got := d.call(method, path, body)
	kit.Equalf(d.t, got.Code, want, "%s %s %s: %s", method, path, body, got.Body)
}

// addBrowser has a browser subscribe, and returns the id of its device.
func (d *pushDesk) addBrowser(name string) (b *pushservice.Browser, id string) {
	d.t.Helper()
	b = d.service.Subscribe(name)
	return b, d.addDevice(b)
}

func (d *pushDesk) addDevice(b *pushservice.Browser) (id string) {
	d.t.Helper()
	answer := d.call("POST", "/page/push/devices",
		`{"name":"`+b.Name+`","subscription":`+b.JSON()+`}`, "Origin: https://chat.example.org")
	var device struct{ ID string }
	kit.NoError(d.t, json.Unmarshal(answer.Body.Bytes(), &device))
	isAdded := answer.Code == http.StatusOK && device.ID != ""
	kit.Must(d.t, isAdded, "%d %s", answer.Code, answer.Body)
	return device.ID
}

// tapBody is a tap in a device's notification.
func tapBody(device, message, choice string) string {
	return jsonText(map[string]string{"device": device, "message": message, "choice": choice})
}

// servePushes serves the space in a folder, and prints its address.
func servePushes(dir string) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(os.Getenv("SPACE_TEST_ROOTS")))
	hosts := []string{os.Getenv("SPACE_TEST_PUSH_HOST")}
	s, err := Open(Options{
		DataDir: dir, IsDirect: true, pushRoots: &tls.Config{RootCAs: roots},
		pushRetryPause: time.Millisecond,
		PushSettings:   func() PushSettings { return PushSettings{AllowedHosts: hosts} },
	})
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + ln.Addr().String())
	return Serve(context.Background(), ln, s)
}

// pushProcess is a space in a process of its own, which the test kills.
type pushProcess struct {
	*pushDesk
	cmd *exec.Cmd
}

// start starts the process, again after kill.
func (p *pushProcess) start(t *testing.T) {
	t.Helper()
	p.cmd = bound.Command(t, os.Args[0])
	p.cmd.Env = append(os.Environ(), "SPACE_TEST_SERVE="+p.dir,
		"SPACE_TEST_PUSH_HOST="+p.service.Host(),
		"SPACE_TEST_ROOTS="+string(p.service.CertificatePEM()))
	out, err := p.cmd.StdoutPipe()
	kit.NoError(t, err)
	kit.NoError(t, p.cmd.Start())
	base, err := bufio.NewReader(out).ReadString('\n')
	kit.NoError(t, err)
	s, err := LoadAddresses(p.dir)
	kit.NoError(t, err)
	base = strings.TrimSpace(base)
	asked := map[string]*askedQuestion{}
	if p.cardDesk != nil {
		asked = p.asked
	}
	p.cardDesk = newCardDeskOf(t, s, base, newApp(t, s, base))
	p.asked = asked
}

func (p *pushProcess) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}
