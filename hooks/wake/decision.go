package wake

import (
	"bytes"
	"encoding/json"
	"strings"
)

// decision is what an agent says of a session that wants to stop.
type decision struct {
	Decision string `json:"decision"` // block, or anything else
	Reason   string `json:"reason"`   // what the session is to do instead
}

// block says whether the session is to go on. Claude Code wants a reason for it.
func (d decision) block() bool { return d.Decision == "block" && strings.TrimSpace(d.Reason) != "" }

// readDecision reads what `openclaw agent --json` prints: the decision itself, or the agent's reply that is one. The reply
// is the text of the last payload, in result.payloads or payloads, and may stand in a code block.
func readDecision(reply []byte) (d decision) {
	var out struct {
		decision
		Payloads []payload `json:"payloads"`
		Result   struct {
			Payloads []payload `json:"payloads"`
		} `json:"result"`
	}
	objects(reply, func(raw []byte) bool {
		return json.Unmarshal(raw, &out) == nil && (out.Decision != "" || out.Payloads != nil || out.Result.Payloads != nil)
	})
	if out.decision.block() {
		return out.decision
	}
	all := append(out.Payloads, out.Result.Payloads...)
	for i := len(all) - 1; i >= 0 && d.Decision == ""; i-- {
		objects([]byte(all[i].Text), func(raw []byte) bool {
			var said decision
			if json.Unmarshal(raw, &said) == nil && said.Decision != "" {
				d = said
			}
			return d.Decision != ""
		})
	}
	return d
}

type payload struct {
	Text string `json:"text"`
}

// objects calls found with each JSON object in a text until that says true: a CLI may print a line before it, and an agent
// words and a fence around it.
func objects(text []byte, found func([]byte) bool) {
	for {
		begin := bytes.IndexByte(text, '{')
		if begin < 0 {
			return
		}
		text = text[begin:]
		var raw json.RawMessage
		d := json.NewDecoder(bytes.NewReader(text))
		if d.Decode(&raw) != nil {
			text = text[1:]
			continue
		}
		if found(raw) {
			return
		}
		text = text[d.InputOffset():]
	}
}
