package poller

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
)

// VerifyReport is what a run of the correlation check found. It is written to a file as JSON.
type VerifyReport struct {
	Run       string         `json:"run"`            // eight hex digits: the keys of its threads begin verify-{run}-
	Chat      string         `json:"chat"`           // host/spaces/S
	File      string         `json:"file,omitempty"` // where the report is
	Began     time.Time      `json:"began"`          // this machine's clock, UTC
	Ended     time.Time      `json:"ended,omitzero"` // zero while it runs, and after kill -9
	Passed    bool           `json:"passed"`         // all scenarios passed or were skipped as asked
	Scenarios []VerifyResult `json:"scenarios"`
}

// VerifyStatus is what became of a scenario.
type VerifyStatus string

const (
	VerifyPass    VerifyStatus = "pass"
	VerifyFail    VerifyStatus = "fail"
	VerifySkipped VerifyStatus = "skipped" // as the caller asked
	VerifyCut     VerifyStatus = "cut"     // it was begun, and interrupted
	VerifyNotRun  VerifyStatus = "not run" // an earlier one left no way to
)

// VerifyResult is one scenario. Times are milliseconds.
type VerifyResult struct {
	Scenario    string         `json:"scenario"` // thread, two-threads, reply or timeout
	Title       string         `json:"title"`
	Status      VerifyStatus   `json:"status"`
	Why         string         `json:"why,omitempty"`  // not passed: a sentence for a person
	Hint        string         `json:"hint,omitempty"` // what that person can do
	Threads     []VerifyThread `json:"threads,omitempty"`
	PostMS      []float64      `json:"post_ms,omitempty"`   // each post, in order, from the request to Chat's answer
	ListedMS    []float64      `json:"listed_ms,omitempty"` // each wait from the answer to a post until a list has it
	Answer      *VerifyAnswer  `json:"answer,omitempty"`
	Refused     []string       `json:"refused,omitempty"`      // senders of replies who may not answer
	BotMessages int            `json:"bot_messages,omitempty"` // in the question's thread, not taken for replies
	Elsewhere   int            `json:"elsewhere,omitempty"`    // people's messages in other threads, not taken for replies
	WaitedMS    float64        `json:"waited_ms,omitempty"`    // for a reply, once the question was there
	Notes       []string       `json:"notes,omitempty"`        // what was seen beside and fails nothing
}

// VerifyThread is how Chat mapped a thread key.
type VerifyThread struct {
	Key      string   `json:"key"`                // verify-{run}-…
	Name     string   `json:"name"`               // spaces/S/threads/T; "" when no answer of Chat's told it
	Messages []string `json:"messages,omitempty"` // posted there by the check: spaces/S/messages/M
}

// VerifyAnswer is a person's reply and what it was read as.
type VerifyAnswer struct {
	Message string `json:"message"`        // spaces/S/messages/M
	By      string `json:"by"`             // users/ID
	Name    string `json:"name,omitempty"` // where Chat gives one
	Text    string `json:"text"`           // as it was typed
	ReadAs  string `json:"read_as"`        // the option's label, or the text
	Kind    string `json:"kind"`           // single_select or custom_text
}

// Save replaces the file at path with the report, 0600, whatever permissions an older file had.
func (r *VerifyReport) Save(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	_ = os.Chmod(path, 0o600) // renameio keeps the permissions of an older file
	if err := renameio.WriteFile(path, append(b, '\n'), 0o600, renameio.WithTempDir(filepath.Dir(path))); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Round(100*time.Microsecond)) / 1e6 }
