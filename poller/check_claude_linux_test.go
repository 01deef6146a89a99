package poller

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// idleMachine is a root folder of a machine that has nothing to do, and hangs at the grid.
func idleMachine() fstest.MapFS {
	return fstest.MapFS{
		"proc/loadavg":                       {Data: []byte("0.05 0.20 0.30 1/200 1234\n")},
		"sys/class/power_supply/BAT0/status": {Data: []byte("Charging\n")},
	}
}

// The poller checks a version of Claude Code that nobody checked, once, where that
// disturbs nobody.
func TestCheckClaude_StartsByItself(t *testing.T) {
	const unknown, ownPath = "2.1.999", "claude/versions/2.1.999"
	idle := fmt.Sprintf(`,"status":"idle","statusUpdatedAt":%d`, time.Now().UnixMilli())
	for name, c := range map[string]struct {
		version, status, program string
		isOff                    bool
		change                   func(d *testMachine, machine fstest.MapFS)
		isStarted                bool
	}{
		"unknown version": {version: unknown, status: idle, program: ownPath, isStarted: true},
		"tested before":   {version: "2.1.332", status: idle, program: ownPath},
		"turned off":      {version: unknown, status: idle, program: ownPath, isOff: true},
		"a session works": {version: unknown, status: `,"status":"busy"`, program: ownPath},
		"another program": {version: unknown, status: idle, program: "bin/claude"},
		"on battery": {
			version: unknown, status: idle, program: ownPath,
			change: func(_ *testMachine, machine fstest.MapFS) {
				machine["sys/class/power_supply/BAT0/status"].Data = []byte("Discharging\n")
			},
		},
		"a busy machine": {
			version: unknown, status: idle, program: ownPath,
			change: func(_ *testMachine, machine fstest.MapFS) {
				machine["proc/loadavg"].Data = []byte("900.00 0.20 0.30 1/200 1234\n")
			},
		},
		"an administrator's rules": {
			version: unknown, status: idle, program: ownPath,
			change: func(d *testMachine, _ fstest.MapFS) {
				d.vars["CLAUDE_CODE_MANAGED_SETTINGS_PATH"] = d.dir
				kit.WriteFile(d.t, filepath.Join(d.dir, "managed-settings.json"), "{}", 0o600)
			},
		},
		"checked by this release": {
			version: unknown, status: idle, program: ownPath,
			change: func(d *testMachine, _ fstest.MapFS) {
				kit.NoError(d.t, state.SaveClaudeCheck(d.env, unknown, state.ClaudeCheck{}))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, machine := newTestMachine(t), idleMachine()
			d.addClaude(c.program, fmt.Sprintf(`{"version":%q%s}`, c.version, c.status))
			if c.change != nil {
				c.change(d, machine)
			}
			p := d.newPoller()
			now := time.Now()
			p.Now = func() time.Time { return now }
			p.ProgramPath = filepath.Join(d.dir, "program")
			kit.WriteFile(t, p.ProgramPath,
				"#!/bin/sh\necho \"$@\" >>"+p.ProgramPath+".calls\n", 0o700)
			p.readState()
			for range 3 {
				p.checkClaude(!c.isOff, machine)
				now = now.Add(claudeLookInterval)
			}
			check, isKnown := state.LoadClaudeCheck(d.env, unknown)
			kit.Equalf(t, isKnown && check.Failure != "", c.isStarted, "recorded as begun")
			if !c.isStarted {
				return
			}
			calls := []byte{}
			for deadline := time.Now().Add(time.Minute); len(calls) == 0; {
				kit.Must(t, time.Now().Before(deadline), "%s is not called", p.ProgramPath)
				time.Sleep(10 * time.Millisecond)
				calls, _ = os.ReadFile(p.ProgramPath + ".calls")
			}
			kit.Equal(t, string(calls), "doctor --claude --claude-binary "+
				filepath.Join(d.dir, c.program)+" --report\n")
		})
	}
}

// addClaude starts a program at a path of the machine, as the Claude Code of a session.
// file is what Claude Code's own file of the session says.
func (d *testMachine) addClaude(path, file string) {
	d.t.Helper()
	path = filepath.Join(d.dir, path)
	sleep, err := exec.LookPath("sleep")
	kit.NoError(d.t, err)
	kit.WriteFile(d.t, path, kit.ReadFile(d.t, sleep), 0o700)
	claude := exec.Command(path, "600")
	kit.StartProcess(d.t, claude)
	config, pid := filepath.Join(d.dir, "config"), claude.Process.Pid
	kit.WriteFile(d.t, filepath.Join(config, "sessions", fmt.Sprint(pid, ".json")), file, 0o600)
	_, err = d.sessions().Change("s", func(s *state.Session) {
		s.ClaudePID, s.ClaudeStart, s.LastSeen = pid, inject.ProcessStart(pid), time.Now()
		s.TranscriptPath = filepath.Join(config, "projects", "p", "s.jsonl")
	})
	kit.NoError(d.t, err)
}
