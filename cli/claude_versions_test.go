package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// claudeVersionsFile is the only file in which the newest version of Claude Code is moved.
const claudeVersionsFile = "state/tested_claudes.go"

// Whoever moves the newest version of Claude Code does it in one file. What is said of a
// version in a comment, in a page of docs or in recorded data is about that version, and
// stays.
func TestClaudeVersions_StatedInOneFile(t *testing.T) {
	paths := append(sourceFiles(t), "README.md", "CONTRIBUTING.md", "Dockerfile", "install.sh")
	for _, pattern := range []string{
		".ci/*", ".github/*/*", "e2e/*.go", "e2e/*/*", "plugins/*/*/*.json",
	} {
		found, err := filepath.Glob(pattern)
		kit.NoError(t, err)
		kit.True(t, len(found) > 0, "no file is %s", pattern)
		paths = append(paths, found...)
	}
	stated := 0
	for _, path := range paths {
		for n, line := range strings.Split(kit.ReadFile(t, path), "\n") {
			if filepath.Ext(path) == ".go" {
				line, _, _ = strings.Cut(line, "//")
			}
			if !strings.Contains(line, state.NewestClaude) {
				continue
			}
			if stated++; path != claudeVersionsFile {
				t.Errorf("%s:%d states the newest version of Claude Code, which %s does",
					path, n+1, claudeVersionsFile)
			}
		}
	}
	kit.Equalf(t, stated, 1, "lines that state the newest version")
}

// What is installed for the tests are the versions on which they run.
func TestClaudeVersions_InstalledForTests(t *testing.T) {
	kit.NeedProgram(t, "bash")
	changeToRoot(t)
	dir := t.TempDir()
	npm := "#!/bin/sh\nfor last; do :; done\necho \"$last\"\n"
	kit.NoError(t, os.WriteFile(filepath.Join(dir, "npm"), []byte(npm), 0o700))
	cmd := exec.Command(".ci/install-claude")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "GCHAT_E2E_CLAUDE_DIR="+dir)
	out, err := cmd.CombinedOutput()
	kit.NoError(t, err)
	const name = "@anthropic-ai/claude-code-linux-x64@"
	kit.Equal(t, string(out), name+state.NewestClaude+"\n"+name+state.OlderClaude+"\n")
}
