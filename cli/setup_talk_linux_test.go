package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// settler is a person who has nothing yet but a space.
type settler struct {
	t       *testing.T
	home    string
	program string
	space   *space.Space
	url     string // the webhook's
	server  string
}

func newSettler(t *testing.T) *settler {
	dir, err := builtProgram()
	if err != nil {
		t.Fatal(err)
	}
	sp, err := space.Open(space.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(strict.Google(t, sp.Handler(), strict.Embedded))
	t.Cleanup(func() { server.Close(); sp.Close() })
	home := t.TempDir()
	t.Cleanup(func() { // before the folder goes: a space that setup started lives on, and starts pollers
		endSpace(getenv([]string{"HOME=" + home}))
		endPollersIn(home)
	})
	return &settler{t: t, home: home, program: filepath.Join(dir, "gchat-hooks"), space: sp, url: sp.WebhookURL(server.URL), server: server.URL}
}

func (s *settler) setup(args ...string) *ptyDialog {
	return inTerminal(s.t, []string{"HOME=" + s.home, "PATH=/usr/bin:/bin", "TERM=dumb"}, s.program, append([]string{"setup"}, args...)...)
}

func (s *settler) config() string {
	b, _ := os.ReadFile(filepath.Join(s.home, ".config/gchat-hooks/config.json"))
	return string(b)
}

// says has somebody reply in the thread of the last message.
func (s *settler) says(who *chat.User, text string) {
	s.t.Helper()
	ms := s.space.Messages()
	if _, err := s.space.Say(who, ms[len(ms)-1].Thread.Name, text); err != nil {
		s.t.Fatal(err)
	}
}

// Behind a gateway, sessions of 2.1.332 begin in a mode in which permissions do not reach Chat: setup says so, and offers another
// one. It is taken out again with the hooks.
func TestSetupOffersAModeInWhichPermissionsReachChat(t *testing.T) {
	s := newSettler(t)
	claude, file := filepath.Join(s.home, ".local/bin/claude"), filepath.Join(s.home, ".claude/settings.json")
	own := "{\n  \"env\": {\n    \"ANTHROPIC_BASE_URL\": \"https://gateway.example/v1\"\n  }\n}\n"
	for path, text := range map[string]string{claude: "#!/bin/sh\necho '2.1.332 (Claude Code)'\n", file: own} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	read := func() string { b, _ := os.ReadFile(file); return string(b) }

	x := s.setup("--approve", "--start-sessions=false", "--round-trip=false", "--allow", "users/111")
	x.answer("Paste its URL here", s.url)
	x.expect("auto mode, whose check gateway.example does not pass on")
	x.expect("defaultMode.*default")
	x.answer(`Begin sessions in the mode default\? \[y/N\]`, "y")
	x.expect("Done.")
	if code := x.ends(); code != 0 || !strings.Contains(read(), `"defaultMode": "default"`) {
		t.Fatalf("exit code %d, settings %s", code, read())
	}
	cmd := bound.Command(t, s.program, "uninstall")
	cmd.Env = []string{"HOME=" + s.home, "PATH=/usr/bin:/bin"}
	if out, err := cmd.CombinedOutput(); err != nil || read() != own {
		t.Errorf("uninstall: %s, %v, settings %q, want %q", out, err, read(), own)
	}
}

// One conversation, with a slip, an interruption, and a reply of a person who is not on the list yet.
func TestSetupIsOneConversation(t *testing.T) {
	s := newSettler(t)
	ann := &chat.User{Name: "users/111", Type: "HUMAN", DisplayName: "Ann"}

	x := s.setup()
	x.answer("Paste its URL here", "https://chat.googleapis.com/v1/spac")
	x.expect("That does not work: not a Chat webhook URL")
	x.answer("Paste its URL here", s.url)
	x.expect(`ok    webhook   questions go to 127\.0\.0\.1:\d+/spaces/local`)
	x.expect(`ok    reading`)
	x.expect(`choose ok in the thread`)
	s.says(ann, "ok")
	x.expect(`Ann replied, but may not answer; if that is you: gchat-hooks setup --allow users/111`)
	x.typed("\x03")
	if code := x.ends(); code == 0 {
		t.Error("a setup that was stopped ended with 0")
	}
	x.expect("the same command goes on from there")
	if strings.Contains(x.screen(), secretOf(s.url)) {
		t.Errorf("the webhook's secret stands on the screen:\n%s", x.screen())
	}
	before := len(s.space.Messages())

	x = s.setup("--allow", "users/111")
	x.expect(`ok    webhook   questions go to 127\.0\.0\.1`) // not asked again
	x.expect(`ok    people    may answer: users/111`)
	x.expect(`choose ok in the thread`)
	s.says(ann, "ok")
	x.expect(`ok    back      the reply of users/111 Ann was read`)
	x.answer(`Also answer permissions and plans, and give the next instruction, from there\? Anyone who may answer can then run commands here. \[Y/n\]`, "")
	x.expect(`settings.json: 15 hooks added`)
	if _, err := os.Stat("/usr/bin/tmux"); err == nil { // on the PATH that setup has here
		x.answer(`Also resume sessions that ended`, "")
	}
	x.expect("Done.")
	if code := x.ends(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if n := len(s.space.Messages()); n != before+5 { // three of ours, a reply, and the end
		t.Errorf("%d messages, want %d", n, before+5)
	}
	var cfg struct {
		URL   string   `json:"webhook_url"`
		Users []string `json:"allowed_users"`
	}
	if err := json.Unmarshal([]byte(s.config()), &cfg); err != nil || cfg.URL != s.url || strings.Join(cfg.Users, " ") != "users/111" {
		t.Errorf("%v: the configuration is %s", err, s.config())
	}
	if settings, _ := os.ReadFile(filepath.Join(s.home, ".claude/settings.json")); !strings.Contains(string(settings), "gchat-ask-user-forward") {
		t.Errorf("the hooks are not registered:\n%s", settings)
	}
}

// A person who goes away at the first question leaves no trace, whatever stands in the environment; and what stands there
// is kept with the webhook.
func TestSetupWritesNothingBeforeAnAnswer(t *testing.T) {
	s := newSettler(t)
	env := []string{"HOME=" + s.home, "PATH=/usr/bin:/bin", "TERM=dumb", "GCHAT_API_ENDPOINT=" + s.space.APIEndpoint(s.server)}
	x := inTerminal(t, env, s.program, "setup")
	x.expect("Paste its URL here")
	x.echoes(false)
	x.typed("\x03")
	x.ends()
	if there, _ := os.ReadDir(s.home); len(there) > 0 {
		t.Errorf("left in the home folder: %v", there)
	}
	x = inTerminal(t, env, s.program, "setup", "--round-trip=false", "--no-hooks", "--service=false", "--allow", "users/7")
	x.answer("Paste its URL here", s.url)
	x.expect("Done.")
	if x.ends(); !strings.Contains(s.config(), `"`+s.space.APIEndpoint(s.server)+`"`) {
		t.Errorf("the configuration is %s", s.config())
	}
}

// Without Google: setup starts the space, which stays, and asks nothing about a service.
func TestSetupWithoutGoogle(t *testing.T) {
	s := newSettler(t)
	address := freeAddress(t)
	x := s.setup("--round-trip=false", "--no-hooks", "--address", address)
	x.answer("press Enter to answer on a page of this machine", "")
	x.expect(`page:  http://` + address + `/`)
	x.expect(`ok    people    who has the page's address may answer`)
	x.expect(`Done. Now start claude in a project, and tell it:`)
	x.expect(`on the page, http://` + address + `/`)
	if code := x.ends(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, x.screen())
	}
	env := getenv([]string{"HOME=" + s.home})
	if _, detached := lastSpace(env); detached == 0 || !spaceRuns(env) {
		t.Errorf("the space does not run: %d", detached)
	}
	endSpace(env)
	if !regexp.MustCompile(`"api_endpoint": +"http://` + address + `/t/[^/]+/"`).MatchString(s.config()) {
		t.Errorf("the configuration is %s", s.config())
	}
}

// The embedded space's round trip is one thread with one card, which is tapped or answered in words, after which nothing waits for
// the person.
func TestSetupTriesThePage(t *testing.T) {
	t.Parallel()
	for name, typed := range map[string]bool{"tapped": false, "typed": true} {
		t.Run(name, func(t *testing.T) {
			s := newSettler(t)
			address := freeAddress(t)
			x := s.setup("--space", "--no-hooks", "--service=false", "--address", address)
			x.expect(`Now open the page, and tap ok`)
			page := regexp.MustCompile(`page: +(http://\S+)`).FindStringSubmatch(x.screen())[1]
			messages := func() (all []chat.Message) {
				b, _ := os.ReadFile(filepath.Join(s.home, ".local/state/gchat-hooks/space/messages.jsonl"))
				for line := range strings.Lines(string(b)) {
					var row struct{ Message chat.Message }
					if err := json.Unmarshal([]byte(line), &row); err != nil {
						t.Fatal(err)
					}
					if len(all) > 0 && row.Message.Thread.Name != all[0].Thread.Name {
						t.Errorf("a second thread: %s", line)
					}
					all = append(all, row.Message)
				}
				return all
			}
			before := messages()
			if len(before) != 1 || len(before[0].CardsV2) != 1 ||
				!strings.Contains(before[0].FallbackText, "This is a test: please choose ok.\n\nOptions:\n1. ok\n\n") {
				t.Fatalf("the space has %+v", before)
			}
			if typed {
				(&pocket{T: t}).replies(page, before[0].Thread.Name, "1")
			} else {
				(&pocket{T: t}).taps(page, before[0].Name, "1")
			}
			x.expect(`ok    back      your reply was read: "1" means "ok"`)
			x.expect(`Done.`)
			if code := x.ends(); code != 0 {
				t.Errorf("exit code %d:\n%s", code, x.screen())
			}
			if b, err := os.ReadFile(filepath.Join(s.home, ".local/state/gchat-hooks/space/events.jsonl")); err != nil || bytes.Contains(b, []byte(`"id"`)) {
				t.Errorf("a poller is left to answer %s (%v)", b, err)
			}
			after := messages()
			end := after[len(after)-1]
			if end.Name != before[0].Name || !strings.HasPrefix(end.Text, "[Answered] gchat-hooks setup\n") ||
				!strings.Contains(end.Text, "\nSelected: ok\n") || end.CardsV2[0].CardId != "gchat-hooks.question.answered" {
				t.Errorf("the space has %+v", after)
			}
		})
	}
}

// A purge asks, and takes anything but a yes for a no. While a daemon runs that a person started, it removes nothing.
func TestPurgeAsks(t *testing.T) {
	s := newSettler(t)
	env := []string{"HOME=" + s.home, "PATH=/usr/bin:/bin", "TERM=dumb"}
	x := s.setup("--send-only", "--service=false", "--no-hooks")
	x.answer("Paste its URL here", s.url)
	x.expect("Done.")
	x.ends()
	daemon := exec.Command(s.program, "poller")
	daemon.Env = env
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- daemon.Wait() }()
	t.Cleanup(func() { _ = daemon.Process.Kill() })
	runs := func(h state.Heartbeat) bool { return h.Lives && h.Daemon }
	bound.Until(t, "the daemon runs", func() bool { return slices.ContainsFunc(state.Pollers(getenv(env)), runs) })

	x = inTerminal(t, env, s.program, "uninstall", "--purge", "--yes")
	x.expect(fmt.Sprintf(`the daemon runs \(pid %d on `, daemon.Process.Pid))
	if code := x.ends(); code != 1 {
		t.Errorf("beside a daemon: exit code %d", code)
	}
	_ = daemon.Process.Signal(syscall.SIGTERM)
	if err := <-ended; err != nil {
		t.Errorf("the daemon ended with %v", err)
	}
	for _, answer := range []string{"", "n"} {
		x = inTerminal(t, env, s.program, "uninstall", "--purge")
		x.answer(`Remove all of it\? \[y/N\]`, answer)
		x.expect("nothing was removed")
		if x.ends(); s.config() == "" {
			t.Fatalf("%q removed the configuration", answer)
		}
	}
	x = inTerminal(t, env, s.program, "uninstall", "--purge")
	x.answer(`Remove all of it\?`, "yes")
	x.expect("gchat-hooks is gone")
	if code := x.ends(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if left, _ := os.ReadDir(s.home); len(left) > 0 {
		t.Errorf("left in the home folder: %v", left)
	}
}

// install.sh asks, too, where there is somebody to ask.
func TestUninstallScriptAsksOnATerminal(t *testing.T) {
	n := newNewcomer(t, "/usr/bin:/bin")
	before := n.tree()
	n.does("sh", installScript(t), "--binary", program(t))
	x := inTerminal(t, append(n.env, "TERM=dumb"), "bash", installScript(t), "--uninstall")
	x.answer(`Remove all of it\? \[y/N\]`, "n")
	if x.ends(); n.tree() == before {
		t.Error("a no removed all of it")
	}
	x = inTerminal(t, append(n.env, "TERM=dumb"), "bash", installScript(t), "--uninstall")
	x.answer(`Remove all of it\? \[y/N\]`, "y")
	if code := x.ends(); code != 0 || n.tree() != before {
		t.Errorf("exit code %d; the home folder is\n%s", code, n.tree())
	}
}

func secretOf(webhook string) string { return webhook[strings.Index(webhook, "token=")+len("token="):] }
