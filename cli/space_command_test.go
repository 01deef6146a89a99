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
	"strconv"
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
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// After a reboot a question, or a message, brings the page back at the address that it
// had, with all that was said; what needs the space otherwise ends it, and so does its
// folder's end.
func TestSpace_StartsByItself(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	env := getenvOf(p.env())
	down := func(end func(pid int)) {
		_, pid := lastSpace(env)
		if pid == 0 {
			t.Fatal("it is not detached")
		}
		end(pid)
		p.awaitText("it is down", func() string { return map[bool]string{false: "down"}[isSpaceRunning(env)] })
	}
	thread, answer := p.ask("one")
	page, code := p.run("space", "--listen", p.address)
	if code != 0 || !strings.Contains(page, "is already running") {
		t.Fatalf("%d: %s", code, page)
	}
	page = strings.Fields(page)[1]
	down(func(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) })
	p.awaitText("the poller starts it", func() string { return map[bool]string{true: "up"}[isSpaceRunning(env)] })
	p.reply(page, thread, "2")
	kit.Containsf(t, answer(), `"Which DB in one?":"Postgres"`, "answered at the same address")

	endPollersIn(p.home)
	down(func(int) { endSpace(env) })
	said := make(chan string, 4)
	for i := range cap(said) { // at one moment
		go func() {
			out, code := p.run("send", "--session", fmt.Sprint(i), "words")
			said <- fmt.Sprintf("%d %s", code, out)
		}()
	}
	for range cap(said) {
		if out := <-said; !strings.HasPrefix(out, "0 sent") {
			t.Error(out)
		}
	}
	endPollersIn(p.home)
	down(func(int) {
		if out, code := p.run("space", "uninstall"); code != 0 || !strings.Contains(out, "the space has ended") {
			t.Errorf("%d: %s", code, out)
		}
	})
}

// A person opens the space otherwise while hooks and pollers need it, and start it as
// soon as it is down: the person's one runs.
func TestSpace_ThePersonsOneRuns(t *testing.T) {
	p := newSpaceHome(t)
	env := getenvOf(p.env())
	for _, pair := range p.env() { // for the space that this process starts
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
	_, port, _ := net.SplitHostPort(p.address)
	number, _ := strconv.Atoi(port)
	stop := make(chan struct{})
	var needs sync.WaitGroup
	defer needs.Wait()
	defer close(stop)
	for range 4 {
		needs.Go(func() {
			for one := (Program{self: p.program, env: env}); ; time.Sleep(time.Millisecond) {
				select {
				case <-stop:
					return
				default:
					if !isSpaceRunning(env) {
						one.startSpace(number)
					}
				}
			}
		})
	}
	for range 4 {
		for _, flags := range [][]string{{"--phone"}, nil} {
			p.awaitText("a detached one runs", func() string {
				_, pid := lastSpace(env)
				return map[bool]string{true: "up"}[pid > 0 && isSpaceRunning(env)]
			})
			_, end := p.runSpace(flags...)
			want := strings.Join(append([]string{"--listen", p.address}, flags...), " ")
			if is, _ := lastSpace(env); is != want || !isSpaceRunning(env) {
				t.Errorf("%q runs, want %q", is, want)
			}
			end()
		}
	}
}

// A detached space ends a day after its last use, soon after its folder is gone, and when
// another program stands in its place.
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
		s.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "http://127.0.0.1/", nil))
		time.Sleep(23 * time.Hour)
		if needed.Err() != nil {
			t.Error("it ends although it was used within a day")
		}
		time.Sleep(2 * time.Hour)
		if needed.Err() == nil {
			t.Error("it stays unused")
		}
		d.isService = true
		_, needed = begin()
		time.Sleep(25 * time.Hour)
		if needed.Err() != nil {
			t.Error("the system's ends unused")
		}
		for _, path := range []string{d.self, lock} {
			_, needed := begin()
			os.Remove(path)
			time.Sleep(2 * spaceCheckInterval)
			if needed.Err() == nil {
				t.Errorf("it stays without %s", path)
			}
			file(filepath.Base(path))
		}
	})
}

// The space that the system runs ends as the daemon does when the program was upgraded:
// the system starts it where it fails.
func TestSpace_EndsAfterAnUpgrade(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it waits for ten seconds")
	}
	n := newBareHome(t, "/usr/bin:/bin")
	for _, name := range []string{"gchat-hooks", "new"} {
		n.mustRun("cp", programPath(t), name)
	}
	ended, address := make(chan string), freeAddress(t)
	go func() {
		out, err := n.run("./gchat-hooks", "space", "--service", "--listen", address)
		ended <- fmt.Sprint(out, err)
	}()
	bound.Until(t, "it serves", func() bool {
		r, err := http.Get("http://" + address)
		return err == nil && r.Body.Close() == nil
	})
	n.mustRun("mv", "new", "gchat-hooks")
	kit.Containsf(t, <-ended, "the program on disk changed\nexit status 1", "it ends with")
}

