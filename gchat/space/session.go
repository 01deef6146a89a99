package space

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// Session is what the page tells of the session that a thread is of.
type Session struct {
	// Does is "works", "waits for you", "dialog open", "idle", "ended" or "out of reach"; "" where the thread is of no session.
	Does string `json:"does"`
	// Commands says that commands in its thread are read.
	Commands bool `json:"commands"`
}

const (
	glanceAge  = 2 * time.Second // for so long an answer serves all pages
	glanceTime = 8 * time.Second // a tmux that hangs gives up before
)

// glance is what was seen of a session last. Its lock is held while somebody looks, so that the others wait for what is seen.
type glance struct {
	sync.Mutex
	at time.Time
	Session
}

// serveSession says what the session of a thread does.
func (s *Space) serveSession(r *http.Request) (any, error) {
	thread := r.URL.Query().Get("thread")
	s.mu.Lock()
	known := s.threads[thread]
	s.mu.Unlock()
	if s.session == nil || !known {
		return Session{}, nil
	}
	v, _ := s.glances.LoadOrStore(thread, new(glance))
	g := v.(*glance)
	g.Lock()
	defer g.Unlock()
	if age := s.now().Sub(g.at); age < 0 || age >= glanceAge {
		// A page that goes away must not leave its broken look to the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), glanceTime)
		defer cancel()
		g.Session, g.at = s.session(ctx, thread), s.now()
	}
	return g.Session, nil
}

// serveWeek says what came of the last seven days.
func (s *Space) serveWeek(*http.Request) (any, error) {
	if s.week == nil {
		return struct{}{}, nil
	}
	return map[string]string{"week": s.week()}, nil
}

// serveProjects says whether the page may begin sessions, and in which projects.
func (s *Space) serveProjects(*http.Request) (any, error) {
	var told struct {
		Start    bool     `json:"start"`
		Projects []string `json:"projects"`
	}
	if s.projects != nil {
		told.Projects, told.Start = s.projects()
	}
	return told, nil
}
