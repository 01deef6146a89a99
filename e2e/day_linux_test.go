package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"gchat-hooks/cli/claudecheck/fakemodel"
	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// dayVariable asks for the whole day, which takes some minutes and prints its times.
const dayVariable = "GCHAT_E2E_DAY"

// awayAfter is longer than a key counts as somebody at the keyboard.
const awayAfter = 125 * time.Second

// quietText is what the page says where nothing waits.
const quietText = "Nothing needs you"

// seenPage is what the page showed from a time on.
type seenPage struct {
	At      int64    // in milliseconds
	Summary string   // how many wait
	Link    string   // "Live", or that the server is out of reach
	Rows    []string // the threads that wait for the person
}

// seenTerminal is what the terminal did from a time on: "" waits for nobody.
type seenTerminal struct {
	at         time.Time
	waitingFor string
}

// dayLine is a line of the table: a wait, or something else that was done.
type dayLine struct {
	step                           string
	start, saidAt, endedAt, goneAt time.Time
	note                           string
}

// A day is one of a person with a terminal in tmux and a phone.
type day struct {
	*hookedSession
	*browser
	lines []*dayLine

	mu       sync.Mutex
	terminal []seenTerminal
}

// A person's day from setup on, in auto mode behind a gateway. It asks that no wait of
// the terminal stays unsaid on the page, and that whoever sits at the keyboard can answer
// there. Its times are printed, for a person to judge.
func TestDay(t *testing.T) {
	if os.Getenv(dayVariable) == "" {
		t.Skip(dayVariable + "=1 runs a whole day")
	}
	d := beginDay(t, findClaude(t, newestVersion))
	desk := d.sitDown(t)
	away := time.Now().Add(awayAfter)

	d.tryPageQuestion()
	d.tryTerminalQuestion()
	d.tryAutoMode()
	d.tryAskRule()
	d.tryPlan()
	d.tryTurnEnd()
	d.tryStopAndClear()
	bound.WaitFor(time.Until(away), func() bool { return false }) // nobody touches the keyboard
	d.tryBackgroundAgent("agent-page", "allow", nil)
	d.tryBackgroundAgent("agent-desk", "", desk)
	d.tryAgentInAutoMode()
	d.tryKillOurs()
	d.tryKillAll()
	d.report()
}

// beginDay installs and sets up as a person does, and starts Claude Code.
func beginDay(t *testing.T, c claude) *day {
	t.Helper()
	path := filepath.Dir(c.Argv[0]) + ":" + os.Getenv("PATH")
	s := startSession(t, c, config{
		Env: []string{"PATH=" + path},
		Prepare: func(t *testing.T, home, _ string) {
			settings := map[string]any{
				"permissions": map[string]any{"ask": []string{"Bash(mkdir:*)"}},
			}
			writeFile(t, filepath.Join(home, ".claude", "settings.json"), settings)
		},
	})
	d := &day{hookedSession: &hookedSession{session: s}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("status:\n%s", d.runCommand("status"))
		}
	})
	s.Quit()
	began := time.Now()
	runIn(t, d.Dir, d.tmux.env, "sh", absPath(t, "../install.sh"), "--binary", builtProgram(t))
	s.Type(filepath.Join(d.Home, "bin",
		"gchat-hooks") + " setup --address 127.0.0.1:" + kit.FreePort(t))
	s.Keys("Enter")
	s.WaitScreen("or press Enter to answer on a page")
	s.Keys("Enter")
	screen := s.WaitScreen("tap ok")
	d.openPage(regexp.MustCompile(`http://\S+`).FindString(screen))
	d.tap("", `[data-option="1"]`, "OK", "ok")
	s.WaitScreen("Also answer permissions and plans")
	s.Keys("Enter")
	enters := 2
	for !strings.Contains(s.Screen(), "Done. Now start claude") {
		screen := s.WaitScreenFunc("a question, or the end", func(screen string) bool {
			last := strings.TrimSpace(screen)
			return strings.Contains(screen, "Done. Now start claude") ||
				strings.HasSuffix(last, "[y/N]")
		})
		if strings.Contains(screen, "Done. Now start claude") {
			break
		}
		s.Keys("Enter")
		enters++
		s.WaitScreenFunc("the answer", func(now string) bool { return now != screen })
	}
	t.Logf("setup, %d times Enter, %v:\n%s", enters, time.Since(began).Round(time.Millisecond),
		s.Screen())
	d.Restart()
	stop := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		d.watchTerminal(stop)
	}()
	t.Cleanup(func() { close(stop); <-watched })
	return d
}

