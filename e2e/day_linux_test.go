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

	"gchat-hooks/e2e/bound"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// dayVar asks for the whole day, which takes some minutes and prints its times.
const dayVar = "GCHAT_E2E_DAY"

// awayAfter is longer than a key counts as somebody at the keyboard.
const awayAfter = 125 * time.Second

// quiet is what the page says where nothing waits.
const quiet = "Nothing waits for you"

// seenPage is what the page showed from a time on.
type seenPage struct {
	At      int64    // in milliseconds
	Summary string   // how many wait
	Link    string   // "Live", or that the server is out of reach
	Rows    []string // the threads that wait for the person
}

// seenTerminal is what the terminal did from a time on: "" waits for nobody.
type seenTerminal struct {
	at    time.Time
	waits string
}

// dayLine is a line of the table: a wait, or something else that was done.
type dayLine struct {
	step                     string
	began, said, ended, gone time.Time
	note                     string
}

// A day is one of a person with a terminal in tmux and a phone.
type day struct {
	*bridge
	ctx   context.Context // of the page's browser
	lines []*dayLine

	mu       sync.Mutex
	terminal []seenTerminal
	pages    []seenPage // of documents that were left
}

// A person's day from setup on, in auto mode behind a gateway. It asks that no wait of the terminal stays unsaid on the page, and
// that whoever sits at the keyboard can answer there. Its times are printed, for a person to judge.
func TestADay(t *testing.T) {
	if os.Getenv(dayVar) == "" {
		t.Skip(dayVar + "=1 runs a whole day")
	}
	d := beginDay(t, findClaude(t, newest))
	desk := d.sitDown(t)
	away := time.Now().Add(awayAfter)

	d.askedOnThePage()
	d.askedInTheTerminal()
	d.autoMode()
	d.askRule()
	d.plan()
	d.turnEnds()
	d.stopAndClear()
	bound.Soon(time.Until(away), func() bool { return false }) // nobody touches the keyboard
	d.backgroundAgent("agent-page", "allow", nil)
	d.backgroundAgent("agent-desk", "", desk)
	d.agentInAutoMode()
	d.killOurs()
	d.killAll()
	d.report()
}

// beginDay installs and sets up as a person does, and starts Claude Code.
func beginDay(t *testing.T, c claude) *day {
	t.Helper()
	path := filepath.Dir(c.Argv[0]) + ":" + os.Getenv("PATH")
	s := start(t, c, config{Env: []string{"PATH=" + path}, Prepare: func(home, _ string) {
		settings := map[string]any{"permissions": map[string]any{"ask": []string{"Bash(mkdir:*)"}}}
		writeFile(t, filepath.Join(home, ".claude", "settings.json"), settings)
	}})
	d := &day{bridge: &bridge{session: s}}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(d.Home, ".claude", "logs", "gchat-hooks.log"))
			t.Logf("log of the hooks:\n%s\nstatus:\n%s", log, d.run("status"))
		}
	})
	s.Quit()
	began := time.Now()
	cmd := bound.Command(t, "sh", abs(t, "../install.sh"), "--binary", built(t))
	cmd.Dir, cmd.Env = d.Dir, d.tmux.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("install: %v\n%s", err, out)
	}
	s.Type(filepath.Join(d.Home, "bin", "gchat-hooks") + " setup --address 127.0.0.1:" + freePort(t))
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
			return strings.Contains(screen, "Done. Now start claude") || strings.HasSuffix(last, "[y/N]")
		})
		if strings.Contains(screen, "Done. Now start claude") {
			break
		}
		s.Keys("Enter")
		enters++
		s.WaitScreenFunc("the answer", func(now string) bool { return now != screen })
	}
	t.Logf("setup, %d times Enter, %v:\n%s", enters, time.Since(began).Round(time.Millisecond), s.Screen())
	d.Again()
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
	home := d.t.TempDir()
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), chromedp.UserDataDir(d.t.TempDir()),
		chromedp.Env("HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck)
	d.t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	d.t.Cleanup(func() {
		chromedp.Cancel(ctx)
		cancel()
	})
	d.ctx = ctx
	d.t.Cleanup(func() {
		if d.t.Failed() {
			d.t.Logf("the page at %s:\n%s", d.eval(`location.href`), d.eval(`document.body.innerText`))
			d.table()
		}
	})
	d.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateScale(2), chromedp.EmulateMobile), chromedp.Navigate(page))
	d.do(chromedp.Evaluate[chromedp.Void](`window.seen = []; setInterval(() => {
		const text = (id) => document.getElementById(id).textContent;
		const rows = [...document.querySelectorAll('[data-thread][data-state=open]')].map((row) => row.textContent);
		const now = { Summary: text('summary'), Link: text('link'), Rows: rows };
		if (JSON.stringify({ ...seen.at(-1), At: 0 }) !== JSON.stringify({ ...now, At: 0 })) seen.push({ ...now, At: Date.now() });
	}, 100); undefined`))
}

