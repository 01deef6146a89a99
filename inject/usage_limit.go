package inject

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

// UsageLimit is a limit of the person's plan that stopped a session.
type UsageLimit struct {
	Name string // 5-hour limit, session limit, weekly limit, Opus limit
	// Ends is when it ends, in Claude Code's words: 1:47pm (UTC), or Dec 2, 1:24pm (UTC).
	Ends string
	// EndsAt is that time. It is zero if the words are not understood.
	EndsAt time.Time
}

// limitText matches the text with which Claude Code ends a turn that a usage limit
// stopped: "You've hit your session limit · resets 1:47pm (UTC)" (2.1.197), "You've hit
// your 5-hour limit · resets 1:47pm (UTC)" (2.1.332). More can follow.
var limitText = pattern(
	`^You've hit your ([\w -]{1,40}limit) · resets ([\w,:/+() -]{1,60}?)(?: · .*)?$`)

// ReadUsageLimit reads the text of a turn that failed at a time. ok is false if the text
// names no usage limit.
func ReadUsageLimit(text string, failedAt time.Time) (limit UsageLimit, ok bool) {
	match := limitText().FindStringSubmatch(strings.TrimSpace(text))
	if match == nil {
		return UsageLimit{}, false
	}
	return UsageLimit{Name: match[1], Ends: match[2], EndsAt: limitEndAt(match[2], failedAt)}, true
}

// limitEndAt returns the next time that Claude Code may mean: it names the zone, the day
// if that is not today, and no year. The time is zero if the words have another form.
func limitEndAt(words string, from time.Time) time.Time {
	clock, zone, hasZone := strings.Cut(strings.TrimSuffix(words, ")"), " (")
	location, err := time.LoadLocation(zone)
	if !hasZone || err != nil {
		return time.Time{}
	}
	from = from.In(location).Truncate(time.Minute)
	year, month, day := from.Date()
	for _, layout := range []string{"3:04pm", "3pm"} {
		at, err := time.ParseInLocation(layout, clock, location)
		if err == nil {
			at = time.Date(year, month, day, at.Hour(), at.Minute(), 0, 0, location)
			if at.Before(from) {
				at = at.AddDate(0, 0, 1)
			}
			return at.UTC()
		}
		at, err = time.ParseInLocation("Jan 2, "+layout, clock, location)
		if err == nil {
			at = time.Date(year, at.Month(), at.Day(), at.Hour(), at.Minute(), 0, 0, location)
			if at.Before(from) {
				at = at.AddDate(1, 0, 0)
			}
			return at.UTC()
		}
	}
	return time.Time{}
}

// continuesText begins the line by which 2.1.332 says that it continues by itself when
// the limit ends.
const continuesText = "Usage limit reached · set to continue automatically"

// ContinuesByItself reports whether Claude Code says in a transcript that it continues
// by itself once the usage limit that stopped it last has ended.
func ContinuesByItself(transcript string) (continues bool) {
	lines, _, _ := TranscriptEnd(transcript, firstTurnBytes)
	for line := range bytes.Lines(lines) {
		var entry struct {
			Type, Subtype     string
			Content           json.RawMessage
			IsAPIErrorMessage bool `json:"isApiErrorMessage"`
		}
		if json.Unmarshal(line, &entry) != nil {
			continue
		}
		text := ""
		_ = json.Unmarshal(entry.Content, &text)
		switch {
		case entry.IsAPIErrorMessage, entry.Type == "user":
			continues = false
		case entry.Type == "system" && entry.Subtype == "informational":
			continues = strings.HasPrefix(text, continuesText)
		}
	}
	return continues
}
