package hooks

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// What a grant (a yes for a while) allowed is shown in the terminal with the call's
// result, and is in the log of decisions. The grant ends with the session, since the same
// Claude Code may resume it.
func TestPermission_GrantIsShownInTheTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env["GOOGLE_CHAT_WEBHOOK_URL"] = "http://127.0.0.1:1/v1/spaces/x/messages?key=k&token=t"
	g := state.Grant{GrantedAt: time.Now().Add(-time.Minute), EndsAt: time.Now().Add(time.Hour)}
	p, q := w.startWaiting(permissionEvent(w, "s-1", "make"))
	resolvedBy := "yes, by the grant of Ann"
	w.changeQuestion(q, func(q *state.Question) { // in one write, as the poller does
		kit.NoError(t, q.MoveTo(state.Answered, time.Now()))
		q.Answers = map[string]string{q.SubQuestions[0].Question: state.LabelAllow}
		q.Grant, q.Response, q.AnsweredMessage, q.AnsweredByName = &g, &resolvedBy,
			"spaces/x/messages/m", "Ann\n\x1b[31m"
	})
	p.wantDecision("allow", "")
	want := `{"systemMessage":"Allowed by Ann` + "\ufffd" + `[31m until ` +
		g.EndsAt.Local().Format("15:04") + ` (Google Chat)"}` + "\n"
	out := w.runHook(answeredHook, batchEvent(w, "s-1", "make", ""))
	kit.Equal(t, strings.ReplaceAll(out, " \ufffd", "\ufffd"), want)
	kit.Contains(t, kit.ReadFile(t, state.AuditPath(w.getenv)),
		`"replied":"yes, by the grant of Ann"`)
	w.changeQuestion(q, func(q *state.Question) { q.Grant.QuestionID = q.QuestionID })
	w.runHook(answeredHook, namedEvent(t, "Stop", "s-1"))
	w.runHook(answeredHook, namedEvent(t, "SessionEnd", "s-2"))
	kit.True(t, w.reload(q).LastDenialAt.IsZero(), "a turn or another session ended it")
	w.runHook(answeredHook, namedEvent(t, "SessionEnd", "s-1"))
	kit.True(t, !w.reload(q).LastDenialAt.IsZero(), "it outlives its session")
}

// A rule that an organization forbids a person to add is not offered. For any other rule,
// the text says where it is written.
func TestPermission_AlwaysNamesItsPlace(t *testing.T) {
	t.Parallel()
	const only = `{"allowManagedPermissionRulesOnly": true}`
	const here = "Bash(make *) in this project (.claude/settings.local.json)"
	for name, c := range map[string]struct {
		managed, file, git, version, want string
	}{
		"nothing is managed": {"managed-settings.json", "", "", "2.1.332", here},
		"rules are managed":  {"managed-settings.json", only, "", "2.1.332", ""},
		"in a file beside":   {"managed-settings.d/a.json", only, "", "2.1.332", ""},
		"others may be added": {"managed-settings.json",
			`{"allowManagedPermissionRulesOnly": false}`, "", "2.1.332", here},
		"not what it should be": {"managed-settings.json", `{`, "", "2.1.332", here},
		"a worktree of 2.1.332": {"", "", "gitdir: /src/main/.git/worktrees/x\n", "2.1.332",
			"Bash(make *) in the main checkout (/src/main/.claude/settings.local.json)"},
		"a worktree of a later": {"", "", "gitdir: /src/main/.git/worktrees/x\n", "2.2.0",
			"Bash(make *) in the main checkout (/src/main/.claude/settings.local.json)"},
		"a worktree of 2.1.197": {"", "", "gitdir: /src/main/.git/worktrees/x\n", "2.1.197",
			"Bash(make *) in this worktree (.claude/settings.local.json)"},
		"a worktree, not known": {"", "", "gitdir: /src/main/.git/worktrees/x\n", "",
			"Bash(make *) in this worktree, or in its main checkout (.claude/settings.local.json)"},
		"a worktree in between": {"", "", "gitdir: /src/main/.git/worktrees/x\n", "2.1.250",
			"Bash(make *) in this worktree, or in its main checkout (.claude/settings.local.json)"},
		"a submodule of a person": {"", "", "gitdir: ../.git/modules/x\n", "2.1.332", here},
	} {
		w := newWorld(t)
		project, managed := w.env["CLAUDE_PROJECT_DIR"], filepath.Join(w.dir, "managed")
		w.env["CLAUDE_CODE_MANAGED_SETTINGS_PATH"] = managed
		for path, content := range map[string]string{
			filepath.Join(managed, c.managed): c.file, filepath.Join(project, ".git"): c.git,
			filepath.Join(w.dir, "sessions", "7.json"): `{"version":"` + c.version + `"}`,
		} {
			if content != "" {
				writeFile(t, path, content)
			}
		}
		q := &state.Question{Kind: state.KindPermission, ProjectDir: project, ClaudePID: 7}
		w.newHook().completePermission(q, &Event{
			ToolName: "Bash", ToolInput: json.RawMessage(`{"command":"make one"}`),
			TranscriptPath:        LooseText(filepath.Join(w.dir, "projects", "p", "s.jsonl")),
			PermissionSuggestions: json.RawMessage(`[{"type":"addRules","behavior":"allow","destination":"localSettings","rules":[{"toolName":"Bash","ruleContent":"make *"}]}]`),
		}, config.LoadPersonal(w.getenv))
		kit.Equalf(t, q.AlwaysAllows, c.want, "%s", name)
		kit.Equalf(t, len(q.SubQuestions[0].Options) == 3, c.want != "", "%s: offered", name)
	}
}

