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

// maxLogSize is when the log is renamed to .1 and begun anew, in bytes.
const maxLogSize = 10 << 20

// Log is ~/.claude/logs/gchat-hooks.log: JSON lines without secrets, capped at 10 MB and
// one old file. What cannot be logged is dropped: a log must not break a hook.
type Log struct {
	zerolog.Logger
	Redactor

	path       string
	mu         sync.Mutex
	loggedOnce map[string]bool // what Once logged since the last Forget
}

// What the log calls a message that Chat has, and one that Chat will not take. `stats`
// counts them.
const (
	LogMessageSent    = "message sent"
	LogMessageRefused = "message set aside: Chat will not take it"
)

// setTimeFormat sets how times are written, which zerolog keeps for all its users.
var setTimeFormat = sync.OnceFunc(
	func() { zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00" },
)

// NewLog is the log of one process; job is the name that it runs under.
func NewLog(env Getenv, job string) *Log {
	l := &Log{path: LogPath(env)}
	setTimeFormat()
	l.Logger = zerolog.New(l).With().Timestamp().Str("job", job).Int("pid", os.Getpid()).Logger()
	return l
}

// LogPath is where the log is.
func LogPath(env Getenv) string {
	return filepath.Join(Home(env), ".claude", "logs", "gchat-hooks.log")
}

// Write takes one line from zerolog. A daemon lives long, so each line opens the file
// that stands there now.
func (l *Log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if info, err := os.Stat(l.path); err == nil && info.Size() > maxLogSize {
		// Two processes may both rename; the second then renames a fresh, short file, and
		// that is all that is lost.
		_ = os.Rename(l.path, l.path+".1")
	}
	if MakeFolder(filepath.Dir(l.path)) != nil {
		return len(line), nil
	}
	f, _, err := OpenPlain(RealPath(l.path), appendFlags) // a person may keep the log elsewhere
	if err != nil {
		return len(line), nil
	}
	defer f.Close()
	_, _ = f.WriteString(l.Redact(string(line)))
	return len(line), nil
}

// maxLoggedOnce bounds what is remembered as said, and so how much a long run of faults
// writes.
const maxLoggedOnce = 1000

// variableWords are words of an error that may be others each time: names of temporary
// files, numbers of ports and processes.
var variableWords = LazyPattern(`[\w.-]*[0-9]{5}[\w.-]*`)

// ErrorOnce logs an error, where there is one, that may come again at any moment. The
// same one is logged again after Forget.
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

// ForgetOnce has Once log again what it logged before.
func (l *Log) ForgetOnce() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loggedOnce = nil
}

// LazyPattern compiles an expression when it is first used: most hooks need none.
func LazyPattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// secretPattern are the places where a secret shows even when its value is not known: the
// query of a webhook URL and of a login's callback, the page's link, a bearer token, the
// fields of a credentials file up to their end (keys hold blanks and escapes, refresh
// tokens slashes), a token in the path of the embedded space, and what begins as Google's
// OAuth secrets do.
var secretPattern = LazyPattern(
	`(?i)((?:[?&#]|\\u0026)(?:key|token|access_token|refresh_token|client_secret|code|code_verifier)=` +
		`|bearer\s+)[^\s"'&<>\\]+` +
		`|("(?:private_key|refresh_token|client_secret|access_token|id_token|token)"\s*:\s*")(?:[^"\\]|\\.)*` +
		`|(/t/)[^\s"'&<>\\/]+` +
		`|\b(?:4/0A|1//0|ya29\.|GOCSPX-)[\w.-]{8,}`,
)

// Redactor takes secrets out of text that a person or a file gets to see. The zero value
// works.
type Redactor struct {
	mu      sync.Mutex
	secrets []string
}

// AddSecrets makes these unreadable from now on. Of a URL, it hides the query's values
// too: Go's own errors quote URLs.
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

// hideSecrets returns s without the secrets that Hide was given.
func (r *Redactor) hideSecrets(s string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, secret := range r.secrets {
		s = strings.ReplaceAll(s, secret, "[secret]")
	}
	return s
}

// Redact returns s without secrets.
func (r *Redactor) Redact(s string) string {
	s = r.hideSecrets(s)
	return secretPattern().ReplaceAllString(s, "${1}${2}${3}[secret]")
}

// AuditLine is one decision that a person gave from Chat: who, when, what was shown, what
// was replied and what Claude was told.
type AuditLine struct {
	Time        time.Time `json:"time"`
	SessionName string    `json:"session"` // its name
	Project     string    `json:"project,omitempty"`
	// permission, plan, next, or a command of the session's thread
	Kind       string `json:"kind"`
	Tool       string `json:"tool,omitempty"`
	ShownText  string `json:"shown,omitempty"` // the whole command, diff or plan
	By         string `json:"by"`              // users/ID, or local
	ByName     string `json:"by_name,omitempty"`
	ReplyText  string `json:"replied"`
	ClaudeText string `json:"told"`
}

// DecisionLine is the line of what a person decided about a question, and what Claude is
// told.
func (q *Question) DecisionLine(claudeText string) AuditLine {
	line := AuditLine{
		SessionName: q.SessionName, Project: q.ProjectDir, Kind: string(q.Kind), Tool: q.ToolName, ShownText: cmp.Or(q.ShownText, q.About),
		By: q.AnsweredBy, ByName: q.AnsweredByName, ClaudeText: claudeText,
	}
	if (IsShellTool(q.ToolName) || line.ShownText == "") && len(q.CallTexts) > 0 {
		// with the keys that its message hides, and what a policy hides
		line.ShownText = q.CallTexts[0]
	}
	if q.Response != nil && !q.Kind.Traits().AsksForValues {
		line.ReplyText = *q.Response
	}
	return line
}

// AuditPath is the log of decisions. It is only ever added to.
func AuditPath(env Getenv) string {
	return filepath.Join(Home(env), ".claude", "logs", "gchat-hooks-audit.log")
}

// AppendDecision adds a line to the log of decisions, with one write: lines of several
// processes stay whole. It is its person's own, and leaves out nothing but the secrets of
// our own configuration that log was told to hide.
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

// AppendAuditLine adds a line as it is: an AuditLine, or an Ending.
func AppendAuditLine(env Getenv, line any) error {
	path := AuditPath(env)
	b, err := json.Marshal(line)
	err = errors.Join(err, MakeFolder(filepath.Dir(path)))
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	f, _, err := OpenPlain(path, appendFlags)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Close())
}
