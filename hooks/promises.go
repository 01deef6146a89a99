package hooks

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxPromises    = 1000
	maxPromiseFile = 1 << 20 // bytes
)

// promises counts a project's completion promises, the files .claude/completion-state/promises/*.json, by their status:
// "2 verified, 1 pending". It is "" where there are none.
func promises(projectDir string) string {
	dir := filepath.Join(projectDir, ".claude", "completion-state", "promises")
	counts := map[string]int{}
	for _, name := range filesIn(dir, maxPromises) {
		if strings.HasSuffix(name, ".json") && !strings.HasPrefix(name, ".") {
			counts[promiseStatus(filepath.Join(dir, name))]++
		}
	}
	return byCount(counts, 6, func(status string, n int) string { return fmt.Sprintf("%d %s", n, status) })
}

func promiseStatus(path string) string {
	const unreadable = "unreadable"
	f, size, err := openRegular(path)
	if err != nil {
		return unreadable
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPromiseFile))
	var p struct {
		Status string `json:"status"`
	}
	if err != nil || size > maxPromiseFile || json.Unmarshal(b, &p) != nil || strings.TrimSpace(p.Status) == "" {
		return unreadable
	}
	return plain(flat(p.Status, 40))
}

// byCount lists what was counted, the most frequent first, and how many kinds are not shown.
func byCount(counts map[string]int, most int, show func(what string, n int) string) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var shown []string
	for _, name := range names[:min(most, len(names))] {
		shown = append(shown, show(name, counts[name]))
	}
	return strings.Join(shown, ", ") + more(len(names)-len(shown))
}

// more says how many are not shown.
func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