// No command, no local reply and no file in the project decides a permission. Any program
// of this user could give one, Claude's own included.
func TestPermission_OnlyChatDecides(t *testing.T) {
	t.Parallel()
	w := newChatWorld(t)
	p, thread := w.askPermission(permissionEvent(w, "s-1", "rm -rf /"))
	q := w.onlyOne(w.indexed)
	kit.Must(t, q.Kind == state.KindPermission &&
		!strings.HasPrefix(q.Path, w.env["CLAUDE_PROJECT_DIR"]), "%+v", q)
	for _, name := range []string{q.QuestionID, q.ThreadKey, q.SessionName} {
		w.wantAnswerRefused(name, "yes")
	}
	queue := filepath.Join(w.projectState(), "user-input-queue")
	for _, name := range []string{"s-1", q.SessionID, q.SessionName} {
		writeFile(t, filepath.Join(queue, name+".txt"), "yes")
	}
	w.changeQuestion(q, func(q *state.Question) {
		// as a program does that knows the record's format
		q.Replies = append(q.Replies, state.Reply{MessageName: "shell/x", Sender: state.LocalSender,
			Text: "yes", CreatedAt: time.Now()})
	})
	p.wantUndecided(thread)
}

// A project's webhook gets questions and reports but no permissions: its server could
// allow them.
func TestPermission_ProjectServerDecidesNothing(t *testing.T) {
	t.Parallel()
	w := newChatWorld(t)
	var asked atomic.Int64
	theirs := kit.NewServer(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Error(rw, "{}", http.StatusNotFound)
	}))
	person := kit.JSON(t, map[string]any{
		"webhook_url":  w.env["GOOGLE_CHAT_WEBHOOK_URL"],
		"api_endpoint": w.env["GCHAT_API_ENDPOINT"], "allowed_users": []string{ann.Name},
	})
	for _, name := range []string{"GOOGLE_CHAT_WEBHOOK_URL", "GCHAT_API_ENDPOINT",
		"GCHAT_ALLOWED_USERS"} {
		delete(w.env, name)
	}
	writeFile(t, state.ConfigFile(w.getenv), string(person))
	project := filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "gchat-hooks.json")
	for _, webhook := range []string{theirs.URL + "/v1/spaces/X/messages?key=k&token=t",
		"https://chat.googleapis.com/v1/spaces/X/messages?key=k&token=t"} {
		writeFile(t, project, `{"webhook_url": "`+webhook+`"}`)
		p, thread := w.askPermission(permissionEvent(w, "s-1", "rm -rf "+webhook))
		p.wantUndecided(thread)
	}
	kit.Equalf(t, asked.Load(), 0, "requests to the project's server")
}

