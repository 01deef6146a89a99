package space

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

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
	kit.Must(d.t, answer.Code == http.StatusOK && device.ID != "", "%d %s", answer.Code, answer.Body)
	return device.ID
}

// tapBody is a tap in a device's notification.
func tapBody(device, message, choice string) string {
	return jsonText(map[string]string{"device": device, "message": message, "choice": choice})
}
