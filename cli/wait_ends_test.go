package cli

import (
	"context"
	"testing"
	"testing/synctest"
)

// What hangs does not keep gchat-wait from ending when it is told to.
func TestWaitEndsWhenTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		defer close(hung)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := endsWith(ctx, func() error { <-hung; return nil }); err == nil || err.Error() != "interrupted" {
			t.Errorf("ended with %v", err)
		}
		if err := endsWith(ctx, func() error { return nil }); err != nil {
			t.Errorf("what ends in time: %v", err)
		}
	})
}