// The page offers projects that Claude Code trusts, by names that are shown as they are,
// and none where sessions cannot be begun.
func TestSpace_OffersTrustedProjects(t *testing.T) {
	home := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	trusted := map[string]map[string]bool{}
	for i, name := range []string{"web-shop", "api", "sub/api", "stranger", "\u202egpj.evil", "<script>"} {
		dir := filepath.Join(home, "src", name)
		kit.NoError(t, os.MkdirAll(dir, 0o700))
		kit.NoError(t, state.RegisterProject(env, filepath.Join(dir, ".claude", "state"), dir))
		trusted[dir] = map[string]bool{"hasTrustDialogAccepted": i != 3}
	}
	b, _ := json.Marshal(map[string]any{"projects": trusted})
	kit.NoError(t, os.WriteFile(filepath.Join(home, ".claude.json"), b, 0o600))
	kit.NoError(t, config.SetMember(state.ConfigFile(env), "start_sessions", true))
	door := &spaceServer{Program: Program{env: env}}
	if names, start := door.pageProjects(); !start || fmt.Sprint(names) != "[<script> api web-shop]" {
		t.Errorf("offers %q, %v", names, start)
	}
	kit.NoError(t, config.SetMember(state.ConfigFile(env), "start_sessions", false))
	if names, start := door.pageProjects(); start || names != nil {
		t.Errorf("offers %q, %v where sessions cannot be begun", names, start)
	}
}

// What a person does on the page is fetched, though no open questions and no poller
// runs: the page's server starts one.
func TestSpace_StartsAPollerForEvents(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	page, end := p.runSpace()
	defer end()
	out, code := p.run("send", "--json", "words")
	if code != 0 {
		t.Fatal(out)
	}
	endPollersIn(p.home)
	runs := func() string {
		for _, h := range state.ReadHeartbeats(getenvOf(p.env())) {
			if h.IsAlive {
				return fmt.Sprint(h.PID)
			}
		}
		return ""
	}
	if pid := runs(); pid != "" {
		t.Fatalf("a poller runs already: %s", pid)
	}
	p.reply(page, regexp.MustCompile(`spaces/local/threads/[\w-]+`).FindString(out), "hello")
	p.awaitText("a poller runs", runs)
}

// From loopback to a phone and back nothing changes for the hooks: a question that was
// asked before is answered after. An older configuration, without the token, is told what
// to run.
func TestSpace_ToThePhoneAndBack(t *testing.T) {
	t.Parallel()
	elsewhere := ""
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && elsewhere == "" {
			elsewhere = n.IP.String()
		}
	}
	if elsewhere == "" {
		t.Skip("this machine has no address but loopback")
	}
	p := newSpaceHome(t)
	config := filepath.Join(p.home, ".config/gchat-hooks/config.json")
	local, _ := os.ReadFile(config)
	out, code := p.run("setup", "--space", "--phone", "--address", p.address)
	for _, want := range []string{"http://" + elsewhere + ":", "/#key=", "█ ▄▄▄▄▄ █", "ok    reading"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("setup --phone ends with %d and does not say %q:\n%s", code, want, out)
		}
	}
	if phone, _ := os.ReadFile(config); string(phone) != string(local) || !strings.Contains(string(phone), "/t/") {
		t.Errorf("the configuration changes on the way to the phone:\n%s\n%s", local, phone)
	}

	_, end := p.runSpace()
	thread, answer := p.ask("one")
	end()
	page, end := p.runSpace("--phone")
	if !strings.HasPrefix(page, "http://"+elsewhere+":") {
		t.Errorf("the first page is %s", page)
	}
	p.reply(page, thread, "2")
	kit.Containsf(t, answer(), `"Which DB in one?":"Postgres"`, "asked on loopback, answered on the phone")
	thread, answer = p.ask("two")

	// The same port once more: the space runs, or it does in the other mode.
	if out, code := p.run("space", "--phone", "--listen", p.address); code != 0 || !strings.Contains(out, "is already running") || !strings.Contains(out, page) {
		t.Errorf("a second space: %d\n%s", code, out)
	}
	if out, code := p.run("space"); code != 0 || !strings.Contains(out, "is already running") || !strings.Contains(out, page) {
		t.Errorf("the link again: %d\n%s", code, out)
	}
	if out, code := p.run("space", "--listen", p.address); code != 1 || !strings.Contains(out, "hint: end it where it runs (Ctrl-C") {
		t.Errorf("a second space, without --phone: %d\n%s", code, out)
	}
	// Without the token, as an earlier setup wrote it.
	older := []byte(`{"webhook_url": "http://` + p.address + `/v1/spaces/local/messages?key=k&token=t", "allowed_users": ["users/local-human"]}`)
	kit.NoError(t, os.WriteFile(config, older, 0o600))
	hint := "gchat-hooks setup --space --listen " + p.address + " (for a phone, with --phone) writes down the token"
	if out, _ := p.run("doctor"); !strings.Contains(out, hint) || regexp.MustCompile(`Google|OAuth|log in|login|Apps`).MatchString(out) {
		t.Errorf("doctor on a phone's space without a token:\n%s", out)
	}
	kit.NoError(t, os.WriteFile(config, local, 0o600))
	end()
	page, end = p.runSpace()
	defer end()
	p.reply(page, thread, "1")
	kit.Containsf(t, answer(), `"Which DB in two?":"SQLite"`, "asked with the phone, answered on loopback")
}

