package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	hubs "gchat-hooks/e2e/team"
)

// A machine and a hub that are one commit apart keep to what the poller relies on of each
// transport, both ways: a team updates its hub before its machines, or after them.
func TestMachineAndHubOneCommitApart(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the commit before")
	}
	t.Parallel()
	before, this := commitBefore(t), ".."
	for name, c := range map[string]struct{ machine, hub string }{
		"the hub is newer":     {machine: before, hub: this},
		"the machine is newer": {machine: this, hub: before},
	} {
		t.Run(name, func(t *testing.T) {
			takes, _ := os.ReadFile(filepath.Join(c.machine, "e2e/team/team.go"))
			if !bytes.Contains(takes, []byte(hubs.OtherHubVariable)) {
				t.Skip("the tests of that commit take no other hub")
			}
			hub := filepath.Join(t.TempDir(), "gchat-hooks")
			runGo(t, c.hub, "", "build", "-o", hub, ".")
			said := runGo(t, c.machine, hub, "test", "-vet=off", "-count=1", "-v", "./poller",
				"-run", "^TestTransports$/^app_behind_a_hub$")
			passed := "--- PASS: TestTransports/app_behind_a_hub/"
			if n := strings.Count(said, passed); n < 10 {
				t.Errorf("only %d promises were looked at:\n%s", n, said)
			}
		})
	}
}

// commitBefore is a folder with the commit before this one. Where there is none, the test
// is skipped: a copy of the sources alone has no history.
func commitBefore(t *testing.T) (dir string) {
	t.Helper()
	commit, err := bound.Command(t, "git", "-C", "..", "rev-parse", "--verify", "HEAD^").Output()
	if err != nil {
		t.Skip("there is no commit before this one:", err)
	}
	dir = t.TempDir()
	for _, args := range [][]string{
		{"clone", "--quiet", "--shared", "--no-checkout", "..", dir},
		{"-C", dir, "checkout", "--quiet", "--detach", string(bytes.TrimSpace(commit))},
	} {
		if out, err := bound.Command(t, "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	return dir
}

// runGo is what the Go tool prints in a folder. The tests that it runs take that hub.
func runGo(t *testing.T, dir, hub string, args ...string) string {
	t.Helper()
	cmd := bound.Within(t, bound.BuildPatience, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), hubs.OtherHubVariable+"="+hub)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
	return string(out)
}
