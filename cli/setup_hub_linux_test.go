package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/team"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/hub"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// hubHome is a machine that joins a hub whose Chat is an embedded space.
type hubHome struct {
	*setupHome
	*team.Hub
	space *space.Space
	t     *testing.T
}

func newHubHome(t *testing.T) *hubHome {
	h, sp := team.StartLocal(t)
	c := &hubHome{setupHome: newSetupHome(t), Hub: h, space: sp, t: t}
	c.Replace(func(o *hub.Options) { o.Version = c.programVersion() })
	return c
}

// programVersion is the version of this machine's program.
func (c *hubHome) programVersion() string {
	_, said := c.run("--version")
	return strings.TrimSpace(strings.TrimPrefix(said, "gchat-hooks version "))
}

func (c *hubHome) run(args ...string) (code int, said string) {
	return c.runWithStdin("", args...)
}

// runWithStdin runs the program with a text on its stdin.
func (c *hubHome) runWithStdin(stdin string, args ...string) (code int, said string) {
	cmd := bound.Command(c.t, c.program, args...)
	cmd.Env = []string{"HOME=" + c.home, "PATH=/usr/bin:/bin"}
	cmd.Stdin = strings.NewReader(stdin)
	out, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(out)
}

func (c *hubHome) joinHub(args ...string) (code int, said string) {
	args = append([]string{"setup", "--hub", c.URL, "--code", "-", "--no-hooks"}, args...)
	return c.runWithStdin(c.Code+"\n", args...)
}

// setPolicy is the hub's from now on.
func (c *hubHome) setPolicy(text string) {
	file := filepath.Join(c.t.TempDir(), "policy.json")
	kit.NoError(c.t, os.WriteFile(file, []byte(text), 0o600))
	c.Replace(func(o *hub.Options) { o.Policy = file })
}

// tapTestCard has people tap the test card once it is there, one after the other.
func (c *hubHome) tapTestCard(users ...string) {
	for _, user := range users {
		bound.Until(c.t, "there is a card to tap", func() bool {
			return slices.ContainsFunc(c.space.Messages(), func(m *chat.Message) bool {
				return len(m.CardsV2) > 0 && c.space.Tap(&chat.User{Name: user, DisplayName: "Ann"}, m.Name, "", "send", nil, "") == nil
			})
		})
	}
}

// One line joins: what the person configured otherwise stays, a stranger's tap does not
// count, and what was written is the person's alone.
func TestSetupHub_JoinsWithOneLine(t *testing.T) {
	c := newHubHome(t)
	c.setPolicy(`{"spaces": {"spaces/local": ["users/7"]}}`)
	dir := filepath.Join(c.home, ".config/gchat-hooks")
	kit.NoError(t, os.MkdirAll(dir, 0o755))
	before := "{\n\t// mine\n\t\"ask_mode\": \"hold\",\n\t\"allowed_users\": [\"users/666\"],\n\t\"credentials_file\": \"key.json\",\n}\n"
	kit.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(before), 0o644))
	tapped := make(chan bool)
	go func() {
		defer close(tapped)
		c.tapTestCard("users/666")
		user := filepath.Join(c.home, ".local/state/gchat-hooks")
		if lock, err := state.SpacesIn(user).LockReader(c.Subscription); !errors.Is(err, state.ErrLocked) {
			t.Errorf("a poller could take the tap: %v, %v", lock, err)
		}
		bound.Until(t, "the stranger's tap is heard", func() bool {
			_, requests, _ := c.Seen()
			return slices.ContainsFunc(requests, func(r string) bool { return strings.HasSuffix(r, ":acknowledge") })
		})
		c.tapTestCard("users/1")
	}()
	code, said := c.joinHub()
	<-tapped
	if code != 0 || !strings.Contains(said, "Ann (users/1) tapped") || strings.Contains(said, "users/666") || strings.Contains(said, gchat.LoadHubClient(filepath.Join(dir, "hub.json")).Token) {
		t.Fatalf("%d: %s", code, said)
	}
	config := strings.Join(strings.Fields(c.readConfig()), " ")
	for _, want := range []string{
		"// mine", `"ask_mode": "hold"`, `"api_endpoint": "` + c.URL + `"`, `"pubsub_endpoint": "` + c.URL + `"`, `"space_id": "spaces/local"`,
		`"pubsub_subscription": "` + c.Subscription + `"`, `/hub.json"`, `"users/1"`, `"users/7"`,
	} {
		if !strings.Contains(config, want) {
			t.Errorf("no %s in %s", want, config)
		}
	}
	if strings.Contains(config, "users/666") || strings.Contains(config, "key.json") {
		t.Error(config)
	}
	for _, name := range []string{"config.json", "hub.json"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	last := c.space.Messages()[len(c.space.Messages())-1]
	kit.Containsf(t, last.Text, "Your taps arrive", "the card")
	// An answer that was lost, or a setup that was killed: the same line does the rest.
	// Another machine cannot use it.
	if code, said := c.joinHub("--round-trip=false"); code != 0 || len(c.space.Messages()) != 1 {
		t.Errorf("again: %d: %s", code, said)
	}
	other := *c.setupHome
	other.home = t.TempDir()
	c.setupHome = &other
	if code, said := c.joinHub(); code != 1 || !strings.Contains(said, "the code was used") || !strings.Contains(said, "write join") || c.readConfig() != "" {
		t.Errorf("another machine: %d: %s", code, said)
	}
	if _, _, refused := c.Seen(); len(refused) > 0 {
		t.Errorf("the hub refused %q", refused)
	}
}

