package gchat

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"gchat-hooks/state"
)

var prefixes = map[state.ReportType]string{
	state.TaskCompletion: "[Done]", state.ProgressUpdate: "[Progress]", state.BlockedAlert: "[BLOCKED]",
	state.Heartbeating: "[Heartbeat]", state.SessionStarted: "[Session Start]", state.SessionEnded: "[Session End]",
	state.Failure: "[Error]",
}

// longestField bounds what a report has beside its text, in bytes: the header stands above each part.
const longestField = 1000

// ReportTexts is the report as a message's text, or as several numbered ones when it would be longer than MaxText. All that is
// foreign in it is neutral. A plain report that says nothing has no text.
func ReportTexts(r state.Report) []string {
	return reportTexts(r, MaxText)
}

// ReportWhole is the report as one text, however long it is: for a message that it becomes a part of. It is "" for a plain
// report that says nothing.
func ReportWhole(r state.Report) string {
	return strings.Join(reportTexts(r, math.MaxInt), "")
}

func reportTexts(r state.Report, limit int) []string {
	header, distance := reportHeader(r), "\n\n"
	if r.Prefix != "" { // a notice, whose text is short
		distance = "\n"
	}
	var lines []line
	if about := field(r.About); about != "" {
		lines, distance = append(lines, line{text: about}), "\n"
	}
	// An asterisk would end the bold of the title.
	if title := strings.ReplaceAll(field(r.Title), "*", "∗"); title != "" {
		lines = append(lines, line{text: "*" + title + "*"})
	}
	lines = append(lines, markdown(reportMarkdown(r))...)
	return split(header, distance, settle(lines), limit)
}

// reportHeader is "[Done] name | time", with what of it there is. No bar in a name makes it look like one with a time behind it.
func reportHeader(r state.Report) string {
	header := field(cmp.Or(r.Prefix, prefixes[r.Type]))
	if header == "" {
		return ""
	}
	if name := closed(strings.ReplaceAll(field(r.Session), "|", "/")); name != "" {
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

// field is a line without a code block in it, which could reach over the text of the report.
func field(s string) string {
	return noFence.Replace(Line(brief(s, longestField)))
}

const actionRequired = "ACTION REQUIRED:"

var blockStart = state.Pattern(`^\s*(?:[#>|-]|[*+]\s|\d+[.)]\s|\x60{3}|~{3})`)

// reportMarkdown is the report's text. What blocks a session begins with a call, on a line of its own where a list or a block
// comes first.
func reportMarkdown(r state.Report) string {
	text := state.Clean(state.ForChat, r.Text)
	words := strings.TrimLeft(text, " \t\n*_~#>")
	switch {
	case r.Type != state.BlockedAlert || words == "":
		return text
	case len(words) >= len(actionRequired) && strings.EqualFold(words[:len(actionRequired)], actionRequired):
		return text
	case blockStart().MatchString(text):
		return actionRequired + "\n" + text
	}
	return actionRequired + " " + strings.TrimLeft(text, " \t\n")
}

// Digest makes one text of what was held back, or several when one would be too long, and says how many messages it holds.
func Digest(texts []string) []string {
	header := fmt.Sprintf("[Digest] %d messages", len(texts))
	if len(texts) == 1 {
		header = "[Digest] 1 message"
	}
	return split(header, "\n\n", strings.Join(texts, "\n\n"), MaxText)
}

// split makes messages of a neutral text that may be too long for one: header, distance, text. When there are several, each
// header ends with its number, as in "[Done] name (2/3)", and without a header each begins with a line "(2/3)". They are at
// most limit bytes long (no less than 256) and are cut between paragraphs, else between lines, else between words. A code
// block that is cut is closed and opened again. There is no message when there is nothing to say.
func split(header, distance, text string, limit int) []string {
	limit = max(limit, 256)
	header = head(header, limit/2)
	whole := header + distance + text
	if header == "" || text == "" {
		whole = header + text
	}
	switch {
	case whole == "":
		return nil
	case text == "" || len(whole) <= limit:
		return []string{whole}
	}
	if header == "" {
		distance = "\n"
	} else {
		header += " "
	}
	room := limit - len(header) - len("(99999/99999)") - len(distance) - 2*len(fence+"\n")
	var parts []string
	open := false // the part begins in a code block
	for text != "" {
		n := len(text)
		if n > room {
			n = cutAt(text, room, open)
		}
		part := text[:n]
		text = text[n:]
		if open {
			part = fence + "\n" + part
		} else {
			part = disarm(part) // a line that is cut may go on with any of its words
		}
		open = strings.Count(part, fence)%2 == 1
		if open {
			part = strings.TrimSuffix(part, "\n") + "\n" + fence
		}
		parts = append(parts, part)
	}
	for i, part := range parts {
		parts[i] = fmt.Sprintf("%s(%d/%d)%s%s", header, i+1, len(parts), distance, part)
	}
	return parts
}

// cutAt finds where to cut a text that is longer than room: behind a paragraph, a line or a space near its end.
func cutAt(text string, room int, open bool) int {
	paragraph, whole := 0, 0
	for at := 0; ; {
		l, _, more := strings.Cut(text[at:room], "\n")
		if !more {
			break
		}
		fences := strings.Count(l, fence)
		open = open != (fences%2 == 1)
		at += len(l) + 1
		if !open && strings.TrimSpace(l) == "" {
			paragraph = at
		} else if !open || fences == 0 && !strings.HasPrefix(text[at:], fence) { // else the block would be empty in a message
			whole = at
		}
	}
	if at := cmp.Or(paragraph, whole); at > 0 {
		return at
	}
	const near = 200 // bytes; else between two characters
	n := len(head(text, room))
	if space := strings.LastIndexAny(text[max(0, n-near):n], " \t"); space >= 0 {
		n = max(0, n-near) + space + 1
	}
	return n
}
