package e2e

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"gchat-hooks/cli/claudecheck"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// wrapClaude is a real Claude Code behind a script, which runs these lines first. The
// script's arguments are Claude Code's, which the last line has to start.
func wrapClaude(t *testing.T, c claude, lines string) claude {
	t.Helper()
	path := filepath.Join(t.TempDir(), "claude")
	writeScript(t, path, "claude="+shellLine(c.Argv...)+"\n"+lines)
	return claude{c.Version, []string{path}}
}

// withHooks is a Claude Code for which a jq filter changes the hooks of its HOME. In the
// filter, line is the whole command of a hook.
func withHooks(t *testing.T, c claude, filter string) claude {
	t.Helper()
	kit.NeedProgram(t, "jq")
	const line = `def line: .command + " " + ((.args // []) | map(@sh) | join(" ")); `
	return wrapClaude(t, c, `f=$HOME/.claude/settings.json
if [ -f "$f" ]; then
	jq `+shellLine(line+filter)+` "$f" >"$f.new" && mv "$f.new" "$f"
fi
exec "$claude" "$@"`)
}

// withoutRequests calls no hook PermissionRequest.
func withoutRequests(t *testing.T, c claude) claude {
	return withHooks(t, c, "del(.hooks.PermissionRequest)")
}

// withLateRequests calls that hook ten seconds late.
func withLateRequests(t *testing.T, c claude) claude {
	return withHooks(t, c, `.hooks.PermissionRequest |= map(.hooks |= map(`+
		`.command = "sleep 10; " + line | del(.args)))`)
}

// withLateDialogs draws a dialog only after the hook PermissionRequest has ended, and
// without an answer of that hook: it calls that hook before a tool, as PreToolUse.
func withLateDialogs(t *testing.T, c claude) claude {
	shim := filepath.Join(t.TempDir(), "shim")
	writeScript(t, shim, `jq 'del(.tool_use_id) | .hook_event_name = "PermissionRequest"' |
	sh -c "$1" |
	jq '.hookSpecificOutput.decision | {hookSpecificOutput: ({
		hookEventName: "PreToolUse", permissionDecision: .behavior,
		permissionDecisionReason: (.message // "")
	} + if .updatedInput then {updatedInput} else {} end)}'`)
	return withHooks(t, c, `.hooks.PreToolUse += (.hooks.PermissionRequest | map(.hooks |= map(`+
		`.command = "`+shim+` " + (line | @sh) | del(.args)))) | del(.hooks.PermissionRequest)`)
}

// withOtherEvents gives an event's members other names.
func withOtherEvents(t *testing.T, c claude) claude {
	return withHooks(t, c, `.hooks.PostToolBatch |= map(.hooks |= map(`+
		`.command = "sed s/tool_calls/calls/ | " + line | del(.args)))`)
}

// withOtherTranscript gives the transcript's members other names of the same length, in
// the file itself, while Claude Code goes on writing it.
func withOtherTranscript(t *testing.T, c claude) claude {
	kit.NeedProgram(t, "python3")
	editor := filepath.Join(t.TempDir(), "editor.py")
	kit.WriteFile(t, editor, `import glob, os, sys, time
names = {b'"content":': b'"payload":', b'"timestamp":': b'"writtenAt":',
    b'"toolUseResult":': b'"toolUseOutput":'}
done, claude = {}, int(sys.argv[2])  # which may have ended before this begins
while os.getppid() == claude:
    for path in glob.glob(sys.argv[1] + '/**/*.jsonl', recursive=True):
        with open(path, 'r+b') as f:
            f.seek(done.get(path, 0))
            new = f.read()
            new = new[:new.rfind(b'\n') + 1]
            for old, name in names.items():
                new = new.replace(old, name)
            f.seek(done.get(path, 0))
            f.write(new)
            done[path] = f.tell()
    time.sleep(0.002)
`, 0o600)
	return wrapClaude(t, c, `python3 `+editor+` "$HOME/.claude/projects" $$ </dev/null >/dev/null 2>&1 &
exec "$claude" "$@"`)
}

// withOtherWord draws a word of Claude Code's as another one. Its output goes through a
// terminal between it and tmux. Its keyboard and its controlling terminal are tmux's. It
// takes one word only: 2.1.332 moves the cursor over the blank between two.
func withOtherWord(t *testing.T, c claude, word, otherWord string) claude {
	kit.NeedProgram(t, "python3")
	filter := filepath.Join(t.TempDir(), "filter.py")
	kit.WriteFile(t, filter, `import fcntl, os, pty, subprocess, sys, termios
old, new = sys.argv[1].encode(), sys.argv[2].encode()
outer, inner = pty.openpty()
fcntl.ioctl(inner, termios.TIOCSWINSZ, fcntl.ioctl(1, termios.TIOCGWINSZ, b' ' * 8))
mode = termios.tcgetattr(inner)
mode[1] &= ~termios.OPOST
termios.tcsetattr(inner, termios.TCSANOW, mode)
claude = subprocess.Popen(sys.argv[3:], stdout=inner, stderr=inner)
os.close(inner)
kept = b''
while True:
    try:
        text = kept + os.read(outer, 1 << 16)
    except OSError:
        break
    text = text.replace(old, new)
    n = next(n for n in range(len(old) - 1, -1, -1) if text.endswith(old[:n]))
    kept = text[len(text) - n:]
    os.write(1, text[:len(text) - n])
sys.exit(claude.wait())
`, 0o600)
	return wrapClaude(t, c, `[ -t 1 ] || exec "$claude" "$@"
exec python3 `+shellLine(filter, word, otherWord)+` "$claude" "$@"`)
}

