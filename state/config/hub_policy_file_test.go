package config

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// A copy of a hub's policy is read again after an hour. It counts for a day if the hub
// cannot be reached.
func TestHubPolicy_HowLongItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, h := newPlace(t), &hub{policy: strictPolicy}
		p.write("~/.config/gchat-hooks/hub.json",
			`{"type": "gchat_hooks_hub", "hub": "https://hub", "token": "t"}`)
		renews := true // as the poller
		restrict := func(what string, asked int, reads bool) *Config {
			t.Helper()
			c, before := p.load(), h.asked
			c.ReadPolicy, c.RenewsPolicy = h.read, renews
			err := c.ApplyPolicies(t.Context(), p.getenv)
			kit.True(t, (err == nil) == reads && c.HasUnreadFile != reads, "%s: %v", what, err)
			kit.Equalf(t, h.asked-before, asked, "%s: asked", what)
			p.checkStrict(what, c)
			return c
		}
		unread, err := p.loadGoverned()
		kit.True(t, err != nil && unread.HasUnreadFile,
			"a policy that was never read lets Chat decide")
		h.down = errors.New("down")
		restrict("never read", 1, false)
		restrict("a moment later", 0, false)
		time.Sleep(policyRetryPause + time.Second)
		h.down = nil
		restrict("read", 1, true)
		copied, err := p.loadGoverned()
		kit.True(t, err == nil && copied.titlesOnly, "its copy does not count without the hub")
		time.Sleep(59 * time.Minute)
		restrict("within an hour", 0, true)
		time.Sleep(2 * time.Minute)
		h.down, renews = errors.New("down"), false
		restrict("older, for a hook", 0, true)
		renews = true
		restrict("older", 1, true)
		restrict("tried a moment ago", 0, true)
		time.Sleep(22 * time.Hour)
		restrict("within a day", 1, true)
		h.down, h.policy, renews = nil, `{"never_remot": []}`, true
		time.Sleep(policyRetryPause + time.Second)
		restrict("with a typo", 1, true)
		restrict("with a typo, a moment ago", 0, true)
		time.Sleep(policyRetryPause + time.Second)
		restrict("with a typo, a minute ago", 1, true)
		h.down, renews = errors.New("down"), false
		time.Sleep(2 * time.Hour)
		restrict("after a day, for a hook", 1, false)
		time.Sleep(policyRetryPause + time.Second)
		h.down, h.policy = nil, `{"titles_only": true, "later": 1}`
		c := restrict("a later hub's", 1, false)
		kit.True(t, strings.Contains(c.policyError.Error(), "later"), "%v", c.policyError)
		time.Sleep(2 * time.Hour)
		h.policy = `{"titles_only": true}`
		c = p.load()
		c.ReadPolicy = h.read
		err = c.ApplyPolicies(t.Context(), p.getenv)
		kit.True(t, err == nil && c.titlesOnly && c.AccessTo(state.KindPlan, "").CanAsk,
			"what the hub says now does not count: %v", err)
	})
}

// Another credentials file does not lift a hub's policy, nor does a copy that is broken,
// foreign or from the future.
func TestHubPolicy_NothingLiftsIt(t *testing.T) {
	for name, try := range map[string]func(*place){
		"no credentials":  func(p *place) { p.env["GOOGLE_CHAT_CREDENTIALS_FILE"] = "/none" },
		"a person's file": func(p *place) { p.write(personFile, `{"credentials_file": "/none"}`) },
		"a project's file": func(p *place) {
			p.write(projectFile,
				`{"credentials_file": "none.json"}`)
		},
		"another hub": func(p *place) {
			p.env["GOOGLE_CHAT_CREDENTIALS_FILE"] = p.write("~/mine.json",
				`{"type": "gchat_hooks_hub", "hub": "https://mine", "token": "t"}`)
		},
		"a broken copy": func(p *place) { p.write("~/.local/state/gchat-hooks/policy.json", `{`) },
		"no copy at all": func(p *place) {
			p.write("~/.local/state/gchat-hooks/policy.json",
				`null`)
		},
		"a future copy": func(p *place) {
			p.write("~/.local/state/gchat-hooks/policy.json",
				`{"https://hub": {"policy": {}, "read": "2999-01-01T00:00:00Z"}}`)
		},
		"another hub's copy": func(p *place) {
			now := kit.JSON(t, time.Now())
			p.write("~/.local/state/gchat-hooks/policy.json",
				`{"https://mine": {"policy": {}, "read": `+string(now)+`}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.write("~/.config/gchat-hooks/hub.json",
				`{"type": "gchat_hooks_hub", "hub": "https://hub", "token": "t"}`)
			try(p)
			c := p.load()
			c.ReadPolicy = func(_ context.Context, file string) (json.RawMessage, error) {
				if filepath.Base(file) == "hub.json" {
					return json.RawMessage(strictPolicy), nil
				}
				return json.RawMessage(`{}`), nil
			}
			kit.NoError(t, c.ApplyPolicies(t.Context(), p.getenv))
			p.checkStrict(name, c)
		})
	}
}

// If the credentials file does not name its hub, the error names the file.
func TestHubPolicy_OfAHubWithoutAddress(t *testing.T) {
	p := newPlace(t)
	file := p.write("~/.config/gchat-hooks/hub.json", `{"type": "gchat_hooks_hub"}`)
	_, err := p.loadGoverned()
	kit.True(t, err != nil && strings.Contains(err.Error(), "the policy of "+file+" was not"),
		"%v", err)
}

// A hub reads its policy file as strictly as machines read the policy.
func TestHubPolicy_Kept(t *testing.T) {
	for text, wrong := range map[string]string{
		`{"never_remote": ["Bash"], "spaces": {"spaces/A": ["users/1", "users/2"]}}`: "",
		`{"never_remot": ["Bash"]}`:                     "never_remot",
		`{"terminal_only": ["plans"]}`:                  "terminal_only takes",
		`{"terminal_only": [`:                           "EOF",
		`{"spaces": {"spaces/A": ["bob@example.com"]}}`: "bob@example.com",
		`{"spaces": {"spaces/A": ["222"]}}`:             "spaces takes",
		`{"spaces": {"A": ["users/1"]}}`:                "spaces takes",
		`{"spaces": {"spaces/A": "users/222"}}`:         "spaces",
	} {
		p, err := ReadHubPolicy(newPlace(t).write("~/p.json", text))
		kit.True(t, (wrong == "") == (err == nil) &&
			(err == nil || strings.Contains(err.Error(), wrong)),
			"%s: %+v, %v", text, p, err)
	}
	_, err := ReadHubPolicy("/none.json")
	kit.True(t, err != nil, "it is not there")
}
