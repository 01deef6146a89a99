package wake

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

func FuzzRegistry(f *testing.F) {
	f.Add([]byte(`{"hook_settings":{"deliver":"chat"},"agents":[{"agent_id":"a","tmux_session_name":"x","hook_settings":{"pane_capture_lines":3}}]}`), "x")
	f.Fuzz(func(t *testing.T, file []byte, session string) {
		r, err := parseRegistry(file)
		if err != nil {
			return
		}
		if a, ok := r.agentForSession(session); ok &&
			(!a.isEnabled || a.id == "" || a.tmuxSession != session &&
				!strings.HasPrefix(session, a.id+"-")) {
			t.Errorf("%q is %+v", session, a)
		}
	})
}

func TestRegistry_FindsTheAgent(t *testing.T) {
	for name, c := range map[string]struct{ registry, session, want string }{
		"exact": {`{"agents":[{"agent_id":"a","tmux_session_name":"a-main"},{"agent_id":"b","tmux_session_name":"x"}]}`, "x", "b"},
		"by the agent's id": {`{"agents":[{"agent_id":"a","tmux_session_name":"zzz"}]}`,
			"a-main-2", "a"},
		"the id alone is no beginning": {`{"agents":[{"agent_id":"a"}]}`, "a", ""},
		"another word":                 {`{"agents":[{"agent_id":"a"}]}`, "ab-main", ""},
		"the longest":                  {`{"agents":[{"agent_id":"a"},{"agent_id":"a-b"},{"agent_id":"a-b-c-d"}]}`, "a-b-c", "a-b"},
		"exact before longest":         {`{"agents":[{"agent_id":"a-b"},{"agent_id":"q","tmux_session_name":"a-b-c"}]}`, "a-b-c", "q"},
		"disabled":                     {`{"agents":[{"agent_id":"a","enabled":false,"tmux_session_name":"a-x"},{"agent_id":"q"}]}`, "a-x", ""},
		"disabled twin":                {`{"agents":[{"agent_id":"a","enabled":false,"tmux_session_name":"x"},{"agent_id":"b","tmux_session_name":"x"}]}`, "x", "b"},
		"twins":                        {`{"agents":[{"agent_id":"a","tmux_session_name":"x"},{"agent_id":"b","tmux_session_name":"x"}]}`, "x", "a"},
		"odd entries":                  {`{"agents":[null,3,"x",[],{"agent_id":7},{"tmux_session_name":"x"},{"agent_id":"b","tmux_session_name":["x"]},{"agent_id":"c","tmux_session_name":"x"}]}`, "x", "x"},
		"no id, exact":                 {`{"agents":[{"agent_id":"a","tmux_session_name":"y"},{"tmux_session_name":"x"}]}`, "x", "x"},
		"no id is no beginning":        {`{"agents":[{"tmux_session_name":"x"}]}`, "x-main", ""},
		"no id, disabled":              {`{"agents":[{"tmux_session_name":"x","enabled":false}]}`, "x", ""},
		"no id, no session":            {`{"agents":[{"enabled":true}]}`, "", ""},
		"twins, one to nobody":         {`{"agents":[{"agent_id":"a","tmux_session_name":"x","openclaw_session_id":""},{"agent_id":"b","tmux_session_name":"x","openclaw_session_id":"1"}]}`, "x", "b"},
		"twins, one to Chat":           {`{"agents":[{"agent_id":"a","tmux_session_name":"x","hook_settings":{"deliver":"chat"}},{"agent_id":"b","tmux_session_name":"x","openclaw_session_id":"1"}]}`, "x", "a"},
		"twins, the usable one is off": {`{"agents":[{"agent_id":"a","tmux_session_name":"x"},{"agent_id":"b","enabled":false,"tmux_session_name":"x","openclaw_session_id":"1"}]}`, "x", "a"},
		"a byte order mark": {"\xef\xbb\xbf" +
			`{"agents":[{"agent_id":"a","tmux_session_name":"x"}]}`, "x", "a"},
		"no agents": {`{}`, "x", ""},
		"null":      {`{"agents":null,"hook_settings":null}`, "x", ""},
	} {
		r, err := parseRegistry([]byte(c.registry))
		kit.NoError(t, err)
		a, ok := r.agentForSession(c.session)
		kit.Equalf(t, ok, c.want != "", "%s: found", name)
		if ok {
			kit.Equalf(t, a.id, c.want, "%s", name)
		}
	}
	r, err := parseRegistry([]byte(`{"agents":[{"agent_id":"a"},{"agent_id":"a","openclaw_session_id":"1"}]}`))
	kit.NoError(t, err)
	twin, _ := r.agentForSession("a-main")
	kit.Equalf(t, twin.openclawSession, "1", "of two with one id")
	for _, off := range []string{"false", "0", "null", "[]", `"no"`, `"false"`, `"off"`, `"No"`,
		`"OFF"`, `""`, `"0"`, `1`, `"yes"`} {
		r, err := parseRegistry([]byte(`{"agents":[{"agent_id":"a","tmux_session_name":"x","enabled":` + off + `}]}`))
		kit.NoError(t, err)
		if _, ok := r.agentForSession("x"); ok || (len(r.problems) == 1) == (off == "false") {
			t.Errorf("enabled: %s: %v %q", off, ok, r.problems)
		}
	}
	for _, broken := range []string{"", "{", "null", "[]", `"x"`, "null x", `{"agents":{}}`,
		`{"agents":3}`} {
		if _, err := parseRegistry([]byte(broken)); err == nil ||
			strings.Contains(err.Error(), "Go ") || strings.Contains(err.Error(), "struct") {
			t.Errorf("%q: %v", broken, err)
		}
	}
}

