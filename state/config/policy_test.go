package config

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// governed is a person's machine that has a policy.
type governed struct {
	t       *testing.T
	home    string
	env     map[string]string
	project string
}

func newGoverned(t *testing.T) *governed {
	g := &governed{t: t, home: t.TempDir()}
	g.project = filepath.Join(g.home, "shop")
	g.env = map[string]string{"HOME": g.home, "CLAUDE_PROJECT_DIR": g.project}
	return g
}

func (g *governed) getenv(name string) string { return g.env[name] }

func (g *governed) put(path, text string) string {
	g.t.Helper()
	path = filepath.Join(g.home, path)
	kit.NoError(g.t, os.MkdirAll(filepath.Dir(path), 0o755))
	kit.NoError(g.t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// machine has device management write the policy of the machine.
func (g *governed) machine(text string) (path string) {
	g.t.Helper()
	if os.Getuid() != 0 {
		g.t.Skip("root alone writes a machine's policy")
	}
	path = g.put("etc/policy.json", text)
	before := machinePolicyFile
	machinePolicyFile = path
	g.t.Cleanup(func() { machinePolicyFile = before })
	return path
}

func (g *governed) load() (*Config, error) {
	c := Load(g.getenv, g.project)
	return c, c.ApplyPolicies(g.t.Context(), g.getenv)
}

const strictPolicy = `{"never_remote": ["Bash(git push*)"], "terminal_only": ["plan"], "titles_only": true, "allowed_users": ["*@example.com"]}`

// held fails where something that strictPolicy takes away is there.
func (g *governed) held(how string, c *Config) {
	g.t.Helper()
	switch {
	case !c.isNeverRemote("Bash", "git push origin"), !c.HasNeverRemote("Bash"):
		g.t.Errorf("%s: git push may be allowed remotely: %q", how, c.NeverRemote)
	case c.AccessTo(state.KindPlan, "").CanAsk, !c.titlesOnly:
		g.t.Errorf("%s: plans are asked or shown in Chat", how)
	case c.CanAnswer("users/1", "ann@elsewhere.com"), c.CanApprove("users/1", ""), c.CanApprove("users/1", "ann@elsewhere.com"):
		g.t.Errorf("%s: a person counts who is not within the policy", how)
	}
}

// What a person, a project or a variable sets does not lift a policy.
func TestPolicy_NothingLiftsIt(t *testing.T) {
	const lifts = `{"never_remote": [], "terminal_only": [], "titles_only": false, "allowed_users": ["users/1"], "approvers": ["users/1"]}`
	for name, try := range map[string]func(*governed){
		"nothing":                 func(*governed) {},
		"the person's file":       func(g *governed) { g.put(".config/gchat-hooks/config.json", lifts) },
		"the project's file":      func(g *governed) { g.put("shop/.claude/gchat-hooks.json", lifts) },
		"a broken project's file": func(g *governed) { g.put("shop/.claude/gchat-hooks.json", "{") },
		"variables": func(g *governed) {
			for _, s := range settings {
				if s.Variable != "" && g.env[s.Variable] == "" {
					g.env[s.Variable] = "users/1"
				}
			}
			g.env["GCHAT_CONFIG"] = g.put("other.json", lifts)
			g.env["GCHAT_POLICY_FILE"] = g.put("mine.json", `{"allowed_users": ["*@example.com", "*@elsewhere.com", "users/1"]}`)
			g.env["XDG_STATE_HOME"], g.env["XDG_CONFIG_HOME"] = "", ""
		},
		"an empty policy": func(g *governed) { g.env["GCHAT_POLICY_FILE"] = g.put("mine.json", `{}`) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGoverned(t)
			g.env["GCHAT_ALLOWED_USERS"] = "users/1"
			g.machine(strictPolicy)
			try(g)
			c, err := g.load()
			kit.NoError(t, err)
			g.held(name, c)
			if !c.HasUnreadFile && !c.CanAnswer("users/1", "ann@example.com") {
				t.Error("who is on both lists does not count")
			}
		})
	}
}

// A policy that cannot be read, or that this version does not understand, leaves nothing
// to Chat.
func TestPolicy_UnreadableForbidsAll(t *testing.T) {
	for name, file := range map[string]func(*governed){
		"broken":            func(g *governed) { g.machine(`{"titles_only": true`) },
		"empty":             func(g *governed) { g.machine("") },
		"two":               func(g *governed) { g.machine(`{} {}`) },
		"a later member":    func(g *governed) { g.machine(`{"no_chat": true}`) },
		"a wrong kind":      func(g *governed) { g.machine(`{"terminal_only": ["permissions"]}`) },
		"a wrong type":      func(g *governed) { g.machine(`{"never_remote": "Bash"}`) },
		"a folder":          func(g *governed) { path := g.machine("{}"); os.Remove(path); os.Mkdir(path, 0o755) },
		"a link to nothing": func(g *governed) { path := g.machine("{}"); os.Remove(path); os.Symlink("nothing", path) },
		"another user's":    func(g *governed) { os.Chown(g.machine("{}"), 1000, 0) },
		"others write it":   func(g *governed) { os.Chmod(g.machine("{}"), 0o666) },
		"others replace it": func(g *governed) { os.Chmod(filepath.Dir(g.machine("{}")), 0o777) },
		"named, and gone":   func(g *governed) { g.env["GCHAT_POLICY_FILE"] = filepath.Join(g.home, "none.json") },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGoverned(t)
			g.env["GCHAT_ALLOWED_USERS"], g.env["GCHAT_APPROVERS"] = "users/1", "users/1"
			file(g)
			c, err := g.load()
			if err == nil || len(c.Problems) != 1 || !strings.Contains(c.Problems[0].Error(), "nothing is asked in Chat") {
				t.Errorf("%v, %v", err, c.Problems)
			}
			for _, kind := range policyKinds() {
				if c.AccessTo(state.Kind(kind), "").CanAsk {
					t.Errorf("%s is asked in Chat", kind)
				}
			}
			if c.AccessTo(state.KindQuestion, "").CanAsk || !c.HasUnreadFile || !c.isNeverRemote("Read", "x") || c.CanAnswer("users/1", "") || c.CanApprove("users/1", "") {
				t.Errorf("something is left: %+v", c)
			}
		})
	}
	g := newGoverned(t)
	if c, err := g.load(); err != nil || c.HasUnreadFile || !c.AccessTo(KindReport, "").CanAsk {
		t.Errorf("without a policy: %v, %+v", err, c)
	}
}

