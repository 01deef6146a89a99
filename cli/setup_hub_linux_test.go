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
	*home
	*team.Hub
	space *space.Space
}

func newHubHome(t *testing.T) *hubHome {
	t.Helper()
	h, sp := team.StartLocal(t)
	c := &hubHome{newHome(t), h, sp}
	c.Replace(func(o *hub.Options) { o.Version = c.programVersion() })
	return c
}

// programVersion is the version of this machine's program.
func (c *hubHome) programVersion() string {
	return strings.TrimSpace(strings.TrimPrefix(c.mustRun("--version"), "gchat-hooks version "))
}

func (c *hubHome) joinHub(args ...string) (output string, code int) {
	c.Helper()
	args = append([]string{"setup", "--hub", c.URL, "--code", "-", "--no-hooks"}, args...)
	return c.executeWithInput(c.Code+"\n", c.program, args...)
}

func (c *hubHome) mustJoinHub() {
	c.Helper()
	if output, code := c.joinHub("--round-trip=false"); code != 0 {
		c.Fatalf("exit code %d: %s", code, output)
	}
}

// setPolicy is the hub's from now on.
func (c *hubHome) setPolicy(text string) {
	file := filepath.Join(c.TempDir(), "policy.json")
	kit.NoError(c, os.WriteFile(file, []byte(text), 0o600))
	c.Replace(func(o *hub.Options) { o.Policy = file })
}

const hubFile = ".config/gchat-hooks/hub.json"

// One command joins a hub. The person's other settings stay, a stranger's tap does not
// count, and only the person can read what was written.
func TestSetupHub_JoinsWithOneLine(t *testing.T) {
	c := newHubHome(t)
	c.setPolicy(`{"spaces": {"spaces/local": ["users/7"]}}`)
	c.writeFile(configFile,
		"{\n\t// mine\n\t\"ask_mode\": \"hold\",\n\t\"allowed_users\": [\"users/666\"],\n"+
			"\t\"credentials_file\": \"key.json\",\n}\n")
	kit.NoError(t, os.Chmod(c.path(configFile), 0o644))
	tapped := make(chan bool)
	go func() {
		defer close(tapped)
		tapCard(t, c.space, mallory)
		spaces := state.SpacesIn(state.UserStateDir(c.getenv))
		if lock, err := spaces.LockReader(c.Subscription); !errors.Is(err, state.ErrLocked) {
			t.Errorf("a poller could take the tap: %v, %v", lock, err)
		}
		bound.Until(t, "the stranger's tap was pulled", func() bool {
			_, requests, _ := c.Seen()
			return slices.ContainsFunc(requests,
				func(r string) bool { return strings.HasSuffix(r, ":acknowledge") })
		})
		tapCard(t, c.space, &chat.User{Name: "users/1", DisplayName: "Ann"})
	}()
	output, code := c.joinHub()
	<-tapped
	if code != 0 || !strings.Contains(output, "Ann (users/1) tapped") {
		t.Fatalf("exit code %d: %s", code, output)
	}
	config := strings.Join(strings.Fields(c.readFile(configFile)), " ")
	for _, want := range []string{
		"// mine", `"ask_mode": "hold"`, `"api_endpoint": "` + c.URL + `"`,
		`"pubsub_endpoint": "` + c.URL + `"`, `"space_id": "spaces/local"`,
		`"pubsub_subscription": "` + c.Subscription + `"`, `/hub.json"`, `"users/1"`, `"users/7"`,
	} {
		kit.Containsf(t, config, want, "the configuration")
	}
	for _, hidden := range []string{
		"users/666", "key.json", gchat.LoadHubClient(c.path(hubFile)).Token,
	} {
		if strings.Contains(output+config, hidden) {
			t.Errorf("%s is in %s\n%s", hidden, output, config)
		}
	}
	for _, name := range []string{configFile, hubFile} {
		info, err := os.Stat(c.path(name))
		kit.NoError(t, err)
		kit.Equalf(t, info.Mode().Perm(), 0o600, "%s", name)
	}
	messages := c.space.Messages()
	kit.Containsf(t, messages[len(messages)-1].Text, "Your taps arrive", "the card")
	// An answer that was lost, or a setup that was killed: the same line does the rest.
	// Another machine cannot use it.
	c.mustJoinHub()
	kit.Equalf(t, len(c.space.Messages()), 1, "messages")
	c.home = newHome(t)
	output, code = c.joinHub()
	kit.Equalf(t, code, 1, "another machine: exit code")
	kit.Containsf(t, output, "the code was used", "another machine")
	kit.Containsf(t, output, "write join", "another machine")
	kit.Equalf(t, c.readFile(configFile), "", "another machine's configuration")
	_, _, refused := c.Seen()
	kit.Equalf(t, len(refused), 0, "refused by the hub: %q", refused)
}

