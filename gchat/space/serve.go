package space

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Serve answers on ln until ctx ends, then lets running requests finish for at
// most five seconds. It closes ln, and leaves s open.
func Serve(ctx context.Context, ln net.Listener, s *Space) error {
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       20 * time.Second,
		WriteTimeout:      30 * time.Second, // event streams set their own
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		// The event streams end with ctx, or Shutdown would wait for them.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve space: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := server.Shutdown(last)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	<-served
	if err != nil {
		return fmt.Errorf("end space: %w", err)
	}
	return nil
}