func (d *day) do(actions ...chromedp.Action[chromedp.Void]) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.ctx, bound.Patience)
	defer cancel()
	if len(d.pages) == 0 {
		ctx = d.ctx
		d.pages = append(d.pages, seenPage{}) // the first call must have no bound
	}
	if err := chromedp.Do(ctx, actions...); err != nil {
		d.t.Fatalf("browser: %v", err)
	}
}

func (d *day) eval(js string) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.ctx, bound.Patience)
	defer cancel()
	got, err := chromedp.Run(ctx, chromedp.Evaluate[string](js))
	if err != nil {
		d.t.Fatalf("browser: %s: %v", js, err)
	}
	return got
}

// seen is what the page said until now.
func (d *day) seen() (all []seenPage) {
	d.t.Helper()
	if err := json.Unmarshal([]byte(d.eval(`JSON.stringify(seen)`)), &all); err != nil {
		d.t.Fatal(err)
	}
	return all
}

// tap opens a thread that waits, by a part of its row, and clicks what is there first of the selector with one of the texts.
func (d *day) tap(row, selector string, texts ...string) {
	d.t.Helper()
	d.open(row)
	list, _ := json.Marshal(append([]string{}, texts...))
	js := fmt.Sprintf(`(() => { const texts = %s;
		const b = [...document.querySelectorAll('#messages ' + %q)].findLast((b) => !b.disabled && b.offsetParent
			&& (texts.length === 0 || texts.some((text) => b.textContent.includes(text))));
		b?.click(); return b ? 'clicked' : ''; })()`, list, selector)
	bound.Until(d.t, "on the page "+selector, func() bool { return d.eval(js) != "" })
}

// open opens the thread that waits and whose row holds the text.
func (d *day) open(row string) {
	d.t.Helper()
	js := fmt.Sprintf(`(() => { const row = [...document.querySelectorAll('[data-thread][data-state=open]')]
		.find((row) => row.textContent.includes(%q)); if (row) location.hash = row.getAttribute('href'); return row ? 'open' : ''; })()`, row)
	bound.Until(d.t, "a row with "+row, func() bool { return d.eval(js) != "" })
}

// write writes into the session's own thread, or into that of a row that waits.
func (d *day) write(row, words string) {
	d.t.Helper()
	if row != "" {
		d.open(row)
	} else {
		d.eval(fmt.Sprintf(`location.hash = %q`, "#"+d.threadID()))
	}
	d.do(chromedp.WaitVisible(chromedp.CSS(`#reply`)), chromedp.SendKeys(chromedp.CSS(`#reply`), words))
	d.do(chromedp.Click(chromedp.CSS(`#send:not(:disabled)`), chromedp.NodeVisible))
}

func (d *day) env(name string) string {
	for _, pair := range slices.Backward(d.tmux.env) {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

// record is the running session's.
func (d *day) record() *state.Session {
	d.t.Helper()
	var newest *state.Session
	bound.Until(d.t, "the session has a thread", func() bool {
		all, _ := state.SessionsIn(state.UserState(d.env)).All()
		for _, one := range all {
			if one.ClaudePID == d.ClaudePID() && (newest == nil || one.LastSeen.After(newest.LastSeen)) {
				newest = one
			}
		}
		return newest != nil && newest.ThreadName != ""
	})
	return newest
}

func (d *day) threadID() string { return filepath.Base(d.record().ThreadName) }

// said waits until the session's own thread says something, and returns its text.
func (d *day) said(parts ...string) {
	d.t.Helper()
	d.eval(fmt.Sprintf(`location.hash = %q`, "#"+d.threadID()))
	bound.Until(d.t, fmt.Sprintf("the session's thread says %q", parts), func() bool {
		return holdsAll(d.eval(`document.getElementById('messages').textContent`), parts)
	})
}

// watchTerminal writes down when the terminal waits: by Claude Code's own file, and by what a person sees.
func (d *day) watchTerminal(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(200 * time.Millisecond):
		}
		waits := ""
		raw, _ := os.ReadFile(filepath.Join(d.Home, ".claude", "sessions", fmt.Sprint(d.ClaudePID())+".json"))
		var own struct{ Status, WaitingFor string }
		if json.Unmarshal(raw, &own) == nil && own.Status == "waiting" && d.alive() {
			waits = own.WaitingFor
		}
		if capture, err := d.capture(); err == nil && d.alive() && inject.ReadScreen(capture).Dialog() {
			waits += " (drawn)"
		}
		d.mu.Lock()
		if n := len(d.terminal); n == 0 || d.terminal[n-1].waits != waits {
			d.terminal = append(d.terminal, seenTerminal{time.Now(), waits})
		}
		d.mu.Unlock()
	}
}