// openPage opens the page in a browser, and has it write down what it says.
func (d *day) openPage(page string) {
	d.t.Helper()
	d.browser = newBrowser(d.t)
	d.t.Cleanup(func() {
		if d.t.Failed() {
			d.t.Logf("the page at %s:\n%s", d.eval(`location.href`),
				d.eval(`document.body.innerText`))
			d.printTable()
		}
	})
	d.do(chromedp.Navigate(page), chromedp.Evaluate[chromedp.Void](`window.seen = []; setInterval(() => {
		const text = (id) => document.getElementById(id).textContent;
		const rows = [...document.querySelectorAll('[data-thread][data-state=open]')].map((row) => row.textContent);
		const now = { Summary: text('summary'), Link: text('link'), Rows: rows };
		if (JSON.stringify({ ...seen.at(-1), At: 0 }) !== JSON.stringify({ ...now, At: 0 })) seen.push({ ...now, At: Date.now() });
	}, 100); undefined`))
}

func (d *day) eval(js string) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.ctx, bound.Patience)
	defer cancel()
	got, err := chromedp.Run(ctx, chromedp.Evaluate[string](js))
	kit.NoError(d.t, err)
	return got
}

// seenPages is what the page said until now.
func (d *day) seenPages() (all []seenPage) {
	d.t.Helper()
	kit.NoError(d.t, json.Unmarshal([]byte(d.eval(`JSON.stringify(seen)`)), &all))
	return all
}

func (d *day) lastPage() seenPage {
	d.t.Helper()
	all := d.seenPages()
	return all[len(all)-1]
}

// isWaiting reports whether the terminal waits now.
func (d *day) isWaiting() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.terminal[len(d.terminal)-1].waitingFor != ""
}

// tap opens a thread that waits, by a part of its row, and clicks what is there first of
// the selector with one of the texts.
func (d *day) tap(row, selector string, texts ...string) {
	d.t.Helper()
	d.openThread(row)
	list := kit.JSON(d.t, append([]string{}, texts...))
	js := fmt.Sprintf(`(() => { const texts = %s;
		const b = [...document.querySelectorAll('#messages ' + %q)].findLast((b) => !b.disabled && b.offsetParent
			&& (texts.length === 0 || texts.some((text) => b.textContent.includes(text))));
		b?.click(); return b ? 'clicked' : ''; })()`, list, selector)
	bound.Until(d.t, "on the page "+selector, func() bool { return d.eval(js) != "" })
}

// openThread opens the thread that waits and whose row holds the text.
func (d *day) openThread(row string) {
	d.t.Helper()
	js := fmt.Sprintf(`(() => { const row = [...document.querySelectorAll('[data-thread][data-state=open]')]
		.find((row) => row.textContent.includes(%q)); if (row) location.hash = row.getAttribute('href'); return row ? 'open' : ''; })()`, row)
	bound.Until(d.t, "a row with "+row, func() bool { return d.eval(js) != "" })
}

// typeReply writes into the session's own thread, or into that of a row that waits.
func (d *day) typeReply(row, prompt string) {
	d.t.Helper()
	if row != "" {
		d.openThread(row)
	} else {
		d.eval(fmt.Sprintf(`location.hash = %q`, "#"+d.threadID()))
	}
	d.do(chromedp.WaitVisible(chromedp.CSS(`#reply`)),
		chromedp.SendKeys(chromedp.CSS(`#reply`), prompt))
	d.do(chromedp.Click(chromedp.CSS(`#send:not(:disabled)`), chromedp.NodeVisible))
}

