package main

import (
	"context"
	"slices"
	"strings"

	"gchat-hooks/hooks/settings"
	"gchat-hooks/state"
)

// forget ends an uninstall: folders that were made for us and are empty go, and where nothing else of ours is left, so do our
// own notes and locks. What a purge would find, or cannot look at, counts as left.
func (i install) forget(ctx context.Context) error {
	if !state.HasMade(i.env) {
		return nil
	}
	unlock, err := settings.Lock(ctx, i.env) // no install is about to write into one of these folders
	if err != nil {
		return err
	}
	defer unlock()
	doubts := &strings.Builder{}
	p := &purge{env: i.env, self: i.self, out: doubts, dry: true}
	if err := p.look(ctx); err != nil {
		return nil // something of ours runs
	}
	p.leftovers = p.made.Folders // a project's folders are not ours to judge
	p.removeLeftovers()
	left := slices.ContainsFunc(p.parts, func(part part) bool {
		return part.name != "state" && (part.name != "links" || len(p.made.Programs) > 0)
	})
	if left || doubts.Len() > 0 {
		return nil
	}
	if err := state.ForgetMade(i.env); err != nil {
		return err
	}
	p.removeLeftovers() // those around the notes
	return nil
}