// If setup is killed at any moment, its files are whole, and the same command finishes
// the setup.
func TestSetupHub_SurvivesAKill(t *testing.T) {
	c := newHubHome(t)
	joined := 0
	for i := 0; i < 12 || joined < 2 && i < 200; i++ {
		// on a busy machine a setup takes long to come that far
		cmd := c.command(c.program, "setup", "--hub", c.URL, "--code", "-", "--no-hooks",
			"--round-trip=false")
		cmd.Stdin = strings.NewReader(c.Code)
		kit.NoError(t, cmd.Start())
		time.Sleep(time.Duration(i*4) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if text := c.readFile(hubFile); text != "" && !json.Valid([]byte(text)) {
			t.Fatalf("hub.json is %s", text)
		}
		joined, _, _ = c.Seen()
	}
	c.mustJoinHub()
	config := c.readFile(configFile)
	kit.Equalf(t, strings.Count(config, c.URL), 2, "the hub's address in %s", config)
	if joined < 2 {
		t.Error("no setup came far enough to be killed")
	}
}

func TestSetupHub_SaysWhatIsWrong(t *testing.T) {
	c := newHubHome(t)
	notAHub := newSetupHome(t).serverURL
	for name, test := range map[string]struct {
		args []string
		code string
		says string
	}{
		"no code":      {[]string{"--hub", c.URL}, "", "give --code -, and the code on stdin"},
		"an empty one": {[]string{"--hub", c.URL, "--code", "-"}, "\n", "write join to the app"},
		"in the clear": {
			[]string{"--hub", c.URL, "--code", c.Code}, "", "can be read by every user",
		},
		"no hub": {[]string{"--code", "-"}, c.Code, "write join to the app"},
		"an app": {
			[]string{"--hub", c.URL, "--code", "-", "--app"}, c.Code,
			"cannot be used with --app",
		},
		"too old": {[]string{"--hub", c.URL, "--code", "-"}, c.Code + "x", "within ten minutes"},
		"not TLS": {
			[]string{"--hub", "http://192.0.2.1", "--code", "-"}, c.Code, "neither https nor",
		},
		"nobody": {
			[]string{"--hub", "http://127.0.0.1:1", "--code", "-"}, c.Code, "cannot be reached",
		},
		"not a hub": {[]string{"--hub", notAHub, "--code", "-"}, c.Code, "there is no hub"},
		"no tapping": {[]string{"--hub", c.URL, "--code", "-", "--wait", "300ms"}, c.Code,
			"everything is set up; gchat-hooks doctor"},
	} {
		args := append([]string{"setup", "--no-hooks"}, test.args...)
		output, code := c.executeWithInput(test.code, c.program, args...)
		if code == 0 || !strings.Contains(output, test.says) ||
			strings.Contains(output, "gchat-hooks login") {
			t.Errorf("%s: exit code %d: %s", name, code, output)
		}
	}
}

// wantPostFinding fails the test if doctor does not say this of posting to Chat.
func (c *hubHome) wantPostFinding(level string, parts ...string) {
	c.Helper()
	output, _ := c.run("doctor", "--json")
	var report struct {
		Findings []struct{ ID, Level, What, Mend string }
	}
	kit.NoError(c, json.Unmarshal([]byte(output), &report))
	got := ""
	for _, f := range report.Findings {
		if f.ID == "chat.post" {
			got += f.Level + ": " + f.What + " " + f.Mend + "\n"
		}
	}
	for _, part := range parts {
		kit.Containsf(c, got, part, "chat.post")
	}
	if !strings.HasPrefix(got, level+": ") || strings.Contains(got, "--app") {
		c.Errorf("chat.post is %s, want %s", got, level)
	}
}

// wantHubInStatus fails the test if status does not tell of the hub, or does.
func (c *hubHome) wantHubInStatus(text string, want bool) {
	c.Helper()
	output, _ := c.run("status")
	kit.Equalf(c, strings.Contains(output, text), want, "%q is in status:\n%s", text, output)
}

// Doctor and status say what can be wrong with a hub.
func TestSetupHub_DoctorAndStatusKnowIt(t *testing.T) {
	c := newHubHome(t)
	c.mustJoinHub()
	c.wantPostFinding("ok", "receive taps")
	c.wantHubInStatus("hub", false)
	kit.NoError(t, os.Chmod(c.path(hubFile), 0o604))
	// Doctor may renew the token, and so close the file, before it looks.
	output, _ := c.run("doctor")
	info, err := os.Stat(c.path(hubFile))
	isClosed := err == nil && info.Mode().Perm() == 0o600
	if !isClosed && !strings.Contains(output, "your private files: "+c.path(hubFile)) {
		t.Errorf("a token that others can read: %s", output)
	}
	c.Replace(func(o *hub.Options) { o.Version = "v9.9.9" })
	c.ClockAhead.Store(int64(5 * time.Minute))
	c.wantPostFinding("warn", "clock is 5m0s off", "v9.9.9")
	c.wantHubInStatus("clock is 5m0s off", true)
	c.wantHubInStatus("v9.9.9", true)
	c.Replace(func(o *hub.Options) { o.Version = c.programVersion() })
	c.ClockAhead.Store(0)
	c.wantPostFinding("ok")
	c.wantHubInStatus("hub", false)
	c.Revoke()
	c.wantPostFinding("fail", "revoked", "write join")
	// Status knows what the poller met, without a request.
	c.run("poller", "--once")
	c.wantHubInStatus("write join", true)
	c.mustJoinHub()
	c.wantHubInStatus("write join", false)
	for _, name := range []string{hubFile, configFile} {
		c.writeFile(name, strings.ReplaceAll(c.readFile(name), c.URL, "http://127.0.0.1:1"))
	}
	c.wantPostFinding("fail", "refused", "cannot be reached")
}

// A hub's policy binds a machine from its first message on. A policy that this version
// does not know keeps everything in the terminal.
func TestSetupHub_PolicyBindsTheMachine(t *testing.T) {
	c := newHubHome(t)
	c.mustJoinHub()
	for policy, want := range map[string]struct {
		code int
		text string
	}{
		`{"terminal_only": ["report"]}`: {0, "not sent: the configuration or a policy"},
		`{"terminal_only": ["plan"]}`:   {0, "sent spaces/local/messages/"},
		`{"no_reports": true}`: {
			2, "nothing is asked in Chat: the policy of " + c.URL + " was not read",
		},
	} {
		c.setPolicy(policy)
		kit.NoError(t, os.RemoveAll(filepath.Join(state.UserStateDir(c.getenv), "policy.json")))
		before := len(c.space.Messages())
		c.wantRun(want.code, want.text, "send", "hidden-word")
		isSent := len(c.space.Messages()) > before
		kit.Equalf(t, isSent, strings.HasPrefix(want.text, "sent "), "%s: it is sent", policy)
		if want.code != 0 {
			for _, command := range []string{"status", "doctor"} {
				output, _ := c.run(command)
				kit.Containsf(t, output, "nothing is asked in Chat", "%s", command)
			}
		}
	}
}
