package state

import (
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

// Pattern compiles an expression when it is first used: most hooks need none.
func Pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// secretShapes are the places where a secret shows even when its value is not known: the query of a webhook URL and of
// a login's callback, a bearer token, the fields of a credentials file up to their end (keys hold blanks and escapes, refresh
// tokens slashes), a token in the path of the embedded space, and what begins as Google's OAuth secrets do.
var secretShapes = Pattern(`(?i)((?:[?&]|\\u0026)(?:key|token|access_token|refresh_token|client_secret|code|code_verifier)=` +
	`|bearer\s+)[^\s"'&<>\\]+` +
	`|("(?:private_key|refresh_token|client_secret|access_token|id_token)"\s*:\s*")(?:[^"\\]|\\.)*` +
	`|(/t/)[^\s"'&<>\\/]+` +
	`|\b(?:4/0A|1//0|ya29\.|GOCSPX-)[\w.-]{8,}`)

// Redactor takes secrets out of text that a person or a file gets to see. The zero value works.
type Redactor struct {
	mu      sync.Mutex
	secrets []string
}

// Hide makes these unreadable from now on. Of a URL, it hides the query's values too: Go's own errors quote URLs.
func (r *Redactor) Hide(secrets ...string) {
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

// Hidden returns s without the secrets that Hide was given.
func (r *Redactor) Hidden(s string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, secret := range r.secrets {
		s = strings.ReplaceAll(s, secret, "[secret]")
	}
	return s
}

// Clean returns s without secrets.
func (r *Redactor) Clean(s string) string {
	s = r.Hidden(s)
	return secretShapes().ReplaceAllString(s, "${1}${2}${3}[secret]")
}

// maxLog is when the log is renamed to .1 and begun anew, in bytes.
const maxLog = 10 << 20

// Log is ~/.claude/logs/gchat-hooks.log: JSON lines without secrets, capped at 10 MB and one old file. What cannot be logged is
// dropped: a log must not break a hook.
type Log struct {
	zerolog.Logger
	Redactor

	path string
	mu   sync.Mutex
}

// setTimes sets how times are written, which zerolog keeps for all its users.
var setTimes = sync.OnceFunc(func() { zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00" })

// NewLog is the log of one process; job is the name that it runs under.
func NewLog(env Getenv, job string) *Log {
	l := &Log{path: LogPath(env)}
	setTimes()
	l.Logger = zerolog.New(l).With().Timestamp().Str("job", job).Int("pid", os.Getpid()).Logger()
	return l
}

// LogPath is where the log is.
func LogPath(env Getenv) string {
	return filepath.Join(Home(env), ".claude", "logs", "gchat-hooks.log")
}

// Write takes one line from zerolog. A daemon lives long, so each line opens the file that stands there now.
func (l *Log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if info, err := os.Stat(l.path); err == nil && info.Size() > maxLog {
		// Two processes may both rename; the second then renames a fresh, short file, and that is all that is lost.
		_ = os.Rename(l.path, l.path+".1")
	}
	if MakeDir(filepath.Dir(l.path)) != nil {
		return len(line), nil
	}
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return len(line), nil
	}
	defer f.Close()
	_, _ = f.WriteString(l.Clean(string(line)))
	return len(line), nil
}

// ShellQuoted is a word as a POSIX shell takes it.
func ShellQuoted(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@%,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// UserError is an error as a person reads it: a command ends with it.
type UserError struct {
	Err  error  // what is wrong
	Hint string // what to do about it; "" where there is nothing to add
	Code int    // the command's exit code; 0 stands for 1
	Said bool   // the command has told it on stdout: nothing more is printed
}

func (e *UserError) Error() string { return e.Err.Error() }
func (e *UserError) Unwrap() error { return e.Err }

// InWords is a duration as a person says it: "30 minutes".
func InWords(d time.Duration) string {
	say := func(n int64, unit string) string {
		if n != 1 {
			unit += "s"
		}
		return fmt.Sprintf("%d %s", n, unit)
	}
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d >= 2*time.Hour && d%time.Hour == 0:
		return say(int64(d/time.Hour), "hour")
	case d >= time.Minute && d%time.Minute == 0:
		return say(int64(d/time.Minute), "minute")
	}
	return say(int64(d.Round(time.Second)/time.Second), "second")
}
