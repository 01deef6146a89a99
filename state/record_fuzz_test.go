package state

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// FuzzRecords checks that any record that was read can be written and read again with the
// same meaning.
func FuzzRecords(f *testing.F) {
	for _, seed := range []string{
		`{"question_id":"x","session_id":"s","status":"pending","asked_at":"2026-11-21T12:00:00","questions":[{"question":"a","options":[]}]}`,
		`{"question_id":"x","status":"answered","answer":3,"answered_by":"Ann","forwarded_at":1.5e9,"thread_name":"t","closed_as":"expired"}`,
		`{"question_id":"x","status":"resolved","mode":"deny","closed_as":"cancelled","asked_at":1771669800.5,"resolved_at":"","more":{"a":[1]}}`,
		`{"message_id":"client-1","type":"plain","parts":["a","b"],"parts_sent":9,"not_before":"2026-11-21T12:00:00Z"}`,
		`{"session_id":"s","notices":["a"],"gate_blocks":["2026-11-21T12:00:00Z"],"wake":{"lines":null,"odd":1}}`,
	} {
		f.Add([]byte(seed))
	}
	// what was read can be written
	unchanged := func(rec anyRecord) []byte { return encode(rec, recordMembers(rec)) }
	written := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, fresh := range []func() anyRecord{
			func() anyRecord { return &Question{} }, func() anyRecord { return &Message{} },
			func() anyRecord { return &Session{} },
		} {
			rec, again, third := fresh(), fresh(), fresh()
			if decode(b, rec, written) != nil {
				continue
			}
			once := unchanged(rec)
			kit.Must(t, json.Valid(once), "%T is written as %s", rec, once)
			err := decode(once, again, written)
			kit.Must(t, err == nil, "%T is not read again: %v\n%s", rec, err, once)
			twice := unchanged(again)
			err = decode(twice, third, written)
			kit.Must(t, err == nil, "%T: %v\n%s", rec, err, twice)
			thrice := unchanged(third)
			kit.Must(t, bytes.Equal(twice, thrice),
				"%T is written in two ways:\n%s\n%s", rec, twice, thrice)
		}
	})
}
