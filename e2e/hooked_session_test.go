package e2e

import (
	"cmp"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"

	"google.golang.org/api/chat/v1"
)

// buildProgram builds gchat-hooks, once for all tests.
var buildProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.TempDir(), "gchat-hooks")
	return path, bound.Build(path)
})

// A hookedSession is a Claude Code with our hooks and an embedded space: all of the
// product, and the real thing around it.
type hookedSession struct {
	*session
	space    *space.Space
	gate     *postGate
	spaceEnv []string // what leads to the space
	pageURL  string   // its page's address
}

// A starter starts a session of one kind: startAsking, startApproving and so on.
type starter func(*testing.T, claude, config) *hookedSession

// eachSession runs a test in a session of its own on each version, whose model goes ahead.
func eachSession(t *testing.T, versions []string, start starter, cfg config,
	test func(*testing.T, *hookedSession)) {
	eachClaude(t, versions, func(t *testing.T, c claude) {
		b := start(t, c, cfg)
		b.Prompt("go ahead")
		test(t, b)
	})
}

// eachAsked runs a test with a session that asks deployQuestion, and with the message
// that asks it.
func eachAsked(t *testing.T, start starter,
	test func(*testing.T, *hookedSession, *chat.Message)) {
	eachSession(t, testedVersions, start, config{Script: deployScript},
		func(t *testing.T, b *hookedSession) {
			test(t, b, b.awaitPost("[AskUserQuestion]", deployQuestion.Question))
		})
}

// questionEvents are the events that the README has a person register.
var questionEvents = []string{
	"PreToolUse", "PermissionRequest", "PostToolUse", "UserPromptSubmit", "Stop", "SessionEnd",
}

// startAsking starts a session that asks through the embedded space.
func startAsking(t *testing.T, c claude, cfg config) *hookedSession {
	t.Helper()
	if cfg.Hooks == nil {
		cfg.Hooks = questionHooks(t, questionEvents...)
	}
	return startHooked(t, c, cfg)
}

// questionHooks are the hooks of questions, for the given events.
func questionHooks(t testing.TB, events ...string) hooks {
	t.Helper()
	exe := builtProgram(t)
	hooks := hooks{}
	for _, event := range events {
		h := hook{Command: exe + " hook gchat-ask-user-answered", Timeout: 10}
		switch event {
		case "PreToolUse", "PermissionRequest":
			h = hook{
				Matcher: "AskUserQuestion",
				Command: exe + " hook gchat-ask-user-forward",
				Timeout: 86400,
			}
		case "PostToolUse":
			h.Matcher = "AskUserQuestion"
		}
		hooks[event] = []hook{h}
	}
	return hooks
}

func builtProgram(t testing.TB) string {
	t.Helper()
	exe, err := buildProgram()
	if err != nil {
		t.Fatal("build gchat-hooks:", err)
	}
	return exe
}

// startHooked starts a session with an embedded space of its own.
func startHooked(t *testing.T, c claude, cfg config) *hookedSession {
	t.Helper()
	requireIsolation(t)
	chat, err := space.Open(space.Options{IsDirect: cfg.App})
	kit.NoError(t, err)
	b := &hookedSession{space: chat, gate: newPostGate()}
	rules := []strict.Rule{strict.Embedded}
	if cfg.App {
		rules = append(rules, strict.DirectMessage)
	}
	server := httptest.NewServer(b.gate.wrap(strict.CheckRequests(t, chat.Handler(), rules...)))
	t.Cleanup(func() {
		if t.Failed() {
			for _, m := range chat.Messages() {
				t.Logf("space: %s: %q", m.Sender.Name, cmp.Or(m.Text, m.FallbackText))
			}
		}
		b.gate.open()
		server.CloseClientConnections()
		server.Close()
		chat.Close()
	})
	b.spaceEnv = []string{
		"GOOGLE_CHAT_WEBHOOK_URL=" + chat.WebhookURL(server.URL),
		"GCHAT_API_ENDPOINT=" + chat.APIEndpoint(server.URL),
		"GCHAT_ALLOWED_USERS=" + space.PersonName, "GCHAT_POLLER_INTERVAL=0.2",
	}
	if cfg.App {
		b.spaceEnv[0] = "GOOGLE_CHAT_SPACE_ID=" + space.Name
		b.spaceEnv = append(b.spaceEnv, "GCHAT_PUBSUB_SUBSCRIPTION="+space.Subscription,
			"GCHAT_PUBSUB_ENDPOINT="+chat.APIEndpoint(server.URL))
	}
	b.pageURL = chat.PageURL(server.URL)
	cfg.Env = append(slices.Clone(b.spaceEnv), cfg.Env...)
	b.session = startSession(t, c, cfg)
	return b
}