func (d *day) alive() bool { return syscall.Kill(d.ClaudePID(), 0) == nil }

// waitsSince waits until the terminal is seen to wait, and says since when.
func (d *day) waitsSince() (at time.Time) {
	d.t.Helper()
	bound.Until(d.t, "the terminal waits", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		at = time.Time{}
		for _, s := range slices.Backward(d.terminal) {
			if s.waits == "" {
				break
			}
			at = s.at
		}
		return !at.IsZero()
	})
	return at
}

// wait begins a line of the table: the page is to say it, by a row with that text.
func (d *day) wait(step, row string, began time.Time) *dayLine {
	d.t.Helper()
	line := &dayLine{step: step, began: began}
	d.lines = append(d.lines, line)
	bound.Until(d.t, "the page says "+step, func() bool {
		all := d.seen()
		for i, s := range all {
			has := slices.ContainsFunc(s.Rows, func(text string) bool { return strings.Contains(text, row) })
			until := time.Now()
			if i+1 < len(all) {
				until = time.UnixMilli(all[i+1].At)
			}
			if has && until.After(began) {
				line.said = time.UnixMilli(s.At)
				return true
			}
		}
		return false
	})
	d.t.Logf("%s: began %s, page %s", step, clock(began), clock(line.said))
	return line
}

// over ends a line: it was answered just now, and the page is to say so.
func (d *day) over(line *dayLine, row string) {
	d.t.Helper()
	line.ended = time.Now()
	bound.Until(d.t, "the page says no more "+line.step, func() bool {
		all := d.seen()
		last := all[len(all)-1]
		line.gone = time.UnixMilli(last.At)
		return !slices.ContainsFunc(last.Rows, func(text string) bool { return strings.Contains(text, row) })
	})
}

// tell adds a line that is no wait.
func (d *day) tell(step, format string, args ...any) {
	now := time.Now()
	d.lines = append(d.lines, &dayLine{step: step, began: now, said: now, ended: now, gone: now, note: fmt.Sprintf(format, args...)})
	d.t.Logf("%s %s: %s", clock(now), step, fmt.Sprintf(format, args...))
}

func clock(at time.Time) string { return at.Format("15:04:05.000") }

// prompt gives the model its next turns, and Claude Code a prompt.
func (d *day) prompt(words string, turns ...turn) {
	d.t.Helper()
	d.API.Script(turns...)
	d.Prompt(words)
}

func (d *day) askedOnThePage() {
	d.prompt("first question", turn{ask(deploy)}, turn{say("Canary it is.")})
	line := d.wait("a question, answered on the page", deploy.Question, d.waitsSince())
	d.tap(deploy.Question, `[data-option="3"]`)
	d.over(line, deploy.Question)
	d.WaitScreen("Canary it is.")
}

func (d *day) askedInTheTerminal() {
	d.prompt("second question", turn{ask(database)}, turn{say("SQLite it is.")})
	line := d.wait("a question, answered at the keyboard", database.Question, d.waitsSince())
	d.Choose("Enter to select", "2")
	d.over(line, database.Question)
	d.WaitScreen("SQLite it is.")
}

func (d *day) autoMode() {
	push := call("Bash", map[string]string{"command": "git push --force", "description": "push"})
	d.prompt("now push", turn{say("I push."), push}, turn{say("Pushed.")})
	d.approve("a push", true)
	d.WaitScreen("Pushed.")
}

