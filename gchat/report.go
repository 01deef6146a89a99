package gchat

import (
	"fmt"
	"strings"
	"time"
)

// ReportType is what a report is about; it sets the prefix and the urgency.
type ReportType string

// The types of reports.
const (
	TaskCompletion ReportType = "task_completion" // [Done]
	ProgressUpdate ReportType = "progress_update" // [Progress]
	BlockedAlert   ReportType = "blocked_alert"   // [BLOCKED]
	Heartbeat      ReportType = "heartbeat"       // [Heartbeat]
	SessionStarted ReportType = "session_start"   // [Session Start]
	SessionEnded   ReportType = "session_end"     // [Session End]
	Failure        ReportType = "error"           // [Error]
	Plain          ReportType = "plain"           // no header
)

// ReportTypes gives all types.
func ReportTypes() []ReportType {
	return []ReportType{TaskCompletion, ProgressUpdate, BlockedAlert, Heartbeat, SessionStarted, SessionEnded, Failure, Plain}
}

// Prefix is the word in brackets that the header begins with; "" for Plain and unknown types.
func (t ReportType) Prefix() string {
	switch t {
	case TaskCompletion:
		return "[Done]"
	case ProgressUpdate:
		return "[Progress]"
	case BlockedAlert:
		return "[BLOCKED]"
	case Heartbeat:
		return "[Heartbeat]"
	case SessionStarted:
		return "[Session Start]"
	case SessionEnded:
		return "[Session End]"
	case Failure:
		return "[Error]"
	}
	return ""
}

// Known says that it is one of ReportTypes.
func (t ReportType) Known() bool { return t == Plain || t.Prefix() != "" }

// Urgent says that somebody should look now.
func (t ReportType) Urgent() bool { return t == BlockedAlert || t == Failure }

// Low says that nobody misses it when it comes late, or together with others.
func (t ReportType) Low() bool { return t == ProgressUpdate || t == Heartbeat }

// Report is a message of a session that asks nothing.
type Report struct {
	Type    ReportType
	Prefix  string    // in place of the type's: "[Subagent Done]"
	Session string    // the session's name, foreign text
	At      time.Time // shown in the header in its own location; zero: none
	About   string    // a line right below the header, foreign
	Title   string    // a bold line above the text, foreign
	Text    string    // Claude's Markdown, foreign
}

// longestField bounds what a report has beside its text, in bytes: the header stands above each part.
const longestField = 1000

// Texts is the report as a message's text, or as several numbered ones when it would be longer than MaxText. All that is
// foreign in it is neutral. A plain report that says nothing has no text.
func (r Report) Texts() []string {
	header, distance, text := r.pieces()
	return split(header, distance, text, MaxText)
}

// Whole is the report as one text, however long it is: for a message that it becomes a part of. It is "" for a plain
// report that says nothing.
func (r Report) Whole() string {
	header, distance, text := r.pieces()
	return strings.TrimSuffix(strings.TrimPrefix(header+distance+text, "\n\n"), distance)
}

func (r Report) pieces() (header, distance, text string) {
	header, distance = r.header(), "\n\n"
	var lines []line
	if about := field(r.About); about != "" {
		lines, distance = append(lines, line{text: about}), "\n"
	}
	// An asterisk would end the bold of the title.
	if title := strings.ReplaceAll(field(r.Title), "*", "∗"); title != "" {
		lines = append(lines, line{text: "*" + title + "*"})
	}
	lines = append(lines, r.lines()...)
	return header, distance, settle(lines)
}

// header is "[Done] name | time", with what of it there is.
func (r Report) header() string {
	prefix := r.Prefix
	if prefix == "" {
		prefix = r.Type.Prefix()
	}
	if prefix = field(prefix); prefix == "" {
		return ""
	}
	header := prefix
	if name := closed(bars.Replace(field(r.Session))); name != "" {
		header += " " + name
		if !r.At.IsZero() {
			header += " |"
		}
	}
	if !r.At.IsZero() {
		header += " " + r.At.Format(time.DateTime)
	}
	return header
}

// bars could make a name look like one with a time behind it.
var bars = strings.NewReplacer("|", "/", "｜", "/", "│", "/", "┃", "/", "∣", "/", "￨", "/", "❘", "/", "ǀ", "/", "¦", "/")

// field is a line without a code block in it, which could reach over the text of the report.
func field(s string) string {
	if len(s) > longestField {
		s = head(s, longestField) + "…"
	}
	return noFence(Line(s))
}

const actionRequired = "ACTION REQUIRED:"

// lines is the report's text. What blocks a session begins with a call, on a line of its own where a list or a block
// comes first.
func (r Report) lines() []line {
	lines, inline := markdown(visible(r.Text))
	if r.Type != BlockedAlert || len(lines) == 0 {
		return lines
	}
	first := strings.TrimLeft(lines[0].text, " \t*_~#>")
	words := strings.NewReplacer("*", "", "_", "", "~", "").Replace(first)
	switch {
	case !lines[0].code && len(words) >= len(actionRequired) && strings.EqualFold(words[:len(actionRequired)], actionRequired):
	case inline:
		lines[0].text = actionRequired + " " + strings.TrimLeft(lines[0].text, " \t")
	default:
		lines = append([]line{{text: actionRequired}}, lines...)
	}
	return lines
}

// Together makes one text of several that waited.
func Together(texts []string) string { return strings.Join(texts, "\n\n") }

// Digest makes one text of what was held back, or several when one would be too long, and says how many messages it holds.
func Digest(texts []string, messages int) []string {
	header := fmt.Sprintf("[Digest] %d messages", messages)
	if messages == 1 {
		header = "[Digest] 1 message"
	}
	return split(header, "\n\n", Together(texts), MaxText)
}
