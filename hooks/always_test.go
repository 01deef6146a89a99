package hooks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// A rule that an organization forbids a person to add is not offered. For any other rule,
// the text says where it is written.
func TestPermission_AlwaysNamesItsPlace(t *testing.T) {
	t.Parallel()
	const only = `{"allowManagedPermissionRulesOnly": true}`
	const here = "Bash(make *) in this project (.claude/settings.local.json)"
	for name, c := range map[string]struct {
		managed, file, git, version, want string
	}{
		"nothing is managed":      {"managed-settings.json", "", "", "2.1.332", here},
		"rules are managed":       {"managed-settings.json", only, "", "2.1.332", ""},
		"in a file beside":        {"managed-settings.d/a.json", only, "", "2.1.332", ""},
		"others may be added":     {"managed-settings.json", `{"allowManagedPermissionRulesOnly": false}`, "", "2.1.332", here},
		"not what it should be":   {"managed-settings.json", `{`, "", "2.1.332", here},
		"a worktree of 2.1.332":   {"", "", "gitdir: /src/main/.git/worktrees/x\n", "2.1.332", "Bash(make *) in the main checkout (/src/main/.claude/settings.local.json)"},
		"a worktree of a later":   {"", "", "gitdir: /src/main/.git/worktrees/x\n", "2.2.0", "Bash(make *) in the main checkout (/src/main/.claude/settings.local.json)"},
		"a worktree of 2.1.197":   {"", "", "gitdir: /src/main/.git/worktrees/x\n", "2.1.197", "Bash(make *) in this worktree (.claude/settings.local.json)"},
		"a worktree, not known":   {"", "", "gitdir: /src/main/.git/worktrees/x\n", "", "Bash(make *) in this worktree, or in its main checkout (.claude/settings.local.json)"},
		"a worktree in between":   {"", "", "gitdir: /src/main/.git/worktrees/x\n", "2.1.250", "Bash(make *) in this worktree, or in its main checkout (.claude/settings.local.json)"},
		"a submodule of a person": {"", "", "gitdir: ../.git/modules/x\n", "2.1.332", here},
	} {
		dir := t.TempDir()
		project, managed := filepath.Join(dir, "shop"), filepath.Join(dir, "managed")
		for path, content := range map[string]string{
			filepath.Join(managed, c.managed): c.file, filepath.Join(project, ".git"): c.git,
			filepath.Join(dir, "sessions", "7.json"): `{"version":"` + c.version + `"}`,
		} {
			if content == "" {
				continue
			}
			kit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			kit.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		}
		env := func(name string) string {
			return map[string]string{"HOME": dir, "CLAUDE_CODE_MANAGED_SETTINGS_PATH": managed}[name]
		}
		h := &Hook{Env: env, log: state.NewLog(env, "t")}
		q := &state.Question{Kind: state.KindPermission, ProjectDir: project, ClaudePID: 7}
		h.completePermission(q, &Event{
			ToolName: "Bash", ToolInput: json.RawMessage(`{"command":"make one"}`), TranscriptPath: LooseText(filepath.Join(dir, "projects", "p", "s.jsonl")),
			PermissionSuggestions: json.RawMessage(`[{"type":"addRules","behavior":"allow","destination":"localSettings","rules":[{"toolName":"Bash","ruleContent":"make *"}]}]`),
		}, config.LoadPersonal(env))
		offered := len(q.SubQuestions[0].Options) == 3
		if q.AlwaysAllows != c.want || offered != (c.want != "") {
			t.Errorf("%s: %q, offered %v", name, q.AlwaysAllows, offered)
		}
	}
}
