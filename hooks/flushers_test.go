package hooks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// flushers finds the detached flushers of one test's machine by the environment that they were started with. A test
// ends only what it started.
func flushers(userHome string) (pids []int) {
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range procs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		exe, _ := os.Readlink(dir + "/exe")
		if exe == program && strings.HasPrefix(string(cmd), "gchat-hooks\x00flush") && strings.Contains(string(env), "XDG_STATE_HOME="+userHome+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}
