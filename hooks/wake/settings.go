package wake

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// settings are hook_settings: an agent's own before the registry's before ours.
type settings struct {
	paneLines     int  // pane_capture_lines: of the pane that are looked at
	threshold     int  // context_pressure_threshold, in percent: from there on it is a warning
	bidirectional bool // hook_mode: bidirectional: Stop waits for the agent's decision
	dedup         bool // dedup_enabled: what is known already is not told again
	minLines      int  // min_context_lines: of the pane in a message that tells of it
	extractChars  int  // transcript_extract_chars: of Claude's words, the last ones
	replySeconds  int  // reply_seconds: how long bidirectional waits; less than the Stop hook's own timeout
	agent, chat   bool // deliver: openclaw, chat or both
}

// builtIn is what holds where a registry says nothing. Claude Code's own bound for a hook was 60 s for long.
var builtIn = settings{
	paneLines: 100, threshold: 50, dedup: true, minLines: 10, extractChars: 2000, replySeconds: 50, agent: true,
}

// mostChars keeps a message below the 4 MiB that openclaw reads.
const mostChars = 900_000

// with is s with what an object of settings says, and deliver where that stands beside it. What it cannot be is left as it
// was, and said.
func (s settings) with(raw, deliver json.RawMessage, where string) (settings, []string) {
	in := map[string]json.RawMessage{}
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	if json.Unmarshal(raw, &in) != nil {
		return s, []string{where + " is no object and does not count"}
	}
	var problems []string
	wrong := func(name, wanted string) {
		problems = append(problems, fmt.Sprintf("%s.%s is not %s and does not count", where, name, wanted))
	}
	for _, n := range []struct {
		name   string
		to     *int
		lo, hi int
	}{
		{"pane_capture_lines", &s.paneLines, 1, 5000}, {"context_pressure_threshold", &s.threshold, 0, 100},
		{"min_context_lines", &s.minLines, 0, 1000}, {"transcript_extract_chars", &s.extractChars, 1, math.MaxInt32},
		{"reply_seconds", &s.replySeconds, 1, 3600},
	} {
		if v := in[n.name]; len(v) > 0 && string(v) != "null" {
			var number float64
			if json.Unmarshal(v, &number) != nil || number < float64(n.lo) || number > float64(n.hi) {
				wrong(n.name, fmt.Sprintf("a number from %d to %d", n.lo, n.hi))
				continue
			}
			*n.to = int(number)
		}
	}
	s.extractChars = min(s.extractChars, mostChars)
	if v := in["dedup_enabled"]; len(v) > 0 && string(v) != "null" && json.Unmarshal(v, &s.dedup) != nil {
		wrong("dedup_enabled", "true or false")
	}
	if v := in["hook_mode"]; len(v) > 0 && string(v) != "null" {
		switch mode := text(v); mode {
		case "async", "bidirectional":
			s.bidirectional = mode == "bidirectional"
		default:
			wrong("hook_mode", "async or bidirectional")
		}
	}
	if in["deliver"] == nil && in != nil {
		in["deliver"] = deliver
	}
	if v := in["deliver"]; len(v) > 0 && string(v) != "null" {
		if agent, chat, ok := deliverTo(v); ok {
			s.agent, s.chat = agent, chat
		} else {
			wrong("deliver", "openclaw, chat, both, or a list of these")
		}
	}
	return s, problems
}

// deliverTo reads a word, or a list of words.
func deliverTo(raw json.RawMessage) (agent, chat, ok bool) {
	var words []string
	if json.Unmarshal(raw, &words) != nil {
		words = []string{text(raw)}
	}
	for _, w := range words {
		switch strings.ToLower(w) {
		case "openclaw":
			agent = true
		case "chat":
			chat = true
		case "both":
			agent, chat = true, true
		default:
			return false, false, false
		}
	}
	return agent, chat, agent || chat
}

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