// A configuration that is broken or missing, while something is asked or decided, gives
// nobody the right to decide and lets nothing pass.
func TestPermission_BrokenConfigurationAllowsNothing(t *testing.T) {
	t.Parallel()
	w := newChatWorld(t)
	const config = `{"allowed_users": ["users/ann", "users/bob"], "approvers": ["users/ann"], "never_remote": ["Bash(git push*)", "ExitPlanMode"]}`
	delete(w.env, "GCHAT_ALLOWED_USERS")
	path := state.ConfigFile(w.getenv)
	set := func(text string) {
		writeFile(t, path, text)
		if text == "" {
			kit.NoError(t, os.Remove(path))
		}
	}
	for name, broken := range map[string]string{"broken": config[:60], "gone": "",
		"without approvers": `{"allowed_users": ["users/ann", "users/bob"]}`} {
		set(config)
		// what still counts if the file is missing
		w.env["GCHAT_ALLOWED_USERS"] = "users/ann,users/bob"
		p, thread := w.askPermission(permissionEvent(w, "s-1",
			"git push "+strings.ReplaceAll(name, " ", "-")))
		set(broken)
		w.sendAsUser(bob, thread, "yes")
		w.sendAsUser(ann, thread, "yes")
		time.Sleep(500 * time.Millisecond)
		set(config)
		w.sendAsUser(bob, thread, "yes")
		w.sendAsUser(bob, thread, "always")
		p.wantUndecided(thread)

		p, thread = w.askPermission(permissionEvent(w, "s-1",
			"make "+strings.ReplaceAll(name, " ", "-")))
		set(broken)
		w.sendAsUser(bob, thread, "yes")
		time.Sleep(500 * time.Millisecond)
		set(config)
		p.wantUndecided(thread)
	}
	p, thread := w.askPermission(planEvent(w, "s-1", "Delete it all"))
	w.sendAsUser(ann, thread, "yes")
	w.sendAsUser(ann, thread, "yes, auto")
	p.wantUndecided(thread)

	set("") // and the file was read before: nobody decides what is asked meanwhile
	p, thread = w.askPermission(permissionEvent(w, "s-1", "git push meanwhile"))
	w.sendAsUser(bob, thread, "yes")
	time.Sleep(500 * time.Millisecond)
	set(config)
	p.wantUndecided(thread)
}

// A decision is for one call. An equal call is asked again: of the same session, of
// another prompt and of a subagent.
func TestPermission_AnswerIsForOneCall(t *testing.T) {
	t.Parallel()
	w := newChatWorld(t)
	for _, first := range []string{"yes", "no"} {
		command := "make " + first
		p, thread := w.askPermission(permissionEvent(w, "s-1", command))
		w.sendAsUser(ann, thread, first)
		p.awaitOutput()
		for _, kv := range [][]any{{}, {"prompt_id", "another"}, {"agent_id", "a1"}} {
			// the hook would not wait if the first answer were used again
			event := setMembers(w, permissionEvent(w, "s-1", command), kv...)
			p, other := w.askPermission(event)
			p.wantUndecided(other)
			kit.True(t, other != thread, "%q in the thread of another call", kv)
		}
	}
}

// Two registrations of ours (settings and plugin) that get the same event have one call.
// It is asked once and decided once.
func TestPermission_TwoRegistrationsAskOnce(t *testing.T) {
	t.Parallel()
	w := newChatWorld(t)
	plugin := w.withVariables("CLAUDE_PLUGIN_ROOT", "/plugins/gchat-hooks")
	for range 2 { // the second time, the event is another call
		before := len(w.messages("[Permission]"))
		p := w.startHook(forwardHook, permissionEvent(w, "s-1", "make it"))
		other := plugin.startHook(forwardHook, permissionEvent(w, "s-1", "make it"))
		thread := w.awaitNthMessage("[Permission]", before+1).Thread.Name
		time.Sleep(500 * time.Millisecond)
		kit.Equalf(t, len(w.messages("[Permission]")), before+1, "asked")
		w.sendAsUser(ann, thread, "yes")
		one, two := p.awaitOutput(), other.awaitOutput()
		if behavior, _ := readDecision(one + two); behavior != "allow" || one != "" && two != "" {
			t.Errorf("%q and %q", one, two)
		}
	}
}

// If another process locks the folder of records for some seconds, a permission is late
// but not lost.
func TestPermission_WaitsForALockedFolder(t *testing.T) {
	t.Parallel()
	w := newChatWorld(t)
	p, thread := w.askPermission(permissionEvent(w, "s-1", "make one"))
	lock, err := state.TryLock(filepath.Join(filepath.Dir(w.openPermission().Path),
		".locks", "record"))
	kit.NoError(t, err)
	held := w.startHook(forwardHook, permissionEvent(w, "s-1", "make two"))
	time.Sleep(3 * time.Second) // longer than a hook tries once
	lock.Unlock()
	w.sendAsUser(ann, w.awaitNthMessage("[Permission]", 2).Thread.Name, "yes")
	held.wantDecision("allow", "")
	p.wantUndecided(thread)
}

