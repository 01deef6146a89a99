package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	bounded "gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/state"
)

// Secrets that stand in a patient's files. None may come out.
const (
	plantedKey     = "sk-ant-api03-planted-anthropic-key"
	plantedRefresh = "1//0planted-refresh-token-abcdef"
	plantedClient  = "GOCSPX-planted-client-secret"
	foreignSecret  = "hush-of-another-program"
)

// asDoctor is set where the test's program is to be the doctor: PATH, proxies and certificates are a process's own.
const asDoctor = "GCHAT_TEST_DOCTOR"

func TestMain(m *testing.M) {
	if os.Getenv(asDoctor) == "" {
		os.Exit(m.Run())
	}
	flags := flag.NewFlagSet("doctor", flag.ExitOnError)
	all, live, inJSON := flags.Bool("all", false, ""), flags.Bool("live", false, ""), flags.Bool("json", false, "")
	wait, paste := flags.Duration("wait", 0, ""), flags.Bool("paste", false, "")
	_ = flags.Parse(os.Args[1:])
	o := Options{Env: os.Getenv, Version: "v1.2.3", Live: *live, Wait: *wait, Tell: func(s string) { fmt.Fprintln(os.Stderr, s) }}
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

// patient is a made-up person with a HOME, a project and a space, in which everything is as it should be until a fault is
// planted.
type patient struct {
	*testing.T
	home, project, bin string
	program            string
	space              *space.Space
	server             *httptest.Server
	answers            func(w http.ResponseWriter, r *http.Request) bool // true: it has answered in the space's place
	env                map[string]string
	config             map[string]any // of ~/.config/gchat-hooks/config.json
	settings           map[string]any // members of the user's settings.json beside the hooks
	presets            []string
	claude             string // what claude --version prints
	secrets            []string
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // else its user alone gets at what is in it
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &patient{
		T: t, home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project"), bin: filepath.Join(dir, "bin"), presets: []string{"report"},
		claude: "2.1.329 (Claude Code)", settings: map[string]any{},
	}
	for _, d := range []string{p.home, p.bin, filepath.Join(p.project, ".claude"), filepath.Join(dir, "tmux"), filepath.Join(dir, "managed")} {
		p.check(os.MkdirAll(d, 0o755))
	}
	p.program = filepath.Join(p.bin, "gchat-hooks")
	p.check(os.Symlink(self, p.program))
	p.space, err = space.Open(space.Options{})
	p.check(err)
	p.server = httptest.NewServer(strict.Google(t, p, strict.Embedded))
	t.Cleanup(func() { p.server.CloseClientConnections(); p.server.Close(); p.space.Close() })
	p.env = map[string]string{
		asDoctor: "1", "HOME": p.home, "PATH": p.bin + ":/usr/bin:/bin", "CLAUDE_PROJECT_DIR": p.project, "TZ": "UTC", "ANTHROPIC_API_KEY": plantedKey,
		"TMUX_TMPDIR": filepath.Join(dir, "tmux"), "CLAUDE_CODE_MANAGED_SETTINGS_PATH": filepath.Join(dir, "managed"),
		// Google's library would look for the machine that it runs on.
		"GOOGLE_APPLICATION_CREDENTIALS": filepath.Join(dir, "none.json"), "GCE_METADATA_HOST": "127.0.0.1:1",
	}
	hook := p.space.WebhookURL(p.server.URL)
	p.config = map[string]any{"webhook_url": hook, "allowed_users": []string{space.Human}}
	_, query, _ := strings.Cut(hook, "?key=")
	p.secrets = append(strings.Split(query, "&token="), plantedKey, plantedRefresh, plantedClient, foreignSecret)
	p.writeJSON(filepath.Join(p.home, ".claude.json"), map[string]any{"projects": map[string]any{p.project: map[string]any{"hasTrustDialogAccepted": true}}})
	return p
}

func (p *patient) check(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// ServeHTTP is the space, but for what was planted.
func (p *patient) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.URL.Path = strings.Replace(r.URL.Path, googles, space.Name, 1)
	if p.answers == nil || !p.answers(w, r) {
		p.space.Handler().ServeHTTP(w, r)
	}
}

// googles is a space of Google's, for which the embedded one stands in.
const googles = "spaces/AAAA"

func (p *patient) atGoogle() {
	p.config["webhook_url"] = strings.Replace(fmt.Sprint(p.config["webhook_url"]), space.Name, googles, 1)
}

func (p *patient) write(path, text string, mode os.FileMode) {
	p.Helper()
	p.check(os.MkdirAll(filepath.Dir(path), 0o755))
	p.check(os.WriteFile(path, []byte(text), mode))
	p.check(os.Chmod(path, mode))
}

func (p *patient) writeJSON(path string, v any) {
	p.Helper()
	b, err := json.Marshal(v)
	p.check(err)
	p.write(path, string(b), 0o600)
}

func (p *patient) userState() string { return filepath.Join(p.home, ".local", "state", "gchat-hooks") }

func (p *patient) getenv(name string) string { return p.env[name] }

func (p *patient) settingsFile() string { return filepath.Join(p.home, ".claude", "settings.json") }

// entries are those of presets, as this Claude Code takes them.
func (p *patient) entries() []settings.Entry {
	p.Helper()
	version, _ := settings.ParseVersion(p.claude)
	hooks, err := settings.Hooks(p.presets...)
	p.check(err)
	entries, _ := settings.Entries(p.program, version, hooks)
	return entries
}

// furnish writes what was not written yet.
func (p *patient) furnish() {
	p.Helper()
	if p.config != nil {
		p.writeJSON(filepath.Join(p.home, ".config", "gchat-hooks", "config.json"), p.config)
	}
	if _, err := os.Stat(p.settingsFile()); err != nil {
		b, err := json.Marshal(p.settings)
		p.check(err)
		if p.presets != nil {
			b, err = settings.Install(b, p.entries())
			p.check(err)
		}
		p.write(p.settingsFile(), string(b), 0o600)
	}
	if p.claude != "" {
		p.write(filepath.Join(p.bin, "claude"), "#!/bin/sh\nps -eo args > "+filepath.Join(p.bin, "ps.txt")+"\necho '"+p.claude+"'\n", 0o755)
	}
}

// doctor runs the program, and sees to it that no secret is anywhere to be seen.
func (p *patient) doctor(args ...string) (code int, stdout, stderr string) {
	p.Helper()
	cmd := bounded.Command(p, p.program, args...)
	cmd.Dir = p.project
	for _, name := range slices.Sorted(maps.Keys(p.env)) {
		cmd.Env = append(cmd.Env, name+"="+p.env[name])
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		p.check(err)
	}
	if took := time.Since(began); took > 30*time.Second {
		p.Errorf("it took %s", took)
	}
	log, _ := os.ReadFile(filepath.Join(p.home, ".claude", "logs", "gchat-hooks.log"))
	processes, _ := os.ReadFile(filepath.Join(p.bin, "ps.txt"))
	for _, secret := range p.secrets {
		for where, text := range map[string]string{"stdout": out.String(), "stderr": errs.String(), "ps": string(processes)} {
			if strings.Contains(text, secret) {
				p.Errorf("%s holds the secret %q:\n%s", where, secret, text)
			}
		}
		if bytes.Contains(log, []byte(secret)) && !bytes.Contains(log, []byte("planted by the test")) {
			p.Errorf("the log holds the secret %q:\n%s", secret, log)
		}
	}
	return code, out.String(), errs.String()
}

// examined runs it with --json.
func (p *patient) examined(args ...string) Report {
	p.Helper()
	code, stdout, stderr := p.doctor(append([]string{"--json"}, args...)...)
	var r Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		p.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	if r.ExitCode != code {
		p.Errorf("exit code %d, and %d in the object", code, r.ExitCode)
	}
	return r
}

// bad are the ids of what is not well, each once.
func (r Report) bad() (ids []string) {
	for _, f := range r.Findings {
		if (f.Level == Warn || f.Level == Fail) && !slices.Contains(ids, f.ID) {
			ids = append(ids, f.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

func (r Report) find(id string) Finding {
	for _, f := range r.Findings {
		if f.ID == id {
			return *f
		}
	}
	return Finding{}
}

// With nothing wrong all is green, nothing is posted, and nothing is written but what was there.
func TestDoctorFindsNothingWhereNothingIs(t *testing.T) {
	p := newPatient(t)
	p.furnish()
	r := p.examined()
	if bad := r.bad(); r.ExitCode != 0 || len(bad) > 0 {
		t.Errorf("exit code %d, not well: %v\n%+v", r.ExitCode, bad, r.Findings)
	}
	for _, id := range []string{"claude.version", "claude.hooks", "claude.trust", "chat.post", "chat.read", "chat.allowed", "files.private"} {
		if f := r.find(id); f.Level != OK {
			t.Errorf("%s: %+v", id, f)
		}
	}
	if f := r.find("live"); f.Level != Skip || !strings.Contains(f.What, "gchat-hooks doctor --live") {
		t.Errorf("what was not tried: %+v", f)
	}
	if n := len(p.space.Messages()); n > 0 {
		t.Errorf("%d messages were posted", n)
	}
	for _, dir := range []string{p.userState(), filepath.Join(p.project, ".claude", "state"), filepath.Join(p.home, ".claude", "logs")} {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("it made %s", dir)
		}
	}
	code, stdout, stderr := p.doctor()
	if code != 0 || stderr != "" || !strings.Contains(stdout, " ok, 0 warn, 0 fail, ") || strings.Count(stdout, "\n") != 1 {
		t.Errorf("what is well is one line: exit code %d\n%s%s", code, stdout, stderr)
	}
	_, stdout, _ = p.doctor("--all")
	if !strings.Contains(stdout, "\nok    chat.post ") || strings.Count(stdout, "\n") != len(r.Findings)+2 {
		t.Errorf("--all has a line for each, an empty line and the sum:\n%s", stdout)
	}
}

// Problems come first, the failures before the warnings.
func TestDoctorTellsProblemsFirst(t *testing.T) {
	p := newPatient(t)
	p.config["alowed_users"] = "users/1"
	p.presets = nil
	p.furnish()
	_, stdout, _ := p.doctor("--all")
	lines := strings.Split(stdout, "\n")
	if !strings.HasPrefix(lines[0], "fail  claude.hooks ") || !strings.HasPrefix(lines[1], "warn  config.parse ") || !strings.HasPrefix(lines[2], "ok    ") {
		t.Errorf("%s", stdout)
	}
}

// What answers in Chat's place must not reach into the terminal.
func TestReportShowsWordsOnly(t *testing.T) {
	e := &exam{log: state.NewLog(func(string) string { return "" }, "doctor")}
	esc := "\x1b]0;title\x07\x1b[2J"
	got := e.report([]*Finding{{ID: "live.in", Level: Fail, What: "why" + esc, Mend: "so" + esc}}).Text(false)
	if strings.ContainsAny(got, "\x1b\x07") || !strings.HasPrefix(got, "fail  live.in         why") {
		t.Errorf("%q", got)
	}
}

// A space that takes any message, the doctor's empty one too, is one that the webhook reaches.
func TestDoctorTakesAnAnsweringChat(t *testing.T) {
	p := newPatient(t)
	p.answers = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			_ = json.NewEncoder(w).Encode(chat.Message{Name: "spaces/local/messages/m"})
		}
		return r.Method == http.MethodPost
	}
	p.furnish()
	if r := p.examined(); r.ExitCode != 0 || r.find("chat.post").Level != OK {
		t.Errorf("exit code %d, not well: %v; %+v", r.ExitCode, r.bad(), r.find("chat.post"))
	}
}

// The round trip: a message gets into the space and back, and so does a person's reply.
func TestDoctorLive(t *testing.T) {
	p := newPatient(t)
	p.config["writes_per_minute"] = 6000
	said := false
	p.answers = func(_ http.ResponseWriter, r *http.Request) bool {
		if ms := p.space.Messages(); r.Method == http.MethodGet && len(ms) == 3 && !said && strings.Contains(ms[0].Text, "please choose ok") {
			said = true
			_, err := p.space.Say(space.Person(), ms[0].Thread.Name, "ok")
			if err != nil {
				t.Error(err)
			}
		}
		return false
	}
	p.furnish()
	r := p.examined("--live", "--wait", "20s")
	if bad := r.bad(); r.ExitCode != 0 || len(bad) > 0 || r.find("live.out").Level != OK || !strings.HasPrefix(r.find("live.in").What, "your reply was read") {
		t.Errorf("exit code %d, not well: %v; %+v, %+v", r.ExitCode, bad, r.find("live.out"), r.find("live.in"))
	}
	ms := p.space.Messages()
	if len(ms) != 6 || !strings.HasPrefix(ms[4].Text, "[Answered] ") || !strings.Contains(ms[4].Text, "\nSelected: ok\n") || !strings.Contains(ms[4].Text, "The test is over.") || ms[4].Thread.Name != ms[0].Thread.Name {
		t.Errorf("%d messages", len(ms))
	}
	r = p.examined("--live", "--wait", "0")
	if n := len(p.space.Messages()); r.ExitCode != 0 || n != 10 || r.find("live.in").Level != Skip {
		t.Errorf("asking nobody: exit code %d, %d messages, %+v", r.ExitCode, n, r.find("live.in"))
	}
}

// A round trip that goes wrong is found.
func TestDoctorLiveFindsWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name  string
		plant func(p *patient)
		id    string
		level Level
		says  string
	}{
		{"nobody replies", func(*patient) {}, "live.in", Fail, "no person replied within"},
		{"the answer names no thread", func(p *patient) {
			p.answers = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPost {
					return false
				}
				b, _ := io.ReadAll(r.Body)
				if string(b) == "{}" {
					r.Body = io.NopCloser(bytes.NewReader(b))
					return false
				}
				_ = json.NewEncoder(w).Encode(chat.Message{Name: "spaces/local/messages/m"})
				return true
			}
		}, "live.out", Fail, "thread keys are not kept to"},
		{"a thread for each message", func(p *patient) {
			p.answers = func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPost {
					var body map[string]any
					b, _ := io.ReadAll(r.Body)
					_ = json.Unmarshal(b, &body)
					delete(body, "thread")
					b, _ = json.Marshal(body)
					r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
				}
				return false
			}
		}, "live.out", Fail, "thread keys are not kept to"},
		{"somebody else replies", func(p *patient) {
			said := false
			p.answers = func(_ http.ResponseWriter, r *http.Request) bool {
				if ms := p.space.Messages(); r.Method == http.MethodGet && len(ms) == 3 && !said {
					said = true
					_, _ = p.space.Say(&chat.User{Name: "users/7", Type: "HUMAN"}, ms[0].Thread.Name, "ok")
				}
				return false
			}
		}, "live.in", Fail, "only people replied who may not answer: users/7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPatient(t)
			p.config["writes_per_minute"] = 6000
			c.plant(p)
			p.furnish()
			r := p.examined("--live", "--wait", "1500ms")
			if f := r.find(c.id); f.Level != c.level || !strings.Contains(f.What, c.says) || f.Mend == "" {
				t.Errorf("%+v", f)
			}
		})
	}
}