// withOtherLine has a line "Talk about this" in a question's dialog, for "Chat about this".
func withOtherLine(t *testing.T, c claude) claude { return withOtherWord(t, c, "Chat", "Talk") }

// A Claude Code that does not do what this program relies on is found, and what it means
// is said. What holds with it is not said to be broken.
func TestBrokenClaude_Found(t *testing.T) {
	type standIn struct {
		wrap  func(*testing.T, claude) claude
		holds []string
		// broken says for each contract that does not hold how its meaning begins, and
		// untried which ones cannot be tried therefore.
		broken  map[string]string
		untried []string
	}
	requests := []string{"question.answered", "permission.allowed", "permission.prompt"}
	eachCase(t, bothVersions[:1], map[string]standIn{
		"calls no PermissionRequest": {
			wrap: withoutRequests, holds: []string{"dialog.open"},
			broken: map[string]string{
				requests[0]: "Claude Code takes no answer to a question from Chat.",
				requests[1]: "Permissions cannot be allowed from Chat.",
				requests[2]: "A permission reaches Chat seconds after",
			},
		},
		"calls PermissionRequest late": {
			wrap: withLateRequests, holds: append(requests[:2:2], "dialog.open"),
			broken: map[string]string{requests[2]: "A permission reaches Chat seconds after"},
		},
		"draws the dialog after the hook": {
			wrap: withLateDialogs, holds: requests, untried: []string{"question.terminal"},
			broken: map[string]string{"dialog.open": "The terminal would show nothing"},
		},
		"other members of an event": {
			wrap: withOtherEvents, holds: requests[:2],
			broken: map[string]string{"events.members": "The thread may not say how"},
		},
		"other members of the transcript": {
			wrap: withOtherTranscript, holds: append(requests[:2:2], "events.members", "auto.noted"),
			broken: map[string]string{"transcript.members": "Chat may not say what Claude does"},
		},
		"another name of a menu's line": {
			wrap:   withOtherLine,
			holds:  []string{"question.answered", "dialog.open", "question.terminal", "next.typed"},
			broken: map[string]string{"inject.answered": "Answers cannot be typed"},
		},
	}, func(t *testing.T, c claude, test standIn) {
		want := map[string]claudecheck.Verdict{}
		for id := range test.broken {
			want[id] = claudecheck.Broken
		}
		for _, id := range test.holds {
			want[id] = claudecheck.Holds
		}
		for _, id := range test.untried {
			want[id] = claudecheck.Untried
		}
		check := newCheck(t, test.wrap(t, c).Argv[0])
		check.Only, check.Patience = slices.Collect(maps.Keys(want)), patience/2
		report, err := check.Run(context.Background())
		kit.NoError(t, err)
		kit.Equalf(t, len(report.Findings), len(want), "findings")
		for _, f := range report.Findings {
			t.Logf("%s: %s\n%s\n%s", f.ID, f.Verdict, f.Seen, f.Meaning)
			kit.Equalf(t, f.Verdict, want[f.ID], "%s: %s", f.ID, f.Seen)
			kit.Containsf(t, f.Meaning, test.broken[f.ID], "what it means")
		}
	})
}

// With what the check found, a question is answered from Chat all the same, and the
// dialog of a permission is drawn.
func TestBrokenClaude_FallsBack(t *testing.T) {
	type standIn struct {
		wrap   func(*testing.T, claude) claude
		broken []string
		mode   state.Mode
	}
	eachCase(t, bothVersions[:1], map[string]standIn{
		"calls no PermissionRequest": {
			withoutRequests, []string{state.ContractQuestion, state.ContractPermission}, state.ModeInject,
		},
		"draws the dialog after the hook": {
			withLateDialogs, []string{state.ContractDialog}, state.ModeInject,
		},
		"another name of a menu's line": {
			withOtherLine, []string{state.ContractTyped}, state.ModeNative,
		},
	}, func(t *testing.T, c claude, test standIn) {
		cfg := config{Script: []turn{{questionCall(deployQuestion)}, {bash("mkdir one")}, thanksTurn}}
		if test.mode == state.ModeNative {
			cfg.Env = []string{"GCHAT_ASK_MODE=inject"}
		}
		b := startApproving(t, test.wrap(t, c), cfg)
		b.recordCheck(test.broken...)
		b.Prompt("go ahead")
		b.reply(b.awaitPost("[AskUserQuestion]"), "2")
		b.awaitResult(1, "Rolling deployment")
		kit.Equalf(t, b.loadQuestions()[0].Mode, test.mode, "mode")
		b.Choose("❯ 1. Yes", "1")
		b.awaitResult(2)
		b.checkMade(true, "one")
	})
}
