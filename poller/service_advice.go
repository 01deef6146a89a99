package poller

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"gchat-hooks/state"
)

// advise says how the daemon is kept running where nothing does that.
func (s *Service) advise(l *launch) {
	s.say("%s", advice(l))
	s.sayUnseen()
}

func advice(l *launch) string {
	words := []string{"env"}
	for _, v := range l.env {
		words = append(words, shellWord(v.name+"="+v.value))
	}
	for _, a := range l.args {
		words = append(words, shellWord(a))
	}
	command := strings.Join(words[1+len(l.env):], " ")
	cron := strings.ReplaceAll(strings.Join(words, " "), "%", `\%`) + " >/dev/null 2>&1" // in a crontab % is a line break
	return "Nothing here starts programs for you. Have cron do it (crontab -e): at boot, and again within five minutes after it\n" +
		"ended; while one daemon runs, another start does nothing.\n\n" +
		"  @reboot " + cron + "\n" +
		"  */5 * * * * " + cron + "\n\n" +
		"Or run it in a tmux session of its own, until the next boot:\n\n" +
		"  tmux new-session -d -s " + serviceName + " " + command + "\n\n" +
		"Or here, in the foreground:\n\n" +
		"  " + command + "\n"
}

var plainWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`) })

// shellWord quotes one word for a shell.
func shellWord(s string) string {
	if plainWord().MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// setting is a part of the configuration that the daemon uses.
type setting struct {
	variable, key string
	value         func(*state.Config) string
}

var settings = []setting{
	{"GOOGLE_CHAT_WEBHOOK_URL", "webhook_url", func(c *state.Config) string { return c.WebhookURL }},
	{"GOOGLE_CHAT_SPACE_ID", "space_id", func(c *state.Config) string { return c.SpaceID }},
	{"GOOGLE_CHAT_CREDENTIALS_FILE", "credentials_file", func(c *state.Config) string { return c.CredentialsFile }},
	{"GCHAT_ALLOWED_USERS", "allowed_users", func(c *state.Config) string { return strings.Join(c.AllowedUsers, ",") }},
	{"GCHAT_API_ENDPOINT", "api_endpoint", func(c *state.Config) string { return c.APIEndpoint }},
	{"GCHAT_POLLER_INTERVAL", "poll_interval", func(c *state.Config) string { return c.PollInterval.String() }},
	{"GCHAT_WRITES_PER_MINUTE", "writes_per_minute", func(c *state.Config) string { return fmt.Sprint(c.WritesPerMinute) }},
	{"GCHAT_DIGEST_EVERY", "digest_every", func(c *state.Config) string { return c.DigestEvery.String() }},
}

// unseen are the settings that stand in this shell's environment only: the service does not see them, and they do not
// belong into its file, since some are secret.
func (s *Service) unseen() (unseen []setting) {
	hidden := func(name string) string {
		for _, v := range settings {
			if v.variable == name {
				return ""
			}
		}
		return s.Env(name)
	}
	here, there := state.LoadConfig(s.Env, state.ProjectDir(s.Env)), state.LoadConfig(hidden, state.ProjectDir(s.Env))
	for _, v := range settings {
		if s.Env(v.variable) == "" || v.value(here) == v.value(there) || v.key == "webhook_url" && there.WebhookCommand != "" {
			continue
		}
		unseen = append(unseen, v)
	}
	return unseen
}

// sayUnseen says how those settings get into the configuration, without printing what they hold.
func (s *Service) sayUnseen() {
	unseen := s.unseen()
	if len(unseen) == 0 {
		return
	}
	var names, members, values []string
	for _, v := range unseen {
		names = append(names, v.variable)
		members = append(members, fmt.Sprintf(`"%s": "%%s"`, v.key))
		values = append(values, `"$`+v.variable+`"`)
	}
	path := s.configFile()
	s.say("note: the service does not see this shell's %s", strings.Join(names, ", "))
	if _, err := os.Lstat(path); err == nil {
		for i, v := range unseen {
			s.say("  put into %s: "+members[i], path, "what $"+v.variable+" holds")
		}
		return
	}
	s.say("  put them where it does: (umask 077; mkdir -p %s; printf '{%s}\\n' %s > %s)",
		shellWord(filepath.Dir(path)), strings.Join(members, ", "), strings.Join(values, " "), shellWord(path))
}

// configFile is the person's own configuration.
func (s *Service) configFile() string {
	if path := s.Env("GCHAT_CONFIG"); path != "" {
		return path
	}
	dir := s.Env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(s.home(), ".config")
	}
	return filepath.Join(dir, "gchat-hooks", "config.json")
}
