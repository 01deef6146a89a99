package migrate

import (
	"errors"
	"strings"
)

// sendCommand gives the gchat-send command for the arguments of a SendMessage call to the relay. Its error says why a
// person has to do it.
func sendCommand(c *call) (command, kind string, err error) {
	content, summary, more := argument{}, argument{}, false
	for i, a := range c.args {
		switch a.key {
		case "recipient", "to", "target_agent_id":
			if !a.literal || a.value != relay {
				return "", "", errors.New("its recipient is not just the relay")
			}
		case "type":
			if !a.literal || a.value != "message" {
				return "", "", errors.New("it is no message but " + shown(a.value))
			}
		case "content", "message", "text", "body":
			content = a
		case "summary":
			summary = a
		case "":
			switch {
			case a.value == "..." || a.value == "…":
				more = true
			case i == 0 && a.literal && a.value == relay:
			case i == 1 && a.literal && len(c.args) == 2:
				content = a
			default:
				return "", "", errors.New("an argument has no name")
			}
		default:
			return "", "", errors.New("it has an argument that gchat-send does not know: " + shown(a.key))
		}
	}
	if content.value == "" && !content.literal && summary.literal {
		content = summary
	}
	switch {
	case content.value == "" && more:
		return "gchat-send ...", "as its call says", nil
	case content.value == "":
		return "", "", errors.New("it has no content")
	case !content.literal:
		return "", "", errors.New("its content is no text but " + shown(content.value))
	case order().MatchString(content.value):
		return "", "", errors.New("it orders the relay to do something, which no message can")
	}
	if !summary.literal {
		summary.value = ""
	}
	kind, words := messageType(content.value, summary.value)
	dashes := ""
	if strings.HasPrefix(words, "-") {
		if words == "-" {
			return "", "", errors.New(`its content is "-", which gchat-send takes for standard input`)
		}
		dashes = "-- " // words, no flag
	}
	return "gchat-send --type " + kind + " " + dashes + shellText(words), kind, nil
}

// shellQuote makes one word of s for any POSIX shell: within single quotes nothing has a meaning.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// bashCall is the command as a call of Claude Code's Bash tool, as an instruction spells it.
func bashCall(command string) string {
	return `Bash("` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(command) + `")`
}
