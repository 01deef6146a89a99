package state

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

// What is open when the program is updated is served by the new one: a new variable that is not set changes no name.
func TestTheEnvironmentKeepsItsName(t *testing.T) {
	vars := map[string]string{"HOME": t.TempDir(), "GOOGLE_CHAT_WEBHOOK_URL": "https://example.com/a"}
	env := func(name string) string { return vars[name] }
	h := sha256.New()
	h.Write(salt(env))
	for _, name := range environment {
		h.Write([]byte(name + "=" + vars[name] + "\x00"))
	}
	before := hex.EncodeToString(h.Sum(nil)[:8])
	if got := Environment(env); got != before {
		t.Errorf("%s, before %s", got, before)
	}
	vars["GCHAT_PUBSUB_SUBSCRIPTION"] = "projects/p/subscriptions/s"
	if Environment(env) == before {
		t.Error("another subscription has the same name")
	}
}