// startBeside starts another session with the same space.
func (b *hookedSession) startBeside(cfg config) *hookedSession {
	b.t.Helper()
	cfg.Env = append(cfg.Env, b.spaceEnv...)
	return &hookedSession{
		session:  startSession(b.t, b.Claude, cfg),
		space:    b.space,
		gate:     b.gate,
		spaceEnv: b.spaceEnv,
		pageURL:  b.pageURL,
	}
}

// deployQuestion is what most sessions ask.
var deployQuestion = question{
	Question: "Which deployment approach should we use?",
	Header:   "Deploy",
	Options: []option{
		{Label: "Blue-green deployment", Description: "Zero downtime with instant rollback."},
		{Label: "Rolling deployment", Description: "Gradual rollout."},
		{Label: "Canary", Description: "Small slice first."},
	},
}

const firstOption = "❯ 1. Blue-green deployment"

var (
	featuresQuestion = multiQuestion("Which features do you want to enable?", "Features",
		option{Label: "Auth", Description: "Sign-in"},
		option{Label: "Billing", Description: "Stripe"},
		option{Label: "Search", Description: "Full text"})
	databaseQuestion = question{
		Question: "Which DB?",
		Header:   "DB",
		Options: []option{
			{Label: "Postgres", Description: "relational"},
			{Label: "SQLite", Description: "embedded"},
		},
	}
	thanksTurn   = turn{textBlock("Thanks, understood.")}
	deployScript = []turn{{questionCall(deployQuestion)}, thanksTurn}
	// twiceScript asks two questions, each after a prompt.
	twiceScript = []turn{
		{questionCall(deployQuestion)}, thanksTurn, {questionCall(databaseQuestion)}, thanksTurn,
	}
)

// multiQuestion returns a question that takes several of its options.
func multiQuestion(text, header string, options ...option) question {
	return question{Question: text, Header: header, MultiSelect: true, Options: options}
}

// checkNoWaiter checks that no waiting hook of the session is left.
func (b *hookedSession) checkNoWaiter() {
	b.t.Helper()
	bound.Until(b.t, "the end of the waiting hook",
		func() bool { return len(b.processes("gchat-ask-user-forward")) == 0 })
}

var askBackTurn = turn{textBlock("The tests pass. Shall I commit?")}

// approveHooks are the hooks of the preset approve.
func approveHooks(t testing.TB) hooks {
	all := questionHooks(t, "PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "StopFailure",
		"SessionEnd")
	exe := shellLine(builtProgram(t))
	all["PermissionRequest"] = []hook{
		{Command: exe + " hook gchat-ask-user-forward", Timeout: 86400},
	}
	all[formEvent] = []hook{{Command: exe + " hook gchat-ask-user-forward", Timeout: 86400}}
	for _, event := range []string{
		"PostToolBatch", "PermissionDenied", "SubagentStop", "ElicitationResult",
	} {
		all[event] = []hook{{Command: exe + " hook gchat-ask-user-answered", Timeout: 10}}
	}
	const dialogs = "permission_prompt|worker_permission_prompt|agent_needs_input|elicitation_dialog|elicitation_url_dialog"
	all["Notification"] = []hook{
		{Matcher: dialogs, Command: exe + " hook gchat-ask-user-forward", Timeout: 10},
	}
	all["Stop"] = append(all["Stop"],
		hook{Command: exe + " hook gchat-ask-user-rewake", Timeout: 86400, AsyncRewake: true})
	all["UserPromptSubmit"] = append(all["UserPromptSubmit"],
		hook{Command: exe + " hook gchat-session-event", Timeout: 10})
	all["SessionStart"] = []hook{
		{Matcher: "fork|resume", Command: exe + " hook gchat-ask-user-answered", Timeout: 10},
	}
	return all
}