const (
	cannotCheck   = "Enter to stay in auto mode"
	needsApproval = "so this one needs your approval"
)

// approve allows in the terminal what auto mode cannot check; the first time it asks before whether it is to stay.
func (d *day) approve(what string, sayYes bool) {
	d.t.Helper()
	screen := d.WaitScreenFunc("that auto mode asks", func(screen string) bool {
		return strings.Contains(screen, cannotCheck) || strings.Contains(screen, needsApproval)
	})
	began := d.waitsSince()
	if strings.Contains(screen, cannotCheck) {
		line := d.wait("auto mode cannot check "+what+", at the keyboard", "Claude waits", began)
		d.Choose(cannotCheck, "Enter")
		line.ended = time.Now()
		d.WaitScreen(needsApproval)
		began = time.Now()
		d.said("The terminal waits for this no more.")
		line.gone = time.Now()
	}
	line := d.wait("auto mode asks for "+what+", at the keyboard", "Claude waits for a permission", began)
	if sayYes {
		d.write("Claude waits", "yes")
		d.said("Claude waits in the terminal, and only there")
	}
	for strings.Contains(d.WaitScreen(needsApproval), "❯ No") { // keys of the first moment may be lost
		d.Keys("Down")
		d.look(time.Second, func(screen string) bool { return !strings.Contains(screen, "❯ No") })
	}
	d.Choose(needsApproval, "Enter")
	d.over(line, "Claude waits")
}

func (d *day) askRule() {
	d.prompt("a folder", turn{say("A folder."), bash("mkdir one")}, turn{say("One is made.")})
	line := d.wait("a permission by an ask rule, on the page", "mkdir one", d.waitsSince())
	d.tap("mkdir one", `[data-choice="allow"]`)
	d.over(line, "mkdir one")
	d.WaitScreen("One is made.")
	d.prompt("another folder", turn{say("Another."), bash("mkdir two")}, turn{say("Two is made.")})
	line = d.wait("a permission by an ask rule, at the keyboard", "mkdir two", d.waitsSince())
	d.Choose("mkdir two", "1")
	d.over(line, "mkdir two")
	d.WaitScreen("Two is made.")
}

func (d *day) plan() {
	d.mode("plan mode on")
	d.API.Script(turn{say("Hm.")}, turn{call("ExitPlanMode", map[string]any{"plan": "# The plan"})}, turn{say("The plan is carried out.")})
	d.thinks("# The plan\n\n1. do this")
	d.Prompt("go ahead")
	line := d.wait("a plan, on the page", "Plan", d.waitsSince())
	d.tap("Plan", `[data-choice="approve"]`)
	d.over(line, "Plan")
	d.WaitScreen("The plan is carried out.")
	d.tell("after the plan", "the mode line: %s", modeLine(d.Screen()))
	d.mode("auto mode on")
}

// mode has the session in a mode, by Shift+Tab.
func (d *day) mode(line string) {
	d.t.Helper()
	d.WaitIdle()
	bound.Until(d.t, line, func() bool {
		if strings.Contains(d.Screen(), line) {
			return true
		}
		before := d.Screen()
		d.Keys("BTab")
		bound.Soon(2*time.Second, func() bool { return d.Screen() != before })
		return false
	})
}

