package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gchat-hooks/hooks/settings"
	"gchat-hooks/state"
)

// lookConfiguration finds what is in the configuration folder since the first install: that goes. What stood there before is
// the person's, and gets back what setup changed in it.
func (p *purge) lookConfiguration() {
	for _, before := range p.made.Before {
		if before.Bytes == nil {
			continue
		}
		info, err := os.Stat(before.Path)
		if err != nil || !info.Mode().IsRegular() {
			continue // the person took it away
		}
		is, err := os.ReadFile(before.Path)
		if err != nil || bytes.Equal(is, before.Bytes) && info.Mode().Perm() == before.Mode {
			continue
		}
		p.add(part{name: "configuration", what: []string{before.Path + " is put back as it was before"}, gone: func(ctx context.Context) error {
			file := settings.File{Path: before.Path, Env: p.env}
			return settingsError(file.PutBack(ctx, before.Bytes, before.Mode), before.Path)
		}})
	}
	dir := state.ConfigDir(p.env)
	if dir == state.UserState(p.env) {
		return // it goes last
	}
	if p.unread && len(there(dir)) > 0 {
		fmt.Fprintf(p.out, "%s stays: who made it is not known\n", dir)
		return
	}
	names, err := p.newIn(dir) // it may hold what a person put there
	if err != nil && len(there(dir)) == 0 || p.stoodBefore(dir) && len(names) == 0 {
		return
	}
	p.add(part{name: "configuration", what: []string{dir + ": " + strings.Join(names, ", ")}, gone: func(context.Context) error { return p.clear(dir) }})
}

// stoodBefore says whether a file or folder was there before the first install.
func (p *purge) stoodBefore(path string) bool {
	return slices.ContainsFunc(p.made.Before, func(b state.Before) bool { return b.Path == path })
}

// clear removes a folder of ours, but for what stood there before.
func (p *purge) clear(dir string) error {
	if !p.stoodBefore(dir) {
		return removeAll(dir)
	}
	names, err := p.newIn(dir)
	if err != nil {
		return err
	}
	for i, name := range names {
		names[i] = filepath.Join(dir, name)
	}
	return removeAll(names...)
}

// newIn names what is in a folder since the first install.
func (p *purge) newIn(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !p.stoodBefore(filepath.Join(dir, e.Name())) {
			names = append(names, e.Name())
		}
	}
	return names, err
}
