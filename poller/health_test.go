package poller

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/state"
)

func TestHealth(t *testing.T) {
	for name, c := range map[string]struct {
		text     string
		interval string
		line     string // "…" at its end: how it begins
		code     int
	}{
		"just now":                     {"2026-11-21T11:59:56Z\n", "", "OK: Last poll 4s ago (threshold: 20s)", 0},
		"with a fraction":              {"2026-11-21T11:59:56.5Z", "", "OK: Last poll 3s ago (threshold: 20s)", 0},
		"in another zone":              {"2026-11-21T13:59:56+02:00", "", "OK: Last poll 4s ago (threshold: 20s)", 0},
		"in a zone, with a fraction":   {"2026-11-21T17:29:56.000001+05:30", "", "OK: Last poll 3s ago (threshold: 20s)", 0},
		"a zone without a colon":       {"2026-11-21T06:59:56-0500", "", "OK: Last poll 4s ago (threshold: 20s)", 0},
		"at the threshold":             {"2026-11-21T11:59:40Z", "", "OK: Last poll 20s ago (threshold: 20s)", 0},
		"behind it":                    {"2026-11-21T11:59:39Z", "", "WARN: Last poll 21s ago (threshold: 20s) — daemon may be stuck", 1},
		"long ago":                     {"2025-11-21T12:00:00Z", "", "WARN: Last poll 31536000s ago (threshold: 20s) — daemon may be stuck", 1},
		"a slower daemon":              {"2026-11-21T11:58:30Z", "60", "OK: Last poll 90s ago (threshold: 120s)", 0},
		"a slower daemon, as duration": {"2026-11-21T11:57:59Z", "1m", "WARN: Last poll 121s ago (threshold: 120s) — daemon may be stuck", 1},
		"a faster daemon":              {"2026-11-21T11:59:58Z", "0.25", "WARN: Last poll 2s ago (threshold: 0.5s) — daemon may be stuck", 1},
		"an interval that is none":     {"2026-11-21T11:59:56Z", "often", "OK: Last poll 4s ago (threshold: 20s)", 0},
		"a clock that is a bit behind": {"2026-11-21T12:00:05Z", "", "OK: Last poll 0s ago (threshold: 20s)", 0},
		"a clock that was set back":    {"2026-11-21T13:00:00Z", "", "WARN: Last poll is 3600s in the future — the clock may have been set back", 1},
		"not a time":                   {"yesterday\x1b[31m", "", `WARN: Health file does not hold a time: "yesterday\x1b[31m"`, 1},
		"empty":                        {"", "", `WARN: Health file does not hold a time: ""`, 1},
		"something long":               {strings.Repeat("x", 1<<20), "", `WARN: Health file does not hold a time: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"`, 1},
	} {
		dir := t.TempDir()
		mustWrite(t, filepath.Join(dir, state.LastPollFile), c.text, 0o600)
		env := map[string]string{"GCHAT_STATE_DIR": dir, "HOME": dir, "CLAUDE_PROJECT_DIR": dir, "GCHAT_POLLER_INTERVAL": c.interval}
		if line, code := Health(func(n string) string { return env[n] }, noon); line != c.line || code != c.code {
			t.Errorf("%s: %d, %s", name, code, line)
		}
	}
}

func TestHealthLooksIntoTheProjectThenAtTheUser(t *testing.T) {
	home := t.TempDir()
	env := map[string]string{"HOME": home, "CLAUDE_PROJECT_DIR": filepath.Join(home, "p")}
	check := func(what, want string, wantCode int) {
		t.Helper()
		if line, code := Health(func(n string) string { return env[n] }, noon); !strings.HasPrefix(line, want) || code != wantCode {
			t.Errorf("%s: %d, %s", what, code, line)
		}
	}
	write := func(dir string, ago time.Duration) {
		mustWrite(t, filepath.Join(home, dir, state.LastPollFile), noon.Add(-ago).Format(time.RFC3339), 0o600)
	}
	check("nothing anywhere", "WARN: Health file not found — daemon may not have run yet", 2)
	write(".local/state/gchat-hooks", 3*time.Second)
	check("the user's", "OK: Last poll 3s ago", 0)
	mustWrite(t, filepath.Join(home, "p", ".claude"), "a file where a folder should be", 0o600)
	check("the user's, and no project folder", "OK: Last poll 3s ago", 0)
	os.Remove(filepath.Join(home, "p", ".claude"))
	write("p/.claude/state", 5*time.Second)
	check("the project's", "OK: Last poll 5s ago", 0)
	write("elsewhere", 7*time.Second)
	env["GCHAT_STATE_DIR"] = filepath.Join(home, "elsewhere")
	check("a state folder of its own", "OK: Last poll 7s ago", 0)
	mustWrite(t, filepath.Join(home, ".config/gchat-hooks/config.json"), `{"poll_interval": "2s"}`, 0o600)
	check("the configured interval", "WARN: Last poll 7s ago (threshold: 4s)", 1)
	if err := os.Remove(filepath.Join(home, "elsewhere", state.LastPollFile)); err != nil {
		t.Fatal(err)
	}
	os.Mkdir(filepath.Join(home, "elsewhere", state.LastPollFile), 0o700)
	check("a folder in its place", "WARN: Health file cannot be read: ", 1)
}
