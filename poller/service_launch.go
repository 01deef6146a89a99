package poller

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gchat-hooks/state"
)

// launch is what the service starts, whoever starts it.
type launch struct {
	args []string   // the program first
	env  []variable // nothing secret: unit files are readable, and so is what launchctl and systemctl show
	home string
	logs string
}

type variable struct{ name, value string }

// carried are the variables that lead the daemon to the person's state, configuration, Claude Code and tmux server.
// What they hold are paths; the settings themselves stay in the configuration.
var carried = []string{"XDG_STATE_HOME", "XDG_CONFIG_HOME", "GCHAT_CONFIG", "CLAUDE_CONFIG_DIR", "TMUX_TMPDIR"}

func (s *Service) launch(o ServiceOptions) (*launch, error) {
	l := &launch{args: []string{s.Self, "poller"}, home: s.home(), logs: filepath.Join(s.home(), ".claude", "logs")}
	if !filepath.IsAbs(s.Self) {
		return nil, fmt.Errorf("the program's path is not known: %q", s.Self)
	}
	if len(o.PendingDirs) == 0 {
		o.PendingDirs = filepath.SplitList(s.Env("GCHAT_POLLER_PENDING_DIR")) // the service does not see it
	}
	for _, dir := range o.PendingDirs {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("pending folder: %w", err)
		}
		l.args = append(l.args, "--pending-dir", dir)
	}
	if o.PollInterval != "" {
		if _, err := state.ParseInterval(o.PollInterval); err != nil {
			return nil, &serviceError{fmt.Errorf("poll interval: %w", err), "gchat-hooks poller install --poll-interval 10"}
		}
		l.args = append(l.args, "--poll-interval", o.PollInterval)
	}
	l.env = []variable{{"PATH", s.path()}}
	for _, name := range carried {
		value := s.Env(name)
		if value == "" || strings.HasPrefix(name, "XDG_") && !filepath.IsAbs(value) { // as everywhere, a relative one is not followed
			continue
		}
		value, err := filepath.Abs(value) // the service runs in another folder
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		l.env = append(l.env, variable{name, value})
	}
	for _, text := range append([]string{l.home}, l.args...) {
		if err := canStand(text); err != nil {
			return nil, err
		}
	}
	for _, v := range l.env {
		if err := canStand(v.value); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// canStand says whether a text can stand in a unit file: XML has no way to write control characters and broken UTF-8,
// and systemd refuses them.
func canStand(text string) error {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("a service file cannot hold %q: it has control characters or is not UTF-8", text)
	}
	return nil
}

// path is the service's PATH. It is the same from every shell, or an install would never find nothing to do, but for one
// thing: the person's own tmux comes first, since a tmux of another version does not talk to their server.
func (s *Service) path() string {
	dirs := []string{"/opt/homebrew/bin", "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"}
	for _, dir := range filepath.SplitList(s.Env("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, "tmux")); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			dir = filepath.Clean(dir)
			dirs = append([]string{dir}, slices.DeleteFunc(dirs, func(d string) bool { return d == dir })...)
			break
		}
	}
	return strings.Join(dirs, string(filepath.ListSeparator))
}

// StableProgram is the path under which the program is found also after an upgrade: of the symlink named gchat-hooks
// that it was called by, or that stands beside it or on the PATH; else self, with its symlinks followed. calledAs is the
// process's argv[0]. A program that the Go tool built to run once has none.
func StableProgram(self, calledAs string, env func(string) string) (string, error) {
	program, err := filepath.EvalSymlinks(self)
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	dirs := append(filepath.SplitList(env("PATH")), filepath.Dir(self))
	if strings.ContainsRune(calledAs, filepath.Separator) {
		dirs = append([]string{filepath.Dir(calledAs)}, dirs...)
	}
	for _, dir := range dirs {
		link := filepath.Join(dir, "gchat-hooks") // a service that starts another of our names would do that name's job
		if link, err = filepath.Abs(link); err != nil {
			continue
		}
		if at, err := filepath.EvalSymlinks(link); err == nil && at == program && !builtToRunOnce(link) {
			return link, nil
		}
	}
	if builtToRunOnce(program) {
		return "", &serviceError{errors.New("this program was built to run once, and will be gone: " + program), "go build -o ~/.local/bin/gchat-hooks . && ~/.local/bin/gchat-hooks poller install"}
	}
	return program, nil
}

// builtToRunOnce says whether the path is of `go run` or of a test: both build in folders named go-build….
func builtToRunOnce(path string) bool {
	return slices.ContainsFunc(strings.Split(path, string(filepath.Separator)), func(part string) bool { return strings.HasPrefix(part, "go-build") })
}
