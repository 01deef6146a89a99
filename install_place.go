package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"gchat-hooks/hooks/settings"
	"gchat-hooks/state"
)

// place puts this program where it is to stay, for install.sh. Whatever can be found wrong is found before anything is
// written, and what is written is noted first: an uninstall finds it, wherever this was interrupted.
func (i install) place(ctx context.Context, program string) error {
	if !filepath.IsAbs(program) {
		return usageError{fmt.Errorf("--place takes an absolute path, not %q", program), "gchat-hooks install --help"}
	}
	if _, err := i.hooks(); err != nil {
		return usageError{err, "gchat-hooks install --help"}
	}
	if _, err := os.Lstat(program); err == nil && !isGchatHooks(ctx, program) {
		return installError{fmt.Errorf("%s is there and not a gchat-hooks of ours, so it stays", program), "move it away, or take another --prefix"}
	}
	b, err := os.ReadFile(i.self)
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	if err := i.noteMade(ctx, state.Made{Programs: []string{program}}); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return fmt.Errorf("make the program's folder: %w", err)
	}
	// By a rename: a daemon that runs keeps its program, and nobody ever starts half of one.
	if err := renameio.WriteFile(program, b, 0o755, renameio.WithTempDir(filepath.Dir(program)), renameio.WithStaticPermissions(0o755)); err != nil {
		return fmt.Errorf("place the program: %w", err)
	}
	return nil
}

// noteMade writes down what is about to be made, the settings file among it. Settings that cannot take hooks are found here, while
// it is still true that nothing was written.
func (i install) noteMade(ctx context.Context, made state.Made) error {
	file, err := settings.At(i.env, i.scope)
	if err != nil {
		return err
	}
	hooks, err := i.hooks()
	if err != nil {
		return err
	}
	entries, _, err := settings.Program{Path: "/gchat-hooks", Claude: oldestClaude}.Entries(hooks) // it is not asked yet which one is here
	if err != nil {
		return err
	}
	// One that nobody may write is no error yet: the hooks in it may be those that are to stay.
	if _, err := file.Install(ctx, entries, true); err != nil {
		return settingsError(err, file.Path)
	}
	path, err := filepath.Abs(file.Path)
	if err != nil {
		return fmt.Errorf("find settings: %w", err)
	}
	made.Settings = []string{path}
	return state.NoteMade(i.env, made)
}

// isGchatHooks says whether a file is this program, of any version. It may be anybody's: it is given a moment to say.
func isGchatHooks(ctx context.Context, path string) bool {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = time.Second
	said := &beginning{}
	cmd.Stdout = said
	_ = cmd.Run() // what it said counts
	return strings.HasPrefix(string(said.b), "gchat-hooks ")
}

// beginning keeps the first bytes that a program writes: it may never stop.
type beginning struct{ b []byte }

func (w *beginning) Write(p []byte) (int, error) {
	if len(w.b) > 100 {
		return 0, errors.New("that is enough")
	}
	w.b = append(w.b, p...)
	return len(p), nil
}
