package migrate

import (
	"regexp"
	"strings"
)

// The types of gchat-send that a message to the relay becomes. The relay's own messages began with the type's name, in
// capitals or in brackets: `TASK_COMPLETION: Epic 3 done`.
var typeMarkers = []struct {
	kind   string
	marker func() *regexp.Regexp
}{
	{"task_completion", marker(`task[_ -]?complet(?:ion|ed?)|done|completed`)},
	{"progress_update", marker(`progress(?:[_ -]?update)?|status(?:[_ -]?update)?`)},
	{"blocked_alert", marker(`blocked(?:[_ -]?alert)?|blocker|action[_ -]required`)},
	{"heartbeat", marker(`heart[_ -]?beat`)},
	{"session_start", marker(`session[_ -]?start(?:ed)?`)},
	{"session_end", marker(`session[_ -]?end(?:ed)?`)},
	{"error", marker(`errors?|failure`)},
	{"plain", marker(`plain`)},
}

// marker is a type's name at the start of a message: in brackets, or with a colon or a dash behind it.
func marker(name string) func() *regexp.Regexp {
	return lazy(`^(?i)[\s*_\x60]*(?:\[(?:` + name + `)\][*_\x60]*\s*[:–—-]?|(?:` + name + `)[*_\x60]*\s*(?::|\s[–—-]\s))[*_\x60]*\s*`)
}

// Where no marker stands, words decide: the first line that fits. A session's bounds and a heartbeat say what they are;
// trouble comes before success, since "done, but the deploy failed" is for somebody to look at; and "60% complete" is not done.
var typeWords = []struct {
	kind  string
	words func() *regexp.Regexp
}{
	{"session_start", lazy(`(?i)\bsession\b.{0,20}\b(?:start(?:s|ed|ing)?|begins?|began|online|is up)\b`)},
	{"session_end", lazy(`(?i)\bsession\b.{0,20}\b(?:end(?:s|ed|ing)?|over|closed|closing)\b|\bsigning off\b|\bshutting down\b`)},
	{"heartbeat", lazy(`(?i)\bheart[ -]?beat\b|\bsystem (?:is )?healthy\b|\b(?:still )?alive\b|\ball (?:systems|agents) (?:ok|healthy|nominal)\b`)},
	{"blocked_alert", lazy(`(?i)\bblock(?:ed|er|ing)\b|\bstuck\b|\bneeds? (?:your|user|human|an?) (?:\w+ )?(?:input|approval|decision|answer|help|attention)\b|\baction required\b|\bwaiting (?:for|on) (?:you|the user|user)\b|\bcannot (?:proceed|continue)\b`)},
	{"error", lazy(`(?i)\berrors?\b|\bfail(?:s|ed|ure|ing)?\b|\bexception\b|\bcrash(?:ed|es)?\b|\btraceback\b`)},
	{"progress_update", lazy(`(?i)\bworking on\b|\bin progress\b|\b\d?\d ?%`)},
	{"task_completion", lazy(`(?i)\b(?:complete[d]?|done|finished|validated|merged|shipped|delivered|closed)\b`)},
	{"progress_update", lazy(`(?i)\bprogress\b|\bunder ?way\b|\bstarted\b|\bstarting\b|\bstatus\b|\bnext:`)},
}

// nothingWrong is taken out before the words are looked at: "12 tests, no errors" is no error.
var nothingWrong = lazy(`(?i)\b(?:0|no|zero|without(?: any)?|not)\s+(?:\w+ )?(?:errors?|failures?|exceptions?|blockers?|fail(?:ed|s)?|blocked|crash(?:es|ed)?)\b`)

// sentence is a marker that tells what happened, in words that the person is meant to read.
var sentence = lazy(`^\s*(?:[Ss]ession|[Tt]ask) (?:started|ended|completed?)\b`)

// messageType chooses gchat-send's --type for a message and its summary, and takes the marker off the text, unless
// nothing but blanks is left, or it is a sentence. In this order:
// the content's marker, the summary's, the summary's words (somebody chose them to say what it is about), the content's.
func messageType(content, summary string) (kind, words string) {
	for _, m := range typeMarkers {
		if at := m.marker().FindStringIndex(content); at != nil {
			rest := strings.TrimSpace(content[at[1]:])
			if rest != "" && !onlyBlanks(rest) && !sentence().MatchString(content) {
				return m.kind, rest
			}
			return m.kind, strings.TrimSpace(content)
		}
	}
	for _, m := range typeMarkers {
		if m.marker().MatchString(summary) || strings.EqualFold(strings.TrimSpace(summary), m.kind) {
			return m.kind, content
		}
	}
	for _, s := range []string{summary, content} {
		s = nothingWrong().ReplaceAllString(s, " ")
		for _, w := range typeWords {
			if w.words().MatchString(s) {
				return w.kind, content
			}
		}
	}
	return "plain", content
}

// order is a message that told the relay to do something, not the person something: gchat-send cannot do it.
var order = lazy(`(?i)^\s*(?:please )?(?:poll|check|read|fetch|get|list|watch|monitor|listen|stop|shut ?down|exit|resume|pause|restart|wake|forward|relay)\b`)
