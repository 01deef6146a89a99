package cli

import (
	"strings"
	"testing"

	"gchat-hooks/cli/doctor"
)

// What answers in Chat's place must not reach into the terminal.
func TestVerifyShowsWordsOnly(t *testing.T) {
	var out strings.Builder
	v := &verify{out: &out}
	esc := "\x1b]0;title\x07\x1b[2J"
	v.show(doctor.Leg{
		Name: "in", Status: doctor.LegFail, What: "why" + esc,
		Threads: map[string]string{"verify-1a2b3c4d-a": "spaces/S/threads/T" + esc},
	})
	want := "fail     in   why"
	if got := out.String(); strings.ContainsAny(got, "\x1b\x07") || !strings.HasPrefix(got, want) {
		t.Errorf("%q", got)
	}
}
