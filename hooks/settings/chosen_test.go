package settings

import (
	"slices"
	"testing"
)

// What was chosen is known again, whatever the program's path has in it and whichever way its Claude Code starts hooks.
func TestChosen(t *testing.T) {
	want, err := Hooks("wake", "report")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []Version{{2, 1, 138}, {2, 1, 329}} { // a shell's line, exec form
		for _, path := range []string{"/home/me/bin/gchat-hooks", "/home/o'neil/bin/gchat-hooks", `/home/q"q/bin/gchat-hooks`, `/a b\<$c>/gchat-hooks`} {
			f := at(t, nil)
			entries, _, err := Program{Path: path, Claude: v, Waiting: 60}.Entries(want)
			if err != nil {
				t.Fatal(err)
			}
			install(t, f, entries)
			hooks, start, err := f.Chosen(path)
			if err != nil || !start || len(hooks) != len(want) {
				t.Errorf("%v, %s: %d of %d hooks, start %t, %v", v, path, len(hooks), len(want), start, err)
			}
			for _, h := range hooks {
				if !slices.Contains(want, h) {
					t.Errorf("%v, %s: %+v was not chosen", v, path, h)
				}
			}
			if hooks, start, err = f.Chosen("/new/gchat-hooks"); err != nil || start || len(hooks) != len(want) {
				t.Errorf("%v, %s: start another path: %t, %d hooks, %v", v, path, start, len(hooks), err)
			}
		}
	}
}

func TestChosenByHand(t *testing.T) {
	one := func(command string) string {
		return `{"permissions": {"allow": ["Bash(/new/gchat-hooks:*)"]}, "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "` + command + `"}]}]}} // mine`
	}
	session := Hook{"Stop", "", "gchat-session-event", quick, false}
	for _, test := range []struct {
		file  string
		hooks []Hook
		start bool
	}{
		{"{}", nil, true},
		{one("/gone/gchat-hooks hook gchat-session-event"), []Hook{session}, false},
		{one("/new/gchat-hooks hook gchat-session-event >> log"), []Hook{session}, true},
		{one(`/gone/gchat-hooks hook gchat-session-event"}, {"command": "/new/gchat-hooks hook gchat-session-event`), []Hook{session}, false},
		{one("/new/gchat-hooks hook gchat-session-event; backup"), nil, true},
		{one("/new/gchat-hooks hook of-a-later-version"), []Hook{{"Stop", "", "of-a-later-version", 600, false}}, true},
		{one("~/gchat-hooks hook gchat-session-event"), []Hook{session}, false},
	} {
		f := at(t, []byte(test.file))
		if hooks, start, err := f.Chosen("/new/gchat-hooks"); err != nil || start != test.start || !slices.Equal(hooks, test.hooks) {
			t.Errorf("%s: %+v, start %t, %v", test.file, hooks, start, err)
		}
	}
	f := at(t, []byte(one("~/gchat-hooks hook gchat-session-event")))
	if _, start, err := f.Chosen(f.Env("HOME") + "/gchat-hooks"); err != nil || !start {
		t.Errorf("in the home folder: start %t, %v", start, err)
	}
}
