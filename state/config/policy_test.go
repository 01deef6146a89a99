package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// No setting of a person, a project or the environment lifts a policy.
func TestPolicy_NothingLiftsIt(t *testing.T) {
	const lifts = `{"never_remote": [], "terminal_only": [], "titles_only": false, "allowed_users": ["users/1"], "approvers": ["users/1"]}`
	for name, try := range map[string]func(*place){
		"nothing":                 func(*place) {},
		"the person's file":       func(p *place) { p.write(personFile, lifts) },
		"the project's file":      func(p *place) { p.write(projectFile, lifts) },
		"a broken project's file": func(p *place) { p.write(projectFile, "{") },
		"variables": func(p *place) {
			for _, s := range settings {
				if s.Variable != "" && p.env[s.Variable] == "" {
					p.env[s.Variable] = "users/1"
				}
			}
			p.env["GCHAT_CONFIG"] = p.write("~/other.json", lifts)
			p.env["GCHAT_POLICY_FILE"] = p.write("~/mine.json",
				`{"allowed_users": ["*@example.com", "*@elsewhere.com", "users/1"]}`)
			p.env["XDG_STATE_HOME"], p.env["XDG_CONFIG_HOME"] = "", ""
		},
		"an empty policy": func(p *place) {
			p.env["GCHAT_POLICY_FILE"] = p.write("~/mine.json",
				`{}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.env["GCHAT_ALLOWED_USERS"] = "users/1"
			p.writeMachinePolicy(strictPolicy)
			try(p)
			c, err := p.loadGoverned()
			kit.NoError(t, err)
			p.checkStrict(name, c)
			kit.True(t, c.HasUnreadFile || c.CanAnswer("users/1", "ann@example.com"),
				"who is on both lists does not count")
		})
	}
}

// If a policy cannot be read or understood, nothing may be asked or allowed in Chat.
func TestPolicy_UnreadableForbidsAll(t *testing.T) {
	for name, file := range map[string]func(*place){
		"broken":            func(p *place) { p.writeMachinePolicy(`{"titles_only": true`) },
		"empty":             func(p *place) { p.writeMachinePolicy("") },
		"two":               func(p *place) { p.writeMachinePolicy(`{} {}`) },
		"a later member":    func(p *place) { p.writeMachinePolicy(`{"no_chat": true}`) },
		"a wrong kind":      func(p *place) { p.writeMachinePolicy(`{"terminal_only": ["permissions"]}`) },
		"a wrong type":      func(p *place) { p.writeMachinePolicy(`{"never_remote": "Bash"}`) },
		"a folder":          func(p *place) { path := p.writeMachinePolicy("{}"); os.Remove(path); os.Mkdir(path, 0o755) },
		"a link to nothing": func(p *place) { path := p.writeMachinePolicy("{}"); os.Remove(path); os.Symlink("nothing", path) },
		"another user's":    func(p *place) { os.Chown(p.writeMachinePolicy("{}"), 1000, 0) },
		"others write it":   func(p *place) { os.Chmod(p.writeMachinePolicy("{}"), 0o666) },
		"others replace it": func(p *place) {
			os.Chmod(filepath.Dir(p.writeMachinePolicy("{}")),
				0o777)
		},
		"named, and gone": func(p *place) { p.env["GCHAT_POLICY_FILE"] = filepath.Join(p.env["HOME"], "none.json") },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.env["GCHAT_ALLOWED_USERS"], p.env["GCHAT_APPROVERS"] = "users/1", "users/1"
			file(p)
			c, err := p.loadGoverned()
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
	p := newPlace(t)
	c, err := p.loadGoverned()
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
		p := newPlace(t)
		p.env["GCHAT_ALLOWED_USERS"] = "users/1"
		p.env["GCHAT_POLICY_FILE"] = p.write("~/p.json", `{"allowed_users": `+test.policies+`}`)
		c, err := p.loadGoverned()
		kit.True(t, err == nil && c.CanAnswer(test.sender, test.email) == test.want &&
			c.CanApprove(test.sender, test.email) == test.want,
			"%s: not %v (%v)", name, test.want, err)
	}
	p := newPlace(t)
	p.env["GCHAT_ALLOWED_USERS"] = "users/1,users/2"
	p.writeMachinePolicy(`{"allowed_users": ["users/1", "users/2"]}`)
	p.env["GCHAT_POLICY_FILE"] = p.write("~/p.json", `{"allowed_users": ["users/2", "users/3"]}`)
	for user, want := range map[string]bool{"users/1": false, "users/2": true, "users/3": false} {
		c, _ := p.loadGoverned()
		kit.True(t, c.CanAnswer(user, "") == want, "of two policies, %s: not %v", user, want)
	}
}

func FuzzPolicy(f *testing.F) {
	for _, seed := range []string{strictPolicy, `{}`, `null`, `[]`, "\ufeff{}",
		`{"never_remote":null}`, `{"terminal_only":[null]}`, `{"allowed_users":[]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parsePolicy(b, nil)
		kit.Must(t, p != nil, "none")
		if again, _ := json.Marshal(p); err == nil {
			q, err := parsePolicy(again, nil)
			kit.True(t, err == nil && (q.AllowedUsers == nil) == (p.AllowedUsers == nil),
				"%s: %+v, %v", again, q, err)
		}
	})
}
