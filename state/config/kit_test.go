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

const (
	personFile  = "~/.config/gchat-hooks/config.json"
	projectFile = ".claude/gchat-hooks.json"
)

// place is a machine's configuration: an environment, a home, a project.
type place struct {
	t    *testing.T
	env  map[string]string
	proj string
}

func newPlace(t *testing.T) *place {
	root := t.TempDir()
	proj := filepath.Join(root, "proj")
	env := map[string]string{"HOME": filepath.Join(root, "home"), "CLAUDE_PROJECT_DIR": proj}
	return &place{t, env, proj}
}

func (p *place) getenv(name string) string { return p.env[name] }

// full is a path in the project, or with "~/" in the home folder.
func (p *place) full(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(p.env["HOME"], rest)
	}
	return filepath.Join(p.proj, path)
}

func (p *place) remove(path string) {
	p.t.Helper()
	kit.NoError(p.t, os.RemoveAll(p.full(path)))
}

// write writes a file and returns its whole path.
func (p *place) write(path, content string) string {
	p.t.Helper()
	full := p.full(path)
	kit.WriteFile(p.t, full, content, 0o600)
	return full
}

func (p *place) load() *Config { return Load(p.getenv, p.proj) }

// loadGoverned loads the configuration and applies the policies to it.
func (p *place) loadGoverned() (*Config, error) {
	c := p.load()
	return c, c.ApplyPolicies(p.t.Context(), p.getenv)
}

// writeMachinePolicy does what device management does.
func (p *place) writeMachinePolicy(text string) (path string) {
	p.t.Helper()
	if os.Getuid() != 0 {
		p.t.Skip("only root writes a machine's policy")
	}
	path = p.write("~/etc/policy.json", text)
	before := machinePolicyFile
	machinePolicyFile = path
	p.t.Cleanup(func() { machinePolicyFile = before })
	return path
}

const strictPolicy = `{"never_remote": ["Bash(git push*)"], "terminal_only": ["plan"],
	"titles_only": true, "allowed_users": ["*@example.com"]}`

// checkStrict fails the test if c has something that strictPolicy takes away.
func (p *place) checkStrict(how string, c *Config) {
	p.t.Helper()
	kit.True(p.t, c.isNeverRemote("Bash", "git push origin") && c.HasNeverRemote("Bash"),
		"%s: git push may be allowed remotely: %q", how, c.NeverRemote)
	kit.True(p.t, !c.AccessTo(state.KindPlan, "").CanAsk && c.titlesOnly,
		"%s: plans are asked or shown in Chat", how)
	kit.True(p.t, !c.CanAnswer("users/1", "ann@elsewhere.com") && !c.CanApprove("users/1", "") &&
		!c.CanApprove("users/1", "ann@elsewhere.com"),
		"%s: a person counts who is not within the policy", how)
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