// A plan that is not found or a command that is too long cannot be shown in full. Neither
// can be allowed from Chat.
func TestPermission_PartlyShownIsNotAllowed(t *testing.T) {
	t.Parallel()
	w := newChatWorld(t)
	for _, e := range [][]byte{planEvent(w, "s-1", ""),
		permissionEvent(w, "s-1", "ls "+strings.Repeat("x ", 150<<10))} {
		p, thread := w.askPermission(e)
		for _, text := range []string{"yes", "always", "yes, auto", "1"} {
			w.sendAsUser(ann, thread, text)
		}
		p.wantUndecided(thread)
	}
}

// A decision that cannot be written into the log of decisions allows nothing. A denial
// still counts.
func TestPermission_UnloggedYesIsNone(t *testing.T) {
	t.Parallel()
	w := newChatWorld(t)
	audit := state.AuditPath(w.getenv)
	kit.NoError(t, os.MkdirAll(filepath.Dir(audit), 0o700))
	kit.NoError(t, syscall.Mkfifo(audit, 0o600))
	for reply, want := range map[string]string{"yes": "", "no": "deny"} {
		p, thread := w.askPermission(permissionEvent(w, "s-"+reply, "make "+reply))
		w.sendAsUser(ann, thread, reply)
		p.wantDecision(want, "")
	}
}

// "claude -p" has no person at the keyboard. It does not wait for the next instruction,
// and it waits for a permission only once that is posted.
func TestPermission_UnattendedSession(t *testing.T) {
	t.Parallel()
	for name, variable := range map[string][2]string{
		"2.1.330": {"CLAUDE_CODE_SESSION_ATTENDED", "0"},
		"2.1.197": {"CLAUDE_CODE_ENTRYPOINT", "sdk-cli"},
	} {
		w := newPermissionWorld(t).withVariables("GCHAT_IDLE", "on", variable[0], variable[1])
		kit.Equalf(t, w.runHook(forwardHook, permissionEvent(w, "s-1", "ls")), "",
			"%s: printed", name)
		personal := state.QuestionsIn(state.SpareStateDir(w.getenv))
		qs, _, _ := personal.OfSession("s-1")
		kit.True(t, len(qs) == 1 && qs[0].ResolvedBy == "unposted",
			"%s: the permission that no poller posted: %+v", name, qs)
		w.runHook(rewakeHook, namedEvent(t, "Stop", "s-2", "last_assistant_message", "Shall I?"))
		qs, _, _ = personal.OfSession("s-2")
		kit.Equalf(t, len(qs), 0, "%s: questions at its end", name)
	}
	w := newChatWorld(t)
	w.env["CLAUDE_CODE_SESSION_ATTENDED"] = "0"
	p, thread := w.askPermission(permissionEvent(w, "s-1", "ls"))
	w.sendAsUser(ann, thread, "yes")
	p.wantDecision("allow", "")
}

// Two equal calls at one moment, each with the events of two registrations, are two
// records. Each record is marked as seen by both registrations. No record's lock is taken
// under another record's: see underlock.
func TestPermission_BothRegistrationsSeeEachCall(t *testing.T) {
	t.Parallel()
	w := newPermissionWorld(t)
	plugin := w.withVariables("CLAUDE_PLUGIN_ROOT", "/plugins/gchat-hooks")
	var hooks []*hookProcess
	for range 2 {
		hooks = append(hooks, w.startHook(forwardHook, permissionEvent(w, "s-1", "make it")))
		hooks = append(hooks, plugin.startHook(forwardHook, permissionEvent(w, "s-1", "make it")))
	}
	var qs []*state.Question
	w.waitUntil("each call's record is seen by both", func() bool {
		qs = w.indexed()
		seen := 0
		for _, q := range qs {
			seen += len(q.SeenByHooks)
		}
		return seen == len(hooks)
	})
	kit.True(t, len(qs) == 2 && len(qs[0].SeenByHooks) == 2 && len(qs[1].SeenByHooks) == 2,
		"%d records", len(qs))
	for _, q := range qs {
		w.awaitWaiter(q)
	}
}
