package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// A person's file that was read once and is missing counts as unreadable. So deleting it,
// or replacing it in two steps, lifts no rule.
func TestConfig_MissingFileIsUnread(t *testing.T) {
	const bridge = `{"mcpServers": {"google-chat-bridge": {"env": {"GCHAT_APPROVERS": "users/1"}}}}`
	const space = `{"mcpServers": {"google-chat-bridge": {"env": {"GOOGLE_CHAT_SPACE_ID": "spaces/A"}}}}`
	all := map[string]string{personFile: `{"never_remote": ["Bash(git push*)"]}`,
		"~/.mcp.json": bridge}
	for name, test := range map[string]struct {
		was    map[string]string
		change func(p *place)
		closed bool
	}{
		"nothing was there": {nil, func(*place) {}, false},
		"all is there":      {all, func(*place) {}, false},
		"the person's file": {all, func(p *place) { p.remove(personFile) }, true},
		"its folder":        {all, func(p *place) { p.remove("~/.config") }, true},
		"another's place": {all,
			func(p *place) { p.env["GCHAT_CONFIG"] = filepath.Join(p.proj, "none.json") }, false},
		"the person's .mcp.json": {all, func(p *place) { p.remove("~/.mcp.json") }, true},
		"a .mcp.json that had nothing of ours": {map[string]string{"~/.mcp.json": `{"mcpServers": {"x": {}}}`},
			func(p *place) { p.remove("~/.mcp.json") }, false},
		"a project's file": {map[string]string{projectFile: `{"ask_mode": "off"}`,
			".mcp.json": space},
			func(p *place) { p.remove(".claude"); p.remove(".mcp.json") }, false},
		"gone, and there again": {all, func(p *place) {
			p.remove(personFile)
			p.load()
			p.write(personFile, "{}")
		}, false},
		"gone with the state": {all,
			func(p *place) { p.remove(personFile); p.remove("~/.local/state") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.write("~/.local/state/gchat-hooks/x", "")
			for path, text := range test.was {
				p.write(path, text)
			}
			c := p.load()
			kit.True(t, !c.HasUnreadFile && len(c.Problems) == 0, "before: %v", c.Problems)
			test.change(p)
			for _, c := range []*Config{p.load(), LoadPersonal(p.getenv)} {
				isClosed := c.HasUnreadFile && c.IsAllowlistUnknown &&
					c.isNeverRemote("Read", "x") && errors.Is(c.noWebhookError(), ErrFileGone)
				kit.True(t, isClosed == test.closed && c.HasUnreadFile == test.closed &&
					(len(c.Problems) > 0) == test.closed,
					"unread %v, problems %v", c.HasUnreadFile, c.Problems)
			}
		})
	}
}

// The error about a missing file names two ways to go on, and both work.
func TestConfig_AfterAMissingFile(t *testing.T) {
	p := newPlace(t)
	p.write(personFile, `{"approvers": []}`)
	p.write("~/.local/state/gchat-hooks/x", "")
	p.load()
	p.remove(personFile)
	told := p.load().Problems[0].Error()
	file, remove, _ := strings.Cut(told, "put it back, or an empty {}; or, to do without it: rm ")
	kit.Containsf(t, file, state.ConfigFile(p.getenv), "no file is named: %s", told)
	kit.NoError(t, os.Remove(remove))
	c := p.load()
	kit.True(t, !c.HasUnreadFile && len(c.Problems) == 0, "without its mark: %v", c.Problems)
}

// For a member that nearly has a setting's name, the person is told which setting they
// may mean. Other unknown members are ignored: another version may know them.
func TestConfig_MisspelledSetting(t *testing.T) {
	for name, want := range map[string]string{
		"alowed_users": "allowed_users", "allowed_user": "allowed_users", "webhook": "webhook_url",
		"askmode":  "ask_mode",
		"ask-mode": "ask_mode", "AskMode": "ask_mode", "quiethours": "quiet_hours",
		"aprovers": "approvers", "reminder": "remind",
		"allowed_users": "", "$schema": "", "comment": "", "notes": "", "theme": "", "x": "",
		"": "",
	} {
		c, _ := loadWith(t, `{"`+name+`": "1"}`, nil)
		says := ""
		for _, problem := range c.Misspellings {
			says += problem.Error()
		}
		words := `config.json: "` + name + `" is not a setting. Did you mean ` + want + `?`
		kit.True(t, (want == "" || strings.HasSuffix(says, words)) && (want != "" || says == ""),
			"%s: %q", name, says)
	}
}

func TestConfig_Order(t *testing.T) {
	mcp := func(url string) string {
		return `{"mcpServers":{"google-chat-bridge":{"env":{"GOOGLE_CHAT_WEBHOOK_URL":"` + url +
			`"}},"other":{"env":{"X":"y"}}}}`
	}
	p := newPlace(t)
	want := []string{"home-mcp", "project-mcp", "user", "project", "environment"}
	p.write("~/.mcp.json", mcp("home-mcp"))
	steps := []func(){
		func() {},
		func() { p.write(".mcp.json", mcp("project-mcp")) },
		func() { p.write(personFile, `{"webhook_url":"user"}`) },
		func() { p.write(projectFile, "\ufeff"+`{"webhook_url":"project"}`) },
		func() { p.env["GOOGLE_CHAT_WEBHOOK_URL"] = "environment" },
	}
	for i, step := range steps {
		step()
		c := p.load()
		kit.True(t, c.WebhookURL == want[i] && len(c.Problems) == 0,
			"webhook is from %q, problems %v; want %q", c.WebhookURL, c.Problems, want[i])
	}
}

