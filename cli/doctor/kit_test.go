package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/api/chat/v1"

	bounded "gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
	"gchat-hooks/hooks/settings"
)

// Secrets in a person's files. None may come out.
const (
	plantedKey     = "sk-ant-api03-planted-anthropic-key"
	plantedRefresh = "1//0planted-refresh-token-abcdef"
	plantedClient  = "GOCSPX-planted-client-secret"
	foreignSecret  = "hush-of-another-program"
)

// doctorVariable is set where the test's program is to be the doctor: PATH, proxies and
// certificates are a process's own.
const doctorVariable = "GCHAT_TEST_DOCTOR"

func TestMain(m *testing.M) {
	if os.Getenv(doctorVariable) == "" {
		os.Exit(m.Run())
	}
	flags := flag.NewFlagSet("doctor", flag.ExitOnError)
	all, live, inJSON := flags.Bool("all", false,
		""), flags.Bool("live", false, ""), flags.Bool("json", false, "")
	wait, paste := flags.Duration("wait", 0, ""), flags.Bool("paste", false, "")
	_ = flags.Parse(os.Args[1:])
	o := Options{
		Env: os.Getenv, Version: "v1.2.3", Live: *live, Wait: *wait,
		Notify: func(s string) { fmt.Fprintln(os.Stderr, s) },
	}
	r, err := Run(context.Background(), o)
	if err == nil && *paste {
		err = json.NewEncoder(os.Stdout).Encode(r.Live)
	} else if err == nil && *inJSON {
		err = json.NewEncoder(os.Stdout).Encode(r)
	} else if err == nil {
		_, err = os.Stdout.WriteString(r.Text(*all))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
	os.Exit(r.ExitCode)
}

// doctorHome is a made-up person with a HOME, a project and a space, in which everything
// is as it should be until a fault is planted.
type doctorHome struct {
	*testing.T
	home, project, binDir string
	program               string
	space                 *space.Space
	server                *httptest.Server
	// true: it has answered in the space's place
	answerInstead func(w http.ResponseWriter, r *http.Request) bool
	env           map[string]string
	config        map[string]any // of ~/.config/gchat-hooks/config.json
	settings      map[string]any // members of the user's settings.json beside the hooks
	presets       []string
	claude        string // what claude --version prints
	secrets       []string
}

func newDoctorHome(t *testing.T) *doctorHome {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		// else its user alone gets at what is in it
		t.Fatal(err)
	}
	self, err := os.Executable()
	kit.NoError(t, err)
	p := &doctorHome{
		T: t, home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project"),
		binDir: filepath.Join(dir, "bin"), presets: []string{"report"},
		claude: "2.1.329 (Claude Code)", settings: map[string]any{},
	}
	for _, d := range []string{
		p.home, p.binDir, filepath.Join(p.project, ".claude"), filepath.Join(dir, "tmux"),
		filepath.Join(dir, "managed"),
	} {
		p.check(os.MkdirAll(d, 0o755))
	}
	p.program = filepath.Join(p.binDir, "gchat-hooks")
	p.check(os.Symlink(self, p.program))
	p.space, err = space.Open(space.Options{})
	p.check(err)
	p.server = httptest.NewServer(strict.CheckRequests(t, p, strict.Embedded))
	t.Cleanup(func() { p.server.CloseClientConnections(); p.server.Close(); p.space.Close() })
	p.env = map[string]string{
		doctorVariable: "1", "HOME": p.home, "PATH": p.binDir + ":/usr/bin:/bin",
		"CLAUDE_PROJECT_DIR": p.project, "TZ": "UTC", "ANTHROPIC_API_KEY": plantedKey,
		"TMUX_TMPDIR":                       filepath.Join(dir, "tmux"),
		"CLAUDE_CODE_MANAGED_SETTINGS_PATH": filepath.Join(dir, "managed"),
		// Google's library would look for the machine that it runs on.
		"GOOGLE_APPLICATION_CREDENTIALS": filepath.Join(dir, "none.json"),
		"GCE_METADATA_HOST":              "127.0.0.1:1",
	}
	hook := p.space.WebhookURL(p.server.URL)
	p.config = map[string]any{"webhook_url": hook, "allowed_users": []string{space.PersonName}}
	_, query, _ := strings.Cut(hook, "?key=")
	p.secrets = append(strings.Split(query, "&token="), plantedKey, plantedRefresh, plantedClient,
		foreignSecret)
	p.writeJSON(filepath.Join(p.home, ".claude.json"), map[string]any{
		"projects": map[string]any{p.project: map[string]any{"hasTrustDialogAccepted": true}},
	})
	return p
}

