package gchat

import (
	"strings"

	"gchat-hooks/state"
)

// TimedOutText says in the thread that nobody replied in time, what comes of it, and what the timeout policy chose in the
// person's place. Answers are by index into prompts; an empty one was not chosen.
func TimedOutText(sessionName string, prompts []state.Prompt, answers []state.Answer, what string) string {
	return fit(func(d *draft) {
		d.add("[Timeout] ", d.line(sessionName), "\n")
		if len(prompts) > 0 {
			d.add("\n")
		}
		d.each(prompts, func(i int, p state.Prompt) {
			d.lines("Question: " + d.block(p.Question))
			if i < len(answers) && len(answers[i].Labels) > 0 {
				var labels []string
				for _, l := range answers[i].Labels {
					labels = append(labels, closed(d.line(l)))
				}
				d.lines("Chosen by the timeout policy, not by you: " + strings.Join(labels, ", "))
			}
		})
		d.add("\n", d.block(what))
	})
}
