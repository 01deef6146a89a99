package state

import (
	"encoding/json"
	"path/filepath"
	"time"
)

// LastCall says how the last calls of the person went. It is the file last-call.json in
// the user's state. A lost write loses only this.
type LastCall struct {
	SucceededAt time.Time `json:"succeeded_at,omitzero"`
	FailedAt    time.Time `json:"failed_at,omitzero"`
	Error       string    `json:"error,omitempty"` // of the last failure; has no secret
}

func lastCallFile(env Getenv) string { return filepath.Join(UserStateDir(env), "last-call.json") }

// ReadLastCall returns how the last calls went; nothing where nobody was called.
func ReadLastCall(env Getenv) (last LastCall) {
	b, _ := ReadPlain(lastCallFile(env), MaxFileSize)
	_ = json.Unmarshal(b, &last)
	return last
}

// RecordCall records that the person was called, or why they could not be.
func RecordCall(env Getenv, at time.Time, failure string) error {
	last := ReadLastCall(env)
	if failure == "" {
		last.SucceededAt = at.UTC()
	} else {
		last.FailedAt, last.Error = at.UTC(), failure
	}
	b, err := json.Marshal(last)
	if err != nil {
		return err
	}
	return unsynced.write(lastCallFile(env), append(b, '\n'), false)
}
