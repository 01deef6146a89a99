package wording

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"gchat-hooks/state"
)

var reportPrefixes = map[state.ReportType]string{
	state.ReportTaskCompletion: "[Done]",
	state.ReportProgressUpdate: "[Progress]",
	state.ReportBlockedAlert:   "[BLOCKED]",
	state.ReportHeartbeat:      "[Heartbeat]",
	state.ReportSessionStarted: "[Session Start]",
	state.ReportSessionEnded:   "[Session End]",
	state.ReportFailure:        "[Error]",
}

// ReportTexts returns a report's text, or several numbered texts if it is longer than
// MaxText. Foreign text in them is neutral: it has no effect in Chat. An empty plain
// report has no text.
func ReportTexts(r state.Report) []string {
	return reportTexts(r, MaxText)
}

// WholeReportText returns a report as one text of any length, for a message that contains
// other texts, too. It returns "" for an empty plain report.
func WholeReportText(r state.Report) string {
	return strings.Join(reportTexts(r, math.MaxInt), "")
}

func reportTexts(r state.Report, limit int) []string {
	render := renderMarkdown
	if r.IsChatSyntax {
		render = renderChatSyntax
	}
	separator, text := "\n\n", render(reportText(r))
	// an asterisk in the title would end its bold text
	if title := strings.ReplaceAll(safeField(r.Title), "*", "∗"); title != "" {
		text = disarm("*"+neutraliseLastAngle(title)+"*") + "\n" + text
	}
	about := safeField(r.About)
	if about != "" {
		text = disarm(about) + "\n" + text
	}
	if about != "" || r.Prefix != "" { // a notice, which has a short text
		separator = "\n"
	}
	return splitMessage(reportHeader(r), separator, strings.TrimRight(text, "\n"), limit)
}

// reportHeader returns "[Done] name | time", or those parts of it that the report has. A
// "|" in the name is replaced, since what follows it would look like a time.
func reportHeader(r state.Report) string {
	header := safeField(cmp.Or(r.Prefix, reportPrefixes[r.Type]))
	if header == "" {
		return ""
	}
	name := strings.ReplaceAll(safeField(r.SessionName), "|", "/")
	if name != "" {
		header += " " + neutraliseLastAngle(name)
	}
	if name != "" && !r.At.IsZero() {
		header += " |"
	}
	if !r.At.IsZero() {
		header += " " + r.At.Format(time.DateTime)
	}
	return header
}

const actionRequired = "ACTION REQUIRED:"

var blockStartPattern = state.LazyPattern(`^\s*(?:[#>|-]|[*+]\s|\d+[.)]\s|\x60{3}|~{3})`)

// reportText returns a report's text, cleaned. A report of type blocked_alert gets
// actionRequired in front, unless it begins so by itself. If the text begins with a list,
// a heading or a code block, actionRequired is on a line of its own.
func reportText(r state.Report) string {
	text := state.Clean(state.ForChat, r.Text)
	visibleText := strings.TrimLeft(text, " \t\n*_~#>")
	start := visibleText[:min(len(visibleText), len(actionRequired))]
	switch {
	case r.Type != state.ReportBlockedAlert || visibleText == "":
		return text
	case strings.EqualFold(start, actionRequired):
		return text
	case blockStartPattern().MatchString(text):
		return actionRequired + "\n" + text
	}
	return actionRequired + " " + strings.TrimLeft(text, " \t\n")
}

// DigestTexts merges the texts of messages that the poller held back into one text, or
// into several if one would be too long. The header says how many messages it contains.
func DigestTexts(texts []string) []string {
	header := fmt.Sprintf("[Digest] %d messages", len(texts))
	if len(texts) == 1 {
		header = "[Digest] 1 message"
	}
	return splitMessage(header, "\n\n", strings.Join(texts, "\n\n"), MaxText)
}
