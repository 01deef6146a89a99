package config

import (
	"slices"

	"gchat-hooks/state"
)

// ChatAccess are what may be done in Chat with something that Claude Code asks, says or
// shows.
type ChatAccess struct {
	CanAsk   bool // it may be asked, said or reported there at all
	CanShow  bool // with what it is about; else only which tool, and which session
	CanAllow bool // a reply may allow it; else only the terminal does
}

// Beside the kinds of questions, these have terms, too.
const (
	KindReport state.Kind = "report" // all that sessions report; terminal_only may name it
	KindScreen state.Kind = "screen" // what a session's terminal shows
)

// AccessTo decide what may be done in Chat with something of that kind: by what the
// person set, and by what policies take away, once Restrict has read them. A permission
// also names its call, as isNeverRemote takes it.
func (c *Config) AccessTo(kind state.Kind, tool string, texts ...string) ChatAccess {
	hasTitle := kind.Traits().UsesOwnSpace || kind == KindScreen || kind == KindTurnDone
	access := ChatAccess{
		CanAsk:  !slices.Contains(c.terminalOnly, kindWord(kind)),
		CanShow: !c.titlesOnly || !hasTitle,
	}
	access.CanAllow = access.CanAsk && access.CanShow && !c.isNeverRemote(tool, texts...)
	return access
}

// AccessToQuestion are the terms of a permission or a plan that is written down: the
// stricter of its record and the configuration counts. A record that does not say who may
// decide is an older one, or was tampered with.
func (c *Config) AccessToQuestion(q *state.Question) ChatAccess {
	access := c.AccessTo(q.Kind, q.ToolName, q.CallTexts...)
	access.CanAllow = access.CanAllow && !q.IsTerminalOnly && q.Approvers != nil
	return access
}
