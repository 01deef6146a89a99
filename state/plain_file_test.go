package state

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// checkout is a cloned project, and a folder of the person's that its links lead to.
type checkout struct {
	*testing.T
	state, theirs string
	before        map[string]string
}

func newCheckout(t *testing.T) *checkout {
	dir := t.TempDir()
	c := &checkout{T: t, state: filepath.Join(dir, "clone", ".claude", "state"),
		theirs: filepath.Join(dir, "theirs")}
	c.before = map[string]string{
		filepath.Join(c.theirs, "package.json"): `{"name": "not a question"`,
		filepath.Join(c.theirs,
			"s-1.json"): `{"question_id": "q", "status": "pending", "session_id": "s", "mode": "deny"}`,
		filepath.Join(c.theirs, "notes"):                        "mine",
		filepath.Join(c.theirs, ".locks", "s-1.json"):           "",
		filepath.Join(c.theirs, "pending-questions", "ab.json"): `{`,
	}
	old := time.Now().Add(-time.Hour) // none of them is being written
	for path, text := range c.before {
		writeAt(t, path, text)
		kit.NoError(t, os.Chtimes(path, old, old))
	}
	kit.NoError(t, os.MkdirAll(c.state, 0o700))
	return c
}

func (c *checkout) link(name, to string) {
	c.Helper()
	path := filepath.Join(c.state, name)
	kit.NoError(c, os.MkdirAll(filepath.Dir(path), 0o700))
	kit.NoError(c, os.Symlink(to, path))
}

// untouched fails the test if the person's folder has changed.
func (c *checkout) untouched() {
	c.Helper()
	now := 0
	_ = filepath.WalkDir(c.theirs, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		now++
		kit.Equalf(c, kit.ReadFile(c, path), c.before[path], "%s", path)
		return nil
	})
	kit.True(c, now == len(c.before), "%d files are there, %d were", now, len(c.before))
}

// If a folder of the state is a link, nothing in it is read, set aside, locked or
// written.
func TestPlainFile_LinkedFolderIsNotFollowed(t *testing.T) {
	for _, name := range []string{"pending-questions", "gchat-forwarded-ask"} {
		t.Run(name, func(t *testing.T) {
			c := newCheckout(t)
			c.link(name, c.theirs)
			folder := questionFolder(filepath.Join(c.state, name))
			qs, bad := folder.All()
			kit.True(t, len(qs)+len(bad) == 0 || len(qs) == 0, "%d questions, %v", len(qs), bad)
			_, err := LoadQuestion(filepath.Join(folder.Dir, "s-1.json"))
			kit.True(t, err != nil, "a question was read")
			q := &Question{QuestionID: "q", SessionID: "s", Status: Pending}
			q.Path = filepath.Join(folder.Dir, "s-1.json")
			_, err = UpdateQuestion(q.Path,
				func(q *Question) error { q.Status = Answered; return nil })
			kit.True(t, err != nil, "a question was written")
			_, err = folder.Record("s",
				func([]*Question) *Question {
					return &Question{QuestionID: "new", SessionID: "s",
						Status: Pending}
				})
			kit.True(t, err != nil, "a question was recorded")
			found, _, _ := folder.OfSessionNames([]string{"s"})
			kit.True(t, len(found) == 0, "a marker was found")
			files, _ := OwnProjectFiles(c.state)
			kit.True(t, len(files) == 0, "a purge would take %q", files)
			c.untouched()
		})
	}
}

// A link or a pipe in a file's place is not followed, and blocks no process.
func TestPlainFile_LinkIsNotFollowed(t *testing.T) {
	c := newCheckout(t)
	pending := QuestionsIn(c.state)
	own := filepath.Join(pending.Dir, "own.json")
	writeAt(t, own, `{"question_id": "q", "status": "pending", "session_id": "s"}`)
	c.link("pending-questions/linked.json", filepath.Join(c.theirs, "package.json"))
	c.link("pending-questions/.locks/own", filepath.Join(c.theirs, "notes"))
	c.link(LastPollFile, filepath.Join(c.theirs, "notes"))
	for _, pipe := range []string{filepath.Join(pending.Dir, "pipe.json"),
		filepath.Join(c.state, PIDFile), filepath.Join(pending.Dir, ".locks", "record")} {
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Skip(err)
		}
	}
	qs, bad := pending.All()
	kit.Must(t, len(qs) == 1 && len(bad) == 2, "%d questions, %v", len(qs), bad)
	_, err := UpdateQuestion(own, func(q *Question) error { q.IsDenied = true; return nil })
	kit.True(t, err != nil, "the question's lock is a link, and was taken")
	pid, last := ReadDaemonPID(c.state), ReadLastPoll(c.state)
	kit.True(t, pid == 0 && last.IsZero(), "pid %d, last poll %v", pid, last)
	kit.NoError(t, WriteLastPoll(c.state, time.Now()))
	_, _ = pending.Record("s", func([]*Question) *Question { return nil })
	c.untouched()
}

