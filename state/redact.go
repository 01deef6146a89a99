package state

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
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
