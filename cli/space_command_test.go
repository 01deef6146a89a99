package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/golden"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// After a reboot, a question or a message starts the space again at the same address,
// with all its messages. So do several commands at one moment, and uninstall ends it.
func TestSpace_StartsByItself(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	detachedPID := func() int {
		t.Helper()
		_, pid := lastSpace(p.getenv)
		kit.Must(t, pid > 0, "it is not detached")
		return pid
	}
	awaitDown := func() {
		t.Helper()
		bound.Until(t, "it is down", func() bool { return !isSpaceRunning(p.getenv) })
	}
	thread, answer := p.ask("one")
	page := strings.Fields(p.wantRun(0, "is already running", "space", "--listen", p.address))[1]
	killed := detachedPID()
	_ = syscall.Kill(killed, syscall.SIGKILL)
	bound.Until(t, "the poller starts it", func() bool { // it may be quicker than a look
		_, pid := lastSpace(p.getenv)
		return pid != killed && isSpaceRunning(p.getenv)
	})
	p.replyOnPage(page, thread, "2")
	kit.Containsf(t, answer(), `"Which DB in one?":"Postgres"`, "answered at the same address")

	endPollersIn(p.dir)
	detachedPID()
	endSpace(p.getenv)
	awaitDown()
	var senders sync.WaitGroup
	for i := range 4 { // at one moment
		senders.Go(func() { p.wantRun(0, "sent", "send", "--session", fmt.Sprint(i), "words") })
	}
	senders.Wait()
	endPollersIn(p.dir)
	detachedPID()
	p.wantRun(0, "the page's server has ended", "space", "uninstall")
	awaitDown()
}

// While hooks and pollers start the space as soon as it is down, a person starts it with
// other flags. The person's space is the one that runs.
func TestSpace_ThePersonsOneRuns(t *testing.T) {
	p := newSpaceHome(t)
	// What checks requests finds Google's documents by the person's own HOME.
	strict.CheckRequests(t, nil)
	for _, pair := range p.env { // for the space that this process starts
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
	stop := make(chan struct{})
	var needs sync.WaitGroup
	defer needs.Wait()
	defer close(stop)
	for range 4 {
		needs.Go(func() {
			for one := (Program{self: p.program, env: p.getenv}); ; time.Sleep(time.Millisecond) {
				select {
				case <-stop:
					return
				default:
					if !isSpaceRunning(p.getenv) {
						one.startSpace(p.port())
					}
				}
			}
		})
	}
	for range 4 {
		for _, flags := range [][]string{{"--phone"}, nil} {
			bound.Until(t, "a detached one runs", func() bool {
				_, pid := lastSpace(p.getenv)
				return pid > 0 && isSpaceRunning(p.getenv)
			})
			_, end := p.runSpace(flags...)
			flagLine, _ := lastSpace(p.getenv)
			want := strings.Join(append([]string{"--listen", p.address}, flags...), " ")
			kit.Equalf(t, flagLine, want, "the space that runs")
			kit.Equalf(t, isSpaceRunning(p.getenv), true, "it runs")
			end()
		}
	}
}

// A detached space ends a day after its last use, and soon after its folder is gone or
// another program is in its place.
func TestSpace_DetachedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		file := func(name string) string {
			kit.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
			return filepath.Join(dir, name)
		}
		d := &spaceServer{Program: Program{self: file("program")}, dataDir: dir}
		lock := file("lock")
		begin := func() (*space.Space, context.Context) {
			s, err := space.Open(space.Options{})
			kit.NoError(t, err)
			return s, d.contextWhileNeeded(t.Context(), s)
		}
		s, needed := begin()
		time.Sleep(23 * time.Hour)
		s.Handler().ServeHTTP(httptest.NewRecorder(),
			httptest.NewRequest("GET", "http://127.0.0.1/", nil))
		time.Sleep(23 * time.Hour)
		kit.Equalf(t, needed.Err() == nil, true, "it runs within a day of its use")
		time.Sleep(2 * time.Hour)
		kit.Equalf(t, needed.Err() == nil, false, "it runs unused")
		d.isService = true
		_, needed = begin()
		time.Sleep(25 * time.Hour)
		kit.Equalf(t, needed.Err() == nil, true, "the system's runs unused")
		for _, path := range []string{d.self, lock} {
			_, needed := begin()
			os.Remove(path)
			time.Sleep(2 * spaceCheckInterval)
			kit.Equalf(t, needed.Err() == nil, false, "it runs without %s", path)
			file(filepath.Base(path))
		}
	})
}