// Killed at any moment, what stands is whole, and the same line does the rest.
func TestSetupHub_SurvivesAKill(t *testing.T) {
	c := newHubHome(t)
	joined := 0
	for i := 0; i < 12 || joined < 2 && i < 200; i++ {
		// on a busy machine a setup takes long to come that far
		cmd := bound.Command(t, c.program, "setup", "--hub", c.URL, "--code", "-", "--no-hooks", "--round-trip=false")
		cmd.Stdin = strings.NewReader(c.Code)
		cmd.Env = []string{"HOME=" + c.home, "PATH=/usr/bin:/bin"}
		kit.NoError(t, cmd.Start())
		time.Sleep(time.Duration(i*4) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		var parsed any
		b, err := os.ReadFile(filepath.Join(c.home, ".config/gchat-hooks/hub.json"))
		if err == nil && json.Unmarshal(b, &parsed) != nil {
			t.Fatalf("hub.json is %s", b)
		}
		joined, _, _ = c.Seen()
	}
	if code, said := c.joinHub("--round-trip=false"); code != 0 || strings.Count(c.readConfig(), c.URL) != 2 {
		t.Errorf("%d: %s\n%s", code, said, c.readConfig())
	}
	if joined < 2 {
		t.Error("no setup came far enough to be killed")
	}
}

func TestSetupHub_SaysWhatIsWrong(t *testing.T) {
	c := newHubHome(t)
	for name, test := range map[string]struct {
		args []string
		code string
		says string
	}{
		"no code":      {[]string{"--hub", c.URL}, "", "give --code -, and the code on stdin"},
		"an empty one": {[]string{"--hub", c.URL, "--code", "-"}, "\n", "write join to the app"},
		"in the clear": {[]string{"--hub", c.URL, "--code", c.Code}, "", "can be read by every user"},
		"no hub":       {[]string{"--code", "-"}, c.Code, "write join to the app"},
		"an app":       {[]string{"--hub", c.URL, "--code", "-", "--app"}, c.Code, "cannot be used with --app"},
		"too old":      {[]string{"--hub", c.URL, "--code", "-"}, c.Code + "x", "within ten minutes"},
		"not TLS":      {[]string{"--hub", "http://192.0.2.1", "--code", "-"}, c.Code, "neither https nor on this machine"},
		"nobody":       {[]string{"--hub", "http://127.0.0.1:1", "--code", "-"}, c.Code, "cannot be reached"},
		"not a hub":    {[]string{"--hub", c.serverURL, "--code", "-"}, c.Code, "there is no hub"},
		"no tapping":   {[]string{"--hub", c.URL, "--code", "-", "--wait", "300ms"}, c.Code, "everything is set up; gchat-hooks doctor"},
	} {
		code, said := c.runWithStdin(test.code, append([]string{"setup", "--no-hooks"}, test.args...)...)
		if code == 0 || !strings.Contains(said, test.says) || strings.Contains(said, "gchat-hooks login") {
			t.Errorf("%s: %d: %s", name, code, said)
		}
	}
}

// What can be wrong with a hub, in the words of doctor and of status.
func TestSetupHub_DoctorAndStatusKnowIt(t *testing.T) {
	c := newHubHome(t)
	if code, said := c.joinHub("--round-trip=false"); code != 0 {
		t.Fatal(said)
	}
	post := func() (level, what, mend string) {
		_, said := c.run("doctor", "--json")
		var report struct {
			Findings []struct{ ID, Level, What, Mend string }
		}
		if err := json.Unmarshal([]byte(said), &report); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		for _, f := range report.Findings {
			if f.ID == "chat.post" {
				level, what, mend = f.Level, what+f.What, mend+f.Mend
			}
		}
		return level, what, mend
	}
	status := func() string {
		_, said := c.run("status")
		return said
	}
	if level, what, _ := post(); level != "ok" || !strings.Contains(what, "receive taps") || strings.Contains(status(), "hub") {
		t.Errorf("%s: %s; %s", level, what, status())
	}
	file := filepath.Join(c.home, ".config/gchat-hooks/hub.json")
	kit.NoError(t, os.Chmod(file, 0o604))
	_, said := c.run("doctor") // which may renew the token, and so close the file, before it looks
	if info, err := os.Stat(file); !strings.Contains(said, "your private files: "+file) && (err != nil || info.Mode().Perm() != 0o600) {
		t.Errorf("a token that others can read: %s", said)
	}
	c.Replace(func(o *hub.Options) { o.Version = "v9.9.9" })
	c.ClockAhead.Store(int64(5 * time.Minute))
	level, what, _ := post()
	for _, words := range []string{what, status()} {
		if level != "warn" || !strings.Contains(words, "clock is 5m0s off") || !strings.Contains(words, "v9.9.9") {
			t.Errorf("%s: %s", level, words)
		}
	}
	c.Replace(func(o *hub.Options) { o.Version = c.programVersion() })
	c.ClockAhead.Store(0)
	if level, what, _ := post(); level != "ok" || strings.Contains(status(), "hub") {
		t.Errorf("mended: %s: %s; %s", level, what, status())
	}
	c.Revoke()
	if level, what, mend := post(); level != "fail" || !strings.Contains(what, "revoked") || !strings.Contains(mend, "write join") || strings.Contains(mend, "--app") {
		t.Errorf("revoked: %s: %s: %s", level, what, mend)
	}
	// What the poller meets is told by status without a request.
	c.run("poller", "--once")
	kit.Containsf(t, status(), "write join", "revoked")
	if code, said := c.joinHub("--round-trip=false"); code != 0 || strings.Contains(status(), "write join") {
		t.Errorf("joined anew: %s; %s", said, status())
	}
	b, err := os.ReadFile(file)
	kit.NoError(t, err)
	down := strings.ReplaceAll(string(b)+c.readConfig(), c.URL, "http://127.0.0.1:1")
	i := strings.Index(down, "}\n") + 2
	for path, text := range map[string]string{file: down[:i], filepath.Join(c.home, ".config/gchat-hooks/config.json"): down[i:]} {
		kit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	if level, what, mend := post(); level != "fail" || !strings.Contains(what, "refused") || !strings.Contains(mend, "cannot be reached") {
		t.Errorf("down: %s: %s: %s", level, what, mend)
	}
}

// A hub's policy binds a machine from its first message on, and what this version does
// not know keeps all in the terminal.
func TestSetupHub_PolicyBindsTheMachine(t *testing.T) {
	c := newHubHome(t)
	if code, said := c.joinHub("--round-trip=false"); code != 0 {
		t.Fatal(said)
	}
	sends := func(policy string, want int, words string) {
		t.Helper()
		c.setPolicy(policy)
		kit.NoError(t, os.RemoveAll(filepath.Join(c.home, ".local", "state", "gchat-hooks", "policy.json")))
		before := len(c.space.Messages())
		if code, said := c.run("send", "hidden-word"); code != want || !strings.Contains(said, words) {
			t.Errorf("%s: %d, %s", policy, code, said)
		}
		if n := len(c.space.Messages()) - before; (n > 0) != (words == "") {
			t.Errorf("%s: %d messages", policy, n)
		}
	}
	sends(`{"terminal_only": ["report"]}`, 0, "not sent: the configuration or a policy")
	sends(`{"terminal_only": ["plan"]}`, 0, "")
	sends(`{"no_reports": true}`, 2, "nothing is asked in Chat: the policy of "+c.URL+" was not read")
	for _, command := range []string{"status", "doctor"} {
		if _, said := c.run(command); !strings.Contains(said, "nothing is asked in Chat") {
			t.Errorf("%s: %s", command, said)
		}
	}
}
