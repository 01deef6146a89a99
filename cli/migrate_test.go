package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Who applies without having looked at the plan is told all the same what is left to do.
func TestMigrateApplyListsTheRest(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".claude"), 0o755); err != nil {
		t.Fatal(err)
	}
	words := "- Spawn s3-communicator\n- Ask it.\n\nWhy is s3-communicator silent?\n"
	if err := os.WriteFile(filepath.Join(dir, "CLAUDE.md"), []byte(words), 0o644); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := (migration{out: &out, harness: dir, apply: true}).run(); err != nil {
		t.Fatal(err)
	}
	_, look, _ := strings.Cut(out.String(), "wrote CLAUDE.md\n\nLook at this yourself")
	if !strings.Contains(look, "CLAUDE.md:4: ") {
		t.Errorf("--apply says\n%s", out.String())
	}
}
