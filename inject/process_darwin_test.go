package inject

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// Earlier releases got a process's start from ps and wrote it into records that may still
// be open.
func TestProcess_KernelAgreesWithPs(t *testing.T) {
	pid := os.Getpid()
	ps := bound.Command(t, "/bin/ps", "-o", "lstart=", "-p", strconv.Itoa(pid))
	ps.Env = []string{"LC_ALL=C", "TZ=UTC"}
	out, err := ps.Output()
	kit.NoError(t, err)
	if p, _ := processOf(pid); p.start != strings.Join(strings.Fields(string(out)), " ") {
		t.Errorf("start %q, ps says %q", p.start, out)
	}
	if p, _ := processOf(pid); p.parent != os.Getppid() || p.dead || p.stopped {
		t.Errorf("this process is %+v", p)
	}
	kit.Equalf(t, strings.Join(argsOf(pid), "\n"), strings.Join(os.Args, "\n"), "its arguments")
}
