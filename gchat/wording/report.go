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
	state.ReportTaskCompletion: "[Done]", state.ReportProgressUpdate: "[Progress]", state.ReportBlockedAlert: "[BLOCKED]",
	state.ReportHeartbeat: "[Heartbeat]", state.ReportSessionStarted: "[Session Start]", state.ReportSessionEnded: "[Session End]",
	state.ReportFailure: "[Error]",
}

// ReportTexts is the report as a message's text, or as several numbered ones when it
// would be longer than MaxText. All that is foreign in it is neutral. A plain report that
// says nothing has no text.
func ReportTexts(r state.Report) []string {
	return reportTexts(r, MaxText)
}

// WholeReportText is the report as one text, however long it is: for a message that it
// becomes a part of. It is "" for a plain report that says nothing.
func WholeReportText(r state.Report) string {
	return strings.Join(reportTexts(r, math.MaxInt), "")
}

func reportTexts(r state.Report, limit int) []string {
	render := renderMarkdown
	if r.IsChatSyntax {
		render = renderChatSyntax
	}
	separator, text := "\n\n", render(reportText(r))
	// An asterisk would end the bold of the title.
	if title := strings.ReplaceAll(safeField(r.Title), "*", "∗"); title != "" {
		text = disarm("*"+neutraliseLastAngle(title)+"*") + "\n" + text
	}
	about := safeField(r.About)
	if about != "" {
		text = disarm(about) + "\n" + text
	}
	if about != "" || r.Prefix != "" { // a notice, whose text is short
		separator = "\n"
	}
	return splitMessage(reportHeader(r), separator, strings.TrimRight(text, "\n"), limit)
}

// reportHeader is "[Done] name | time", with what of it there is. No bar in a name makes
// it look like one with a time behind it.
func reportHeader(r state.Report) string {
	header := safeField(cmp.Or(r.Prefix, reportPrefixes[r.Type]))
	if header == "" {
		return ""
	}
	if name := neutraliseLastAngle(strings.ReplaceAll(safeField(r.SessionName), "|", "/")); name != "" {
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

const actionRequired = "ACTION REQUIRED:"

var blockStartPattern = state.LazyPattern(`^\s*(?:[#>|-]|[*+]\s|\d+[.)]\s|\x60{3}|~{3})`)

// reportText is the report's text as it was given. What blocks a session begins with a
// call, on its own line where a list or a block comes first.
func reportText(r state.Report) string {
	text := state.Clean(state.ForChat, r.Text)
	visibleText := strings.TrimLeft(text, " \t\n*_~#>")
	switch {
	case r.Type != state.ReportBlockedAlert || visibleText == "":
		return text
	case len(visibleText) >= len(actionRequired) && strings.EqualFold(visibleText[:len(actionRequired)], actionRequired):
		return text
	case blockStartPattern().MatchString(text):
		return actionRequired + "\n" + text
	}
	return actionRequired + " " + strings.TrimLeft(text, " \t\n")
}

// DigestTexts makes one text of what was held back, or several when one would be too
// long, and says how many messages it holds.
func DigestTexts(texts []string) []string {
	header := fmt.Sprintf("[Digest] %d messages", len(texts))
	if len(texts) == 1 {
		header = "[Digest] 1 message"
	}
	return splitMessage(header, "\n\n", strings.Join(texts, "\n\n"), MaxText)
}
