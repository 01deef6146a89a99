package state

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// AuditLine is one decision that a person gave from Chat: who, when, what was shown, what was replied and what Claude was told.
type AuditLine struct {
	Time    time.Time `json:"time"`
	Session string    `json:"session"` // its name
	Project string    `json:"project,omitempty"`
	Kind    string    `json:"kind"` // permission, plan, next, or a command of the session's thread
	Tool    string    `json:"tool,omitempty"`
	Shown   string    `json:"shown,omitempty"` // the whole command, diff or plan
	By      string    `json:"by"`              // users/ID, or local
	ByName  string    `json:"by_name,omitempty"`
	Replied string    `json:"replied"`
	Told    string    `json:"told"`
}

// Decided is the line of what a person decided about a question, and what Claude is told.
func (q *Question) Decided(told string) AuditLine {
	l := AuditLine{
		Session: q.SessionName, Project: q.ProjectDir, Kind: string(q.Kind), Tool: q.Tool, Shown: cmp.Or(q.Shown, q.About),
		By: q.AnsweredBy, ByName: q.AnsweredByName, Told: told,
	}
	if q.Tool == "Bash" && len(q.Call) > 0 {
		l.Shown = q.Call[0] // with the keys that its message hides
	}
	if q.Response != nil {
		l.Replied = *q.Response
	}
	return l
}

// AuditPath is the log of decisions. It is only ever added to.
func AuditPath(env Getenv) string {
	return filepath.Join(Home(env), ".claude", "logs", "gchat-hooks-audit.log")
}

// Audit adds a line to the log of decisions, with one write: lines of several processes stay whole. It is its person's own, and
// leaves out nothing but the secrets of our own configuration that log was told to hide.
func Audit(env Getenv, log *Log, line AuditLine) error {
	if line.Time.IsZero() {
		line.Time = time.Now()
	}
	line.Time = line.Time.UTC().Truncate(time.Millisecond)
	for _, text := range []*string{&line.Shown, &line.Replied, &line.Told} {
		*text = log.Hidden(*text)
	}
	path := AuditPath(env)
	b, err := json.Marshal(line)
	err = errors.Join(err, MakeDir(filepath.Dir(path)))
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	const add = os.O_APPEND | os.O_CREATE | os.O_WRONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK // no pipe holds it up
	f, err := os.OpenFile(path, add, 0o600)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Close())
}