// loadSession is the running session's.
func (d *day) loadSession() *state.Session {
	d.t.Helper()
	var newest *state.Session
	bound.Until(d.t, "the session has a thread", func() bool {
		all, _ := state.SessionsIn(state.UserStateDir(lookupIn(d.tmux.env))).All()
		for _, one := range all {
			if one.ClaudePID == d.ClaudePID() &&
				(newest == nil || one.LastSeen.After(newest.LastSeen)) {
				newest = one
			}
		}
		return newest != nil && newest.ThreadName != ""
	})
	return newest
}

func (d *day) threadID() string { return filepath.Base(d.loadSession().ThreadName) }

// awaitInThread waits until the session's own thread says something, and returns its
// text.
func (d *day) awaitInThread(parts ...string) {
	d.t.Helper()
	d.eval(fmt.Sprintf(`location.hash = %q`, "#"+d.threadID()))
	bound.Until(d.t, fmt.Sprintf("the session's thread says %q", parts), func() bool {
		return containsAll(d.eval(`document.getElementById('messages').textContent`), parts)
	})
}

// watchTerminal writes down when the terminal waits: by Claude Code's own file, and by
// what a person sees.
func (d *day) watchTerminal(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(200 * time.Millisecond):
		}
		waits := ""
		raw, _ := os.ReadFile(filepath.Join(d.Home, ".claude", "sessions",
			fmt.Sprint(d.ClaudePID())+".json"))
		var own struct{ Status, WaitingFor string }
		if json.Unmarshal(raw, &own) == nil && own.Status == "waiting" && d.isAlive() {
			waits = own.WaitingFor
		}
		if capture, err := d.capture(); err == nil && d.isAlive() &&
			inject.ReadScreen(capture).IsDialog() {
			waits += " (drawn)"
		}
		d.mu.Lock()
		if n := len(d.terminal); n == 0 || d.terminal[n-1].waitingFor != waits {
			d.terminal = append(d.terminal, seenTerminal{time.Now(), waits})
		}
		d.mu.Unlock()
	}
}

func (d *day) isAlive() bool { return syscall.Kill(d.ClaudePID(), 0) == nil }

// waitingSince waits until the terminal is seen to wait, and says since when.
func (d *day) waitingSince() (at time.Time) {
	d.t.Helper()
	bound.Until(d.t, "the terminal waits", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		at = time.Time{}
		for _, s := range slices.Backward(d.terminal) {
			if s.waitingFor == "" {
				break
			}
			at = s.at
		}
		return !at.IsZero()
	})
	return at
}

// awaitOnPage begins a line of the table: the page is to say it, by a row with that text.
func (d *day) awaitOnPage(step, row string, began time.Time) *dayLine {
	d.t.Helper()
	line := &dayLine{step: step, start: began}
	d.lines = append(d.lines, line)
	bound.Until(d.t, "the page says "+step, func() bool {
		all := d.seenPages()
		for i, s := range all {
			has := slices.ContainsFunc(s.Rows,
				func(text string) bool { return strings.Contains(text, row) })
			until := time.Now()
			if i+1 < len(all) {
				until = time.UnixMilli(all[i+1].At)
			}
			if has && until.After(began) {
				line.saidAt = time.UnixMilli(s.At)
				return true
			}
		}
		return false
	})
	d.t.Logf("%s: began %s, page %s", step, timeOfDay(began), timeOfDay(line.saidAt))
	return line
}

// endLine ends a line: it was answered just now, and the page is to say so.
func (d *day) endLine(line *dayLine, row string) {
	d.t.Helper()
	line.endedAt = time.Now()
	bound.Until(d.t, "the page says no more "+line.step, func() bool {
		last := d.lastPage()
		line.goneAt = time.UnixMilli(last.At)
		return !slices.ContainsFunc(last.Rows,
			func(text string) bool { return strings.Contains(text, row) })
	})
}