func TestPlainFile_SocketIsNone(t *testing.T) {
	t.Chdir(t.TempDir()) // a socket's path may have a hundred bytes only
	listener, err := net.Listen("unix", "socket")
	kit.NoError(t, err)
	defer listener.Close()
	_, _, err = OpenPlain("socket", os.O_RDONLY)
	kit.True(t, errors.Is(err, errNotPlain), "%v", err)
}

// If a project's .claude leads out of the project, its state is kept in the user's state.
// A folder that the person named may be a link.
func TestPlainFile_StateFolderThatLeadsOut(t *testing.T) {
	for name, tt := range map[string]struct {
		link, to string
		named    bool
		own      bool
	}{
		".claude":            {link: ".claude", to: "../theirs"},
		".claude/state":      {link: ".claude/state", to: "../../theirs"},
		"to nothing":         {link: ".claude/state", to: "../../missing"},
		"within the project": {link: ".claude", to: "tools/claude", own: true},
		"no link":            {link: "other", to: "../theirs", own: true},
		"named by GCHAT_STATE_DIR": {link: ".claude/state", to: "../../theirs", named: true,
			own: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			project := filepath.Join(dir, "clone")
			for _, folder := range []string{"theirs", "clone/tools/claude",
				filepath.Join("clone", filepath.Dir(tt.link))} {
				kit.NoError(t, os.MkdirAll(filepath.Join(dir, folder), 0o700))
			}
			kit.NoError(t, os.Symlink(tt.to, filepath.Join(project, tt.link)))
			vars := map[string]string{"HOME": dir, "CLAUDE_PROJECT_DIR": project}
			own := filepath.Join(project, ".claude", "state")
			if tt.named {
				vars["GCHAT_STATE_DIR"] = own
			}
			env := func(name string) string { return vars[name] }
			got := ProjectStateDir(env)
			kit.True(t, (got == own) == tt.own && (tt.own || got == SpareStateDir(env)),
				"state is kept in %s", got)
		})
	}
}

func TestPlainFile_FoldersThatMacOSGuards(t *testing.T) {
	was := systemGuardsFolders
	systemGuardsFolders = true
	t.Cleanup(func() { systemGuardsFolders = was })
	home := t.TempDir()
	kit.NoError(t, errors.Join(os.MkdirAll(filepath.Join(home, "Documents/shop"), 0o700),
		os.Symlink("Documents/shop", filepath.Join(home, "shop"))))
	kit.True(t, isGuarded(filepath.Join(home, "shop"), home) && !isGuarded(home, home),
		"a link leads into Documents")
	for project, own := range map[string]bool{
		"/Users/ann/Documents/shop": false, "/Users/ann/documents": false,
		"/Users/ann/Desktop/a/b":                                    false,
		"/Users/ann/Library/Mobile Documents/com~apple~CloudDocs/x": false,
		"/Volumes/Disk/x":                                           false,
		"/Users/ann/Library/CloudStorage/GoogleDrive/x":             false,
		"/Users/ann/Documents2/shop":                                true,
		"/Users/ann/src/Documents":                                  true,
		"/Users/bob/Desktop":                                        true, "/opt/Volumes/x": true,
	} {
		vars := map[string]string{"HOME": "/Users/ann", "CLAUDE_PROJECT_DIR": project}
		env := func(name string) string { return vars[name] }
		got := ProjectStateDir(env)
		kit.True(t, (got == filepath.Join(project, ".claude", "state")) == own &&
			(own || got == SpareStateDir(env)),
			"%s keeps its state in %s", project, got)
		vars["GCHAT_STATE_DIR"] = "/Volumes/Disk/state"
		kit.Equalf(t, ProjectStateDir(env), "/Volumes/Disk/state", "%s keeps what was named in",
			project)
	}
}
