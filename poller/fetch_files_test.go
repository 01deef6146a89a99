package poller

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	chatapi "google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// sayWithFiles has a person write into the session's thread, with files, and returns the
// notes there. The sender "" is the person on the page.
func (x *testSession) sayWithFiles(sender, text string, files ...space.NewFile) (notes []string) {
	x.t.Helper()
	var from *chatapi.User
	if sender != "" {
		from = &chatapi.User{Name: sender, Type: "HUMAN"}
	}
	_, err := x.space.PostFiles(from, x.threadName, text, files...)
	kit.NoError(x.t, err)
	return slices.Concat(x.readNotes(), x.readNotes())
}

// storedFiles returns the names of the files that were fetched.
func (x *testSession) storedFiles() (names []string) {
	entries, _ := os.ReadDir(filepath.Join(state.UserStateDir(x.env), "files"))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

var fileLine = regexp.MustCompile(`^Attached file: (/\S+) \([a-z0-9./+-]+, [\pL\pN ._+-]+\)$`)

// Whatever is attached to a message for a session, Claude is told a line for each file,
// with the path of a file that is there, in our folder and with the same bytes.
func TestFetch_ClaudeIsToldPathOfWhatIsThere(t *testing.T) {
	x := newTestSession(t, nil)
	folder := filepath.Join(state.UserStateDir(x.env), "files")
	bad := kit.BadFiles()
	for chunk := range slices.Chunk(bad, maxFiles) {
		var files []space.NewFile
		for _, file := range chunk {
			files = append(files, space.NewFile{Name: file.Name, Content: file.Content})
		}
		notes := x.sayWithFiles("", "look at these", files...)
		kit.True(t, !strings.Contains(strings.Join(notes, ""), "Not read"), "notes %q", notes)
		prompts := x.waitingPrompts()
		lines := strings.Split(prompts[len(prompts)-1], "\n")
		kit.Must(t, lines[0] == "look at these" && len(lines) == len(chunk)+1, "%q", lines)
		for i, line := range lines[1:] {
			told := fileLine.FindStringSubmatch(line)
			kit.Must(t, told != nil && filepath.Dir(told[1]) == folder, "%s: %q", chunk[i].What, line)
			content := kit.ReadFile(t, told[1])
			info, err := os.Stat(told[1])
			kit.NoError(t, err)
			kit.True(t, content == string(chunk[i].Content) && info.Mode().Perm() == 0o600,
				"%s: %d bytes, mode %v", chunk[i].What, len(content), info.Mode())
		}
	}
	kit.Equalf(t, len(x.storedFiles()), len(bad), "the stored files")
}

// A file without words is a message of its own. What cannot be fetched is said, and the
// words count all the same. A stranger's file is never fetched.
func TestFetch_WhatIsNotFetchedIsSaid(t *testing.T) {
	x := newTestSession(t, nil)
	picture := space.NewFile{Name: "cat.png", Content: kit.Picture()}
	x.sayWithFiles("", "", picture)
	kit.True(t, fileLine.MatchString(x.waitingPrompts()[0]), "%q", x.waitingPrompts())
	x.sayWithFiles("users/stranger", "mine", picture)
	kit.Equalf(t, len(x.storedFiles()), 1, "the stored files")

	for i, c := range []struct {
		file gchat.File
		want string
	}{
		{gchat.File{Name: "plan.gdoc", IsOnDrive: true}, "plan.gdoc (it is in Google Drive: attach the file itself)"},
		{gchat.File{Name: "cat.png", Resource: strings.Repeat("A", 22)}, "cat.png (it was refused: gchat-hooks logs says why)"},
		{gchat.File{Name: "<users/all>.png", Resource: "../../v1/spaces"}, "_.png"},
		{gchat.File{Name: "GIF"}, "GIF (files cannot be fetched from this space)"},
	} {
		for _, words := range []string{"as here", ""} {
			name := "spaces/local/messages/m" + string(rune('a'+i)) + words[:min(1, len(words))]
			kit.NoError(t, x.poller.addIncoming(newIncoming(x.reader.chat, gchat.Message{
				Name: name, ThreadName: x.threadName, Sender: space.PersonName, IsHuman: true,
				Text: words, CreateTime: time.Now(), HasAttachment: true, Files: []gchat.File{c.file},
			}, 0)))
			before := x.waitingPrompts()
			notes := strings.Join(slices.Concat(x.readNotes(), x.readNotes()), "\n")
			kit.Containsf(t, notes, "Not read: ", "the notes")
			kit.Containsf(t, notes, c.want, "the notes")
			if words != "" {
				kit.Equalf(t, x.waitingPrompts(), append(before, words), "the prompts")
			} else {
				kit.Equalf(t, x.waitingPrompts(), before, "the prompts")
				kit.Containsf(t, notes, "[Not used] There are no words", "the notes")
			}
		}
	}
	kit.Equalf(t, len(x.storedFiles()), 1, "the stored files")
}

// Before the next hour, too, the stored files have no more than they may have together.
func TestFetch_StoredFilesAreBounded(t *testing.T) {
	x := newTestSession(t, nil)
	folder := filepath.Join(state.UserStateDir(x.env), "files")
	kit.NoError(t, os.MkdirAll(folder, 0o700))
	for i, name := range []string{"oldest.bin", "older.bin"} {
		path := filepath.Join(folder, name)
		kit.WriteFile(t, path, "", 0o600)
		kit.NoError(t, os.Truncate(path, maxStoredBytes/2)) // it takes no room on the disk
		kit.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour*time.Duration(9-i))))
	}
	x.sayWithFiles("", "see", space.NewFile{Name: "cat.png", Content: kit.Picture()})
	stored := x.storedFiles()
	kit.True(t, len(stored) == 2 && !slices.Contains(stored, "oldest.bin"), "stored: %q", stored)
}