// logStep adds a line that is no wait.
func (d *day) logStep(step, format string, args ...any) {
	now := time.Now()
	d.lines = append(d.lines, &dayLine{
		step:    step,
		start:   now,
		saidAt:  now,
		endedAt: now,
		goneAt:  now,
		note:    fmt.Sprintf(format, args...),
	})
	d.t.Logf("%s %s: %s", timeOfDay(now), step, fmt.Sprintf(format, args...))
}

func timeOfDay(at time.Time) string { return at.Format("15:04:05.000") }

// prompt gives the model its next turns, and Claude Code a prompt.
func (d *day) prompt(prompt string, turns ...turn) {
	d.t.Helper()
	d.API.AddTurns(turns...)
	d.Prompt(prompt)
}

// askQuestion has Claude ask, and begins a line of the table.
func (d *day) askQuestion(step, prompt string, q question, next string) *dayLine {
	d.t.Helper()
	d.prompt(prompt, turn{questionCall(q)}, turn{textBlock(next)})
	return d.awaitOnPage(step, q.Question, d.waitingSince())
}

// answerOnPage taps an option of the question that waits, and ends its line.
func (d *day) answerOnPage(line *dayLine, q question, option, next string) {
	d.t.Helper()
	d.tap(q.Question, `[data-option="`+option+`"]`)
	d.endLine(line, q.Question)
	d.WaitScreen(next)
}

func (d *day) tryPageQuestion() {
	line := d.askQuestion("a question, answered on the page", "first question", deployQuestion,
		"Canary it is.")
	d.answerOnPage(line, deployQuestion, "3", "Canary it is.")
}

func (d *day) tryTerminalQuestion() {
	line := d.askQuestion("a question, answered at the keyboard", "second question",
		databaseQuestion, "SQLite it is.")
	d.Choose("Enter to select", "2")
	d.endLine(line, databaseQuestion.Question)
	d.WaitScreen("SQLite it is.")
}

func (d *day) tryAutoMode() {
	push := toolCall("Bash", map[string]string{
		"command": "git push --force", "description": "push",
	})
	d.prompt("now push", turn{textBlock("I push."), push}, turn{textBlock("Pushed.")})
	d.approveAutoMode("a push", true)
	d.WaitScreen("Pushed.")
}

const (
	cannotCheck   = "Enter to stay in auto mode"
	needsApproval = "so this one needs your approval"
)

// approveAutoMode allows in the terminal what auto mode cannot check; the first time it
// asks before whether it is to stay.
func (d *day) approveAutoMode(what string, sayYes bool) {
	d.t.Helper()
	screen := d.WaitScreenFunc("that auto mode asks", func(screen string) bool {
		return strings.Contains(screen, cannotCheck) || strings.Contains(screen, needsApproval)
	})
	began := d.waitingSince()
	if strings.Contains(screen, cannotCheck) {
		line := d.awaitOnPage("auto mode cannot check "+what+", at the keyboard", "Claude waits",
			began)
		d.Choose(cannotCheck, "Enter")
		line.endedAt = time.Now()
		d.WaitScreen(needsApproval)
		began = time.Now()
		d.awaitInThread("The terminal no longer waits for this.")
		line.goneAt = time.Now()
	}
	line := d.awaitOnPage("auto mode asks for "+what+", at the keyboard",
		"Claude waits for a permission", began)
	if sayYes {
		d.typeReply("Claude waits", "yes")
		d.awaitInThread("Only the terminal can answer this")
	}
	for strings.Contains(d.WaitScreen(needsApproval), "❯ No") {
		// keys of the first moment may be lost
		d.Keys("Down")
		d.pollScreen(time.Second,
			func(screen string) bool { return !strings.Contains(screen, "❯ No") })
	}
	d.Choose(needsApproval, "Enter")
	d.endLine(line, "Claude waits")
}