// startApproving starts a session whose permissions, plans and next instruction are
// answered from its space.
func startApproving(t *testing.T, c claude, cfg config) *hookedSession {
	t.Helper()
	if cfg.Hooks == nil {
		cfg.Hooks = approveHooks(t)
	}
	return startHooked(t, c, cfg)
}

// writeCall is a call that writes a file of the project.
func writeCall(name string) block {
	return toolCall("Write", map[string]string{"file_path": inProject + name, "content": "x\n"})
}

// killProcess kills the session's processes that were started so.
func (b *hookedSession) killProcess(args string) {
	b.t.Helper()
	if b.killProcesses(args) == 0 {
		b.t.Errorf("no process %q", args)
	}
}

// denyHooks are the hooks of deny mode: those of questions, and the one that wakes the
// session, beside them.
func denyHooks(t testing.TB) hooks {
	h := questionHooks(t, questionEvents...)
	rewake := hook{
		Command:     builtProgram(t) + " hook gchat-ask-user-rewake",
		Timeout:     86400,
		AsyncRewake: true,
	}
	h["Stop"] = append(h["Stop"], rewake)
	rewake.Matcher = "AskUserQuestion"
	h["PreToolUse"] = append(h["PreToolUse"], rewake)
	h["SessionStart"] = []hook{
		{Command: builtProgram(t) + " hook gchat-session-event", Timeout: 10},
	}
	return h
}

// startDenying is a session in deny mode.
func startDenying(t *testing.T, c claude, cfg config) *hookedSession {
	t.Helper()
	if cfg.Hooks == nil {
		cfg.Hooks = denyHooks(t)
	}
	cfg.Env = append(cfg.Env, "GCHAT_ASK_MODE=deny")
	return startHooked(t, c, cfg)
}

var (
	goOnTurn = turn{textBlock("I go on meanwhile.")}
	actTurn  = turn{textBlock("Acting on it.")}
	// denyScript asks a question that is denied, and acts on its answer.
	denyScript = []turn{{questionCall(deployQuestion)}, goOnTurn, actTurn}
)

// reportHooks are the hooks of reports.
func reportHooks(t testing.TB) hooks {
	exe := builtProgram(t)
	h := hooks{}
	add := func(name string, events ...string) {
		for _, event := range events {
			h[event] = []hook{{Command: exe + " hook " + name, Timeout: 10}}
		}
	}
	add("gchat-session-event", "SessionStart", "Stop", "SessionEnd")
	add("gchat-notification-dispatch", "Notification", "SubagentStop", "StopFailure")
	return h
}

// approveAndReportHooks are the hooks of the presets approve and report.
func approveAndReportHooks(t testing.TB) hooks {
	all := approveHooks(t)
	for event, entries := range reportHooks(t) {
		all[event] = append(all[event], entries...)
	}
	return all
}

// runCommand runs a command of ours as the person does in the project, and returns what
// it prints.
func (b *hookedSession) runCommand(args ...string) string {
	b.t.Helper()
	cmd := bound.Command(b.t, builtProgram(b.t), args...)
	cmd.Env, cmd.Dir = b.tmux.env, b.Dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Logf("%v: %v", args, err)
	}
	return string(out)
}

// startInject starts a session whose answers the daemon types.
func startInject(t *testing.T, c claude, cfg config) *hookedSession {
	t.Helper()
	cfg.Env = append(cfg.Env, "GCHAT_ASK_MODE=inject")
	return startAsking(t, c, cfg)
}

// startWithApp starts a session that asks with cards, in a direct message with its Chat
// app.
func startWithApp(t *testing.T, c claude, cfg config) *hookedSession {
	t.Helper()
	cfg.App = true
	return startApproving(t, c, cfg)
}

// permissionDialog is what a permission's dialog says, in both versions.
const permissionDialog = "Do you want to proceed?"