// If the poller is killed at any step, the next one fetches the file, Claude is told it
// once, and no other file is left.
func TestFetch_KilledPollerLosesNothing(t *testing.T) {
	for _, step := range []string{"nothing", "a part", "the file", "the record"} {
		x := newTestSession(t, nil)
		m, err := x.space.PostFiles(nil, x.threadName, "see", space.NewFile{
			Name: "cat.png", Content: kit.Picture(),
		})
		kit.NoError(t, err)
		x.poller.readSessions()
		x.mustRead()
		id := state.IncomingID(x.reader.chat, m.Name)
		in, err := x.inbox().Load(id)
		kit.NoError(t, err)
		folder := x.poller.filesFolder()
		switch step {
		case "a part":
			kit.NoError(t, os.MkdirAll(folder, 0o700))
			part := filepath.Join(folder, ".new-1")
			kit.WriteFile(t, part, "half", 0o600)
			kit.NoError(t, os.Chtimes(part, time.Time{}, time.Now().Add(-2*time.Hour)))
		case "the file":
			_, _, err := storeFile(folder, id+"-1", kit.Picture())
			kit.NoError(t, err)
		case "the record":
			x.poller.fetchFiles(t.Context(), in, []configSource{{projectDir: x.dir}})
		}
		next := x.nextPoller()
		next.readNotes()
		next.readNotes()
		next.poller.sweepFiles(time.Now())
		prompts := next.waitingPrompts()
		kit.Must(t, len(prompts) == 1 && strings.Count(prompts[0], "Attached file: ") == 1,
			"killed after %s: %q", step, prompts)
		kit.Equalf(t, next.storedFiles(), []string{id + "-1.png"}, "killed after %s: the files", step)
		next.poller.sweepFiles(time.Now().Add(maxFileAge + time.Hour))
		kit.Equalf(t, next.storedFiles(), nil, "after a month")
	}
}