// After an upgrade, the space that the system runs ends with an error, so that the
// system starts it again.
func TestSpace_EndsAfterAnUpgrade(t *testing.T) {
	t.Parallel()
	kit.SkipShort(t, "it waits for ten seconds")
	h := newHome(t)
	for _, name := range []string{"gchat-hooks", "new"} {
		h.mustExecute("cp", h.program, name)
	}
	h.program = h.path("gchat-hooks")
	var service sync.WaitGroup
	address := freeAddress(t)
	service.Go(func() {
		h.wantRun(1, "the program on disk changed\n", "space", "--service", "--listen", address)
	})
	bound.Until(t, "it serves", func() bool {
		r, err := http.Get("http://" + address)
		return err == nil && r.Body.Close() == nil
	})
	h.mustExecute("mv", "new", "gchat-hooks")
	service.Wait()
}

// The page offers the projects that Claude Code trusts and whose names can be shown. It
// offers none if sessions cannot be started.
func TestSpace_OffersTrustedProjects(t *testing.T) {
	home := t.TempDir()
	env := getenvOf([]string{"HOME=" + home})
	trusted := map[string]map[string]bool{}
	for i, name := range []string{
		"web-shop", "api", "sub/api", "stranger", "\u202egpj.evil", "<script>",
	} {
		dir := filepath.Join(home, "src", name)
		kit.NoError(t, os.MkdirAll(dir, 0o700))
		kit.NoError(t, state.RegisterProject(env, filepath.Join(dir, ".claude", "state"), dir))
		trusted[dir] = map[string]bool{"hasTrustDialogAccepted": i != 3}
	}
	kit.WriteFile(t, filepath.Join(home, ".claude.json"),
		kit.JSON(t, map[string]any{"projects": trusted}), 0o600)
	server := &spaceServer{Program: Program{env: env}}
	for canStart, want := range map[bool]string{true: "[<script> api web-shop]", false: "[]"} {
		kit.NoError(t, config.SetMember(state.ConfigFile(env), "start_sessions", canStart))
		names, start := server.pageProjects()
		kit.Equalf(t, start, canStart, "sessions can be begun")
		kit.Equalf(t, fmt.Sprint(names), want, "the projects")
	}
}

// If no poller runs, the page's server starts one for what a person does on the page.
func TestSpace_StartsAPollerForEvents(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	page, end := p.runSpace()
	defer end()
	thread := threadIn(p.mustRun("send", "--json", "words"))
	endPollersIn(p.dir)
	if p.isPollerAlive() {
		t.Fatal("a poller runs already")
	}
	p.replyOnPage(page, thread, "hello")
	bound.Until(t, "a poller runs", p.isPollerAlive)
}

// A question that was asked before the space moved to a phone's address, or back, is
// answered afterwards. An older configuration without the token gets the command to run.
func TestSpace_ToThePhoneAndBack(t *testing.T) {
	t.Parallel()
	elsewhere := ""
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() &&
			elsewhere == "" {
			elsewhere = n.IP.String()
		}
	}
	if elsewhere == "" {
		t.Skip("this machine has no address but loopback")
	}
	p := newSpaceHome(t)
	local := p.readFile(configFile)
	out := p.mustRun("setup", "--space", "--phone", "--address", p.address)
	for _, want := range []string{
		"http://" + elsewhere + ":", "/#key=", "█ ▄▄▄▄▄ █", "ok    reading",
	} {
		kit.Containsf(t, out, want, "setup --phone")
	}
	// What it prints last is what the person opens: the address that a phone reaches.
	opens := regexp.MustCompile(fmt.Sprintf(`Answer on the page, http://\S+:%d/#key=`, p.port()))
	if !opens.MatchString(out) || strings.Contains(out, "http://127.0.0.1") {
		t.Errorf("setup ends with\n%s", out)
	}
	kit.Equalf(t, p.readFile(configFile), local, "the configuration of the phone's space")
	kit.Containsf(t, local, "/t/", "the configuration")

	_, end := p.runSpace()
	thread, answer := p.ask("one")
	end()
	page, end := p.runSpace("--phone")
	if !strings.HasPrefix(page, "http://"+elsewhere+":") {
		t.Errorf("the first page is %s", page)
	}
	p.replyOnPage(page, thread, "2")
	kit.Containsf(t, answer(), `"Which DB in one?":"Postgres"`,
		"asked on loopback, answered on the phone")
	thread, answer = p.ask("two")

	// The same port once more: the space runs, or it does in the other mode.
	for _, args := range [][]string{{"space", "--phone", "--listen", p.address}, {"space"}} {
		kit.Containsf(t, p.wantRun(0, "is already running", args...), page, "%q", args)
	}
	p.wantRun(1, "hint: end it where it runs (Ctrl-C", "space", "--listen", p.address)
	// Without the token, as an earlier setup wrote it.
	p.writeFile(configFile,
		`{"webhook_url": "http://`+p.address+`/v1/spaces/local/messages?key=k&token=t", `+
			`"allowed_users": ["users/local-human"]}`)
	out, _ = p.run("doctor")
	hint := "gchat-hooks setup --space --listen " + p.address +
		" (for a phone, with --phone) saves the token"
	kit.Containsf(t, out, hint, "doctor on a phone's space without a token")
	if regexp.MustCompile(`Google|OAuth|log in|login|Apps`).MatchString(out) {
		t.Errorf("doctor speaks of Google:\n%s", out)
	}
	p.writeFile(configFile, local)
	end()
	page, end = p.runSpace()
	defer end()
	p.replyOnPage(page, thread, "1")
	kit.Containsf(t, answer(), `"Which DB in two?":"SQLite"`,
		"asked with the phone, answered on loopback")
}

