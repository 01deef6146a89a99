package inject

import (
	"reflect"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

var (
	one = state.SubQuestion{Question: "Which one?",
		Options: []state.Option{{Label: "Alpha"}, {Label: "Beta"}, {Label: "Beta"}}}
	some = state.SubQuestion{Question: "Which ones?",
		Options: []state.Option{{Label: "Auth"}, {Label: "Billing"}}, MultiSelect: true}
	drawn = state.SubQuestion{Question: "Which layout?",
		Options: []state.Option{{Label: "Side", Preview: "|"}, {Label: "Top", Preview: "="}}}
)

func TestAnswerPlan_Table(t *testing.T) {
	for name, c := range map[string]struct {
		prompt  state.SubQuestion
		answer  state.Answer
		want    pagePlan // without its subQuestion
		refused string
	}{
		"a choice": {prompt: one, answer: state.Answer{Labels: []string{"Beta"}},
			want: pagePlan{optionNumbers: []int{2}}},
		"own words": {prompt: one, answer: state.Answer{Text: " no\x1b[2J \n"},
			want: pagePlan{text: "no"}},
		"a choice with a remark": {prompt: one,
			answer: state.Answer{Labels: []string{"Beta"}, Notes: "but"},
			want:   pagePlan{text: "Beta – but"}},
		"a remark beside previews": {prompt: drawn,
			answer:  state.Answer{Labels: []string{"Side"}, Notes: "but"},
			refused: "in the terminal"},
		"own words with previews": {prompt: drawn, answer: state.Answer{Text: "no"},
			refused: "in the terminal"},
		"a choice among previews": {prompt: drawn, answer: state.Answer{Labels: []string{"Top"}},
			want: pagePlan{optionNumbers: []int{2}}},
		"all of it": {prompt: one,
			answer: state.Answer{Labels: []string{"Alpha"}, Text: "no", Notes: "but"},
			want:   pagePlan{text: "Alpha, no – but"}},
		"ticks in the list's order": {prompt: some,
			answer: state.Answer{Labels: []string{"Billing", "Auth", "Auth"}},
			want:   pagePlan{optionNumbers: []int{1, 2}}},
		"ticks and own words": {prompt: some,
			answer: state.Answer{Labels: []string{"Auth"}, Text: "x", Notes: "y"},
			want:   pagePlan{optionNumbers: []int{1}, text: "x – y"}},
		"nothing": {prompt: some, refused: "no answer"},
		"nothing typeable": {prompt: one, answer: state.Answer{Text: "\x1b[2J"},
			refused: "no answer"},
		"no such option": {prompt: one, answer: state.Answer{Labels: []string{"beta"}},
			refused: "not an option"},
		"two of one": {prompt: one,
			answer: state.Answer{Labels: []string{"Alpha", "Beta"}}, refused: "takes one choice"},
	} {
		t.Run(name, func(t *testing.T) {
			acts, err := planPages([]Choice{{SubQuestion: c.prompt, Answer: c.answer}})
			if c.refused != "" {
				kit.True(t, err != nil && strings.Contains(err.Error(), c.refused),
					"%v, want %q", err, c.refused)
				return
			}
			kit.NoError(t, err)
			got := acts[0]
			c.want.subQuestion = c.prompt
			kit.True(t, reflect.DeepEqual(got, c.want), "%+v, want %+v", got, c.want)
		})
	}
}
