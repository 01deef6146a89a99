package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// Made is what stands on this machine because gchat-hooks was installed: what an uninstall that leaves no trace may remove
// once it is empty. A folder that was there before is a person's, empty or not.
type Made struct {
	Folders []string `json:"folders"`           // absolute, sorted
	Program string   `json:"program,omitempty"` // the program's file, where install.sh put it
}

func madeFile(env Getenv) string { return filepath.Join(UserState(env), "made.json") }

// ReadMade is what was written down; nothing, where nobody did.
func ReadMade(env Getenv) (m Made, err error) {
	b, err := os.ReadFile(madeFile(env))
	if missing(err) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		return Made{}, fmt.Errorf("read %s: %w", madeFile(env), err)
	}
	return m, nil
}

// NoteMade writes down, before anything else is written for the first time, which of the folders that we put files into do
// not exist yet; and adds what also has. Later calls add only that.
func NoteMade(env Getenv, also Made) error {
	m, err := ReadMade(env)
	if err != nil {
		return err
	}
	_, err = os.Lstat(madeFile(env))
	first := errors.Is(err, fs.ErrNotExist)
	if !first && also.Program == "" && len(also.Folders) == 0 {
		return nil
	}
	if first {
		for _, dir := range shared(env) {
			if _, err := os.Lstat(dir); missing(err) {
				m.Folders = append(m.Folders, dir)
			}
		}
	}
	m.Folders = append(m.Folders, also.Folders...)
	slices.Sort(m.Folders)
	m.Folders = slices.Compact(m.Folders)
	if also.Program != "" {
		m.Program = also.Program
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := mkdir(UserState(env)); err != nil {
		return err
	}
	return writeFile(madeFile(env), append(b, '\n'))
}

// shared are the folders of other programs' that our files stand in, with those around them up to the home folder.
func shared(env Getenv) (dirs []string) {
	home := home(env)
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
