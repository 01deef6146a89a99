package settings

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gchat-hooks/state"
)

// checkTwice finds hooks of ours that run twice for an event. Claude Code itself starts the same handler of several settings
// files once; a plugin's is always another one. Two files are one finding, whatever number of hooks they share.
func (a *audit) checkTwice(context.Context) (fs []state.Finding) {
	type pair struct{ was, is *source }
	var pairs []pair
	both := map[pair][]string{}
	first := map[string]registered{}
	for _, h := range a.own() {
		key := h.Event + " " + h.name
		was, ok := first[key]
		if !ok {
			first[key] = h
			continue
		}
		sameCall := was.Command == h.Command && slices.Equal(was.Args, h.Args) && was.Matcher == h.Matcher
		if sameCall && was.from.scope != plugin && h.from.scope != plugin {
			continue
		}
		if h.Matcher != was.Matcher && !(matches(h.Matcher, ask) && matches(was.Matcher, ask)) {
			continue
		}
		p := pair{was.from, h.from}
		if both[p] == nil {
			pairs = append(pairs, p)
		}
		both[p] = append(both[p], h.name+" on "+h.Event)
	}
	for _, p := range pairs {
		where := "twice in " + p.is.path
		if p.was != p.is {
			where = "both in " + p.was.path + " and in " + p.is.path
		}
		fs = append(fs, warned(fmt.Sprintf("registered %s: %s", where, strings.Join(both[p], ", ")),
			"they are started twice; each acts once, but two versions may disagree", keepOne(p.was, p.is))...)
	}
	if len(fs) == 0 {
		return state.Fine("no hook of ours is registered twice")
	}
	return fs
}

// keepOne is what leaves the hooks in one of two places: the one that more projects share, and that a person can change.
func keepOne(was, is *source) string {
	if was == is {
		return is.reinstall()
	}
	if was.scope == plugin {
		was, is = is, was // settings can wait for a reply in the background, a plugin cannot
	}
	switch {
	case is.scope == plugin:
		return "claude plugin disable " + state.ShellQuoted(is.name)
	case was.scope == managed:
		return is.reinstall()
	case is.scope == managed:
		return "gchat-hooks uninstall" + was.flag()
	}
	mend := "gchat-hooks uninstall" + is.flag()
	if all := presetFlags(append(was.presets(), is.presets()...)); all != presetFlags(was.presets()) {
		mend += " && " + installs + was.flag() + all
	}
	return mend
}