func TestPolicy_WhoIsWithin(t *testing.T) {
	for name, test := range map[string]struct {
		policies, sender, email string
		want                    bool
	}{
		"by id":                    {`["users/1"]`, "users/1", "", true},
		"by address":               {`["ann@example.com"]`, "users/1", "Ann@Example.com", true},
		"by domain":                {`["*@example.com"]`, "users/1", "ann@EXAMPLE.com", true},
		"a domain's end":           {`["*@example.com"]`, "users/1", "ann@sub.example.com", false},
		"a domain's beginning":     {`["*@example.com"]`, "users/1", "ann@example.com.evil", false},
		"two addresses":            {`["*@example.com"]`, "users/1", "ann@evil@example.com", false},
		"a domain that looks like": {`["*@kelvin.com"]`, "users/1", "ann@\u212aelvin.com", false},
		"a domain, no address":     {`["*@example.com"]`, "users/1", "", false},
		"no domain":                {`["*@"]`, "users/1", "ann@", false},
		"anybody is no pattern":    {`["*"]`, "users/1", "ann@example.com", false},
		"nobody":                   {`[]`, "users/1", "ann@example.com", false},
		"no list":                  {`null`, "users/1", "", true},
		"not on the person's":      {`["users/9"]`, "users/9", "", false},
	} {
		g := newGoverned(t)
		g.env["GCHAT_ALLOWED_USERS"] = "users/1"
		g.env["GCHAT_POLICY_FILE"] = g.put("p.json", `{"allowed_users": `+test.policies+`}`)
		if c, err := g.load(); err != nil || c.CanAnswer(test.sender, test.email) != test.want || c.CanApprove(test.sender, test.email) != test.want {
			t.Errorf("%s: not %v (%v)", name, test.want, err)
		}
	}
	g := newGoverned(t)
	g.env["GCHAT_ALLOWED_USERS"] = "users/1,users/2"
	g.machine(`{"allowed_users": ["users/1", "users/2"]}`)
	g.env["GCHAT_POLICY_FILE"] = g.put("p.json", `{"allowed_users": ["users/2", "users/3"]}`)
	for user, want := range map[string]bool{"users/1": false, "users/2": true, "users/3": false} {
		if c, _ := g.load(); c.CanAnswer(user, "") != want {
			t.Errorf("of two policies, %s: not %v", user, want)
		}
	}
}

// hub is a hub that has a policy.
type hub struct {
	policy string
	down   error
	asked  int
}

func (h *hub) read(context.Context, string) (json.RawMessage, error) {
	h.asked++
	return json.RawMessage(h.policy), h.down
}

