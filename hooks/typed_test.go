package hooks

import (
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// What Claude got counts as the reply if it is what the poller types for it, and nothing
// else does.
func TestAnswered_TypedAnswers(t *testing.T) {
	const which = "Which?"
	for name, c := range map[string]struct {
		meant, remark, told string
		want                bool
	}{
		"the choice":             {"Two", "", "Two", true},
		"another that begins so": {"Yes", "", "Yes, and don't ask again", false},
		"another that holds it":  {"no", "", "not now", false},
		"one more":               {"Auth", "", "Auth, Search", false},
		"with its remark":        {"Two", "but later", "Two – but later", true},
		// with previews, a remark has a field of its own
		"without its remark":        {"Two", "but later", "Two", true},
		"with another remark":       {"Two", "but later", "Two – now", false},
		"white space on the way":    {"one\ntwo  three", "", "one two three", true},
		"without its emoji mark":    {"❤️ red", "", "❤ red", true},
		"nothing":                   {"Two", "", "", false},
		"own words with the choice": {"Auth, dark mode", "", "Auth, dark mode", true},
	} {
		q := &state.Question{Typing: &state.Typing{}, SubQuestions: []state.SubQuestion{{Question: which}}}
		q.Answers = map[string]string{which: c.meant}
		if c.remark != "" {
			q.Notes = map[string]string{which: c.remark}
		}
		kit.Equalf(t, areTypedAnswers(q, map[string]string{which: c.told}), c.want, "%s", name)
		if q.Typing = nil; areTypedAnswers(q, map[string]string{which: c.told}) {
			t.Errorf("%s: it was not typed at all", name)
		}
	}
}