// What setup prints last is what the person opens: with --phone the address that a phone
// reaches.
func TestSpace_SetupEndsWithThePhonesAddress(t *testing.T) {
	p := newSpaceHome(t)
	out, code := p.run("setup", "--space", "--phone", "--address", p.address)
	if code != 0 || strings.Contains(out, "No phone can reach this machine") {
		t.Skipf("no address but this machine's own: %d, %s", code, out)
	}
	_, port, _ := strings.Cut(p.address, ":")
	if !regexp.MustCompile(`Answer on the page, http://\S+:`+port+`/#key=`).MatchString(out) || strings.Contains(out, "http://127.0.0.1") {
		t.Errorf("setup ends with\n%s", out)
	}
}

var (
	secretInLink = regexp.MustCompile(`((?:/t/|#key=|[?&]key=|&token=))[\w-]+`)
	hooksAdded   = regexp.MustCompile(`\d+ hooks added(, in place of \d+)?`)
	messageName  = regexp.MustCompile(`spaces/local/messages/[\w.-]+`)
	timeOfDay    = regexp.MustCompile(`(\d{4}-\d\d-\d\d )?\d\d:\d\d(:\d\d)?`)
)

// withoutVariables is a text with names in place of what differs from run to run.
func (p *spaceHome) withoutVariables(text string) string {
	_, port, _ := net.SplitHostPort(p.address)
	text = strings.NewReplacer(p.home, "HOME", p.program, "PROGRAM", p.address, "127.0.0.1:PORT", ":"+port, ":PORT").Replace(text)
	text = secretInLink.ReplaceAllString(text, "${1}SECRET")
	text = hooksAdded.ReplaceAllString(text, "N hooks added")
	text = messageName.ReplaceAllString(text, "MESSAGE")
	return timeOfDay.ReplaceAllString(text, "TIME")
}

// What setup --space, send and the page's command print, and what setup writes down.
func TestSpace_SetupSaysAndWrites(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	said := ""
	for _, args := range [][]string{
		{"setup", "--space", "--address", p.address},
		{"setup", "--space", "--address", p.address, "--round-trip=false", "--approve"},
		{"send", "words"},
		{"space"},
	} {
		out, code := p.run(args...)
		said += "$ gchat-hooks " + strings.Join(args, " ") + "\n" + out
		kit.Equalf(t, code, 0, "%q ends with", args)
	}
	golden.Compare(t, "testdata/setup_space.golden", p.withoutVariables(said))
	written, err := os.ReadFile(filepath.Join(p.home, ".config/gchat-hooks/config.json"))
	kit.NoError(t, err)
	golden.Compare(t, "testdata/setup_space_config.golden", p.withoutVariables(string(written)))
}

// How a question's end stands in the list of the space, as a text.
func TestSpace_ListsHowAQuestionEnded(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	page, end := p.runSpace()
	defer end()
	ends := ""
	for session, reply := range map[string]string{"one": "2", "two": "Use MySQL", "three": "skip"} {
		thread, answer := p.ask(session)
		p.reply(page, thread, reply)
		said := answer()
		answers := regexp.MustCompile(`"answers":(\{[^}]*\})`).FindString(said)
		if answers != "" { // what is left to the terminal stays open
			told := strings.Replace(p.hookEvent(session, "PostToolUse"), `"tool_input"`, `"tool_response":{`+answers+`},"tool_input"`, 1)
			cmd := bound.Command(t, p.program, "hook", "gchat-ask-user-answered")
			cmd.Env, cmd.Stdin = p.env(), strings.NewReader(told)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		ends += p.awaitText("the end is listed", func() string { return p.awaitListed(thread, "[Answered]", "[In the terminal]") })
	}
	lines := strings.SplitAfter(p.withoutVariables(ends), "\n---\n")
	slices.Sort(lines)
	golden.Compare(t, "testdata/space_ends.golden", strings.Join(lines, ""))
}

// awaitListed is the program's text of that beginning in a thread, as the API's list
// tells it.
func (p *spaceHome) awaitListed(thread string, beginnings ...string) string {
	p.Helper()
	kept, err := space.LoadAddresses(filepath.Join(p.home, "state/gchat-hooks/space"))
	kit.NoError(p, err)
	resp, err := http.Get(kept.APIEndpoint("http://"+p.address) + "v1/" + space.Name + "/messages?pageSize=1000")
	kit.NoError(p, err)
	defer resp.Body.Close()
	var list chat.ListMessagesResponse
	kit.NoError(p, json.NewDecoder(resp.Body).Decode(&list))
	for _, m := range list.Messages {
		for _, beginning := range beginnings {
			if m.Thread.Name == thread && m.Sender.Type == "BOT" && strings.HasPrefix(m.Text, beginning) {
				return m.Text + "\n---\n"
			}
		}
	}
	return ""
}
