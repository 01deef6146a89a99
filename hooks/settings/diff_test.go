package settings

import (
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	for _, test := range []struct{ name, old, new, want string }{
		{"nothing", "{}", "{}", ""},
		{"lines", "{\n  \"a\": 1\n}\n", "{\n  \"a\": 1,\n  \"b\": 2\n}\n", "--- f\n+++ f\n@@ -1,3 +1,4 @@\n {\n-  \"a\": 1\n+  \"a\": 1,\n+  \"b\": 2\n }\n"},
		{"CRLF", "{\r\n}\r\n", "{\r\n1\r\n}\r\n", "--- f\n+++ f\n@@ -1,2 +1,3 @@\n {\n+1\n }\n"},
		{"ends of lines only", "{\r\n}", "{\n}", "--- f\n+++ f\n"},
	} {
		if got := (&Change{Path: "f", Old: []byte(test.old), New: []byte(test.new)}).Diff(); got != test.want {
			t.Errorf("%s:\n%s", test.name, got)
		}
	}
}

// A file that is all in one line is shown where it changes.
func TestDiffOfLongLines(t *testing.T) {
	long := strings.Repeat(`"Bash(make:*)",`, 10000)
	old := []byte(`{"a":[` + long + `1],"b":"ü"}`)
	out, err := Install(old, old, newest(t, "wake"))
	if err != nil {
		t.Fatal(err)
	}
	got := (&Change{Path: "f", Old: old, New: out}).Diff()
	if len(got) > 3000 || !strings.Contains(got, "\n-… ") || !strings.Contains(got, `"b":"ü","hooks":{"Stop":[`) || !strings.Contains(got, "stop-hook") || strings.Count(got, "\n") > 8 {
		t.Errorf("%d bytes:\n%.4000s", len(got), got)
	}
	for _, test := range [][2]string{{"{\n", "{" + long + "\n"}, {"", long}, {long, ""}, {long + "\n" + long, long + "\n" + long + "x"}} {
		if got := (&Change{Path: "f", Old: []byte(test[0]), New: []byte(test[1])}).Diff(); got == "" {
			t.Error("shows nothing")
		}
	}
}
