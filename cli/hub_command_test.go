package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/pubsub/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// An administrator lists machines, and revokes one machine or all machines of a person.
// A machine whose join code is still valid is revoked at once.
func TestHub_RevokesMachines(t *testing.T) {
	var mu sync.Mutex
	subs := map[string]*pubsub.Subscription{}
	add := func(id, user, made string) {
		name := "projects/p/subscriptions/gchat-hooks-" + id
		labels := map[string]string{"user": user, "made": made}
		subs[name] = &pubsub.Subscription{Name: name, Topic: "projects/p/topics/t", Labels: labels}
	}
	add("00000000000a", "users-1", "1000")
	add("00000000000b", "users-2", "1000")
	add("00000000000c", "users-2", "1000")
	add("00000000000d", "users-3", string(kit.JSON(t, time.Now().Unix())))
	google := kit.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		name := strings.TrimPrefix(r.URL.Path, "/v1/")
		switch sub := subs[name]; {
		case strings.HasSuffix(name, "/subscriptions"):
			all := &pubsub.ListSubscriptionsResponse{}
			for _, sub := range subs {
				all.Subscriptions = append(all.Subscriptions, sub)
			}
			_ = json.NewEncoder(w).Encode(all)
		case r.Method == http.MethodDelete:
			delete(subs, name)
			_, _ = w.Write([]byte(`{}`))
		case r.Method == http.MethodPatch:
			change := &pubsub.UpdateSubscriptionRequest{Subscription: sub}
			_ = json.NewDecoder(r.Body).Decode(change)
			fallthrough
		default:
			_ = json.NewEncoder(w).Encode(sub)
		}
	}))
	h := newHome(t, "GCHAT_API_ENDPOINT="+google.URL, "GCHAT_PUBSUB_ENDPOINT="+google.URL)
	revoke := func(who string) []string {
		return append([]string{"hub", "revoke", "--topic", "projects/p/topics/t"},
			strings.Fields(who)...)
	}
	for _, try := range []struct {
		who, says string
		code      int
		left      string // machines, as the list has them
	}{
		{"00000000000a", "revoked: 00000000000a  users-1", 0, "bcd"},
		{"users/2", "revoked: 00000000000b  users-2", 0, "d"},
		{"users/9", "hub revoke --topic projects/p/topics/t lists them", 1, "d"},
		{"00000000000d x", "revoke takes one machine or person", 4, "d"},
	} {
		output := h.wantRun(try.code, try.says, revoke(try.who)...)
		kit.Equalf(t, strings.Contains(output, "Google Chat"), false, "it speaks of Chat: %s", output)
		list := h.mustRun(revoke("")...)
		for _, id := range "abcd" {
			isListed := strings.Contains(list, "0"+string(id)+"  users")
			kit.Equalf(t, isListed, strings.ContainsRune(try.left, id), "%s: the list is %s",
				try.who, list)
		}
	}
	file, err := os.Create(h.path("output"))
	kit.NoError(t, err)
	defer file.Close()
	cmd := h.command(h.program, revoke("00000000000d")...)
	cmd.Stdout, cmd.Stderr = file, file
	kit.NoError(t, cmd.Start())
	bound.Until(t, "it waits",
		func() bool { return strings.Contains(h.readFile("output"), "revoked; waiting until ") })
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait()
	kit.Equalf(t, cmd.ProcessState.ExitCode(), 1, "interrupted: exit code")
	output := h.readFile("output")
	if !strings.Contains(output, "stopped; ") || strings.Contains(output, "Chat") {
		t.Errorf("interrupted: %s", output)
	}
	h.wantRun(0, "  revoked\n", revoke("")...)
}

// A hub's key is a secret of random bytes that nobody else on the machine can read.
func TestHub_KeyIsASecret(t *testing.T) {
	dir := t.TempDir()
	random := "q7Vt0fXbE3mJ9aKcR1sLwYhU6pZdN2gT5iOoB8x+/Q4="
	write := func(name, text string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		kit.NoError(t, os.WriteFile(file, []byte(text), mode))
		kit.NoError(t, os.Chmod(file, mode))
		return file
	}
	link := filepath.Join(dir, "link")
	kit.NoError(t, os.Symlink(write("target", random, 0o600), link))
	for name, c := range map[string]struct {
		file string
		says string // "" where it is taken
	}{
		"good":                  {write("good", random+"\n", 0o600), ""},
		"mounted by Cloud Run":  {write("mounted", random, 0o444), ""},
		"a link, as mounts are": {link, ""},
		"anybody can read it":   {write("open", random, 0o644), "chmod 600"},
		"short":                 {write("short", random[:31], 0o600), "fewer than 32 bytes"},
		"one sign": {
			write("equal", strings.Repeat("a", 32), 0o600), "is not random",
		},
		"a device without an end": {"/dev/zero", "/dev/zero"},
		"missing":                 {filepath.Join(dir, "none"), "no such file"},
	} {
		key, err := readHubKey(c.file)
		if c.says == "" && (err != nil || string(key) != random) {
			t.Errorf("%s: %q, %v", name, key, err)
		}
		if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A wrong domain is refused before any file is read.
func TestHub_RefusesWrongDomains(t *testing.T) {
	h := newHome(t)
	for _, domain := range []string{
		".", "com", "a@example.com", "*.example.com", "example.com.", " ",
	} {
		h.wantRun(4, "--domain must be a name like", "hub", "--topic", "projects/p/topics/t",
			"--subscription", "projects/p/subscriptions/s", "--key-file", "k", "--domain", domain)
	}
}
