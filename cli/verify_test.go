package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/poller"
)

func TestVerifyReportsDoNotReplaceEachOther(t *testing.T) {
	dir := t.TempDir()
	v := &verify{env: func(name string) string {
		if name == "XDG_STATE_HOME" {
			return dir
		}
		return ""
	}}
	at := time.Date(2026, 11, 21, 19, 0, 55, 0, time.Local)
	for _, want := range []string{"gchat-verify-20261121-190055.json", "gchat-verify-20261121-190055-2.json", "gchat-verify-20261121-190055-3.json"} {
		path, err := v.reportFile(at)
		if err != nil || path != filepath.Join(dir, "gchat-hooks", want) {
			t.Fatalf("%s, %v; want %s", path, err, want)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// What answers in Chat's place must not reach into the terminal.
func TestVerifyShowsWordsOnly(t *testing.T) {
	var out strings.Builder
	v := &verify{out: &out}
	esc := "\x1b]0;title\x07\x1b[2J"
	v.show(&poller.VerifyReport{Scenarios: []poller.VerifyResult{{
		Title: "human reply told from bot", Status: poller.VerifyFail, Why: "why" + esc, Notes: []string{"note" + esc},
		Threads: []poller.VerifyThread{{Key: "verify-1a2b3c4d-reply", Name: "spaces/S/threads/T" + esc}},
		Answer:  &poller.VerifyAnswer{By: "users/1" + esc, Name: "Ann" + esc, Text: "2" + esc, ReadAs: "B" + esc}, PostMS: []float64{0.4, 38.2},
	}}})
	want := "fail     1. human reply told from bot: why; users/1 (Ann) replied "
	if got := out.String(); strings.ContainsAny(got, "\x1b\x07") || !strings.HasPrefix(got, want) || !strings.Contains(got, "posted in 0.4 to 38 ms\n") {
		t.Errorf("%q", got)
	}
}
