package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gchat-hooks": main})
}

// TestCommands runs what a person types, as processes: each script in testdata is a small story.
func TestCommands(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("XDG_STATE_HOME", e.WorkDir+"/state")
			return os.Mkdir(e.WorkDir+"/home", 0o700)
		},
	})
}
