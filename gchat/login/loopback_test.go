package login

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// knock sends a request to the port that waits for the browser.
func knock(t *testing.T, method, address string, change func(*http.Request)) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(req)
	}
	resp, err := (&http.Client{Timeout: 5 * time.Second}).Do(req) // what is taken for the browser gets no answer before the login ends
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func TestHostileCallbacksDoNotEndTheWait(t *testing.T) {
	g := newGoogle(t)
	p := newPerson(g)
	o := p.options()
	o.Open = func(address string) error {
		u, _ := url.Parse(address)
		back, state := u.Query().Get("redirect_uri"), u.Query().Get("state")
		with := func(q url.Values) string { return back + "?" + q.Encode() }
		for name, c := range map[string]struct {
			method, address string
			change          func(*http.Request)
			status          int
		}{
			"no state":      {"GET", with(url.Values{"code": {"4/0Aforeign-code"}}), nil, 400},
			"wrong state":   {"GET", with(url.Values{"code": {"4/0Aforeign-code"}, "state": {"x" + state}}), nil, 400},
			"half a state":  {"GET", with(url.Values{"code": {"4/0Aforeign-code"}, "state": {state[:10]}}), nil, 400},
			"wrong error":   {"GET", with(url.Values{"error": {"access_denied"}, "state": {"x"}}), nil, 400},
			"no code":       {"GET", with(url.Values{"state": {state}}), nil, 400},
			"a code of air": {"GET", with(url.Values{"state": {state}, "code": {"a b\nc"}}), nil, 400},
			"nothing":       {"GET", back, nil, 400},
			"an icon":       {"GET", back + "favicon.ico", nil, 404},
			"a form":        {"POST", with(url.Values{"code": {"4/0Aforeign-code"}, "state": {state}}), nil, 404},
			"a preview":     {"HEAD", with(url.Values{"code": {"4/0Aforeign-code"}, "state": {state}}), nil, 404},
			"another name":  {"GET", with(url.Values{"code": {"4/0Aforeign-code"}, "state": {state}}), func(r *http.Request) { r.Host = "evil.example" }, 404},
			"endless":       {"GET", with(url.Values{"state": {state}, "code": {strings.Repeat("a", 1<<20)}}), nil, 431},
			"long":          {"GET", with(url.Values{"state": {state}, "code": {strings.Repeat("a", 4000)}}), nil, 400},
		} {
			// The endless one may be cut off before its answer is read.
			if status, page := knock(t, c.method, c.address, c.change); status != c.status && !(name == "endless" && status == 0) {
				t.Errorf("%s: %d %s", name, status, page)
			} else if strings.Contains(page, state) || strings.Contains(page, "foreign-code") {
				t.Errorf("%s: the page repeats what it was sent: %s", name, page)
			}
		}
		go p.browse(address)
		return nil
	}
	if acc, err := Run(t.Context(), o); err != nil || acc.Name != "users/7" {
		t.Errorf("%+v, %v", acc, err)
	}
	if page := <-p.pages; !strings.Contains(page, "You are logged in") {
		t.Errorf("page %s", page)
	}
}

func TestOnlyTheFirstCallbackCounts(t *testing.T) {
	g := newGoogle(t)
	p := newPerson(g)
	o := p.options()
	var back url.Values
	g.callback = func(q url.Values) { back = q }
	exchanges := 0
	g.token = func(w http.ResponseWriter, r *http.Request) bool {
		_ = r.ParseForm()
		if r.PostForm.Get("grant_type") != "authorization_code" {
			return false
		}
		exchanges++
		// The first is being exchanged: the same again, and another's code with the right state.
		for _, code := range []string{back.Get("code"), "4/0Aanother-code"} {
			again := url.Values{"state": back["state"], "code": {code}}
			status, page := knock(t, "GET", r.PostForm.Get("redirect_uri")+"?"+again.Encode(), nil)
			if status != http.StatusGone || !strings.Contains(page, "This login is over") {
				t.Errorf("again: %d %s", status, page)
			}
		}
		return false
	}
	if _, err := Run(t.Context(), o); err != nil || exchanges != 1 {
		t.Errorf("%d exchanges, %v", exchanges, err)
	}
	if page := <-p.pages; !strings.Contains(page, "You are logged in") {
		t.Errorf("page %s", page)
	}
}
