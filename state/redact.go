package state

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
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
