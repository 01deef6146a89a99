package migrate

import (
	"path"
	"strings"
)

const deniedTitle = "When AskUserQuestion is denied"

// deniedPattern is what the orchestrator does when a hook denied its question. It says what the denial's own reason says,
// ahead of time: the reply comes by itself, so no agent has to poll for it.
const deniedPattern = `## ` + deniedTitle + `

A hook may put the question into Google Chat and deny the call ("Question forwarded to Google Chat (thread: …, question: …)").
That is as it should be: the user has the question on the phone, and nothing waits in the terminal.

1. Do not ask again and do not spawn an agent to poll. Go on with work that needs no answer; when there is none, end the turn.
2. The reply comes by itself: the hook ` + "`gchat-ask-user-rewake`" + ` wakes this session with ` + "`GCHAT_RESPONSE: …`" + `. Take it as
   the user's own answer to that question.
3. ` + "`GCHAT_TIMEOUT: …`" + ` says that nobody replied in time, and which option the policy chose, if any. Otherwise go on without an
   answer, and say what you assumed. A late reply still comes.
4. Where no reply came within the time that the denial names (a Claude Code without ` + "`asyncRewake`" + `), wait in the background with
   the command that the denial gives, ` + "`gchat-wait --question-id QUESTION`" + `: it prints the same ` + "`GCHAT_RESPONSE: …`" + ` or
   ` + "`GCHAT_TIMEOUT: …`" + `.
5. Any other denial comes from a person or a rule, and means what it says.
`

// isOrchestrator says whether a file is an output style of the one who had the relay.
func isOrchestrator(p, src string) bool {
	return path.Dir(p) == ".claude/output-styles" && path.Ext(p) == ".md" && (names(src) || strings.Contains(path.Base(p), "system3"))
}

// denied adds the pattern for a denied question at the end, once.
func (m *markdown) denied() {
	switch {
	case strings.Contains(m.src, deniedTitle):
		return
	case strings.Contains(m.src, "GCHAT_RESPONSE") || strings.Contains(m.src, "GCHAT_TIMEOUT"):
		for i := range m.lines {
			if strings.Contains(m.words(i), "GCHAT_RESPONSE") || strings.Contains(m.words(i), "GCHAT_TIMEOUT") {
				m.see(i, "has its own pattern for denied questions: gchat-hooks delivers the reply itself, no agent has to poll")
				return
			}
		}
	}
	const why = "what to do when a question is denied"
	words := strings.TrimSuffix(deniedPattern, "\n")
	end := len(strings.TrimRight(m.src, " \t\r\n"))
	switch tail := m.src[end:]; {
	case end == 0:
		m.replace(0, 0, words+"\n", why)
	case m.taken(end-1, end) && strings.Contains(tail, "\n"): // the last section goes, up to the end
		m.replace(len(m.src), len(m.src), "\n"+words+"\n", why)
	case m.taken(end-1, end):
		m.replace(len(m.src), len(m.src), "\n\n"+words, why)
	default:
		m.replace(end, end, "\n\n"+words, why) // the file goes on ending as it did
	}
}
