package login

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// elsewhere is a person whose browser is on another machine: it ends on a page that it cannot show, whose address they
// copy.
func (p *person) elsewhere(t *testing.T, address string) (ended *url.URL) {
	t.Helper()
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	ended, err = resp.Location()
	if err != nil {
		t.Fatal(err)
	}
	return ended
}

func TestPastedAddressLogsIn(t *testing.T) {
	for name, form := range map[string]func(*url.URL) string{
		"the address":          func(u *url.URL) string { return u.String() },
		"in quotes":            func(u *url.URL) string { return ` "` + u.String() + `" ` },
		"its query":            func(u *url.URL) string { return "?" + u.RawQuery },
		"the bare query":       func(u *url.URL) string { return u.RawQuery },
		"from the slash on":    func(u *url.URL) string { return "/?" + u.RawQuery },
		"without its state":    func(u *url.URL) string { return "http://127.0.0.1:1/?code=" + url.QueryEscape(u.Query().Get("code")) },
		"the code":             func(u *url.URL) string { return u.Query().Get("code") },
		"the code, as it says": func(u *url.URL) string { return url.QueryEscape(u.Query().Get("code")) },
		"by another name":      func(u *url.URL) string { return strings.Replace(u.String(), "127.0.0.1", "localhost", 1) },
	} {
		g := newGoogle(t)
		p := newPerson(g)
		o := p.options()
		lines := make(chan string)
		o.Paste, o.NoBrowser = func() <-chan string { return lines }, true
		go func() {
			for _, l := range []string{"", "   ", "hello", "https://accounts.google.com/", "http://127.0.0.1/?state=x&code=4/0Aof-another-login", "http://127.0.0.1/?state=x&error=access_denied"} {
				lines <- l
			}
			m := addressIn.FindStringSubmatch(p.out.String())
			lines <- form(p.elsewhere(t, m[1]))
		}()
		acc, err := Run(t.Context(), o)
		if err != nil || acc.Name != "users/7" {
			t.Errorf("%s: %+v, %v", name, acc, err)
		}
		out := p.out.String()
		if len(p.opened) > 0 || strings.Count(out, "That does not help") != 4 || strings.Count(out, "another login") != 2 || !strings.Contains(out, "Open this in a browser") {
			t.Errorf("%s: %d browsers; said %s", name, len(p.opened), out)
		}
		g.unseen(out)
	}
}

func TestPastedCodeOfAnotherLoginIsWorthless(t *testing.T) {
	g := newGoogle(t)
	// Somebody gets a code of theirs for this client, and has the person paste it.
	theirs := "4/0Atheirs-by-another-challenge"
	g.codes[theirs] = url.Values{"redirect_uri": {"http://127.0.0.1:1/"}, "code_challenge": {"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}}
	p := newPerson(g)
	o := p.options()
	lines := make(chan string, 1)
	lines <- theirs
	o.Paste, o.NoBrowser = func() <-chan string { return lines }, true
	if _, err := Run(t.Context(), o); !strings.Contains(hint(err), "a code can be used once") || g.kept() != nil {
		t.Errorf("%v", err)
	}
}

func TestEndOfInputIsNotTheEndOfTheWait(t *testing.T) {
	g := newGoogle(t)
	p := newPerson(g)
	o := p.options()
	lines := make(chan string)
	close(lines) // as in a script
	o.Paste = func() <-chan string { return lines }
	if _, err := Run(t.Context(), o); err != nil {
		t.Error(err)
	}
}

// FuzzPaste is for whatever a clipboard holds.
func FuzzPaste(f *testing.F) {
	for _, s := range []string{"http://127.0.0.1:1/?state=STATE&code=4/0A", "code=x", "4%2F0Aabcdefgh", "?error=access_denied", "%zz", "://", "state=STATE&code=a%0ab"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		answer, err := readPasted(line)
		if err == nil && !usable(answer) {
			t.Errorf("%q became %v", line, answer)
		}
	})
}
