package state

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Made is what stands on this machine because gchat-hooks was installed: what an uninstall that leaves no trace may remove
// once it is empty. A folder that was there before is a person's, empty or not.
type Made struct {
	Folders  []string `json:"folders"`            // each list absolute, sorted
	Programs []string `json:"programs,omitempty"` // the program's files, wherever install.sh put one
	Settings []string `json:"settings,omitempty"` // files that hooks were written into, also in projects and in folders of another day
	Before   []Before `json:"before,omitempty"`   // in the configuration folder, itself first
}

func madeFile(env Getenv) string { return filepath.Join(UserState(env), "made.json") }

// ReadMade is what was written down; nothing, where nobody did.
func ReadMade(env Getenv) (Made, error) {
	var m struct {
		Made
		Program string `json:"program"` // as it was written when there could be only one
	}
	b, err := os.ReadFile(madeFile(env))
	if missing(err) {
		return Made{}, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		return Made{}, fmt.Errorf("read %s: %w", madeFile(env), err)
	}
	if m.Program != "" {
		m.Programs = union(m.Programs, []string{m.Program})
	}
	return m.Made, nil
}

// NoteMade writes down, before anything else is written for the first time, which of the folders that we put files into do
// not exist yet, and what the configuration folder holds. Every time, it adds what also has, and the folders that its files will need.
func NoteMade(env Getenv, also Made) error {
	was, err := ReadMade(env)
	if err != nil {
		return err
	}
	if absent(madeFile(env)) {
		was.Before = thereBefore(env)
		for _, dir := range shared(env) {
			if absent(dir) {
				also.Folders = append(also.Folders, dir)
			}
		}
	}
	for _, path := range slices.Concat(also.Programs, also.Settings) {
		for dir := filepath.Dir(path); absent(dir); dir = filepath.Dir(dir) {
			also.Folders = append(also.Folders, dir)
		}
	}
	// The lock makes our own folder: what was missing is known by then.
	l, err := lockSoon(madeFile(env) + ".lock")
	if err != nil {
		return err
	}
	defer l.Unlock()
	m, err := ReadMade(env)
	if err != nil {
		return err
	}
	if absent(madeFile(env)) { // else another process was the first, and may have written by now
		m = was // with what is known from before an uninstall that ended meanwhile
		if len(m.Before) == 0 {
			m.Before = also.Before
		}
	}
	b, err := json.MarshalIndent(Made{union(m.Folders, also.Folders), union(m.Programs, also.Programs), union(m.Settings, also.Settings), m.Before}, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(madeFile(env), append(b, '\n'))
}

// ForgetMade ends what NoteMade began, where our own folder has nothing but that: its files and the folder go. Whoever asks
// for it looked whether anything of ours is left elsewhere, and holds the lock of the settings, so that no install writes
// meanwhile.
func ForgetMade(env Getenv) error {
	l, err := lockSoon(madeFile(env) + ".lock")
	if err != nil {
		return err
	}
	defer l.Unlock()
	dir := UserState(env)
	half, locks := "."+filepath.Base(madeFile(env)), []string{SettingsLock(env), madeFile(env) + ".lock"}
	gone := []string{madeFile(env)} // first: who waits for the locks makes it anew
	for _, name := range namesIn(dir) {
		switch path := filepath.Join(dir, name); {
		case path == madeFile(env) || slices.Contains(locks, path):
		case strings.HasPrefix(name, half): // what a write left that was killed
			gone = append(gone, path)
		default:
			return nil
		}
	}
	for _, path := range append(gone, locks...) {
		if err := os.Remove(path); err != nil && !missing(err) {
			return fmt.Errorf("forget what was made: %w", err)
		}
	}
	_ = os.Remove(dir) // fails where somebody is there again
	return nil
}

// SettingsLock is held by whoever writes settings of Claude Code's.
func SettingsLock(env Getenv) string { return filepath.Join(UserState(env), "settings.lock") }

// HasMade says whether anything is written down.
func HasMade(env Getenv) bool { return !absent(madeFile(env)) }

// absent says that there is no such file or folder.
func absent(path string) bool {
	_, err := os.Lstat(path)
	return missing(err)
}

// union is all of both, sorted, each once.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// shared are the folders of other programs' that our files stand in, with those around them up to the home folder.
func shared(env Getenv) (dirs []string) {
	home := Home(env)
	ends := []string{filepath.Join(home, ".claude", "logs"), filepath.Dir(ConfigDir(env)), filepath.Dir(UserState(env))}
	if dir := env("CLAUDE_CONFIG_DIR"); filepath.IsAbs(dir) {
		ends = append(ends, dir)
	}
	if runtime.GOOS == "darwin" {
		ends = append(ends, filepath.Join(home, "Library", "LaunchAgents"))
	} else {
		ends = append(ends, filepath.Join(filepath.Dir(ConfigDir(env)), "systemd", "user", "default.target.wants"))
	}
	for _, dir := range ends {
		for ; dir != home && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}
