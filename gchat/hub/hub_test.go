package hub

import "testing"

// Only whole addresses of a domain may join.
func TestWhoMayJoin(t *testing.T) {
	h := &Hub{Options: Options{Domains: []string{"example.com"}}}
	if !h.mayJoin("Ann@Example.com") {
		t.Error("Ann may not")
	}
	for _, email := range []string{
		"", "example.com", "@example.com.evil.org", `"a@example.com"@evil.org`, "a@example.com@evil.org", "a@sub.example.com", "@",
	} {
		if h.mayJoin(email) {
			t.Errorf("%q may join", email)
		}
	}
}
