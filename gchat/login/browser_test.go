package login

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestBrowserIsOpenedWhereSomebodySits(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the stand-in is called xdg-open")
	}
	dir := t.TempDir()
	args := filepath.Join(dir, "args")
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte("#!/bin/sh\nprintf '%s\\n' \"$@\" >"+args+".new && mv "+args+".new "+args+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	env := func(m map[string]string) func(string) string { return func(name string) string { return m[name] } }
	for _, none := range []map[string]string{{}, {"DISPLAY": ":0", "SSH_CONNECTION": "1.2.3.4 5 6.7.8.9 22"}, {"WAYLAND_DISPLAY": "w", "SSH_TTY": "/dev/pts/1"}} {
		if err := openBrowser(env(none), "https://accounts.example/auth"); !errors.Is(err, errNoScreen) {
			t.Errorf("%v: %v", none, err)
		}
	}
	address := "https://accounts.example/auth?a=b&c=$(id)"
	if err := openBrowser(env(map[string]string{"DISPLAY": ":0"}), address); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && len(got) == 0; time.Sleep(5 * time.Millisecond) {
		got, _ = os.ReadFile(args)
	}
	if string(got) != address+"\n" {
		t.Errorf("xdg-open got %q", got)
	}
}

func TestBrowserThatDoesNotOpenIsNoEnd(t *testing.T) {
	g := newGoogle(t)
	p := newPerson(g)
	o := p.options()
	o.Open = func(address string) error {
		go p.browse(address)
		return errors.New("no such program")
	}
	if _, err := Run(t.Context(), o); err != nil || !strings.Contains(p.out.String(), "Open this in a browser") {
		t.Errorf("%v; %s", err, p.out.String())
	}
}
