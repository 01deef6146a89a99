package state

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// MarkerSlack is how far a marker's time can lie ahead: other programs round, and clocks are set.
const MarkerSlack = 2 * time.Minute

// Proof is what a question's file proves to a stop gate. It is read without the rest of the question: a gate may find a
// thousand of them, and has a few milliseconds.
type Proof struct {
	QuestionID string
	SessionID  string // Claude Code's own; without a claude_session_id what the file calls the session
	ThreadKey  string // of Old only
	Status     Status // also one that this version does not know
	AskedAt    time.Time
	ResolvedAt time.Time // zero where it does not say
	Written    time.Time // when its file was last written

	Path string // where it is on disk
}

// markerText is a marker as it stands in its file.
type markerText struct {
	QuestionID    string  `json:"question_id"`
	SessionID     string  `json:"session_id"`
	ClaudeSession string  `json:"claude_session_id"`
	ThreadKey     string  `json:"gchat_thread_key"`
	Status        Status  `json:"status"`
	ClosedAs      Status  `json:"closed_as"`
	AskedAt       string  `json:"asked_at"`
	ResolvedAt    *string `json:"resolved_at"`
}

// set takes a member's value as it stands in the file, and reports whether it could without a parser.
func (m *markerText) set(key, value []byte) (ok bool) {
	switch string(key) {
	case "question_id":
		m.QuestionID, ok = plainString(value)
	case "session_id":
		m.SessionID, ok = plainString(value)
	case "claude_session_id":
		m.ClaudeSession, ok = plainString(value)
	case "status":
		var text string
		text, ok = plainString(value)
		m.Status = Status(text)
	case "closed_as":
		var text string
		text, ok = plainString(value)
		m.ClosedAs = Status(text)
	case "asked_at":
		m.AskedAt, ok = plainString(value)
	case "resolved_at":
		if m.ResolvedAt = nil; string(value) == "null" {
			return true
		}
		var text string
		text, ok = plainString(value)
		m.ResolvedAt = &text
	default:
		return true
	}
	return ok
}

// parseMarker reads a file's bytes. Where thoroughly is false the file may be broken in ways that only a parser sees.
func parseMarker(b []byte, written time.Time, thoroughly bool) (*Proof, error) {
	var in markerText
	if thoroughly || !topMembers(b, in.set) {
		in = markerText{}
		if err := json.Unmarshal(b, &in); err != nil {
			return nil, err
		}
	}
	m := &Proof{
		QuestionID: in.QuestionID, SessionID: cmp.Or(in.ClaudeSession, in.SessionID), ThreadKey: in.ThreadKey,
		Status: in.Status, Written: written,
	}
	if m.QuestionID == "" || m.SessionID == "" {
		return nil, errors.New("question_id or session_id is missing")
	}
	if word := in.ClosedAs; word != "" && closedAs[word] == m.Status {
		m.Status = word
	}
	var err error
	if m.AskedAt, err = timeNear(in.AskedAt, written); err != nil { // another program's, which does not say
		m.AskedAt = written
	}
	if in.ResolvedAt != nil && *in.ResolvedAt != "" {
		if m.ResolvedAt, err = timeNear(*in.ResolvedAt, written); err != nil {
			return nil, fmt.Errorf("resolved_at: %w", err)
		}
	}
	return m, nil
}

// timeNear reads a time as we or other programs write it. One without a zone is UTC or this machine's, and nobody says
// which: it is the later of the two that does not lie after the file was written.
func timeNear(text string, written time.Time) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err == nil {
		return t, nil
	}
	for _, layout := range foreignTimes {
		early, lerr := time.Parse(layout, text)
		if lerr != nil {
			continue
		}
		late, _ := time.ParseInLocation(layout, text, time.Local)
		if early.After(late) {
			early, late = late, early
		}
		if late.After(written.Add(MarkerSlack)) {
			return early, nil
		}
		return late, nil
	}
	return time.Time{}, err
}
