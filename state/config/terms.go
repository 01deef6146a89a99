package config

import (
	"slices"

	"gchat-hooks/state"
)

// Terms are what may be done in Chat with something that Claude Code asks, says or shows.
type Terms struct {
	Asked   bool // it may be asked, said or reported there at all
	Shown   bool // with what it is about; else only which tool, and which session
	Allowed bool // a reply may allow it; else only the terminal does
}

// Beside the kinds of questions, these have terms, too.
const (
	Report state.Kind = "report" // all that sessions report; terminal_only may name it
	Screen state.Kind = "screen" // what a session's terminal shows
)

// Terms decide what may be done in Chat with something of that kind: by what the person set,
// and by what policies take away, once Restrict has read them. A permission also names its
// call, as neverRemotely takes it.
func (c *Config) Terms(kind state.Kind, tool string, texts ...string) Terms {
	hasTitle := kind.Row().Own || kind == Screen || kind == TurnDone
	t := Terms{Asked: !slices.Contains(c.terminalOnly, wordOf(kind)), Shown: !c.titlesOnly || !hasTitle}
	t.Allowed = t.Asked && t.Shown && !c.neverRemotely(tool, texts...)
	return t
}

// TermsOf are the terms of a permission or a plan that is written down: the stricter of its
// record and the configuration counts. A record that does not say who may decide is an older
// one, or was tampered with.
func (c *Config) TermsOf(q *state.Question) Terms {
	t := c.Terms(q.Kind, q.Tool, q.Call...)
	t.Allowed = t.Allowed && !q.TerminalOnly && q.Approvers != nil
	return t
}
