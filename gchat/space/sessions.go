package space

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// ListedSession is what the page shows of a session in its list.
type ListedSession struct {
	ID         string   `json:"id"`
	FormerIDs  []string `json:"formerIds,omitempty"` // sessions that go on in this one
	Name       string   `json:"name"`
	Project    string   `json:"project,omitempty"`
	State      string   `json:"does"` // see Session
	StateSince string   `json:"doesSince,omitempty"`
	LastSeen   string   `json:"lastSeen,omitempty"`
	Thread     string   `json:"thread,omitempty"`     // the session's own thread
	LastWords  string   `json:"lastWords,omitempty"`  // what was said last
	PersonLast bool     `json:"personLast,omitempty"` // a person said it
	Waits      []Wait   `json:"waits,omitempty"`      // the oldest first
}

// Wait is something that waits for a person in a session.
type Wait struct {
	Kind   string `json:"kind"`
	Thread string `json:"thread,omitempty"`
	Since  string `json:"since,omitempty"`
}

// sessionList is the response to a page that asks for the sessions.
type sessionList struct {
	// Version is the same for the same list. A page that has that version gets no list.
	Version  string          `json:"version"`
	Sessions json.RawMessage `json:"sessions,omitempty"`
}

// cachedList is the last list of sessions. Its lock is held while one request asks for a
// new list, so that the others wait for it.
type cachedList struct {
	sync.Mutex
	seenAt time.Time
	sessionList
}

// serveSessions serves the list of sessions. A page names the version that it has.
func (s *Space) serveSessions(r *http.Request) (any, error) {
	if s.listSessions == nil {
		return sessionList{}, nil
	}
	cached := &s.listCache
	cached.Lock()
	defer cached.Unlock()
	if age := s.now().Sub(cached.seenAt); age < 0 || age >= cachedSessionAge {
		// If this page closes its request, the other pages still need the list.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), describeTimeout)
		defer cancel()
		list, err := json.Marshal(s.listSessions(ctx))
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(list)
		cached.sessionList = sessionList{hex.EncodeToString(sum[:8]), list}
		cached.seenAt = s.now()
	}
	response := cached.sessionList
	if r.URL.Query().Get("version") == response.Version {
		response.Sessions = nil
	}
	return response, nil
}
