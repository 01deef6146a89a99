package gchat

import (
	"strings"

	"gchat-hooks/state"
)

// TimedOutText says in the thread that nobody replied in time, what comes of it, and what the timeout policy chose in the
// person's place, where the person had not answered. Both are by index into prompts.
func TimedOutText(sessionName string, prompts []state.Prompt, chosen []state.Answer, given map[int]state.Answer, what string) string {
	return fit(func(d *draft) {
		d.add("[Timeout] ", d.line(sessionName), "\n")
		if len(prompts) > 0 {
			d.add("\n")
		}
		d.each(prompts, func(i int, p state.Prompt) {
			d.lines("Question: " + d.block(p.Question))
			shown := func(labels []string) string {
				var all []string
				for _, l := range labels {
					all = append(all, closed(d.line(l)))
				}
				return strings.Join(all, ", ")
			}
			if a := given[i]; !a.Empty() {
				d.lines("Your answer: " + shown(strings.Split(a.Value(), "\n")))
			} else if i < len(chosen) && len(chosen[i].Labels) > 0 {
				d.lines("Chosen by the timeout policy, not by you: " + shown(chosen[i].Labels))
			}
		})
		d.add("\n", d.block(what))
	})
}
