package inject

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

// FuzzLastWords checks that no transcript breaks the reader, and that a line of a
// subagent's or of Claude Code's own is never taken for what a person or Claude wrote.
func FuzzLastWords(f *testing.F) {
	for _, line := range []string{
		``, `{`, `null`, `{"type":"user","message":"x"}`, `{"type":"user","message":{"content":null}}`,
		`{"type":"assistant","message":{"content":[{"type":"text","text":1},"x",null]}}`,
		`{"type":"assistant","origin":3,"message":{"content":[{"type":"text","text":"hello"}]}}`,
		`{"type":"user","message":{"content":"hello"}}`,
	} {
		f.Add(line)
	}
	path := filepath.Join(f.TempDir(), "s.jsonl")
	const aside = "\n" + `{"type":"assistant","isSidechain":true,"message":{"content":"aside"}}` +
		"\n" + `{"type":"user","isMeta":true,"message":{"content":"aside"}}` +
		"\n" + `{"type":"user","message":{"content":"<local-command-stdout>aside"}}`
	f.Fuzz(func(t *testing.T, line string) {
		kit.NoError(t, os.WriteFile(path, []byte(line+aside), 0o600))
		text, isOfPerson := LastWords(path)
		kit.True(t, !strings.Contains(text, "aside") || strings.Contains(line, "aside"), "%q", text)
		kit.True(t, text != "" || !isOfPerson, "a person said nothing")
	})
}
