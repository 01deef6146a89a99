package poller

import (
	"errors"
	"io/fs"
	"syscall"

	"gchat-hooks/state"
)

// Misconfigured says that the daemon has nothing that it could do before a person changes something.
type Misconfigured struct {
	err  error
	hint string
}

func (m *Misconfigured) Error() string { return m.err.Error() }
func (m *Misconfigured) Unwrap() error { return m.err }

// Hint says what to change.
func (m *Misconfigured) Hint() string { return m.hint }

// misconfigured tells the permanent reasons from those that pass.
func misconfigured(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOTDIR) {
		const hint = "the state folder cannot be written: check its owner, or set GCHAT_STATE_DIR and XDG_STATE_HOME"
		return &Misconfigured{err, hint}
	}
	return err
}

// check finds out whether there is anything to do: a configuration that does not parse, or none at all, with no question
// open, is a person's to mend.
func (d *Daemon) check() error {
	dirs, _ := d.stateDirs()
	for _, q := range d.questions(dirs) {
		if q.Status.Open() {
			return nil
		}
	}
	projects := []string{state.ProjectDir(d.Env)}
	for _, dir := range dirs {
		projects = append(projects, d.projectOf(dir))
	}
	var broken []error
	for _, project := range projects {
		cfg := d.config(project)
		if cfg.WebhookURL != "" || cfg.WebhookCommand != "" || cfg.SpaceID != "" {
			return nil // credentials alone say nowhere to read
		}
		broken = append(broken, cfg.Problems...)
	}
	if len(broken) > 0 {
		return &Misconfigured{broken[0], "mend it, then start the daemon again: gchat-hooks poller install"}
	}
	return &Misconfigured{errors.New("no webhook and no space are configured"),
		"gchat-hooks setup, or webhook_url in ~/.config/gchat-hooks/config.json; " +
			"then start the daemon again: gchat-hooks poller install"}
}