func (d *day) tryAskRule() {
	d.prompt("a folder", turn{textBlock("A folder."), bash("mkdir one")},
		turn{textBlock("One is made.")})
	line := d.awaitOnPage("a permission by an ask rule, on the page", "mkdir one", d.waitingSince())
	d.tap("mkdir one", `[data-choice="allow"]`)
	d.endLine(line, "mkdir one")
	d.WaitScreen("One is made.")
	d.prompt("another folder", turn{textBlock("Another."), bash("mkdir two")},
		turn{textBlock("Two is made.")})
	line = d.awaitOnPage("a permission by an ask rule, at the keyboard", "mkdir two",
		d.waitingSince())
	d.Choose("mkdir two", "1")
	d.endLine(line, "mkdir two")
	d.WaitScreen("Two is made.")
}

func (d *day) tryPlan() {
	d.setMode("plan mode on")
	d.API.AddTurns(turn{textBlock("Hm.")}, turn{
		toolCall("ExitPlanMode", map[string]any{"plan": "# The plan"}),
	}, turn{textBlock("The plan is carried out.")})
	d.promptPlan("# The plan\n\n1. do this")
	line := d.awaitOnPage("a plan, on the page", "Plan", d.waitingSince())
	d.tap("Plan", `[data-choice="approve"]`)
	d.endLine(line, "Plan")
	d.WaitScreen("The plan is carried out.")
	d.logStep("after the plan", "the mode line: %s", modeLine(d.Screen()))
	d.setMode("auto mode on")
}

// setMode has the session in a mode, by Shift+Tab.
func (d *day) setMode(line string) {
	d.t.Helper()
	d.WaitIdle()
	bound.Until(d.t, line, func() bool {
		if strings.Contains(d.Screen(), line) {
			return true
		}
		before := d.Screen()
		d.Keys("BTab")
		bound.WaitFor(2*time.Second, func() bool { return d.Screen() != before })
		return false
	})
}

