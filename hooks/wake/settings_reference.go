package wake

import "slices"

// Setting is a member of hook_settings in recovery-registry.json. docs/openclaw.md has the table.
type Setting struct {
	Member  string
	Default string // in JSON, as it would be set
	Takes   string
	Meaning string // in Markdown, without a full stop
}

// Settings are all members of hook_settings.
func Settings() []Setting { return slices.Clone(reference) }

var reference = []Setting{
	{"pane_capture_lines", "100", "1 to 5000", "lines of the pane that are looked at"},
	{"transcript_extract_chars", "2000", "1 or more", "of Claude's words, the last ones; never more than 900000"},
	{"min_context_lines", "10", "0 to 1000", "lines of the pane at the first time, and beside a few new ones"},
	{"context_pressure_threshold", "50", "0 to 100",
		"percent from which on the context is `[WARNING]`; `[CRITICAL]` from 80, `unknown` where no status line says it"},
	{"dedup_enabled", "true", "`true` or `false`",
		"an unchanged pane with unchanged words is told once; questions, compactions and ends always are"},
	{"hook_mode", `"async"`, "`async` or `bidirectional`", "`bidirectional`: `Stop` waits for the agent, " +
		"whose `{\"decision\": \"block\", \"reason\": \"…\"}`, in its reply, sends the session on, once"},
	{"reply_seconds", "50", "1 to 3600", "how long it waits; keep it below the `timeout` of the Stop hook"},
	{"deliver", `"openclaw"`, "`openclaw`, `chat`, `both`, or a list",
		"`chat` tells the session's thread in Google Chat instead, `both` does both; it may also stand beside `hook_settings`"},
}
