package cli

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

// importRules says which packages a package may import, and why no others. Arrows point
// down this list only.
var importRules = []struct {
	folder string
	may    []string
	why    string
}{
	{
		".", []string{"cli", "gchat", "hooks", "hooks/wake"},
		"main picks the job, and gives a hook the one request that it may make: for a hub's policy",
	},
	{"cli", []string{
		"cli/bench", "cli/doctor", "cli/migrate", "cli/claudecheck", "hooks", "hooks/settings",
		"hooks/wake", "gchat",
		"gchat/wording", "gchat/login", "gchat/space", "gchat/hub", "poller", "poller/commands",
		"poller/judge", "poller/ntfy", "poller/service", "inject", "state", "state/config",
	}, "a command may use every package"},
	{
		"cli/bench", []string{"gchat/space", "state"},
		"it runs this program as others run it, and a space that takes the posts",
	},
	{"cli/doctor", []string{
		"cli/claudecheck", "hooks/settings", "gchat", "gchat/wording", "gchat/space", "poller", "poller/judge",
		"poller/service", "inject", "state", "state/config",
	}, "it asks every package how it is, and runs no hook"},
	{
		"cli/claudecheck", []string{
			"cli/claudecheck/fakemodel", "gchat/space", "hooks", "hooks/settings", "inject", "state",
			"state/config",
		}, "it runs a Claude Code with this program as its hooks, and knows what that did by the " +
			"space; it reads a transcript as they do",
	},
	{"cli/claudecheck/fakemodel", []string{}, "it stands in for the model, and knows nothing of ours"},
	{"cli/migrate", []string{"state"}, "it changes a harness folder and speaks to nobody"},
	{
		"hooks", []string{"inject", "state", "state/config"},
		"a hook writes records and waits for them: it opens no socket, so it has no way to " +
			"Chat; inject tells it who asks",
	},
	{"hooks/settings", []string{"state"}, "it registers hooks by their names and runs none"},
	{"hooks/wake", []string{"hooks", "inject", "state"}, "it uses inject to read a pane"},
	{
		"gchat", []string{"gchat/wording", "state", "state/config"},
		"it speaks Google Chat, and turns what wording says into its messages and cards",
	},
	{
		"gchat/login", []string{"gchat", "gchat/wording", "state", "state/config"},
		"it gets the credentials that gchat reads with, through a browser",
	},
	{
		"gchat/hub", []string{"gchat", "state", "state/config"},
		"it stands between machines and Google, reads its policy as machines do, and knows " +
			"nothing of questions",
	},
	{
		"gchat/space", []string{"gchat/space/webpush"},
		"the embedded space is Chat's side: it knows nothing of ours",
	},
	{"gchat/space/webpush", []string{}, "it speaks to push services, and knows no messages"},
	{
		"poller/service", []string{"state", "state/config"},
		"it writes files for launchd and systemd, and knows the daemon by its name only",
	},
	{
		"poller/openclaw", []string{"state", "state/config"},
		"it runs openclaw with what a message says",
	},
	{
		"poller/ntfy", []string{"state", "state/config"},
		"it calls a person with a line that it is given",
	},
	{
		"poller/commands", []string{"gchat/wording", "inject", "state", "state/config"},
		"it looks at a session's pane and words what it saw",
	},
	{
		"poller/judge", []string{"gchat", "gchat/wording", "state", "state/config"},
		"it says who may answer and what was said, and writes nothing",
	},
	{"poller", []string{
		"poller/judge", "poller/commands", "poller/service", "poller/openclaw", "poller/ntfy",
		"gchat", "gchat/wording", "inject", "state", "state/config",
	}, "it goes on from records and knows no hook events"},
	{
		"gchat/wording", []string{"state"},
		"it says what a person reads, and what they mean: it knows no chat",
	},
	{"inject", []string{"state"}, "it speaks tmux and screens"},
	{"state/config", []string{"state"}, "what a person set, read with the readers of state"},
	{"state", []string{}, "every byte on disk, and no idea of who asks for it"},
}

func TestArrows_AllowedImportsOnly(t *testing.T) {
	packages, why := map[string][]string{}, map[string]string{}
	for _, rule := range importRules {
		packages[rule.folder], why[rule.folder] = rule.may, rule.why
	}
	seen := map[string]bool{}
	for _, path := range sourceFiles(t) {
		folder := filepath.ToSlash(filepath.Dir(path))
		seen[folder] = true
		may, isKnown := packages[folder]
		if !isKnown {
			t.Errorf("%s: a new package needs a reason and a line in arrows_test.go", path)
			continue
		}
		for _, spec := range parseFile(t, path).Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			if name == "gchat-hooks" {
				t.Errorf("%s imports main: nobody may", path)
			}
			if to, ours := strings.CutPrefix(name, "gchat-hooks/"); ours &&
				!slices.Contains(may, to) {
				t.Errorf("%s imports %s: %s may not (%s)", path, to, folder, why[folder])
			}
			if strings.HasPrefix(name, "github.com/urfave/") && filepath.Dir(path) != "cli" {
				t.Errorf("%s imports %s: cli has the only command line", path, name)
			}
		}
	}
	for folder := range packages {
		kit.Equalf(t, seen[folder], true, "a Go file was seen in %s", folder)
	}
}

// Only gchat, and the files in which a person connects or configures Google, may contain
// names and hosts of Google. Comments and help texts may name them as well.
func TestArrows_GoogleNamesInOnePlace(t *testing.T) {
	known := regexp.MustCompile(`^(gchat/|state/config/|cli/(doctor/|setup|login|hub))`)
	names := regexp.MustCompile(`"[^" ]*(googleapis\.com|/messages/|/threads/|^users/|"users/|"spaces/)[^" ]*"` +
		`|api/chat/v1"`)
	for _, path := range sourceFiles(t) {
		if known.MatchString(path) {
			continue
		}
		for n, line := range strings.Split(kit.ReadFile(t, path), "\n") {
			code, _, _ := strings.Cut(line, "//")
			if names.MatchString(code) && !strings.Contains(code, "LocalSpace = ") {
				t.Errorf("%s:%d: %s", path, n+1, strings.TrimSpace(line))
			}
		}
	}
}