func (p *doctorHome) check(err error) {
	p.Helper()
	kit.NoError(p, err)
}

// ServeHTTP is the space, but for what was planted.
func (p *doctorHome) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.URL.Path = strings.Replace(r.URL.Path, googleSpace, space.Name, 1)
	if p.answerInstead == nil || !p.answerInstead(w, r) {
		p.space.Handler().ServeHTTP(w, r)
	}
}

// googleSpace is a space of Google's, for which the embedded one stands in.
const googleSpace = "spaces/AAAA"

func (p *doctorHome) pretendGoogle() {
	p.config["webhook_url"] = strings.Replace(fmt.Sprint(p.config["webhook_url"]), space.Name,
		googleSpace, 1)
}

func (p *doctorHome) writeFile(path, text string, mode os.FileMode) {
	p.Helper()
	kit.WriteFile(p, path, text, mode)
}

func (p *doctorHome) writeJSON(path string, v any) {
	p.Helper()
	p.writeFile(path, string(kit.JSON(p, v)), 0o600)
}

func (p *doctorHome) userState() string {
	return filepath.Join(p.home, ".local", "state", "gchat-hooks")
}

func (p *doctorHome) getenv(name string) string { return p.env[name] }

func (p *doctorHome) configFile() string {
	return filepath.Join(p.home, ".config", "gchat-hooks", "config.json")
}

func (p *doctorHome) settingsFile() string {
	return filepath.Join(p.home, ".claude",
		"settings.json")
}

// hookEntries are those of presets, as this Claude Code takes them.
func (p *doctorHome) hookEntries() []settings.Entry {
	p.Helper()
	version, _ := settings.ParseVersion(p.claude)
	hooks, err := settings.PresetHooks(p.presets...)
	p.check(err)
	entries, _ := settings.EntriesFor(p.program, version, hooks)
	return entries
}

// installHooks writes the user's settings with these hooks.
func (p *doctorHome) installHooks(entries []settings.Entry) {
	p.Helper()
	b, err := settings.Install(nil, entries)
	p.check(err)
	p.writeFile(p.settingsFile(), string(b), 0o600)
}

// makeOpenFolder makes a folder that others may write to.
func (p *doctorHome) makeOpenFolder(path string) {
	p.Helper()
	p.check(os.MkdirAll(path, 0o755))
	p.check(os.Chmod(path, 0o777))
}

// replyOnce has a person reply to the first of three messages, when they are read.
func (p *doctorHome) replyOnce(user *chat.User, text string) {
	hasReplied := false
	p.answerInstead = func(_ http.ResponseWriter, r *http.Request) bool {
		ms := p.space.Messages()
		if r.Method == http.MethodGet && len(ms) == 3 && !hasReplied {
			hasReplied = true
			_, err := p.space.PostAs(user, ms[0].Thread.Name, text)
			kit.Equalf(p, err, nil, "the reply's error")
		}
		return false
	}
}

// writeDefaults writes what was not written yet.
func (p *doctorHome) writeDefaults() {
	p.Helper()
	if p.config != nil {
		p.writeJSON(p.configFile(), p.config)
	}
	if _, err := os.Stat(p.settingsFile()); err != nil {
		var content []byte = kit.JSON(p, p.settings)
		if p.presets != nil {
			content, err = settings.Install(content, p.hookEntries())
			p.check(err)
		}
		p.writeFile(p.settingsFile(), string(content), 0o600)
	}
	if p.claude != "" {
		p.writeFile(filepath.Join(p.binDir, "claude"), "#!/bin/sh\nps -eo args > "+
			filepath.Join(p.binDir, "ps.txt")+"\necho '"+p.claude+"'\n", 0o755)
	}
}

