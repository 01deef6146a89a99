package inject

import "testing"

func TestLastRecord(t *testing.T) {
	const (
		newer    = "● Answered Claude's questions:\n  ⎿  · Which one? → Beta\n     · Which ones? → Auth, dark\n       mode\n\n❯ \n"
		older    = "● User answered Claude's questions:\n  ⎿  · Which one? → Beta\n     · Which ones? → Auth, dark mode\n"
		declined = "● Declined to answer Claude's questions:\n  ⎿  · Which one? (Alpha / Beta)\n"
	)
	acts := []act{{prompt: one, numbers: []int{2}}, {prompt: some, numbers: []int{1}, text: "dark mode"}}
	others := []act{{prompt: one, numbers: []int{1}}, acts[1]}
	for name, c := range map[string]struct {
		raw    string
		acts   []act
		theirs bool
	}{
		"2.1.329":           {newer, acts, false},
		"2.1.197":           {older, acts, false},
		"another answer":    {newer, others, true},
		"cancelled":         {declined, acts, true},
		"cancelled later":   {newer + declined, acts, true},
		"cancelled earlier": {declined + newer, acts, false},
		"with more to it":   {"● User answered Claude's questions:\n  ⎿  · Which one? → Beta3\n", acts[:1], true},
		"an empty line":     {"● User answered Claude's questions:\n  ⎿  · Which one? → so\n\n     be it\n", []act{{prompt: one, text: "so\n\nbe it"}}, false},
		"nothing":           {"❯ \n", acts, false},
	} {
		t.Run(name, func(t *testing.T) {
			if r := lastRecord(c.raw); r.theirs(c.acts) != c.theirs {
				t.Errorf("%+v, theirs %v", r, !c.theirs)
			}
		})
	}
}