// The copy of a hub's policy is read again after an hour, and holds for a day while the
// hub is out of reach.
func TestHubPolicy_HowLongItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, h := newGoverned(t), &hub{policy: strictPolicy}
		g.put(".config/gchat-hooks/hub.json", `{"type": "gchat_hooks_hub", "hub": "https://hub", "token": "t"}`)
		renews := true // as the poller
		restrict := func(what string, asked int, reads bool) *Config {
			t.Helper()
			c, before := Load(g.getenv, g.project), h.asked
			c.ReadPolicy, c.RenewsPolicy = h.read, renews
			if err := c.ApplyPolicies(t.Context(), g.getenv); (err == nil) != reads || c.HasUnreadFile == reads {
				t.Errorf("%s: %v", what, err)
			}
			kit.Equalf(t, h.asked-before, asked, "%s: asked", what)
			g.held(what, c)
			return c
		}
		if c, err := g.load(); err == nil || !c.HasUnreadFile {
			t.Error("a policy that was never read lets Chat decide")
		}
		h.down = errors.New("down")
		restrict("never read", 1, false)
		restrict("a moment later", 0, false)
		time.Sleep(policyRetryPause + time.Second)
		h.down = nil
		restrict("read", 1, true)
		if c, err := g.load(); err != nil || !c.titlesOnly {
			t.Error("its copy does not count without the hub")
		}
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
		if !strings.Contains(c.policyError.Error(), "later") {
			t.Error(c.policyError)
		}
		time.Sleep(2 * time.Hour)
		h.policy = `{"titles_only": true}`
		c = Load(g.getenv, g.project)
		c.ReadPolicy = h.read
		if err := c.ApplyPolicies(t.Context(), g.getenv); err != nil || !c.titlesOnly || !c.AccessTo(state.KindPlan, "").CanAsk {
			t.Errorf("what the hub says now does not count: %v", err)
		}
	})
}

// Neither another credentials file, nor a copy that is broken, foreign or of a future
// time, lifts a hub's policy.
func TestHubPolicy_NothingLiftsIt(t *testing.T) {
	for name, try := range map[string]func(*governed){
		"no credentials":   func(g *governed) { g.env["GOOGLE_CHAT_CREDENTIALS_FILE"] = "/none" },
		"a person's file":  func(g *governed) { g.put(".config/gchat-hooks/config.json", `{"credentials_file": "/none"}`) },
		"a project's file": func(g *governed) { g.put("shop/.claude/gchat-hooks.json", `{"credentials_file": "none.json"}`) },
		"another hub": func(g *governed) {
			g.env["GOOGLE_CHAT_CREDENTIALS_FILE"] = g.put("mine.json", `{"type": "gchat_hooks_hub", "hub": "https://mine", "token": "t"}`)
		},
		"a broken copy":  func(g *governed) { g.put(".local/state/gchat-hooks/policy.json", `{`) },
		"no copy at all": func(g *governed) { g.put(".local/state/gchat-hooks/policy.json", `null`) },
		"a future copy": func(g *governed) {
			g.put(".local/state/gchat-hooks/policy.json", `{"https://hub": {"policy": {}, "read": "2999-01-01T00:00:00Z"}}`)
		},
		"another hub's copy": func(g *governed) {
			now, _ := json.Marshal(time.Now())
			g.put(".local/state/gchat-hooks/policy.json", `{"https://mine": {"policy": {}, "read": `+string(now)+`}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGoverned(t)
			g.put(".config/gchat-hooks/hub.json", `{"type": "gchat_hooks_hub", "hub": "https://hub", "token": "t"}`)
			try(g)
			c := Load(g.getenv, g.project)
			c.ReadPolicy = func(_ context.Context, file string) (json.RawMessage, error) {
				if filepath.Base(file) == "hub.json" {
					return json.RawMessage(strictPolicy), nil
				}
				return json.RawMessage(`{}`), nil
			}
			kit.NoError(t, c.ApplyPolicies(t.Context(), g.getenv))
			g.held(name, c)
		})
	}
}

// A hub's file is read as strictly as its machines read what they get of it.
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
		p, err := ReadHubPolicy(newGoverned(t).put("p.json", text))
		if (wrong == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
	}
	if _, err := ReadHubPolicy("/none.json"); err == nil {
		t.Error("it is not there")
	}
}

func FuzzPolicy(f *testing.F) {
	for _, seed := range []string{strictPolicy, `{}`, `null`, `[]`, "\ufeff{}", `{"never_remote":null}`, `{"terminal_only":[null]}`, `{"allowed_users":[]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parsePolicy(b, nil)
		if p == nil {
			t.Fatal("none")
		}
		if again, _ := json.Marshal(p); err == nil {
			if q, err := parsePolicy(again, nil); err != nil || (q.AllowedUsers == nil) != (p.AllowedUsers == nil) {
				t.Errorf("%s: %+v, %v", again, q, err)
			}
		}
	})
}