// runDoctor runs the program, and sees to it that no secret is anywhere to be seen.
func (p *doctorHome) runDoctor(args ...string) (code int, stdout, stderr string) {
	p.Helper()
	cmd := bounded.Command(p, p.program, args...)
	cmd.Dir = p.project
	for _, name := range slices.Sorted(maps.Keys(p.env)) {
		cmd.Env = append(cmd.Env, name+"="+p.env[name])
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		p.check(err)
	}
	log, _ := os.ReadFile(filepath.Join(p.home, ".claude", "logs", "gchat-hooks.log"))
	processes, _ := os.ReadFile(filepath.Join(p.binDir, "ps.txt"))
	for _, secret := range p.secrets {
		for stream, text := range map[string]string{
			"stdout": out.String(), "stderr": errs.String(), "ps": string(processes),
		} {
			if strings.Contains(text, secret) {
				p.Errorf("%s holds the secret %q:\n%s", stream, secret, text)
			}
		}
		if bytes.Contains(log, []byte(secret)) &&
			!bytes.Contains(log, []byte("planted by the test")) {
			p.Errorf("the log holds the secret %q:\n%s", secret, log)
		}
	}
	return code, out.String(), errs.String()
}

// runJSON runs it with --json.
func (p *doctorHome) runJSON(args ...string) Report {
	p.Helper()
	code, stdout, stderr := p.runDoctor(append([]string{"--json"}, args...)...)
	var r Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		p.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	if r.ExitCode != code {
		p.Errorf("exit code %d, and %d in the object", code, r.ExitCode)
	}
	return r
}

// problemIDs are the ids of what is not well, each once.
func (r Report) problemIDs() (ids []string) {
	for _, f := range r.Findings {
		if (f.Level == Warn || f.Level == Fail) && !slices.Contains(ids, f.ID) {
			ids = append(ids, f.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// wantFinding fails the test if there is no finding of this level that says this.
func (r Report) wantFinding(t *testing.T, id string, level Level, says, fix string) {
	t.Helper()
	found := ""
	for _, f := range r.Findings {
		if f.ID != id {
			continue
		}
		if f.Level == level && strings.Contains(f.Text, says) && strings.Contains(f.Fix, fix) {
			return
		}
		found += fmt.Sprintf("%+v\n", f)
	}
	t.Errorf("%s is not %s with %q and the fix %q:\n%s", id, level, says, fix, found)
}

// wantWell fails the test if something is not well.
func (r Report) wantWell(t *testing.T) {
	t.Helper()
	kit.Equalf(t, r.problemIDs(), nil, "not well")
	kit.Equalf(t, r.ExitCode, 0, "exit code")
}

// plantedFault is something wrong, and the finding that names it.
type plantedFault struct {
	name      string
	ids       string // of the finding, and of those that the fault brings with it
	level     Level
	says, fix string
	plant     func(p *doctorHome)
}

// configure sets a member of the configuration.
func configure(member string, value any) func(p *doctorHome) {
	return func(p *doctorHome) { p.config[member] = value }
}

// set sets a member of Claude Code's settings.
func set(member string, value any) func(p *doctorHome) {
	return func(p *doctorHome) { p.settings[member] = value }
}

// checkFaults fails the test where a fault is not found by the check that is for it, or
// by another one, and where its line does not name the fix.
func checkFaults(t *testing.T, faults []plantedFault) {
	for _, c := range faults {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newDoctorHome(t)
			c.plant(p)
			p.writeDefaults()
			r := p.runJSON()
			want := strings.Fields(c.ids)
			r.wantFinding(t, want[0], c.level, c.says, c.fix)
			if wantCode := map[Level]int{Warn: 1, Fail: 2}[c.level]; len(want) == 1 {
				kit.Equalf(t, r.ExitCode, wantCode, "exit code")
			}
			slices.Sort(want)
			kit.Equalf(t, r.problemIDs(), want, "what is not well")
		})
	}
}
