package login

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
)

// pasteLimit is longer than any address that Google redirects to.
const pasteLimit = 64 << 10

// Lines hands over what a person types, line by line; it is closed at the end of in. A line that nobody takes waits for
// the next who does: a read of a terminal cannot be called off, so a program makes one of these for all its questions.
func Lines(in io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		s := bufio.NewScanner(in)
		s.Buffer(nil, pasteLimit)
		for s.Scan() {
			lines <- s.Text()
		}
	}()
	return lines
}

// take reads a line as what the browser came back with, or says why it is not.
func (o Options) take(line string, back *loopback) {
	if strings.TrimSpace(line) == "" {
		return
	}
	a, err := back.paste(line)
	if err != nil {
		fmt.Fprintf(o.Out, "That does not help: %v. Paste the whole address of the page that the browser ended on.\n", err)
		return
	}
	back.offer(a)
}

var errNotPasted = errors.New("it is neither an address nor a code")

// paste reads the address that the browser ended on, its query, or the code alone. Without a state, it is PKCE that keeps
// another's code out: Google gives a token for it only to whom it was asked for by. Errors are errOtherLogin, errNoCode and
// errNotPasted.
func (b *loopback) paste(line string) (arrival, error) {
	line = strings.Trim(strings.TrimSpace(line), `"'<>`)
	query, isAddress := line, strings.Contains(line, "://")
	if isAddress {
		u, err := url.Parse(line)
		if err != nil {
			return arrival{}, errNotPasted
		}
		query = u.RawQuery
	}
	query = strings.TrimLeft(query, "/?")
	if q, err := url.ParseQuery(query); err == nil && (q.Has("code") || q.Has("error")) {
		if q.Has("state") {
			return b.read(q)
		}
		return readAnswer(q)
	}
	for _, policy := range []string{"admin_policy_enforced", "org_internal"} { // what Google's own page says, which leads nowhere
		if strings.Contains(line, policy) {
			return arrival{err: authorizeError(policy, "", "")}, nil
		}
	}
	if isAddress {
		return arrival{}, errNoCode
	}
	code, err := url.QueryUnescape(strings.ReplaceAll(line, "+", "%2B")) // as it stands in an address, or as it is
	if err != nil || !wellFormed(code) || len(code) < 8 || strings.ContainsAny(code, "?=&") {
		return arrival{}, errNotPasted
	}
	return arrival{code: code}, nil
}
