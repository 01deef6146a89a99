package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// MarkerSlack is how far a marker's time can lie ahead: other programs round, and clocks are set.
const MarkerSlack = 2 * time.Minute

// Proof is what a question's file proves to a stop gate. It is read without the rest of the question: a gate may find a
// thousand of them, and has a few milliseconds.
type Proof struct {
	QuestionID string
	SessionID  string // Claude Code's; of other programs also the session's name
	ThreadKey  string // of Old only
	Status     Status
	AskedAt    time.Time
	ResolvedAt time.Time // zero where it does not say
	Written    time.Time // when its file was last written

	Path string // where it is on disk
}

// markerText is a marker as it stands in its file.
type markerText struct {
	QuestionID string  `json:"question_id"`
	SessionID  string  `json:"session_id"`
	ThreadKey  string  `json:"gchat_thread_key"`
	Status     Status  `json:"status"`
	AskedAt    string  `json:"asked_at"`
	ResolvedAt *string `json:"resolved_at"`
}

// set takes a member's value as it stands in the file, and reports whether it could without a parser.
func (m *markerText) set(key, value []byte) (ok bool) {
	switch string(key) {
	case "question_id":
		m.QuestionID, ok = plainString(value)
	case "session_id":
		m.SessionID, ok = plainString(value)
	case "status":
		var text string
		text, ok = plainString(value)
		m.Status = Status(text)
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
	m := &Proof{QuestionID: in.QuestionID, SessionID: in.SessionID, ThreadKey: in.ThreadKey, Status: in.Status, Written: written}
	if m.QuestionID == "" || m.SessionID == "" {
		return nil, errors.New("question_id or session_id is missing")
	}
	if m.Status != Pending && !slices.Contains(next[Pending], m.Status) {
		return nil, fmt.Errorf("status %q means nothing to this version", m.Status)
	}
	var err error
	if m.AskedAt, err = timeNear(in.AskedAt, written); err != nil {
		return nil, fmt.Errorf("asked_at: %w", err)
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
