// Package golden compares what a program says or writes with a file that a person has
// read. Only tests import it.
package golden

import (
	"flag"
	"os"
	"testing"
)

// Update has the files written anew: go test ./PKG -run TEST -update. Compare them then.
var Update = flag.Bool("update", false, "write the golden files anew")

// Compare fails a test where a text is not what stands in a file.
func Compare(t testing.TB, path, got string) {
	t.Helper()
	if *Update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got (-update writes it anew)\n%s\nwant\n%s", path, got, want)
	}
}
