package config

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
			kit.True(t, c.HasUnreadFile || c.CanAnswer("users/1", "ann@example.com"),
				"who is on both lists does not count")
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
			kit.True(t, err != nil && len(c.Problems) == 1 &&
				strings.Contains(c.Problems[0].Error(), "nothing is asked in Chat"),
				"%v, %v", err, c.Problems)
			for _, kind := range policyKinds() {
				kit.True(t, !c.AccessTo(state.Kind(kind), "").CanAsk, "%s is asked in Chat", kind)
			}
			kit.True(t, !c.AccessTo(state.KindQuestion, "").CanAsk && c.HasUnreadFile &&
				c.isNeverRemote("Read", "x") && !c.CanAnswer("users/1", "") &&
				!c.CanApprove("users/1", ""),
				"something is left: %+v", c)
		})
	}
	g := newGoverned(t)
	c, err := g.load()
	kit.True(t, err == nil && !c.HasUnreadFile && c.AccessTo(KindReport, "").CanAsk,
		"without a policy: %v, %+v", err, c)
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
		c, err := g.load()
		kit.True(t, err == nil && c.CanAnswer(test.sender, test.email) == test.want &&
			c.CanApprove(test.sender, test.email) == test.want,
			"%s: not %v (%v)", name, test.want, err)
	}
	g := newGoverned(t)
	g.env["GCHAT_ALLOWED_USERS"] = "users/1,users/2"
	g.machine(`{"allowed_users": ["users/1", "users/2"]}`)
	g.env["GCHAT_POLICY_FILE"] = g.put("p.json", `{"allowed_users": ["users/2", "users/3"]}`)
	for user, want := range map[string]bool{"users/1": false, "users/2": true, "users/3": false} {
		c, _ := g.load()
		kit.True(t, c.CanAnswer(user, "") == want, "of two policies, %s: not %v", user, want)
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
			q, err := parsePolicy(again, nil)
			kit.True(t, err == nil && (q.AllowedUsers == nil) == (p.AllowedUsers == nil),
				"%s: %+v, %v", again, q, err)
		}
	})
}
