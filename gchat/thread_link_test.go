package gchat

import "testing"

func TestThreadLink(t *testing.T) {
	for _, c := range []struct{ chat, thread, want string }{
		{"chat.googleapis.com/spaces/AAQA-x_1", "spaces/AAQA-x_1/threads/Tq", "https://chat.google.com/room/AAQA-x_1/Tq"},
		{"127.0.0.1:8765/spaces/local", "spaces/local/threads/T", "http://127.0.0.1:8765/#T"},
		{"[::1]:8765/spaces/local", "spaces/local/threads/T", "http://[::1]:8765/#T"},
		{"localhost:1/spaces/local", "spaces/local/threads/T", "http://localhost:1/#T"},
		{"gateway.example/spaces/AAAA", "spaces/AAAA/threads/T", ""},           // whoever that is
		{"127.0.0.1:8765/spaces/AAAA", "spaces/AAAA/threads/T", ""},            // a proxy of Google's, perhaps
		{"chat.googleapis.com/spaces/AAAA", "spaces/BBBB/threads/T", ""},       // not that space's
		{"chat.googleapis.com/spaces/AAAA", "spaces/AAAA/threads/T?x=y#z", ""}, // no id
		{"chat.googleapis.com/spaces/AAAA", "", ""},
		{"", "spaces/AAAA/threads/T", ""},
	} {
		if got := ThreadLink(c.chat, c.thread); got != c.want {
			t.Errorf("%s in %s: %q, want %q", c.thread, c.chat, got, c.want)
		}
	}
}
