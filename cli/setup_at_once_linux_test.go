package cli

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"sync"
	"testing"
)

// Setups that add people at the same moment lose none of them.
func TestSetupsAtOnce(t *testing.T) {
	s := newSettler(t)
	const each, rounds = 6, 3
	for round := range rounds {
		var all sync.WaitGroup
		for i := range each {
			all.Go(func() {
				cmd := exec.Command(s.program, "setup", "--no-round-trip", "--no-hooks", "--no-service", "--allow", fmt.Sprintf("users/%d", 100*round+i))
				cmd.Env = []string{"HOME=" + s.home, "PATH=/usr/bin:/bin", "GOOGLE_CHAT_WEBHOOK_URL=" + s.url}
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
		all.Wait()
	}
	var cfg struct {
		Users []string `json:"allowed_users"`
	}
	if err := json.Unmarshal([]byte(s.config()), &cfg); err != nil || len(cfg.Users) != each*rounds {
		t.Errorf("%v: %d people of %d: %s", err, len(cfg.Users), each*rounds, s.config())
	}
}
