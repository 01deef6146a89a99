package state

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// A folder that was there before is a person's, also when it is empty, and also when it is noted a second time.
func TestMadeIsWhatWasNotThere(t *testing.T) {
	home := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	if err := os.Mkdir(filepath.Join(home, ".config"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := NoteMade(env, Made{Folders: []string{filepath.Join(home, "bin")}, Programs: []string{"/p"}}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(home, ".config")); err != nil { // what is gone later was not made by us either
		t.Fatal(err)
	}
	if err := NoteMade(env, Made{}); err != nil {
		t.Fatal(err)
	}
	if err := NoteMade(env, Made{Folders: []string{filepath.Join(home, "opt")}}); err != nil {
		t.Fatal(err)
	}
	m, err := ReadMade(env)
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{"bin": true, "opt": true, ".claude": true, ".claude/logs": true, ".local/state": true, ".config": false, "": false} {
		if got := slices.Contains(m.Folders, filepath.Join(home, dir)); got != want {
			t.Errorf("%q made by us: %v, want %v", dir, got, want)
		}
	}
	if !slices.Equal(m.Programs, []string{"/p"}) {
		t.Errorf("the programs are %q", m.Programs)
	}
}

// What is noted is added to what was, in the form of any version; folders that its files need, and that are missing, too.
func TestMadeGrows(t *testing.T) {
	home := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	writeAt(t, madeFile(env), `{"folders": ["/f"], "program": "/old/p"}`)
	writeAt(t, filepath.Join(home, "there", "x"), "x")
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			project := filepath.Join(home, "there", strconv.Itoa(n), ".claude", "settings.json")
			if err := NoteMade(env, Made{Programs: []string{"/new/p"}, Settings: []string{project}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	m, err := ReadMade(env)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"/new/p", "/old/p"}; !slices.Equal(m.Programs, want) {
		t.Errorf("the programs are %q, want %q", m.Programs, want)
	}
	if len(m.Settings) != 20 {
		t.Errorf("of twenty notes at once there are %q", m.Settings)
	}
	for dir, want := range map[string]bool{"/f": true, filepath.Join(home, "there/7/.claude"): true, filepath.Join(home, "there/7"): true, filepath.Join(home, "there"): false} {
		if got := slices.Contains(m.Folders, dir); got != want {
			t.Errorf("%s made by us: %v, want %v", dir, got, want)
		}
	}
}

// What the configuration folder held is a person's, and known to the byte; what came into it later is not.
func TestMadeKnowsTheConfigurationBefore(t *testing.T) {
	for name, text := range map[string]string{"a file": "{ // mine\n}", "an empty file": ""} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			env := func(name string) string { return map[string]string{"HOME": home}[name] }
			writeAt(t, ConfigFile(env), text)
			if err := os.Chmod(ConfigFile(env), 0o644); err != nil {
				t.Fatal(err)
			}
			writeAt(t, filepath.Join(ConfigDir(env), "other"), "x")
			for range 2 {
				if err := NoteMade(env, Made{}); err != nil {
					t.Fatal(err)
				}
				writeAt(t, ConfigFile(env), "{}")
				writeAt(t, filepath.Join(ConfigDir(env), "later"), "x")
			}
			m, err := ReadMade(env)
			if err != nil || len(m.Before) != 3 {
				t.Fatalf("%v: %v", m.Before, err)
			}
			if m.Before[0].Path != ConfigDir(env) || m.Before[1].Path != filepath.Join(ConfigDir(env), "other") || m.Before[1].Bytes != nil {
				t.Errorf("it is noted as %v", m.Before)
			}
			if c := m.Before[2]; c.Path != ConfigFile(env) || c.Mode != 0o644 || c.Bytes == nil || string(c.Bytes) != text {
				t.Errorf("the file is noted as %+v", c)
			}
			if info, err := os.Stat(madeFile(env)); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("others may read it: %v %v", info.Mode(), err)
			}
		})
	}
}

func TestOwnFilesAreNotOtherPrograms(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".claude", "state")
	ours := []string{"pending-questions/s-1.json", "pending-questions/.locks/record", "gchat-forwarded-ask/ask-1.json", "gchat-poller.pid", "gchat-poller-last-poll.txt"}
	theirs := []string{"pending-questions/s-2.json", "pending-questions/notes.txt", "gchat-forwarded-ask/ask-2.json", "gchat-forwarded-ask/broken.json", "user-input-queue/s.txt", "todo.md"}
	for name, text := range map[string]string{
		"pending-questions/s-1.json":     `{"question_id": "1", "mode": "native", "project_dir": "/p"}`,
		"gchat-forwarded-ask/ask-1.json": `{"question_id": "1", "mode": "deny", "project_dir": "/p"}`,
		"pending-questions/s-2.json":     `{"question_id": "2", "session_id": "s"}`,
		"gchat-forwarded-ask/ask-2.json": `{"question_id": "2", "status": "pending"}`,
	} {
		writeAt(t, filepath.Join(dir, name), text)
	}
	for _, name := range slices.Concat(ours, theirs) {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			writeAt(t, filepath.Join(dir, name), "x")
		}
	}
	files, folders := OwnFiles(dir)
	for _, name := range ours {
		if !slices.Contains(files, filepath.Join(dir, name)) {
			t.Errorf("%s is ours, and stays", name)
		}
	}
	for _, name := range theirs {
		if slices.Contains(files, filepath.Join(dir, name)) {
			t.Errorf("%s is not ours, and would go", name)
		}
	}
	if !slices.Contains(folders, filepath.Dir(dir)) {
		t.Errorf("the folders are %v", folders)
	}
	if _, folders := OwnFiles("/somewhere/state"); slices.Contains(folders, "/somewhere") {
		t.Error("a folder around a state folder that was chosen by hand would go")
	}
}

func writeAt(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
