package kit

import (
	"net"
	"sync/atomic"
	"testing"
)

// BlackHole is a TCP proxy whose connections can be made to lead nowhere, as after a
// computer's sleep. They stay open and accept bytes, but forward nothing.
type BlackHole struct {
	net.Listener
	swallows atomic.Pointer[atomic.Bool] // of the connections that are made now
}

// NewBlackHole returns a proxy that forwards to a server until it is told otherwise.
func NewBlackHole(t testing.TB, server string) *BlackHole {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	h := &BlackHole{Listener: listener}
	h.swallows.Store(&atomic.Bool{})
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				near.Close()
				continue
			}
			t.Cleanup(func() { near.Close(); far.Close() })
			swallows := h.swallows.Load()
			go forward(far, near, swallows)
			go forward(near, far, swallows)
		}
	}()
	return h
}

// forward copies bytes from one connection to another, unless these are swallowed.
func forward(to, from net.Conn, swallows *atomic.Bool) {
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if !swallows.Load() {
			_, _ = to.Write(buffer[:n])
		}
	}
}

// Swallow makes the open connections lead nowhere. New ones are forwarded.
func (h *BlackHole) Swallow() { h.swallows.Swap(&atomic.Bool{}).Store(true) }
