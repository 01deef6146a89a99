package wake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"gchat-hooks/state"
)

const (
	// inArgument is how long a message may be in a command line, in bytes: Linux takes 128 KiB in one argument.
	inArgument = 32 << 10

	// keepFiles is how long the file of a longer message is kept. The poller tries for a day.
	keepFiles = 3 * 24 * time.Hour
)

// put writes the message down: for the agent, for the session's thread in Google Chat, or both, as the settings say.
func (f *fire) put(c content) (*state.Message, error) {
	if f.agent.chat {
		err := f.tellChat(c)
		if err != nil && f.agent.agent {
			f.Log().Error().Err(err).Msg("Google Chat not told, but the agent")
		}
		if !f.agent.agent {
			return nil, err
		}
	}
	return f.putWake(f.message(c))
}

func (f *fire) putWake(message string) (*state.Message, error) {
	if f.agent.to == "" {
		return nil, fmt.Errorf("agent %s has no openclaw_session_id in the registry", f.agent.id)
	}
	program, path := findOpenClaw(f.Env)
	if program == "" {
		program = "openclaw" // may be in the PATH by the time that the poller tries
		f.Log().Error().Str("hint", "npm install -g openclaw, or put it into the PATH that Claude Code runs with").
			Msg("openclaw is not in PATH; the message waits in the outbox")
	}
	id := "wake-" + uuid.NewString()
	args := []string{"agent", "--session-id", f.agent.to, "--message", message}
	if len(message) > inArgument {
		file, err := f.messageFile(id, message)
		if err != nil {
			return nil, err
		}
		args = []string{"agent", "--session-id", f.agent.to, "--message-file", file}
	}
	reply := f.agent.bidirectional && f.trigger.event == "Stop"
	if reply {
		args = append(args, "--json")
	}
	m, _, err := f.outbox().Put(f.Env, &state.Message{
		ID: id, Kind: state.MessageWake, SessionID: f.event.SessionID, Urgent: true,
		Wake: &state.Wake{
			Program: program, Args: args, Path: path, To: f.agent.to, Agent: f.agent.id, Trigger: f.trigger.name, Reply: reply,
		},
	}, 0)
	return m, err
}

// findOpenClaw is the CLI, "" where there is none, and the PATH that it gets, under which it finds its node. A project's own
// folder is no place to take programs from.
func findOpenClaw(env state.Getenv) (program, path string) {
	// Beside the hook's PATH: where npm and Homebrew put openclaw on machines whose daemons get a short one.
	dirs := append(filepath.SplitList(env("PATH")), filepath.Join(state.Home(env), ".npm-global", "bin"),
		filepath.Join(state.Home(env), ".local", "bin"), "/opt/homebrew/bin", "/usr/local/bin", "/usr/bin")
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { return !filepath.IsAbs(dir) })
	path = strings.Join(dirs, string(filepath.ListSeparator))
	for _, dir := range dirs {
		if program, err := exec.LookPath(filepath.Join(dir, "openclaw")); err == nil {
			return program, path
		}
	}
	return "", path
}

// messageFile puts a long message where only this user can read it, and removes those of days ago.
func (f *fire) messageFile(id, message string) (path string, err error) {
	dir := filepath.Join(state.UserState(f.Env), "wake", "messages")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("message file: %w", err)
	}
	old, _ := os.ReadDir(dir)
	for _, one := range old {
		if info, err := one.Info(); err == nil && time.Since(info.ModTime()) > keepFiles {
			_ = os.Remove(filepath.Join(dir, one.Name()))
		}
	}
	path = filepath.Join(dir, id+".txt")
	if err := state.WriteSecret(path, []byte(message)); err != nil {
		return "", fmt.Errorf("message file: %w", err)
	}
	return path, nil
}

// decide waits for the agent's decision as long as the settings say, and prints one that sends the session on. The poller
// goes on with a message that takes longer.
func (f *fire) decide(ctx context.Context, m *state.Message) (outcome string, err error) {
	bound := time.Duration(f.agent.replySeconds) * time.Second
	if err := state.Announce(f.Env, state.Open{Kind: state.OpenMessage, Path: m.Path}); err != nil {
		return "undecided", err
	}
	inTime, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	m, err = state.Await(inTime, f.Env, f.Self, m.Path, (*state.Message).Final)
	switch {
	case ctx.Err() != nil: // Esc
		return "undecided", nil
	case errors.Is(err, context.DeadlineExceeded):
		return "undecided", fmt.Errorf("the agent did not decide within %s; the session stops", bound)
	case err != nil:
		return "undecided", fmt.Errorf("wait for the agent: %w", err)
	}
	d := readDecision([]byte(m.Answer))
	if !d.block() {
		return "undecided", nil
	}
	return "decided", f.Print(map[string]string{"decision": "block", "reason": d.Reason})
}

// decision is what an agent says of a session that wants to stop.
type decision struct {
	Decision string `json:"decision"` // block, or anything else
	Reason   string `json:"reason"`   // what the session is to do instead
}

// block says whether the session is to go on. Claude Code wants a reason for it.
func (d decision) block() bool { return d.Decision == "block" && strings.TrimSpace(d.Reason) != "" }

// said is what `openclaw agent --json` prints: the decision itself, or the agent's reply.
type said struct {
	decision
	Payloads []struct {
		Text string `json:"text"`
	} `json:"payloads"`
	Result *said `json:"result"`
}

// readDecision reads what openclaw printed. The agent's reply is the text of the last payload, in result.payloads or payloads,
// and the decision may stand in a code block of it.
func readDecision(printed []byte) decision {
	out := firstObject(printed, func(s said) bool { return s.Decision != "" || s.Payloads != nil || s.Result != nil })
	if out.decision.block() {
		return out.decision
	}
	texts := out.Payloads
	if out.Result != nil {
		texts = append(texts, out.Result.Payloads...)
	}
	for _, t := range slices.Backward(texts) {
		d := firstObject([]byte(t.Text), func(d decision) bool { return d.Decision != "" })
		if d.Decision != "" {
			return d
		}
	}
	return decision{}
}

// firstObject is the first JSON object in a text that is the wanted one: a CLI may print a line before it, and an agent words
// and a fence around it.
func firstObject[T any](text []byte, wanted func(T) bool) (none T) {
	for begin := bytes.IndexByte(text, '{'); begin >= 0; begin = bytes.IndexByte(text, '{') {
		text = text[begin:]
		var raw json.RawMessage
		d := json.NewDecoder(bytes.NewReader(text))
		if d.Decode(&raw) != nil {
			text = text[1:]
			continue
		}
		var one T
		if json.Unmarshal(raw, &one) == nil && wanted(one) {
			return one
		}
		text = text[d.InputOffset():]
	}
	return none
}
