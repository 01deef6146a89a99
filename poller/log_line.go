package poller

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"gchat-hooks/state"
)

// logLine is a line of the log. Without a level it is none of ours: what a crash printed, or somebody's hand.
type logLine struct {
	at, level, job, pid, message, cause, hint string

	rest map[string]string
	text string // of a line that is none of ours
}

func parseLogLine(line []byte) (l logLine) {
	var entry map[string]any
	if json.Unmarshal(line, &entry) != nil {
		return logLine{text: Printable(strings.TrimRight(string(line), "\r\n"))}
	}
	l.rest = map[string]string{}
	for name, v := range entry {
		if s, ok := v.(string); ok {
			l.rest[name] = s
		} else if b, err := json.Marshal(v); err == nil {
			l.rest[name] = string(b)
		}
	}
	for name, to := range map[string]*string{
		"time": &l.at, "level": &l.level, "job": &l.job, "pid": &l.pid, "message": &l.message, "error": &l.cause, "hint": &l.hint,
	} {
		*to = l.rest[name]
		delete(l.rest, name)
	}
	return l
}

// logLevels are zerolog's, the less important first.
var logLevels = []string{"trace", "debug", "info", "warn", "error", "fatal", "panic"}

// LogLevels are the names that LogOptions.Level takes.
func LogLevels() []string { return slices.Clone(logLevels) }

// atLeast says whether the line is of that level or a more important one. What is none of ours is a crash, most likely.
func (l *logLine) atLeast(level string) bool {
	return level == "" || l.rest == nil || slices.Index(logLevels, l.level) >= slices.Index(logLevels, level)
}

// about says whether the line is about one of these sessions or questions.
func (l *logLine) about(names map[string]bool) bool {
	for _, member := range []string{"session", "session_id", "session_name", "tmux_session", "question"} {
		if v := l.rest[member]; v != "" && names[v] {
			return true
		}
	}
	return false
}

// String is the line as a person reads it: when, how bad, who, what, the cause, all else, and what to do.
func (l *logLine) String() string {
	if l.rest == nil {
		return l.text
	}
	at := l.at
	if t, err := time.Parse(time.RFC3339Nano, at); err == nil {
		at = t.Local().Format(time.DateTime)
	}
	text := strings.Join([]string{at, fmt.Sprintf("%-5s", strings.ToUpper(l.level)), l.job + "[" + l.pid + "]", l.message}, " ")
	if l.cause != "" {
		text += ": " + l.cause
	}
	for _, name := range slices.Sorted(maps.Keys(l.rest)) {
		value := l.rest[name]
		if value == "" || strings.ContainsAny(value, " \t\n\"") {
			value = fmt.Sprintf("%q", value)
		}
		text += " " + name + "=" + value
	}
	if l.hint != "" {
		text += " (hint: " + l.hint + ")"
	}
	return Printable(text)
}

// Printable is text that does nothing to a terminal: a log, a question, a session's name hold what other people wrote.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || unicode.IsSpace(r) && r < unicode.MaxASCII && r != '\r' && r != '\v' && r != '\f' {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// PrintableJSON is JSON that does nothing to a terminal and means the same: what would is escaped.
func PrintableJSON(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < unicode.MaxASCII || !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// LogError is an error line of the log, as status shows it.
type LogError struct {
	Time    time.Time `json:"time"`
	Job     string    `json:"job"`
	Message string    `json:"message"`
	Cause   string    `json:"error,omitempty"`
	Hint    string    `json:"hint,omitempty"`
}

// LastErrors are the last n errors of the log since then, the oldest first, as far as its last megabyte goes back.
func LastErrors(env state.Getenv, n int, since time.Time) (errs []LogError) {
	f := &logFile{path: state.LogPath(env)}
	_, _ = f.tail(func(line []byte) (string, bool) {
		if !strings.Contains(string(line), `"level":"`) { // cheaper than parsing what a crash printed
			return "", false
		}
		l := parseLogLine(line)
		at, err := time.Parse(time.RFC3339Nano, l.at)
		if err != nil || at.Before(since) || l.rest == nil || !l.atLeast("error") {
			return "", false
		}
		errs = append(errs, LogError{at.UTC(), l.job, l.message, l.cause, l.hint})
		return "", true
	}, n, tailBytes)
	slices.Reverse(errs) // tail goes backwards, and into the older file after the newer one
	return errs
}