// modeLine is the line below the input box.
func modeLine(screen string) string {
	lines := strings.Split(strings.TrimSpace(screen), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

func (d *day) turnEnds() {
	d.prompt("no question", turn{say("Done, all tests pass.")})
	d.WaitScreen("Done, all tests pass.")
	began := time.Now()
	d.said("Done, all tests pass.")
	d.tell("a turn that ends without a question", "a line in the thread after %v", time.Since(began).Round(time.Millisecond))
	d.API.Script(turn{say("They are tagged. Shall I push them?")}, turn{say("They stay here.")})
	d.write("", "tag them")
	d.WaitScreen("Shall I push them?")
	line := d.wait("a turn that ends in a question, words on the page", "Waiting for you", time.Now())
	d.write("Waiting for you", "no, leave them")
	d.API.WaitText(d.t, "no, leave them")
	d.over(line, "Waiting for you")
	d.WaitScreen("They stay here.")
}

func (d *day) stopAndClear() {
	d.API.Script(turn{silence})
	d.write("", "take your time")
	d.API.WaitText(d.t, "take your time")
	d.busy()
	began := time.Now()
	d.write("", "/stop")
	d.said("Stopped")
	d.WaitIdle()
	d.tell("/stop", "stopped, and told, after %v", time.Since(began).Round(time.Millisecond))
	d.API.Script(turn{say("Something else, then.")})
	d.write("", "something else")
	d.WaitScreen("Something else, then.")
	before := d.threadID()
	d.write("", "/clear")
	d.WaitScreenFunc("an empty conversation", func(screen string) bool { return !strings.Contains(screen, "Something else, then.") })
	d.API.Script(turn{say("A new leaf.")})
	d.write("", "after the clearing")
	d.WaitScreen("A new leaf.")
	d.tell("/clear", "the thread goes on: %v", before == d.threadID())
}

// backgroundAgent has an agent in the background ask. The reply is tapped on the page, or the desk's person presses a key.
func (d *day) backgroundAgent(name, reply string, desk func(...string)) {
	d.prompt("send "+name, turn{sent("mkdir " + name)}, turn{say("I wait for " + name)})
	d.approve("the launch of "+name, false)
	var began time.Time
	bound.Until(d.t, "the agent calls", func() bool {
		for _, r := range d.API.Requests() {
			next, ok := r.errandTurn()
			if ok && len(next) > 0 && next[0].Type == "tool_use" && strings.Contains(string(next[0].Input), name) {
				began = r.At
			}
		}
		return !began.IsZero()
	})
	line := d.wait("a background agent's permission: "+name, "mkdir "+name, began)
	d.WaitScreen("I wait for " + name)
	line.note = fmt.Sprintf("its dialog is drawn: %v", strings.Contains(d.Screen(), dialogOf))
	if reply != "" {
		d.tap("mkdir "+name, `[data-choice="`+reply+`"]`)
	} else {
		key := time.Now()
		desk("send-keys", "x")
		d.WaitScreen(dialogOf)
		line.note += fmt.Sprintf("; a key draws it after %v", time.Since(key).Round(time.Millisecond))
		d.Choose("❯ 1. Yes", "1")
	}
	d.over(line, "mkdir "+name)
	bound.Until(d.t, "the folder", func() bool { return d.isMade(name) })
	if reply == "" {
		d.WaitScreen("x")
		d.Keys("C-u")
	}
	d.WaitIdle()
}

// agentInAutoMode has a background agent do what auto mode would check.
func (d *day) agentInAutoMode() {
	d.prompt("send the pusher", turn{sent("git push --force origin x")}, turn{say("I wait for the pusher.")})
	d.approve("the launch of a pusher", false)
	d.WaitScreen("I wait for the pusher.")
	asked := bound.Soon(20*time.Second, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.terminal[len(d.terminal)-1].waits != ""
	})
	if !asked {
		d.tell("a background agent in auto mode", "no dialog in 20 s; the agent was told %q", d.API.ToolResults()[len(d.API.ToolResults())-1].Text)
		return
	}
	d.t.Log(d.Screen())
	line := d.wait("a background agent's action in auto mode", "", d.waitsSince())
	d.t.Log(d.Screen())
	for bound.Soon(time.Second, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.terminal[len(d.terminal)-1].waits != ""
	}) {
		d.Keys("Escape")
		bound.Soon(2*time.Second, func() bool { return false })
	}
	d.over(line, "")
}

// kill kills -9 the processes of the day whose command line holds one of the words.
func (d *day) kill(words ...string) (killed []string) {
	d.t.Helper()
	for _, p := range marked(sessionVar + "=" + d.mark) {
		line := p.String()
		if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(line, w) }) && !strings.Contains(line, "tmux") {
			killed = append(killed, line)
			p.Signal(syscall.SIGKILL)
			p.Exited(bound.Patience)
		}
		p.Close()
	}
	return killed
}

// processes are the day's processes of ours.
func (d *day) processes() (all []string) {
	for _, p := range marked(sessionVar + "=" + d.mark) {
		if line := p.String(); strings.Contains(line, "gchat-hooks") {
			all = append(all, line)
		}
		p.Close()
	}
	return all
}