func TestConfig_Values(t *testing.T) {
	p := newPlace(t)
	p.write(personFile, `{"space_id":"AAA","credentials_file":"~/key.json","allowed_users":["users/1","ann@example.com"],
		"ask_mode":"Hold","poll_interval":2.5,"unknown":{"x":1},
		"rules":[{"session":"orch-*","ask_mode":"off"},{"output_style":"system3*","ask_mode":"deny"}]}`)
	c := p.load()
	kit.Must(t, len(c.Problems) == 0, "%v", c.Problems)
	kit.True(t, c.SpaceID == "spaces/AAA" &&
		c.CredentialsFile == filepath.Join(p.env["HOME"], "key.json") &&
		c.AskMode == state.ModeHold && c.PollInterval == 2500*time.Millisecond &&
		slices.Equal(c.AllowedUsers, []string{"users/1", "ann@example.com"}),
		"got %+v", c)
	for a, want := range map[SessionFacts]state.Mode{
		{Name: "orch-epic4"}:                     state.ModeOff,
		{Name: "x", OutputStyle: "system3-meta"}: state.ModeDeny, {Name: "x"}: state.ModeHold,
	} {
		kit.Equalf(t, c.RulesFor(a).AskMode, want, "%+v: mode", a)
	}
	p.env["GCHAT_ALLOWED_USERS"] = " users/7 ,, bob@example.com "
	p.env["GCHAT_POLLER_INTERVAL"] = "0.25"
	c = p.load()
	kit.True(t, slices.Equal(c.AllowedUsers, []string{"users/7", "bob@example.com"}) &&
		c.PollInterval == 250*time.Millisecond,
		"from the environment: %+v", c)
}

func TestConfig_BrokenFileHidesLowerLayers(t *testing.T) {
	p := newPlace(t)
	p.write(projectFile, `{"webhook_url": `)
	p.write(personFile,
		`{"webhook_url":"https://another.example/space","allowed_users":["users/1"]}`)
	c := p.load()
	kit.True(t, c.WebhookURL == "" && len(c.AllowedUsers) == 0 && len(c.Problems) == 1,
		"got %+v; want nothing and one problem", c)
	_, err := c.ResolveWebhook(context.Background())
	kit.True(t, errors.Is(err, ErrNoWebhook) && strings.Contains(err.Error(), "gchat-hooks.json"),
		"the error does not name the broken file: %v", err)
	kit.Equalf(t, kit.ReadFile(t, filepath.Join(p.proj, ".claude", "gchat-hooks.json")),
		`{"webhook_url": `, "the person's file")
}

func TestConfig_ReportsNonsense(t *testing.T) {
	p := newPlace(t)
	p.env["GCHAT_ASK_MODE"] = "nativ"
	p.env["GCHAT_POLLER_INTERVAL"] = "-3"
	p.env["GCHAT_REPLY_TIMEOUT"] = "1e400"
	c := p.load()
	kit.True(t, c.AskMode == state.ModeNative && c.PollInterval == defaultPollInterval &&
		c.ReplyTimeout == DefaultReplyTimeout && len(c.Problems) == 3,
		"got %+v", c)
}

func TestConfig_WebhookCommand(t *testing.T) {
	p := newPlace(t)
	p.write(personFile, `{"webhook_url_command":"printf 'https://x/%s\\n' made"}`)
	c := p.load()
	got, err := c.ResolveWebhook(context.Background())
	kit.True(t, err == nil && got == "https://x/made", "got %q, %v", got, err)
	p.write(personFile, `{"webhook_url_command":"echo https://secret; exit 3"}`)
	_, err = p.load().ResolveWebhook(context.Background())
	kit.True(t, err != nil && !strings.Contains(err.Error(), "secret"), "failed command: %v", err)
	told := &state.UserError{}
	kit.True(t, errors.As(err, &told) &&
		strings.Contains(told.Hint, "run webhook_url_command by hand"),
		"failed command: %v says nothing to do", err)
}

// A trusted project's settings can set variables. So the person's file comes first in who
// may approve.
func TestConfig_ApproversOfThePersonsFileFirst(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		env  map[string]string
		want []string
	}{
		"approvers in the file": {`{"approvers": ["users/1"]}`,
			map[string]string{"GCHAT_APPROVERS": "users/9"}, []string{"users/1"}},
		"nobody in the file": {`{"approvers": []}`,
			map[string]string{"GCHAT_APPROVERS": "users/9"}, nil},
		"those who may answer": {`{"allowed_users": ["users/1"]}`,
			map[string]string{"GCHAT_ALLOWED_USERS": "users/9"}, []string{"users/1"}},
		"the environment where no file": {`{}`, map[string]string{"GCHAT_APPROVERS": "users/2"},
			[]string{"users/2"}},
		"the environment's who answer": {`{}`, map[string]string{"GCHAT_ALLOWED_USERS": "users/2"},
			[]string{"users/2"}},
		"approvers of the environment": {`{"allowed_users": ["users/1", "users/2"]}`,
			map[string]string{"GCHAT_APPROVERS": "users/2,users/9"}, []string{"users/2"}},
	} {
		p := newPlace(t)
		p.write(personFile, test.file)
		for k, v := range test.env {
			p.env[k] = v
		}
		c := LoadPersonal(p.getenv)
		kit.True(t, slices.Equal(c.Approvers, test.want), "%s: %q", name, c.Approvers)
	}
}
