package settings

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// endlessVariable makes a process of the test program install and uninstall in this home
// until it is killed.
const endlessVariable = "SETTINGS_TEST_ENDLESS_IN"

func TestMain(m *testing.M) {
	if home := os.Getenv(endlessVariable); home != "" {
		f, _ := FileFor(func(name string) string { return map[string]string{"HOME": home}[name] }, User)
		hooks, _ := PresetHooks("system3")
		entries, _ := EntriesFor("/b/gchat-hooks", Version{2, 1, 329}, hooks)
		os.Stdout.WriteString("begins\n")
		for {
			if _, err := f.Install(entries, false); err != nil {
				panic(err)
			}
			if _, err := f.Uninstall(false); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

// If it is killed at any moment, the file is the old one or the new one, and the next
// uninstall restores what was there.
func TestSettingsFile_KilledAtAnyMoment(t *testing.T) {
	const content = "{\n  \"model\": \"opus\"\n}\n"
	f := newFile(t, []byte(content))
	with, err := Install([]byte(content), entriesOf(t, Version{2, 1, 329}, "system3"))
	kit.NoError(t, err)
	with = []byte(strings.ReplaceAll(string(with), "/home/me/bin/", "/b/"))
	rounds := 40
	if testing.Short() {
		rounds = 5
	}
	var seen [2]int
	for range rounds {
		cmd := bound.Command(t, os.Args[0])
		cmd.Env = []string{endlessVariable + "=" + filepath.Dir(filepath.Dir(f.Path))}
		out, err := cmd.StdoutPipe()
		kit.NoError(t, err)
		kit.NoError(t, cmd.Start())
		if _, err := out.Read(make([]byte, 7)); err != nil {
			t.Fatal(err)
		}
		// This does not synchronise: it kills at a random moment.
		time.Sleep(time.Duration(rand.IntN(20_000)) * time.Microsecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		switch got := readTestFile(t, f.Path); got {
		case content:
			seen[0]++
		case string(with):
			seen[1]++
		default:
			t.Fatalf("neither the old file nor the new one:\n%s", got)
		}
		mustUninstall(t, f)
		if got := readTestFile(t, f.Path); got != content {
			t.Fatalf("uninstall leaves %q", got)
		}
	}
	if slices.Contains(seen[:], 0) && !testing.Short() {
		t.Errorf("the kills came at %d and %d: always at the same moment", seen[0], seen[1])
	}
}