// killOurs kills all of ours while a question waits, and once more while an approval of auto mode does.
func (d *day) killOurs() {
	d.prompt("third question", turn{ask(deploy)}, turn{say("Once more canary.")})
	line := d.wait("a question; then kill -9 of poller and page", deploy.Question, d.waitsSince())
	d.t.Logf("ours: %q", d.processes())
	line.note = fmt.Sprintf("killed %d", len(d.kill("gchat-hooks poller", "gchat-hooks space")))
	killed := time.Now()
	bound.Until(d.t, "the page is back", func() bool {
		all := d.seen()
		last := all[len(all)-1]
		return last.Link == "Live" && time.UnixMilli(last.At).After(killed)
	})
	line.note += fmt.Sprintf("; the page is back after %v", time.Since(killed).Round(10*time.Millisecond))
	d.tap(deploy.Question, `[data-option="3"]`)
	d.over(line, deploy.Question)
	d.WaitScreen("Once more canary.")
}

func (d *day) killAll() {
	d.prompt("fourth question", turn{ask(database)}, turn{say("Never said.")})
	line := d.wait("a question; then kill -9 of everything", database.Question, d.waitsSince())
	killed := d.kill("gchat-hooks", "/claude")
	line.note = fmt.Sprintf("killed %d", len(killed))
	d.t.Logf("killed: %q", killed)
	d.WaitScreen("Killed")
	line.ended = time.Now()
	bound.Until(d.t, "the page sees that", func() bool {
		all := d.seen()
		return all[len(all)-1].Link != "Live"
	})
	began := time.Now()
	d.API.mu.Lock()
	d.API.script = nil
	d.API.played = 0
	d.API.mu.Unlock()
	d.Type("stty sane; echo it echoes") // a Claude Code that was killed leaves the terminal as it had it
	d.Keys("C-j")
	d.WaitScreen("it echoes")
	d.Again("--continue")
	d.t.Logf("resumed:\n%s\nours: %q", d.Screen(), d.processes())
	back := func() bool {
		all := d.seen()
		return all[len(all)-1].Link == "Live"
	}
	byItself := bound.Soon(5*time.Second, back)
	d.tell("claude --continue", "the page is back by itself: %v", byItself)
	if !byItself {
		out := d.run("status")
		d.t.Logf("status:\n%s", out)
		d.tell("gchat-hooks status", "the page is back: %v", bound.Soon(10*time.Second, back))
	}
	d.over(line, database.Question)
	line.note += fmt.Sprintf("; closed on the page %v after the restart", time.Since(began).Round(time.Millisecond))
	d.prompt("fifth question", turn{ask(deploy)}, turn{say("For the last time.")})
	line = d.wait("a question after the restart", deploy.Question, d.waitsSince())
	d.tap(deploy.Question, `[data-option="2"]`)
	d.over(line, deploy.Question)
	d.WaitScreen("For the last time.")
	d.write("", "good night")
	d.WaitScreen("All done.")
}

// report prints the table, and fails where the page said for too long that nothing waits.
func (d *day) report() {
	if longest := d.table(); longest > 10*time.Second {
		d.t.Errorf("for %v", longest)
	}
}

// table prints the table, and the longest time in which the page said that nothing waits while the terminal waited.
func (d *day) table() (longest time.Duration) {
	var b strings.Builder
	for _, l := range d.lines {
		fmt.Fprintf(&b, "| %s | %s | %s | %v | %s | %v | %s |\n", l.step, clock(l.began), clock(l.said),
			l.said.Sub(l.began).Round(10*time.Millisecond), clock(l.ended), l.gone.Sub(l.ended).Round(10*time.Millisecond), l.note)
	}
	d.mu.Lock()
	all, terminal := slices.Clone(d.terminal), slices.Clone(d.terminal)
	d.mu.Unlock()
	pages := d.seen()
	var when time.Time
	terminal = slices.CompactFunc(terminal, func(a, b seenTerminal) bool { return (a.waits == "") == (b.waits == "") })
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
			from, to = later(from, s.at), earlier(to, end)
			if s.waits != "" && p.Summary == quiet && to.Sub(from) > longest {
				longest, when = to.Sub(from), from
			}
		}
	}
	d.t.Logf("| step | began | page said | after | answered | page took it back after | |\n%s\n"+
		"longest time in which the page said %q while the terminal waited: %v, at %s", b.String(), quiet, longest.Round(10*time.Millisecond), clock(when))
	for _, s := range all {
		d.t.Logf("terminal %s %q", clock(s.at), s.waits)
	}
	for _, p := range pages {
		d.t.Logf("page %s %q %q %q", clock(time.UnixMilli(p.At)), p.Summary, p.Link, p.Rows)
	}
	return longest
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
