package state

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// maxLogSize is the size, in bytes, at which the log is renamed to .1 and a new one
// begins.
const maxLogSize = 10 << 20

// Log is ~/.claude/logs/gchat-hooks.log: JSON lines without secrets, at most 10 MB, plus
// one older file. A line that cannot be written is dropped: the log must not break a
// hook.
type Log struct {
	zerolog.Logger
	Redactor

	path       string
	mu         sync.Mutex
	loggedOnce map[string]bool // what ErrorOnce logged since ForgetOnce
}

// The log's texts for a message that Chat has, and for one that Chat will not take.
// `stats` counts these lines.
const (
	LogMessageSent    = "message sent"
	LogMessageRefused = "message set aside: Chat will not take it"
)

// setTimeFormat sets how zerolog writes times, which is a global of zerolog.
var setTimeFormat = sync.OnceFunc(func() {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
})

// NewLog returns the log of one process; job is the name that it runs under.
func NewLog(env Getenv, job string) *Log {
	l := &Log{path: LogPath(env)}
	setTimeFormat()
	l.Logger = zerolog.New(l).With().Timestamp().Str("job", job).Int("pid", os.Getpid()).Logger()
	return l
}

// LogPath returns the path of the log.
func LogPath(env Getenv) string {
	return filepath.Join(Home(env), ".claude", "logs", "gchat-hooks.log")
}

// Write appends one line of zerolog's to the log. It opens the file for each line: a
// daemon lives long, and the file may be renamed meanwhile.
func (l *Log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if info, err := os.Stat(l.path); err == nil && info.Size() > maxLogSize {
		// If two processes rename at once, the second renames a new, short file; only the
		// old one is lost.
		_ = os.Rename(l.path, l.path+".1")
	}
	if MakeFolder(filepath.Dir(l.path)) != nil {
		return len(line), nil
	}
	// a person may keep the log elsewhere and link to it
	f, _, err := OpenPlain(RealPath(l.path), appendFlags)
	if err != nil {
		return len(line), nil
	}
	defer f.Close()
	_, _ = f.WriteString(l.Redact(string(line)))
	return len(line), nil
}

// maxLoggedOnce limits how many errors ErrorOnce remembers, and so how much a long run of
// different errors writes.
const maxLoggedOnce = 1000

// variableWords matches words of an error that may differ each time: names of temporary
// files, numbers of ports and processes.
var variableWords = LazyPattern(`[\w.-]*[0-9]{5}[\w.-]*`)

// ErrorOnce logs an error that may recur at any moment, once until ForgetOnce. A nil
// error is ignored.
func (l *Log) ErrorOnce(err error, what string) {
	if err == nil {
		return
	}
	text := l.Redact(err.Error())
	l.mu.Lock()
	key := what + variableWords().ReplaceAllString(text, "#")
	isNew := !l.loggedOnce[key] && len(l.loggedOnce) < maxLoggedOnce
	if l.loggedOnce == nil {
		l.loggedOnce = map[string]bool{}
	}
	if isNew {
		l.loggedOnce[key] = true
	}
	l.mu.Unlock()
	if isNew {
		l.Error().Str("error", text).Msg(what)
	}
}

// ForgetOnce makes ErrorOnce log again what it logged before.
func (l *Log) ForgetOnce() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loggedOnce = nil
}

// LazyPattern returns a function that compiles an expression at its first call: most
// hooks need none.
func LazyPattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// secretPattern matches secrets whose value is not known, by where they stand or how they
// begin: in the query of a webhook URL or a login's callback, in the page's link, after
// "bearer", in the fields of a credentials file up to their end (keys hold blanks and
// escapes, refresh tokens slashes), in the path of the embedded space, and with the
// prefixes of Google's OAuth secrets.
var secretPattern = LazyPattern(
	`(?i)((?:[?&#]|\\u0026)(?:key|token|access_token|refresh_token|client_secret|code|code_verifier)=` +
		`|bearer\s+)[^\s"'&<>\\]+` +
		`|("(?:private_key|refresh_token|client_secret|access_token|id_token|token)"\s*:\s*")(?:[^"\\]|\\.)*` +
		`|(/t/)[^\s"'&<>\\/]+` +
		`|\b(?:4/0A|1//0|ya29\.|GOCSPX-)[\w.-]{8,}`,
)

