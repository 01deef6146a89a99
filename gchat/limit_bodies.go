package gchat

import (
	"errors"
	"io"
	"net/http"
)

// What one answer may hold when it is unpacked. A page of 1,000 messages has a few MB and a few thousand values.
const (
	bodyLimit   = 32 << 20 // bytes
	valuesLimit = 200_000  // objects and lists of JSON; three bytes of body become one of some 500 in memory
)

var errTooMuch = errors.New("the answer is larger than any of Chat's")

// limitBodies is the default transport, and keeps an endless answer, or a small one that unpacks to a large one, from filling the memory.
type limitBodies struct{}

func (limitBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		resp.Body = &limitedBody{ReadCloser: resp.Body}
	}
	return resp, err
}

// limitedBody counts what is read of an answer, after the transport has unpacked it.
type limitedBody struct {
	io.ReadCloser
	bytes, values     int
	inString, escaped bool
}

func (l *limitedBody) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	l.bytes += n
	for _, c := range p[:n] {
		switch {
		case l.escaped:
			l.escaped = false
		case l.inString:
			l.escaped, l.inString = c == '\\', c != '"'
		case c == '"':
			l.inString = true
		case c == '{' || c == '[':
			l.values++
		}
	}
	if l.bytes > bodyLimit || l.values > valuesLimit {
		return 0, errTooMuch
	}
	return n, err
}
