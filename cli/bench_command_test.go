package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/cli/bench"
	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// benchHome is a home in which a bench runs, with a folder for its temporary files.
type benchHome struct {
	*home
	before string // the home's files
}

func newBenchHome(t *testing.T) *benchHome {
	t.Helper()
	h := newProjectHome(t, noChat)
	h.timeout = 5 * time.Minute
	h.env = append(h.env, "TMPDIR="+h.path("tmp"))
	h.writeFile("tmp/", "")
	h.writeFile(configFile, `{"ask_mode": "off"}`) // what would change the figures is not read
	return &benchHome{h, h.listTree()}
}

// wantNothingLeft fails the test if a file was changed, or a process lives on.
func (h *benchHome) wantNothingLeft() {
	h.Helper()
	kit.Equalf(h, h.listTree(), h.before, "the home folder is as before")
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environments {
		b, _ := os.ReadFile(path)
		if strings.Contains(string(b), h.path("tmp")) {
			command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			h.Errorf("this process lives on: %q", command)
		}
	}
}

// wantReport runs a bench, and checks that each program was measured in each scenario but
// for those that isLeftOut names.
func (h *benchHome) wantReport(isLeftOut func(row, program string) bool) {
	h.Helper()
	cmd := h.command(h.program, "bench", "--rounds", "2", "--json")
	printed, err := cmd.Output()
	kit.NoError(h, err)
	var r bench.Report
	kit.NoError(h, json.Unmarshal(printed, &r))
	kit.Equal(h, r.Rounds, 2)
	kit.True(h, r.Machine.CPUs > 0 && r.Machine.Program != "", "the machine: %+v", r.Machine)
	var names []string
	for _, row := range r.Rows {
		names = append(names, row.Name)
		kit.Equalf(h, len(row.Sides), 3, "sides of %s", row.Name)
		for _, side := range row.Sides {
			isMeasured := isPlausible(side.Milliseconds) && isPlausible(side.Ratio)
			wantLeftOut := isLeftOut(row.Name, side.Program)
			kit.True(h, isMeasured == !wantLeftOut && (side.LeftOut == "") == !wantLeftOut,
				"%s: %+v, left out %t", row.Name, side, wantLeftOut)
		}
	}
	kit.Equal(h, strings.Join(names, " "), "nothing question send stop")
	h.wantNothingLeft()
}

func isPlausible(s bench.Spread) bool {
	return s.Low > 0 && s.Low <= s.Median && s.Median <= s.High
}

func TestBench_MeasuresAllPrograms(t *testing.T) {
	for _, program := range []string{"python3", "bash", "jq", "curl", "tmux"} {
		kit.NeedProgram(t, program)
	}
	h := newBenchHome(t)
	h.env = append(h.env, "PATH="+os.Getenv("PATH")) // some have their python3 elsewhere
	h.wantReport(func(string, string) bool { return false })
}

// What is not installed is left out, and that is no error.
func TestBench_LeavesOutWhatIsMissing(t *testing.T) {
	h := newBenchHome(t)
	h.env = append(h.env, "PATH="+h.path("project"))
	h.wantReport(func(row, program string) bool { return program != "gchat-hooks" || row == "stop" })
}

// After Ctrl-C nothing is left.
func TestBench_Interrupted(t *testing.T) {
	h := newBenchHome(t)
	cmd := h.command(h.program, "bench", "--rounds", "1000")
	progress, err := cmd.StderrPipe()
	kit.NoError(t, err)
	kit.NoError(t, cmd.Start())
	for printed := make([]byte, 1); printed[0] != '.'; {
		_, err := progress.Read(printed)
		kit.NoError(t, err)
	}
	kit.NoError(t, cmd.Process.Signal(os.Interrupt))
	err = bound.Wait(t, cmd)
	_, isExit := err.(*exec.ExitError)
	kit.Equalf(t, isExit && cmd.ProcessState.ExitCode() == exitFailed, true, "it ends with %v", err)
	h.wantNothingLeft()
}

func TestBench_WrongRounds(t *testing.T) {
	newHome(t).wantRun(exitUsage, "--rounds must be 1 or more", "bench", "--rounds", "0")
}
