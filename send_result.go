package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// result is what --json prints. thread is in the shape of Chat's own messages, thread_name is for a shell.
type result struct {
	Name       string     `json:"name,omitempty"`
	ThreadName string     `json:"thread_name,omitempty"`
	Thread     *thread    `json:"thread,omitempty"`
	Repeated   bool       `json:"repeated,omitempty"`
	Queued     bool       `json:"queued,omitempty"`
	HeldUntil  *time.Time `json:"held_until,omitempty"`
	Off        bool       `json:"off,omitempty"`
}

type thread struct {
	Name string `json:"name"`
}

func (s *send) say(words string, r result) error {
	switch {
	case s.quiet:
	case s.asJSON:
		if r.ThreadName != "" {
			r.Thread = &thread{r.ThreadName}
		}
		return json.NewEncoder(s.out).Encode(r)
	default:
		fmt.Fprintln(s.out, strings.TrimSpace(words+" "+r.Name))
	}
	return nil
}
