package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A person's CDPATH has cd say where it went; that is no part of the source's path.
func TestInstallScriptKnowsWhereItIs(t *testing.T) {
	n := newNewcomer(t, "/usr/bin:/bin")
	n.env = append(n.env, "CDPATH="+n.home)
	n.has("src/go.mod", "module gchat-hooks\n")
	n.does("cp", installScript(t), "src")
	if out, err := n.run("bash", "src/install.sh"); err == nil || !strings.Contains(out, "Go is not on the PATH") {
		t.Errorf("%v: %s", err, out)
	}
}

// A shell that is no bash hands over to one, and the prefix is read as cd reads it.
func TestInstallScriptReadsThePrefix(t *testing.T) {
	n := newNewcomer(t, "/usr/bin:/bin")
	n.does("sh", installScript(t), "--binary", program(t), "--no-service", "--prefix=~/my bin/./no/..//")
	n.does(filepath.Join(n.home, "my bin/gchat-hooks"), "--version")
}