// Redactor removes secrets from text that a person or a file gets to see. Its zero value
// works.
type Redactor struct {
	mu      sync.Mutex
	secrets []string
}

// AddSecrets makes Redact hide these texts. Of a URL it hides the values of the query as
// well: Go's own errors quote URLs.
func (r *Redactor) AddSecrets(secrets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	add := func(s string) {
		if len(s) >= 6 && !slices.Contains(r.secrets, s) {
			r.secrets = append(r.secrets, s)
		}
	}
	for _, secret := range secrets {
		add(secret)
		u, err := url.Parse(secret)
		if err != nil {
			continue
		}
		for _, vs := range u.Query() {
			for _, v := range vs {
				add(v)
				add(url.QueryEscape(v))
			}
		}
	}
}

// hideSecrets returns s without the secrets that AddSecrets was given.
func (r *Redactor) hideSecrets(s string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, secret := range r.secrets {
		s = strings.ReplaceAll(s, secret, "[secret]")
	}
	return s
}

// Redact returns s without secrets, known or recognised.
func (r *Redactor) Redact(s string) string {
	s = r.hideSecrets(s)
	return secretPattern().ReplaceAllString(s, "${1}${2}${3}[secret]")
}

// AuditLine is one decision that a person made from Chat: who, when, what was shown, what
// the person replied and what Claude was told.
type AuditLine struct {
	Time        time.Time `json:"time"`
	SessionName string    `json:"session"` // the session's name
	Project     string    `json:"project,omitempty"`
	// permission, plan, next, or a command in the session's thread
	Kind       string `json:"kind"`
	Tool       string `json:"tool,omitempty"`
	ShownText  string `json:"shown,omitempty"` // the whole command, diff or plan
	By         string `json:"by"`              // users/ID, or local
	ByName     string `json:"by_name,omitempty"`
	ReplyText  string `json:"replied"`
	ClaudeText string `json:"told"`
}

// DecisionLine returns the audit line of a person's decision about the question;
// claudeText is what Claude is told.
func (q *Question) DecisionLine(claudeText string) AuditLine {
	line := AuditLine{
		SessionName: q.SessionName, Project: q.ProjectDir, Kind: string(q.Kind), Tool: q.ToolName,
		ShownText: cmp.Or(q.ShownText, q.About),
		By:        q.AnsweredBy, ByName: q.AnsweredByName, ClaudeText: claudeText,
	}
	if (IsShellTool(q.ToolName) || line.ShownText == "") && len(q.CallTexts) > 0 {
		// the audit log holds what the message masks, and what a policy hides
		line.ShownText = q.CallTexts[0]
	}
	if q.Response != nil && !q.Kind.Traits().AsksForValues {
		line.ReplyText = *q.Response
	}
	return line
}

// AuditPath returns the path of the log of decisions. Lines are only ever appended to it.
func AuditPath(env Getenv) string {
	return filepath.Join(Home(env), ".claude", "logs", "gchat-hooks-audit.log")
}

// AppendDecision appends a line to the log of decisions, in one write: lines of several
// processes stay whole. The log belongs to its person and holds everything but the
// secrets of our own configuration that log was told to hide.
func AppendDecision(env Getenv, log *Log, line AuditLine) error {
	if line.Time.IsZero() {
		line.Time = time.Now()
	}
	line.Time = line.Time.UTC().Truncate(time.Millisecond)
	for _, text := range []*string{&line.ShownText, &line.ReplyText, &line.ClaudeText} {
		*text = log.hideSecrets(*text)
	}
	return AppendAuditLine(env, line)
}

// AppendAuditLine appends a line as it is: an AuditLine or an EndingLine.
func AppendAuditLine(env Getenv, line any) error {
	path := AuditPath(env)
	b, err := json.Marshal(line)
	err = errors.Join(err, MakeFolder(filepath.Dir(path)))
	if err != nil {
		return fmt.Errorf("write log of decisions: %w", err)
	}
	f, _, err := OpenPlain(path, appendFlags)
	if err != nil {
		return fmt.Errorf("write log of decisions: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Close())
}
