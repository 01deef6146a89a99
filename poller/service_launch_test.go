package poller

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/state"
)

var updateService = flag.Bool("update-service", false, "write the golden service files anew")

// awkward is a service with everything in its paths that a file format could stumble over.
func awkward(t *testing.T) *launch {
	t.Helper()
	env := map[string]string{
		"XDG_STATE_HOME": "/home/zoë & <co>/state 100%", "GCHAT_CONFIG": `/home/zoë & <co>/"my" $HOME\config;#.json`,
		"TMUX_TMPDIR": "/home/zoë & <co>/it's", "XDG_CONFIG_HOME": "relative", "GOOGLE_CHAT_WEBHOOK_URL": "https://chat.example/?key=SECRET",
	}
	s := &Service{Env: func(name string) string { return env[name] }, Home: "/home/zoë & <co>", Self: `/home/zoë & <co>/"bin"/${X}%h/gchat-hooks`}
	l, err := s.launch(ServiceOptions{PollInterval: "10", PendingDirs: []string{`/srv/${A} $B "c" %d\e/pending-questions`}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// usual is a service as most people have it.
func usual(t *testing.T) *launch {
	t.Helper()
	s := &Service{Env: func(string) string { return "" }, Home: "/home/ann", Self: "/home/ann/my bin/gchat-hooks"}
	l, err := s.launch(ServiceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestServiceFilesAreGolden(t *testing.T) {
	for name, got := range map[string]string{
		"awkward.plist": string(plist(awkward(t))), "usual.plist": string(plist(usual(t))),
		"awkward.service": string(unit(awkward(t))), "usual.service": string(unit(usual(t))),
		"awkward.advice.txt": advice(awkward(t)), "usual.advice.txt": advice(usual(t)),
	} {
		path := filepath.Join("testdata", "service", name)
		if *updateService {
			mustWrite(t, path, got, 0o644)
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s is not as it was (-update-service writes it anew):\n%s", name, got)
		}
		if strings.Contains(got, "SECRET") {
			t.Errorf("%s holds a secret", name)
		}
	}
}

// TestServicePlistIsOne reads the file by the grammar of property lists, and finds in it what went in.
func TestServicePlistIsOne(t *testing.T) {
	l := awkward(t)
	b := plist(l)
	lines := strings.Split(string(b), "\n")
	if lines[0] != `<?xml version="1.0" encoding="UTF-8"?>` ||
		lines[1] != `<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">` {
		t.Errorf("it begins %q, %q", lines[0], lines[1])
	}
	got, err := parsePlist(b)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]any{}
	for _, v := range l.env {
		env[v.name] = v.value
	}
	var args []any
	for _, a := range l.args {
		args = append(args, a)
	}
	want := map[string]any{
		"Label": "com.claude.gchat-response-poller", "ProgramArguments": args, "RunAtLoad": true,
		"KeepAlive": map[string]any{"Crashed": true, "SuccessfulExit": false}, "ThrottleInterval": 20, "ExitTimeOut": 90,
		"LimitLoadToSessionType": []any{"Aqua", "Background"},
		"StandardOutPath":        l.home + "/.claude/logs/gchat-response-poller.log", "StandardErrorPath": l.home + "/.claude/logs/gchat-response-poller.err",
		"EnvironmentVariables": env, "WorkingDirectory": l.home,
	}
	asJSON := func(v any) string { b, _ := json.Marshal(v); return string(b) }
	if asJSON(got) != asJSON(want) {
		t.Errorf("got  %s\nwant %s", asJSON(got), asJSON(want))
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to read it with, too")
	}
	cmd := exec.Command(python, "-c", "import json, plistlib, sys; print(json.dumps(plistlib.loads(sys.stdin.buffer.read())))")
	cmd.Stdin = strings.NewReader(string(b))
	out, err := cmd.CombinedOutput()
	var read any
	if err != nil || json.Unmarshal(out, &read) != nil || asJSON(read) != asJSON(want) {
		t.Errorf("python3 reads %s, %v", out, err)
	}
}

// parsePlist reads a property list as strictly as its DTD: in a dict, keys and values take turns.
func parsePlist(b []byte) (v any, err error) {
	d := xml.NewDecoder(strings.NewReader(string(b)))
	next := func() (xml.Token, error) {
		for {
			t, err := d.Token()
			if err != nil {
				return nil, err
			}
			switch t := t.(type) {
			case xml.StartElement:
				if len(t.Attr) > 0 && t.Name.Local != "plist" {
					return nil, fmt.Errorf("%s has attributes", t.Name.Local)
				}
				return t.Copy(), nil
			case xml.EndElement:
				return t, nil
			case xml.CharData:
				if strings.TrimSpace(string(t)) != "" {
					return nil, fmt.Errorf("text %q between elements", t)
				}
			}
		}
	}
	text := func() (s string, err error) {
		for {
			t, err := d.Token()
			if err != nil {
				return "", err
			}
			switch t := t.(type) {
			case xml.CharData:
				s += string(t)
			case xml.EndElement:
				return s, nil
			default:
				return "", fmt.Errorf("%v in a text", t)
			}
		}
	}
	var value func(xml.StartElement) (any, error)
	value = func(e xml.StartElement) (any, error) {
		switch e.Name.Local {
		case "string":
			return text()
		case "integer":
			s, err := text()
			var n int
			if _, serr := fmt.Sscanf(s, "%d", &n); serr != nil {
				return nil, serr
			}
			return n, err
		case "true", "false":
			if s, err := text(); s != "" || err != nil {
				return nil, fmt.Errorf("%s holds %q, %v", e.Name.Local, s, err)
			}
			return e.Name.Local == "true", nil
		case "array":
			list := []any{}
			for {
				t, err := next()
				if err != nil {
					return nil, err
				}
				start, ok := t.(xml.StartElement)
				if !ok {
					return list, nil
				}
				v, err := value(start)
				if err != nil {
					return nil, err
				}
				list = append(list, v)
			}
		case "dict":
			dict := map[string]any{}
			for {
				t, err := next()
				if err != nil {
					return nil, err
				}
				start, ok := t.(xml.StartElement)
				if !ok {
					return dict, nil
				}
				if start.Name.Local != "key" {
					return nil, fmt.Errorf("%s where a key should be", start.Name.Local)
				}
				key, err := text()
				if err != nil {
					return nil, err
				}
				if t, err = next(); err != nil {
					return nil, err
				}
				start, ok = t.(xml.StartElement)
				if !ok || start.Name.Local == "key" || dict[key] != nil {
					return nil, fmt.Errorf("key %s has no value, or two", key)
				}
				if dict[key], err = value(start); err != nil {
					return nil, err
				}
			}
		}
		return nil, fmt.Errorf("no such element: %s", e.Name.Local)
	}
	root, err := next()
	if start, ok := root.(xml.StartElement); err != nil || !ok || start.Name.Local != "plist" {
		return nil, fmt.Errorf("the root is %v, %v", root, err)
	}
	first, err := next()
	if err != nil {
		return nil, err
	}
	if start, ok := first.(xml.StartElement); ok {
		if v, err = value(start); err != nil {
			return nil, err
		}
	}
	if end, err := next(); err != nil || end != (xml.EndElement{Name: xml.Name{Local: "plist"}}) {
		return nil, fmt.Errorf("after the value comes %v, %v", end, err)
	}
	if _, err := next(); err != io.EOF {
		return nil, fmt.Errorf("after the end: %v", err)
	}
	return v, nil
}

// TestServiceUnitPassesSystemd has systemd itself read the units, with programs under awkward paths that are there.
func TestServiceUnitPassesSystemd(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze")
	}
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	args := []string{"--user", "--man=no", "verify"}
	for i, name := range []string{"plain", "two words", "100%h", "$HOME ${X}", `quo"te`, `back\slash`, "it's", "ü & <é>", "a;b # c"} {
		dir := filepath.Join(t.TempDir(), name)
		program := filepath.Join(dir, "gchat-hooks")
		mustWrite(t, program, "#!/bin/sh\n", 0o755)
		s := &Service{Env: func(n string) string { return map[string]string{"TMUX_TMPDIR": dir}[n] }, Home: dir, Self: program}
		l, err := s.launch(ServiceOptions{PendingDirs: []string{dir}})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), fmt.Sprintf("%s-%d.service", serviceName, i))
		mustWrite(t, path, string(unit(l)), 0o644)
		args = append(args, path)
	}
	out, err := exec.Command(analyze, args...).CombinedOutput()
	if strings.Contains(string(out), "Failed to initialize manager") {
		t.Skipf("systemd-analyze does not work here: %s", out)
	}
	if err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

func TestServiceAdviceRunsInAShell(t *testing.T) {
	l := awkward(t)
	var command string
	for line := range strings.Lines(advice(l)) {
		if c, ok := strings.CutPrefix(line, "  */5 * * * * env "); ok {
			command = strings.TrimSuffix(strings.TrimSpace(c), " >/dev/null 2>&1")
		}
	}
	if strings.Contains(strings.ReplaceAll(command, `\%`, ""), "%") {
		t.Errorf("cron takes a %% for a line break: %s", command)
	}
	out, err := exec.Command("sh", "-c", `printf '%s\n' `+strings.ReplaceAll(command, `\%`, "%")).Output()
	var want []string
	for _, v := range l.env {
		want = append(want, v.name+"="+v.value)
	}
	if got := strings.Split(strings.TrimSpace(string(out)), "\n"); err != nil || !slices.Equal(got, append(want, l.args...)) {
		t.Errorf("%v: got %q", err, got)
	}
}

func TestServiceLaunchRefusesWhatNoFileHolds(t *testing.T) {
	for name, c := range map[string]struct {
		self, config string
		o            ServiceOptions
	}{
		"a line break in a path":      {"/bin/a\nb", "", ServiceOptions{}},
		"not UTF-8":                   {"/bin/\xff", "", ServiceOptions{}},
		"an escape in a variable":     {"/bin/a", "/x\x1b", ServiceOptions{}},
		"a relative program":          {"gchat-hooks", "", ServiceOptions{}},
		"an interval that is none":    {"/bin/a", "", ServiceOptions{PollInterval: "soon"}},
		"an interval of no time":      {"/bin/a", "", ServiceOptions{PollInterval: "0"}},
		"a NUL in the pending folder": {"/bin/a", "", ServiceOptions{PendingDirs: []string{"/a\x00"}}},
	} {
		s := &Service{Env: func(n string) string { return map[string]string{"GCHAT_CONFIG": c.config}[n] }, Home: "/home/ann", Self: c.self}
		if l, err := s.launch(c.o); err == nil {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

func TestServicePathBeginsWithThePersonsTmux(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	mustWrite(t, filepath.Join(dir, "tmux"), "", 0o755)
	mustWrite(t, filepath.Join(other, "tmux"), "", 0o644) // not a program
	const usual = "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
	for path, want := range map[string]string{
		"":                                 usual,
		other + ":/nowhere":                usual,
		other + ":" + dir + ":/usr/bin":    dir + ":" + usual,
		"relative:" + dir + "/:" + "/home": dir + ":" + usual,
	} {
		s := &Service{Env: func(n string) string { return map[string]string{"PATH": path}[n] }}
		if got := s.path(); got != want {
			t.Errorf("from %s: %s", path, got)
		}
	}
}

func TestServiceStartsTheStableProgram(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	link := func(to, name string) {
		os.MkdirAll(filepath.Dir(at(name)), 0o755)
		if err := os.Symlink(to, at(name)); err != nil {
			t.Fatal(err)
		}
	}
	mustWrite(t, at("Cellar/1.2/bin/gchat-hooks"), "", 0o755)
	link("../Cellar/1.2/bin/gchat-hooks", "bin/gchat-hooks")
	link("gchat-hooks", "bin/gchat-response-poller")
	mustWrite(t, at("other/gchat-hooks"), "", 0o755)
	mustWrite(t, at("cache/go-build12/b001/exe/gchat-hooks"), "", 0o755)
	link("../cache/go-build12/b001/exe/gchat-hooks", "once/gchat-hooks")
	mustWrite(t, at("own/gh"), "", 0o755)
	for name, c := range map[string]struct{ self, calledAs, path, want string }{
		"by its symlink":                 {"Cellar/1.2/bin/gchat-hooks", at("bin/gchat-hooks"), "", "bin/gchat-hooks"},
		"by another of its names":        {"Cellar/1.2/bin/gchat-hooks", at("bin/gchat-response-poller"), "", "bin/gchat-hooks"},
		"found on the PATH":              {"Cellar/1.2/bin/gchat-hooks", "gchat-hooks", at("other") + ":" + at("bin"), "bin/gchat-hooks"},
		"self is the symlink, as on mac": {"bin/gchat-response-poller", "gchat-response-poller", "", "bin/gchat-hooks"},
		"by no symlink":                  {"other/gchat-hooks", at("other/gchat-hooks"), at("bin"), "other/gchat-hooks"},
		"under a name of its own":        {"own/gh", at("own/gh"), at("bin"), "own/gh"},
		"a build to run once":            {"cache/go-build12/b001/exe/gchat-hooks", at("cache/go-build12/b001/exe/gchat-hooks"), "", ""},
		"a symlink to one, which stays":  {"cache/go-build12/b001/exe/gchat-hooks", at("once/gchat-hooks"), "", "once/gchat-hooks"},
	} {
		got, err := StableProgram(at(c.self), c.calledAs, func(n string) string { return map[string]string{"PATH": c.path}[n] })
		if c.want == "" {
			if err == nil || hintOf(err) == "" {
				t.Errorf("%s: %s, %v", name, got, err)
			}
		} else if got != at(c.want) || err != nil {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func TestServiceSaysWhatItDoesNotSee(t *testing.T) {
	p := newPerson(t, "linux", nil)
	p.env["GOOGLE_CHAT_WEBHOOK_URL"] = "https://chat.example/v1/spaces/A/messages?key=KEY&token=SECRET"
	p.env["GCHAT_ALLOWED_USERS"] = "users/1,ann@example.com"
	p.sayUnseen()
	said := p.hear()
	if !strings.Contains(said, "does not see this shell's GOOGLE_CHAT_WEBHOOK_URL, GCHAT_ALLOWED_USERS\n") || strings.Contains(said, "SECRET") {
		t.Errorf("said %s", said)
	}
	_, command, _ := strings.Cut(said, "put them where it does: ")
	cmd := exec.Command("sh", "-c", command)
	for name, value := range p.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, command)
	}
	c := state.LoadConfig(func(n string) string { return map[string]string{"HOME": p.env["HOME"]}[n] }, p.env["HOME"])
	if c.WebhookURL != p.env["GOOGLE_CHAT_WEBHOOK_URL"] || len(c.AllowedUsers) != 2 || len(c.Problems) > 0 {
		t.Errorf("what it says to do gives %+v", c)
	}
	if info, err := os.Stat(p.configFile()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file that holds a secret: %v, %v", info, err)
	}
	if p.sayUnseen(); p.said.Len() > 0 {
		t.Errorf("when it is there: %s", p.hear())
	}
	p.env["GOOGLE_CHAT_SPACE_ID"] = "spaces/B"
	p.sayUnseen() // a file that is there is not overwritten
	if said := p.hear(); !strings.Contains(said, `"space_id": "what $GOOGLE_CHAT_SPACE_ID holds"`) || strings.Contains(said, ">") {
		t.Errorf("beside a configuration: %s", said)
	}
	mustWrite(t, p.configFile(), `{"webhook_url_command": "pass webhook"}`, 0o600)
	if p.sayUnseen(); strings.Contains(p.hear(), "WEBHOOK") {
		t.Error("a command gives the URL, and it is said to be missing")
	}
}

func TestServiceFileKnowsWhatAPersonChanged(t *testing.T) {
	for name, b := range map[string][]byte{"plist": plist(awkward(t)), "unit": unit(awkward(t))} {
		if !asWritten(b) {
			t.Errorf("%s: as written, and taken for changed", name)
		}
		if asWritten(append(b, '\n')) || asWritten([]byte(strings.Replace(string(b), "20", "30", 1))) {
			t.Errorf("%s: changed, and not noticed", name)
		}
	}
	if asWritten([]byte("sum: ")) || asWritten(nil) || asWritten([]byte("[Unit]\n")) {
		t.Error("a file of somebody else's is taken for ours")
	}
	dir := t.TempDir()
	if os.Getuid() == 0 {
		return // root may write everywhere
	}
	os.Chmod(dir, 0o500)
	if _, _, err := writeServiceFile(filepath.Join(dir, "x.plist"), []byte("x")); !errors.Is(err, os.ErrPermission) || !strings.HasPrefix(hintOf(err), "sudo chown") {
		t.Errorf("not permitted: %v, hint %q", err, hintOf(err))
	}
}
