package login

import (
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

func TestBrowser_OpensAtADesktopOnly(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the stand-in is called xdg-open")
	}
	dir := t.TempDir()
	args := filepath.Join(dir, "args")
	kit.NoError(t, os.WriteFile(filepath.Join(dir, "xdg-open"),
		[]byte("#!/bin/sh\nprintf '%s\\n' \"$@\" >"+args+".new && mv "+args+".new "+args+
			"\n"), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	env := func(m map[string]string) func(string) string { return func(name string) string { return m[name] } }
	for _, none := range []map[string]string{{},
		{"DISPLAY": ":0", "SSH_CONNECTION": "1.2.3.4 5 6.7.8.9 22"},
		{"WAYLAND_DISPLAY": "w", "SSH_TTY": "/dev/pts/1"}} {
		err := openBrowser(env(none), "https://accounts.example/auth")
		kit.True(t, err != nil, "%v: a browser was opened", none)
	}
	address := "https://accounts.example/auth?a=b&c=$(id)"
	kit.NoError(t, openBrowser(env(map[string]string{"DISPLAY": ":0"}), address))
	var got []byte
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) &&
		len(got) == 0; time.Sleep(5 * time.Millisecond) {
		got, _ = os.ReadFile(args)
	}
	kit.Equalf(t, string(got), address+"\n", "xdg-open got %q", got)
}

func TestBrowser_DoesNotOpen(t *testing.T) {
	p := newPerson(t)
	o := p.options()
	o.OpenBrowser = func(address string) error {
		go p.browse(address)
		return errors.New("no such program")
	}
	p.logIn(o)
	kit.Contains(t, p.out.String(), "Open this in a browser")
}

// requestPage sends a request to the port that waits for the browser.
func requestPage(t *testing.T, address string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, address, nil)
	kit.NoError(t, err)
	// what is taken for the browser gets no answer before the login ends
	resp, err := (&http.Client{Timeout: 5 * time.Second}).Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func TestBrowser_HostileCallbacks(t *testing.T) {
	p := newPerson(t)
	o := p.options()
	o.OpenBrowser = func(address string) error {
		u, _ := url.Parse(address)
		back, state := u.Query().Get("redirect_uri"), u.Query().Get("state")
		with := func(q url.Values) string { return back + "?" + q.Encode() }
		for name, c := range map[string]struct {
			address string
			status  int
		}{
			"no state": {with(url.Values{"code": {"4/0Aforeign-code"}}), 400},
			"wrong state": {with(url.Values{"code": {"4/0Aforeign-code"}, "state": {"x" + state}}),
				400},
			"half a state": {with(url.Values{"code": {"4/0Aforeign-code"}, "state": {state[:10]}}),
				400},
			"wrong error": {with(url.Values{"error": {"access_denied"}, "state": {"x"}}), 400},
			"nothing":     {back, 400},
			"an icon":     {back + "favicon.ico", 400},
			"endless": {with(url.Values{"state": {state},
				"code": {strings.Repeat("a", 1<<20)}}), 431},
		} {
			// The endless one may be cut off before its answer is read.
			if status, page := requestPage(t, c.address); status != c.status && !(name == "endless" && status == 0) {
				t.Errorf("%s: %d %s", name, status, page)
			} else if strings.Contains(page, state) || strings.Contains(page, "foreign-code") {
				t.Errorf("%s: the page repeats what it was sent: %s", name, page)
			}
		}
		go p.browse(address)
		return nil
	}
	kit.Equal(t, p.logIn(o), "users/7")
	kit.Containsf(t, <-p.pages, "You are logged in", "page")
}

func TestBrowser_FirstCallbackCounts(t *testing.T) {
	p := newPerson(t)
	o := p.options()
	var first url.Values
	p.callback = func(q url.Values) { first = q }
	exchanges := 0
	pages := make(chan string, 2)
	p.tokenHandler = func(w http.ResponseWriter, r *http.Request) bool {
		_ = r.ParseForm()
		if r.PostForm.Get("grant_type") != "authorization_code" {
			return false
		}
		exchanges++
		// The first is being exchanged: the same again, and another's code with the right
		// state.
		for _, code := range []string{first.Get("code"), "4/0Aanother-code"} {
			second := url.Values{"state": first["state"], "code": {code}}
			address := r.PostForm.Get("redirect_uri") + "?" + second.Encode()
			go func() {
				_, page := requestPage(t, address)
				pages <- page
			}()
		}
		return false
	}
	p.logIn(o)
	kit.Equalf(t, exchanges, 1, "exchanges")
	kit.Containsf(t, <-p.pages, "You are logged in", "page")
	for range 2 {
		<-pages
	}
}

// browseElsewhere acts as a person whose browser is on another machine. It returns the
// address of the page that the browser cannot show, which the person copies.
func (p *person) browseElsewhere(t *testing.T, address string) (ended *url.URL) {
	t.Helper()
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Get(address)
	kit.NoError(t, err)
	resp.Body.Close()
	ended, err = resp.Location()
	kit.NoError(t, err)
	return ended
}

func TestBrowser_PastedAddress(t *testing.T) {
	for name, form := range map[string]func(*url.URL) string{
		"the address": func(u *url.URL) string { return u.String() },
		"in quotes":   func(u *url.URL) string { return ` "` + u.String() + `" ` },
		"without its scheme": func(u *url.URL) string {
			return strings.TrimPrefix(u.String(),
				"http://")
		},
		"its query": func(u *url.URL) string { return "?" + u.RawQuery },
		"by another name": func(u *url.URL) string {
			return strings.Replace(u.String(),
				"127.0.0.1", "localhost", 1)
		},
	} {
		p := newPerson(t)
		o := p.options()
		lines := make(chan string)
		o.NextLine, o.NoBrowser = func() <-chan string { return lines }, true
		go func() {
			for _, l := range []string{"", "   ", "hello", "https://accounts.google.com/?%zz",
				"4/0Aa-code-alone", "http://127.0.0.1/?code=4/0A",
				"http://127.0.0.1/?state=x&code=4/0Aof-another-login",
				"http://127.0.0.1/?state=x&error=access_denied"} {
				lines <- l
			}
			m := addressPattern.FindStringSubmatch(p.out.String())
			lines <- form(p.browseElsewhere(t, m[1]))
		}()
		kit.Equalf(t, p.logIn(o), "users/7", "%s: the user", name)
		out := p.out.String()
		kit.True(t, len(p.opened) == 0 &&
			strings.Count(out, "That address is not this login's") == 6 &&
			strings.Contains(out, "Open this in a browser"),
			"%s: %d browsers; said %s", name, len(p.opened), out)
		p.checkNoSecrets(out)
	}
}

func TestBrowser_EndOfInput(t *testing.T) {
	p := newPerson(t)
	o := p.options()
	lines := make(chan string)
	close(lines) // as in a script
	o.NextLine = func() <-chan string { return lines }
	p.logIn(o)
}

// FuzzPaste reads whatever a clipboard may hold.
func FuzzPaste(f *testing.F) {
	for _, s := range []string{"http://127.0.0.1:1/?state=STATE&code=4/0A",
		"?state=STATE&error=access_denied", "%zz?%zz", "://", "state=STATE"} {
		f.Add(s)
	}
	b := &callbackServer{state: rand.Text()}
	f.Fuzz(func(t *testing.T, line string) {
		answer := pastedCallback(line)
		kit.True(t, !b.isOurs(answer) && (len(answer) == 0 || strings.Contains(line, "?")),
			"%q became %v", line, answer)
	})
}