var (
	secretInLink = regexp.MustCompile(`((?:/t/|#key=|[?&]key=|&token=))[\w-]+`)
	hooksAdded   = regexp.MustCompile(`\d+ hooks added(, in place of \d+)?`)
	messageName  = regexp.MustCompile(`spaces/local/messages/[\w.-]+`)
	timeOfDay    = regexp.MustCompile(`(\d{4}-\d\d-\d\d )?\d\d:\d\d(:\d\d)?`)
)

// withoutVariables is a text with names in place of what differs from run to run.
func (p *spaceHome) withoutVariables(text string) string {
	text = strings.NewReplacer(p.dir, "HOME", p.program, "PROGRAM", p.address, "127.0.0.1:PORT",
		fmt.Sprint(":", p.port()), ":PORT").Replace(text)
	text = secretInLink.ReplaceAllString(text, "${1}SECRET")
	text = hooksAdded.ReplaceAllString(text, "N hooks added")
	text = messageName.ReplaceAllString(text, "MESSAGE")
	return timeOfDay.ReplaceAllString(text, "TIME")
}

// The output of setup --space, send and space, and the configuration that setup writes,
// are those of the golden files.
func TestSpace_SetupSaysAndWrites(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	printed := ""
	for _, args := range [][]string{
		{"setup", "--space", "--address", p.address},
		{"setup", "--space", "--address", p.address, "--round-trip=false", "--approve"},
		{"send", "words"},
		{"space"},
	} {
		printed += "$ gchat-hooks " + strings.Join(args, " ") + "\n" + p.mustRun(args...)
	}
	golden.Compare(t, "testdata/setup_space.golden", p.withoutVariables(printed))
	golden.Compare(t, "testdata/setup_space_config.golden",
		p.withoutVariables(p.readFile(configFile)))
}

// The space's list has a text that says how a question ended.
func TestSpace_ListsHowAQuestionEnded(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	page, end := p.runSpace()
	defer end()
	ends := ""
	for session, reply := range map[string]string{"one": "2", "two": "Use MySQL", "three": "skip"} {
		thread, answer := p.ask(session)
		p.replyOnPage(page, thread, reply)
		answers := regexp.MustCompile(`"answers":(\{[^}]*\})`).FindString(answer())
		if answers != "" { // what is left to the terminal stays open
			event := p.hookEvent(session, "PostToolUse")
			event = strings.Replace(event, `"tool_input"`,
				`"tool_response":{`+answers+`},"tool_input"`, 1)
			p.runHook("gchat-ask-user-answered", event)
		}
		ends += p.awaitText("the end is listed", func() string { return p.listedEnd(thread) })
	}
	lines := strings.SplitAfter(p.withoutVariables(ends), "\n---\n")
	slices.Sort(lines)
	golden.Compare(t, "testdata/space_ends.golden", strings.Join(lines, ""))
}

// listedEnd is the program's text in a thread that says how a question ended, as the
// API's list tells it; "" before.
func (p *spaceHome) listedEnd(thread string) string {
	p.Helper()
	kept, err := space.LoadAddresses(p.path(".local/state/gchat-hooks/space"))
	kit.NoError(p, err)
	resp, err := http.Get(kept.APIEndpoint("http://"+p.address) + "v1/" + space.Name +
		"/messages?pageSize=1000")
	kit.NoError(p, err)
	defer resp.Body.Close()
	var list chat.ListMessagesResponse
	kit.NoError(p, json.NewDecoder(resp.Body).Decode(&list))
	isEnd := regexp.MustCompile(`^\[(Answered|In the terminal)\]`)
	for _, m := range list.Messages {
		if m.Thread.Name == thread && m.Sender.Type == "BOT" && isEnd.MatchString(m.Text) {
			return m.Text + "\n---\n"
		}
	}
	return ""
}
