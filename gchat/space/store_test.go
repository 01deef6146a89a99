package space

import (
	"bufio"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

func TestStore_SurvivesAKill(t *testing.T) {
	dir := t.TempDir()
	var printed []string
	for range 3 {
		cmd := bound.Command(t, os.Args[0])
		cmd.Env = append(os.Environ(), "SPACE_TEST_POST_TO="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		kit.NoError(t, err)
		kit.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			printed = append(printed, lines.Text())
			if n == 50 {
				kit.NoError(t, cmd.Process.Kill())
			}
		}
		cmd.Wait()
	}
	if len(printed) < 153 {
		t.Fatalf("the processes printed only %d names", len(printed))
	}
	s := openSpace(t, dir)
	kept := map[string]bool{}
	for _, m := range s.Messages() {
		kept[m.Name] = true
	}
	for _, name := range printed {
		if !kept[name] {
			t.Errorf("%s was acknowledged and is lost", name)
		}
	}
}

func TestStore_Reload(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "space")
	s, srv := testServer(t, Options{DataDir: dir})
	url := s.WebhookURL("http://localhost")
	first := mustPost(t,
		s.WebhookURL(srv.URL)+"&requestId=r&messageId=client-a&messageReplyOption="+replyOrFallback,
		`{"text":"one","thread":{"threadKey":"k"}}`)
	kit.NoError(t, s.Close())
	if _, err := s.PostAs(nil, "", "too late"); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed space says %v", err)
	}
	for name, want := range map[string]os.FileMode{
		".": 0o700, messagesFile: 0o600, secretsFile: 0o600,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		kit.NoError(t, err)
		kit.Equalf(t, info.Mode().Perm(), want, "the mode of %s", name)
	}

	s, srv = testServer(t, Options{DataDir: dir})
	kit.Equalf(t, s.WebhookURL("http://localhost/"), url, "the webhook's address")
	if m := s.Messages()[0]; m.Text != "one" || m.ClientAssignedMessageId != "client-a" {
		t.Errorf("read back %+v", m)
	}
	again := s.WebhookURL(srv.URL) + "&messageReplyOption=" + replyOrFail
	kit.Equalf(t, mustPost(t, again+"&requestId=r", `{"text":"one"}`)["name"], first["name"],
		"of the same request id")
	code, v := postTo(t, again+"&messageId=client-a", `{"text":"one"}`)
	kit.Equalf(t, code, 409, "the same message id: %v", v)
	second := mustPost(t, again, `{"text":"two","thread":{"threadKey":"k"}}`)
	kit.Equalf(t, threadOf(second), threadOf(first), "the thread of the same key")
}

// An earlier version kept the page's token in a file. Its link still works.
func TestStore_EarlierToken(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		secretsFile: `{"key": "k", "token": "t"}`, "page-token": "p\n",
	} {
		kit.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	s := openSpace(t, dir)
	w := callHandler(s, "GET", "http://localhost/?token=p", "")
	if w.Code != 303 || w.Header().Get("Location") != s.PageURL("") {
		t.Errorf("%d to %q", w.Code, w.Header().Get("Location"))
	}
}

func TestStore_HalfWrittenLine(t *testing.T) {
	whole := t.TempDir()
	s := openSpace(t, whole)
	for _, text := range []string{"one", "two", "three"} {
		postAsPerson(t, s, "", text)
	}
	s.Close()
	b := kit.ReadFile(t, filepath.Join(whole, messagesFile))
	start := strings.LastIndex(strings.TrimSuffix(b, "\n"), "\n") + 1
	cuts := []int{len(b) - 1} // only the end of line is missing
	for cut := start + 1; cut < len(b); cut += 37 {
		cuts = append(cuts, cut)
	}
	for _, cut := range cuts {
		dir := t.TempDir()
		kit.WriteFile(t, filepath.Join(dir, messagesFile), b[:cut], 0o600)
		s := openSpace(t, dir)
		postAsPerson(t, s, "", "four")
		s.Close()
		s = openSpace(t, dir)
		kit.Equalf(t, joinTexts(s.Messages()), "one two four", "cut at %d", cut)
	}
}

func TestStore_BadLine(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, messagesFile)
	const foreign = "{\"message\":{}}\n{}\n"
	kit.NoError(t, os.WriteFile(path, []byte(foreign), 0o600))
	if _, err := Open(Options{DataDir: dir}); err == nil ||
		!strings.Contains(err.Error(), "messages.jsonl line 1") {
		t.Errorf("opened: %v", err)
	}
	kit.Equalf(t, kit.ReadFile(t, path), foreign, "the file")
}

// TestStore_FullDisk lets the disk take half a line. That half must go again, or the
// next message is glued to it.
func TestStore_FullDisk(t *testing.T) {
	dir := t.TempDir()
	s := openSpace(t, dir)
	postAsPerson(t, s, "", "one")
	var free, full syscall.Rlimit
	kit.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &free))
	full = free
	full.Cur = uint64(s.store.messages.size) + 50
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		t.Skipf("cannot limit the size of files: %v", err)
	}
	_, err := s.PostAs(nil, "", "lost")
	kit.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &free))
	if err == nil {
		t.Error("a message that is not on disk was acknowledged")
	}
	if _, err := s.PostAs(nil, "", "two"); err != nil {
		t.Errorf("the disk has room again: %v", err)
	}
	s.Close()
	s = openSpace(t, dir)
	wantTexts(t, s, "one two")
}

func TestStore_InUse(t *testing.T) {
	dir := t.TempDir()
	s := openSpace(t, dir)
	if _, err := Open(Options{DataDir: dir}); !errors.Is(err, ErrInUse) {
		t.Errorf("a second Open gives %v", err)
	}
	s.Close()
	openSpace(t, dir)
}
