package config

import (
	"slices"

	"gchat-hooks/state"
)

// ChatAccess says what may be done in Chat with a question, a report, or what a terminal
// shows.
type ChatAccess struct {
	CanAsk   bool // it may be posted in Chat at all
	CanShow  bool // with its content; otherwise only with the names of its tool and session
	CanAllow bool // a reply may allow it; otherwise only the terminal can
}

// These are not kinds of questions, but AccessTo knows them.
const (
	KindReport state.Kind = "report" // all that sessions report; terminal_only may name it
	KindScreen state.Kind = "screen" // what a session's terminal shows
)

// AccessTo returns what may be done in Chat with something of that kind. The person's own
// settings decide, and after ApplyPolicies also what the policies take away. For a
// permission, tool and texts are its call: see isNeverRemote.
func (c *Config) AccessTo(kind state.Kind, tool string, texts ...string) ChatAccess {
	hasTitle := kind.Traits().UsesOwnSpace || kind == KindScreen || kind == KindTurnDone
	access := ChatAccess{
		CanAsk:  !slices.Contains(c.terminalOnly, kindWord(kind)),
		CanShow: !c.titlesOnly || !hasTitle,
	}
	access.CanAllow = access.CanAsk && access.CanShow && !c.isNeverRemote(tool, texts...)
	return access
}

// AccessToQuestion returns the access for the record of a permission or a plan. The
// stricter of the record and the configuration counts. A record without approvers comes
// from an earlier version, or somebody tampered with it: no reply may allow it.
func (c *Config) AccessToQuestion(q *state.Question) ChatAccess {
	access := c.AccessTo(q.Kind, q.ToolName, q.CallTexts...)
	access.CanAllow = access.CanAllow && !q.IsTerminalOnly && q.Approvers != nil
	return access
}
