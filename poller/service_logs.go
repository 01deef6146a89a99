package poller

import (
	"cmp"
	"context"
	"path/filepath"

	"gchat-hooks/state"
)

// Logs prints the last lines of the log in a person's form, and of what the daemon printed itself.
func (s *Service) Logs(ctx context.Context, o LogOptions) error {
	files := []string{state.LogPath(s.Env)}
	if s.goos() == "darwin" {
		dir := filepath.Dir(state.LogPath(s.Env))
		files = append(files, filepath.Join(dir, serviceName+".log"), filepath.Join(dir, serviceName+".err"))
	}
	show, shown := newLogShow(s.Env, s.Out, o), 0
	for i, path := range files {
		title := path
		if i == 0 {
			title = ""
		}
		n, err := show.begin(&logFile{path: path}, title)
		if err != nil {
			return err
		}
		shown += n
	}
	if shown == 0 {
		s.say("the log is empty: %s", state.LogPath(s.Env))
	}
	if s.goos() == "linux" {
		s.say("-- what systemd says of it: journalctl --user -u %s -n %d", serviceName, cmp.Or(max(o.Lines, 0), defaultLogLines))
	}
	show.follow(ctx)
	return show.err
}
