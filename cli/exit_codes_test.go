package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// The same mistake ends every command with the same exit code: a script that checks for
// one knows it of all.
func TestExitCodes(t *testing.T) {
	dir, err := builtProgram()
	kit.NoError(t, err)
	const aHub = "hub --topic projects/p/topics/t --subscription projects/p/subscriptions/s --domain example.com --key-file k "
	for _, tt := range []struct {
		mistake  string
		code     int
		commands []string
	}{
		{"a command, subcommand or action that there is not", 4, []string{
			"nonsense", "poller instal", "migrate nonsense", "menu a-session dance",
		}},
		{"a flag that there is not", 4, []string{
			"--bogus", "setup --bogus", "install --bogus", "uninstall --bogus", "login --bogus", "logout --bogus", "demo --bogus",
			"space --bogus", "hub --bogus", "hub revoke --bogus", "status --bogus", "answer --bogus 2", "send --bogus hi", "gchat-send --bogus hi", "logs --bogus",
			"doctor --bogus", "flush --bogus", "poller --bogus", "poller install --bogus", "menu --bogus",
			"health --bogus", "wake --bogus", "migrate s3-communicator --bogus",
		}},
		{"a word too many", 4, []string{
			"setup x", "install x", "uninstall x", "login x", "logout x", "demo x", "space x", "hub x", "status x", "logs x", "doctor x",
			"flush x", "poller install x", "health x", "wake x", "migrate s3-communicator x",
		}},
		{"a word too few", 4, []string{
			"answer ask-1", "send", "menu", "menu a-session", "hook", "migrate", "login",
		}},
		{"a value that a flag does not take", 4, []string{
			"poller --poll-interval x", "install --preset nope", "install --claude-version x",
			"setup --wait x", "setup --space --address nope", "login --wait x",
			"space --listen nope", "hub --listen nope", "hub revoke --topic nope", "logs --level x", "logs --lines x", "doctor --live --wait x",
			"flush --timeout x", "send --type x hi",
			"send --thread-name x hi",
		}},
		{"flags that do not go with each other", 4, []string{
			"hub", "hub --tls-cert x", "hub --listen 0.0.0.0:0 --topic projects/p/topics/t --subscription s --domain d --key-file k",
			aHub + "--behind-proxy", aHub + "--url http://hub.example.com", aHub + "--subscription x", aHub + "--domain *", aHub + "--domain @example.com",
			"install --user --local", "uninstall --purge --local", "send --queue --no-queue hi",
			"doctor --wait 1m", "send --thread-key x --thread-name spaces/S/threads/T hi",
		}},
		{"a mistake of gchat-wait's callers, who know three codes", 2, []string{
			"wait", "gchat-wait", "wait --bogus", "wait x", "wait --thread-key x --timeout x", "wait --thread-key x --interval x",
			"wait --thread-key x --marker y",
		}},
		{"no webhook", 1, []string{"setup", "send hi", "send --queue hi", "send --no-queue hi", "send --webhook x hi"}},
	} {
		t.Run(tt.mistake, func(t *testing.T) {
			for _, command := range tt.commands {
				home := t.TempDir()
				cmd := bound.Command(t, filepath.Join(dir, "gchat-hooks"), strings.Fields(command)...)
				cmd.Dir, cmd.Env = home, []string{"HOME=" + home, "PATH=/usr/bin:/bin"}
				var out, errOut strings.Builder
				cmd.Stdout, cmd.Stderr = &out, &errOut
				_ = cmd.Run()
				if got := cmd.ProcessState.ExitCode(); got != tt.code || out.Len() > 0 || !strings.Contains(errOut.String(), ": error: ") {
					t.Errorf("%s: exit code %d, want %d and an error\n%s%s", command, got, tt.code, out.String(), errOut.String())
				}
			}
		})
	}
}