// modeLine is the line below the input box.
func modeLine(screen string) string {
	lines := strings.Split(strings.TrimSpace(screen), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

func (d *day) tryTurnEnd() {
	d.prompt("no question", turn{textBlock("Done, all tests pass.")})
	d.WaitScreen("Done, all tests pass.")
	began := time.Now()
	d.awaitInThread("Done, all tests pass.")
	d.logStep("a turn that ends without a question", "a line in the thread after %v",
		time.Since(began).Round(time.Millisecond))
	d.API.AddTurns(turn{textBlock("They are tagged. Shall I push them?")},
		turn{textBlock("They stay here.")})
	d.typeReply("", "tag them")
	d.WaitScreen("Shall I push them?")
	line := d.awaitOnPage("a turn that ends in a question, words on the page", "Waiting for you",
		time.Now())
	d.typeReply("Waiting for you", "no, leave them")
	d.API.WaitText(d.t, "no, leave them")
	d.endLine(line, "Waiting for you")
	d.WaitScreen("They stay here.")
}

func (d *day) tryStopAndClear() {
	d.API.AddTurns(turn{fakemodel.Silence})
	d.typeReply("", "take your time")
	d.API.WaitText(d.t, "take your time")
	d.awaitBusy()
	began := time.Now()
	d.typeReply("", "/stop")
	d.awaitInThread("Stopped")
	d.WaitIdle()
	d.logStep("/stop", "stopped, and told, after %v", time.Since(began).Round(time.Millisecond))
	d.API.AddTurns(turn{textBlock("Something else, then.")})
	d.typeReply("", "something else")
	d.WaitScreen("Something else, then.")
	before := d.threadID()
	d.typeReply("", "/clear")
	d.WaitScreenFunc("an empty conversation",
		func(screen string) bool { return !strings.Contains(screen, "Something else, then.") })
	d.API.AddTurns(turn{textBlock("A new leaf.")})
	d.typeReply("", "after the clearing")
	d.WaitScreen("A new leaf.")
	d.logStep("/clear", "the thread goes on: %v", before == d.threadID())
}

// tryBackgroundAgent has an agent in the background ask. The reply is tapped on the page,
// or the desk's person presses a key.
func (d *day) tryBackgroundAgent(name, reply string, desk func(...string)) {
	d.prompt("send "+name, turn{agentCall("mkdir " + name)},
		turn{textBlock("I wait for " + name)})
	d.approveAutoMode("the launch of "+name, false)
	var began time.Time
	bound.Until(d.t, "the agent calls", func() bool {
		for _, r := range d.API.Requests() {
			next, ok := r.ErrandTurn()
			if ok && len(next) > 0 && next[0].Type == "tool_use" &&
				strings.Contains(string(next[0].Input), name) {
				began = r.At
			}
		}
		return !began.IsZero()
	})
	line := d.awaitOnPage("a background agent's permission: "+name, "mkdir "+name, began)
	d.WaitScreen("I wait for " + name)
	line.note = fmt.Sprintf("its dialog is drawn: %v",
		strings.Contains(d.Screen(), permissionDialog))
	if reply != "" {
		d.tap("mkdir "+name, `[data-choice="`+reply+`"]`)
	} else {
		key := time.Now()
		desk("send-keys", "x")
		d.WaitScreen(permissionDialog)
		line.note += fmt.Sprintf("; a key draws it after %v",
			time.Since(key).Round(time.Millisecond))
		d.Choose("❯ 1. Yes", "1")
	}
	d.endLine(line, "mkdir "+name)
	d.awaitMade(name)
	if reply == "" {
		d.WaitScreen("x")
		d.Keys("C-u")
	}
	d.WaitIdle()
}

// tryAgentInAutoMode has a background agent do what auto mode would check.
func (d *day) tryAgentInAutoMode() {
	d.prompt("send the pusher", turn{agentCall("git push --force origin x")},
		turn{textBlock("I wait for the pusher.")})
	d.approveAutoMode("the launch of a pusher", false)
	d.WaitScreen("I wait for the pusher.")
	if !bound.WaitFor(20*time.Second, d.isWaiting) {
		d.logStep("a background agent in auto mode", "no dialog in 20 s; the agent was told %q",
			d.API.ToolResults()[len(d.API.ToolResults())-1].Text)
		return
	}
	d.t.Log(d.Screen())
	line := d.awaitOnPage("a background agent's action in auto mode", "", d.waitingSince())
	d.t.Log(d.Screen())
	for bound.WaitFor(time.Second, d.isWaiting) {
		d.Keys("Escape")
		bound.WaitFor(2*time.Second, func() bool { return false })
	}
	d.endLine(line, "")
}

// killMatching kills -9 the processes of the day whose command line holds one of the
// parts.
func (d *day) killMatching(parts ...string) (killed []string) {
	d.t.Helper()
	for _, p := range markedProcesses(sessionVariable + "=" + d.processMark) {
		line := p.String()
		if slices.ContainsFunc(parts, func(w string) bool { return strings.Contains(line, w) }) &&
			!strings.Contains(line, "tmux") {
			killed = append(killed, line)
			p.Signal(syscall.SIGKILL)
			p.Exited(bound.Patience)
		}
		p.Close()
	}
	return killed
}

// tryKillOurs kills all of ours while a question waits, and once more while an approval
// of auto mode does.
func (d *day) tryKillOurs() {
	line := d.askQuestion("a question; then kill -9 of poller and page", "third question",
		deployQuestion, "Once more canary.")
	d.t.Logf("ours: %q", d.processes("gchat-hooks"))
	line.note = fmt.Sprintf("killed %d",
		len(d.killMatching("gchat-hooks poller", "gchat-hooks space")))
	killed := time.Now()
	bound.Until(d.t, "the page is back", func() bool {
		last := d.lastPage()
		return last.Link == "Live" && time.UnixMilli(last.At).After(killed)
	})
	line.note += fmt.Sprintf("; the page is back after %v",
		time.Since(killed).Round(10*time.Millisecond))
	d.answerOnPage(line, deployQuestion, "3", "Once more canary.")
}

func (d *day) tryKillAll() {
	line := d.askQuestion("a question; then kill -9 of everything", "fourth question",
		databaseQuestion, "Never said.")
	killed := d.killMatching("gchat-hooks", "/claude")
	line.note = fmt.Sprintf("killed %d", len(killed))
	d.t.Logf("killed: %q", killed)
	d.WaitScreen("Killed")
	line.endedAt = time.Now()
	bound.Until(d.t, "the page sees that", func() bool { return d.lastPage().Link != "Live" })
	began := time.Now()
	d.API.DropTurns()
	// a Claude Code that was killed leaves the terminal as it had it
	d.Type("stty sane; echo it echoes")
	d.Keys("C-j")
	d.WaitScreen("it echoes")
	d.Restart("--continue")
	d.t.Logf("resumed:\n%s\nours: %q", d.Screen(), d.processes("gchat-hooks"))
	back := func() bool { return d.lastPage().Link == "Live" }
	byItself := bound.WaitFor(5*time.Second, back)
	d.logStep("claude --continue", "the page is back by itself: %v", byItself)
	if !byItself {
		out := d.runCommand("status")
		d.t.Logf("status:\n%s", out)
		d.logStep("gchat-hooks status", "the page is back: %v", bound.WaitFor(10*time.Second, back))
	}
	d.endLine(line, databaseQuestion.Question)
	line.note += fmt.Sprintf("; closed on the page %v after the restart",
		time.Since(began).Round(time.Millisecond))
	line = d.askQuestion("a question after the restart", "fifth question", deployQuestion,
		"For the last time.")
	d.answerOnPage(line, deployQuestion, "2", "For the last time.")
	d.typeReply("", "good night")
	d.WaitScreen("All done.")
}

// report prints the table, and fails where the page said for too long that nothing waits.
func (d *day) report() {
	if longest := d.printTable(); longest > 10*time.Second {
		d.t.Errorf("for %v", longest)
	}
}

// printTable prints the table, and the longest time in which the page said that nothing
// waits while the terminal waited.
func (d *day) printTable() (longest time.Duration) {
	var b strings.Builder
	for _, l := range d.lines {
		fmt.Fprintf(&b, "| %s | %s | %s | %v | %s | %v | %s |\n", l.step,
			timeOfDay(l.start), timeOfDay(l.saidAt), l.saidAt.Sub(l.start).Round(10*time.Millisecond),
			timeOfDay(l.endedAt), l.goneAt.Sub(l.endedAt).Round(10*time.Millisecond), l.note)
	}
	d.mu.Lock()
	all, terminal := slices.Clone(d.terminal), slices.Clone(d.terminal)
	d.mu.Unlock()
	pages := d.seenPages()
	var when time.Time
	terminal = slices.CompactFunc(terminal,
		func(a, b seenTerminal) bool { return (a.waitingFor == "") == (b.waitingFor == "") })
	for i, s := range terminal {
		end := time.Now()
		if i+1 < len(terminal) {
			end = terminal[i+1].at
		}
		for j, p := range pages {
			from, to := time.UnixMilli(p.At), time.Now()
			if j+1 < len(pages) {
				to = time.UnixMilli(pages[j+1].At)
			}
			from, to = laterOf(from, s.at), earlierOf(to, end)
			if s.waitingFor != "" && p.Summary == quietText && to.Sub(from) > longest {
				longest, when = to.Sub(from), from
			}
		}
	}
	d.t.Logf("| step | began | page said | after | answered | page took it back after | |\n%s\n"+
		"longest time in which the page said %q while the terminal waited: %v, at %s",
		b.String(), quietText, longest.Round(10*time.Millisecond), timeOfDay(when))
	for _, s := range all {
		d.t.Logf("terminal %s %q", timeOfDay(s.at), s.waitingFor)
	}
	for _, p := range pages {
		d.t.Logf("page %s %q %q %q", timeOfDay(time.UnixMilli(p.At)), p.Summary, p.Link, p.Rows)
	}
	return longest
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlierOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