func TestRegistry_ReadsSettings(t *testing.T) {
	r, err := parseRegistry([]byte(`{"hook_settings":{"pane_capture_lines":7,"hook_mode":"bidirectional","transcript_extract_chars":30,"other":1},
		"agents":[{"agent_id":"a","hook_settings":{"pane_capture_lines":9,"min_context_lines":0,"dedup_enabled":false,"deliver":"both"}},
		{"agent_id":"b","hook_settings":{"pane_capture_lines":"many","hook_mode":"x","dedup_enabled":1,"context_pressure_threshold":-4,"min_context_lines":1.5e9,"deliver":"fax"}},
		{"agent_id":"c","hook_settings":[]}, {"agent_id":"d","hook_settings":{"deliver":"chat","transcript_extract_chars":2000000000}}]}`))
	kit.NoError(t, err)
	global := defaultSettings
	global.paneLines, global.isBidirectional, global.transcriptChars = 7, true, 30
	a, d := global, global
	a.paneLines, a.minPaneLines, a.skipsKnown, a.toChat = 9, 0, false, true
	d.toAgent, d.toChat, d.transcriptChars = false, true, maxMessageChars
	for i, want := range []settings{a, global, global, d} {
		kit.Equalf(t, r.agents[i].settings, want, "agent %d", i)
	}
	kit.Equalf(t, len(r.problems), 7, "problems: %q", r.problems)
}

// The table in docs/openclaw.md matches the code that reads the settings: the same
// members, their defaults, and a value that each of them refuses.
func TestRegistry_SettingsPage(t *testing.T) {
	page := kit.ReadFile(t, "../../docs/openclaw.md")
	code := kit.ReadFile(t, "registry.go")
	unknown := map[string]bool{}
	for _, m := range regexp.MustCompile(`in\["(\w+_\w+|deliver)"\]|\{"(\w+)", &s\.`).FindAllStringSubmatch(code, -1) {
		unknown[m[1]+m[2]] = true
	}
	for _, entry := range []string{"agent_id", "tmux_session_name", "openclaw_session_id",
		"hook_settings"} {
		delete(unknown, entry)
	}
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| `(\\w+)` \\|").FindAllStringSubmatch(page, -1)
	for _, row := range rows {
		name, value := row[1], row[2]
		delete(unknown, name)
		if !json.Valid([]byte(value)) {
			value = strconv.Quote(value)
		}
		with := func(value string) (settings, []string) {
			r := &registry{}
			return r.readSettings(defaultSettings,
				json.RawMessage(fmt.Sprintf(`{%q: %s}`, name, value)), "here"), r.problems
		}
		got, problems := with(value)
		kit.True(t, got == defaultSettings && len(problems) == 0,
			"%s: %s is not its default: %+v %q",
			name, value, got, problems)
		if _, problems := with(`"nonsense"`); len(problems) != 1 ||
			!strings.HasPrefix(problems[0], "here."+name+" is not") {
			t.Errorf("%s: nonsense is not refused: %q", name, problems)
		}
	}
	for _, example := range regexp.MustCompile(`"hook_settings": (\{[^}]*\})`).FindAllStringSubmatch(page, -1) {
		set, ok := objectMembers([]byte(example[1]))
		for name := range set {
			ok = ok && slices.ContainsFunc(rows, func(row []string) bool { return row[1] == name })
		}
		kit.True(t, ok, "the page shows %s", example[1])
	}
	kit.True(t, len(rows) == 8 && len(unknown) == 0, "%d rows; the code also reads %v",
		len(rows), unknown)
}
