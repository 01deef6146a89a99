package e2e

import (
	"flag"
	"os"
	"testing"
)

// The test binary plays three parts: what `go test` starts, the same again
// inside a namespace, and (see recorder_test.go) a hook that Claude Code runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == recordHook {
		os.Exit(runRecordHook(os.Args[2:]))
	}
	flag.Parse()
	if set := flag.Lookup("test.parallel"); set.Value.String() == set.DefValue {
		_ = set.Value.Set("6") // most of a session's time is waiting; takeSeat limits what a machine has to bear
	}
	os.Exit(isolated(m))
}

// noNamespace says why the tests do not run in a namespace of their own, ""
// when they do.
var noNamespace string

// requireIsolation skips a test that must not run with a real network around it.
func requireIsolation(t *testing.T) {
	t.Helper()
	if noNamespace != "" {
		skip(t, "no network namespace: "+noNamespace)
	}
}

// skip says why a test cannot run on this machine. A machine that is meant to
// run it (GCHAT_E2E_REQUIRED=1) fails instead, or nobody would notice.
func skip(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("GCHAT_E2E_REQUIRED") == "1" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}
