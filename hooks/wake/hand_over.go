package wake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"gchat-hooks/state"
)

// outgoing is a message that is on its way.
type outgoing struct {
	wake   *state.WakeMessage // nil when no agent gets it
	wait   bool               // for the agent's decision
	unkept bool               // it could not be written down: it is tried once
}

// put writes the message down: into the wake outbox, into Google Chat's, or both, as the agent's settings say.
func (f *fire) put(c content) (*outgoing, error) {
	out := &outgoing{wait: f.agent.bidirectional && f.trigger.event == "Stop"}
	put := false
	var errs []error
	if f.agent.agent {
		w, err := f.putWake(f.message(c), out.wait)
		out.wake, out.unkept = w, w != nil && err != nil
		if put = w != nil; err != nil {
			errs = append(errs, err)
		}
	}
	if f.agent.chat {
		err := f.tellChat(c)
		if put = put || err == nil; err != nil {
			errs = append(errs, fmt.Errorf("tell Google Chat: %w", err))
		}
	}
	if !put {
		return nil, errors.Join(errs...)
	}
	for _, err := range errs {
		f.Log().Error().Err(err).Bool("sent_once", out.unkept).Msg("wake message")
	}
	return out, nil
}

func (f *fire) putWake(message string, reply bool) (*state.WakeMessage, error) {
	if f.agent.to == "" {
		return nil, fmt.Errorf("agent %s has no openclaw_session_id in the registry", f.agent.id)
	}
	w := &state.WakeMessage{
		ID: uuid.NewString(), Session: f.sight.session, AgentID: f.agent.id, To: f.agent.to, Trigger: f.trigger.name,
		Message: message, Reply: reply, SearchPath: f.Env("PATH"), OpenClaw: whichGateway(), CreatedAt: time.Now().UTC(),
	}
	if err := state.WakeOutboxIn(state.UserState(f.Env)).Put(w); err != nil {
		return w, fmt.Errorf("put wake message: %w; it is sent once", err)
	}
	return w, nil
}

// handOver has the message delivered by a process of its own, and waits only where the agent decides whether the session
// stops.
func (f *fire) handOver(ctx context.Context, out *outgoing, c content) error {
	if out.wake == nil {
		f.logFire("queued", c.source, nil) // Google Chat's flusher has it
		return nil
	}
	if out.unkept {
		err := startUnkept(f.Env, out.wake)
		f.logFire("queued", c.source, err)
		return err
	}
	if !out.wait {
		err := f.send(out.wake)
		f.logFire("queued", c.source, err)
		return err
	}
	decision, err := f.decide(ctx, out.wake)
	outcome := "undecided"
	if decision.block() {
		outcome = "decided"
		err = errors.Join(err, f.Print(map[string]string{"decision": "block", "reason": decision.Reason}))
	}
	f.logFire(outcome, c.source, err)
	return err
}

// send has openclaw take the message, at once if it can, and a courier see to the rest.
func (f *fire) send(w *state.WakeMessage) error {
	if f.Self == "" {
		return nil
	}
	started := ""
	if shell, ok := startOpenClaw(f.Env, w); ok {
		started = strconv.Itoa(shell.Pid)
		_ = shell.Release()
	}
	return startCourier(f.Self, nil, "--first", w.Path, "--started", started)
}

// home is where processes of ours work: the session's own folder may be gone before they end, and node starts in none that is.
func home(env state.Getenv) string {
	if dir := env("HOME"); filepath.IsAbs(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return "/"
}

// detached is this program with other arguments, in a session of its own and with none of our descriptors: Claude Code neither
// waits for it nor takes it down.
func detached(self string, args ...string) *exec.Cmd {
	return &exec.Cmd{
		Path: self, Args: append([]string{"gchat-hooks"}, args...), // self may be a copy that is called as a hook
		Dir: home(os.Getenv), Env: os.Environ(), SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
}

// startCourier starts a courier, with none of our descriptors but reply.
func startCourier(self string, reply *os.File, args ...string) error {
	if self == "" {
		return nil
	}
	cmd := detached(self, append([]string{"wake", "--detached"}, args...)...)
	if reply != nil {
		cmd.Stdout = reply
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start courier: %w; the next hook tries again", err)
	}
	return cmd.Process.Release()
}

// StartWaiting starts a courier for each agent whose messages wait without one, after a reboot perhaps.
func StartWaiting(env state.Getenv, self string) error {
	box := state.WakeOutboxIn(state.UserState(env))
	if box.Empty() {
		return nil
	}
	waiting, _ := box.Waiting()
	seen := map[string]bool{}
	for _, w := range waiting {
		if !seen[w.To] && !box.Retried(w.To) {
			if err := startCourier(self, nil, "--first", w.Path); err != nil {
				return err
			}
		}
		seen[w.To] = true
	}
	return nil
}

// maxReply bounds an agent's reply, in bytes.
const maxReply = 4 << 20

// decide waits for the agent's decision as long as the settings say. A courier that takes longer goes on without us.
func (f *fire) decide(ctx context.Context, w *state.WakeMessage) (d decision, err error) {
	r, out, err := os.Pipe()
	if err != nil {
		return d, err
	}
	defer r.Close()
	err = startCourier(f.Self, out, "--first", w.Path)
	out.Close()
	if err != nil {
		return d, err
	}
	bound := time.Duration(f.agent.replySeconds) * time.Second
	if err := r.SetReadDeadline(time.Now().Add(bound)); err != nil {
		return d, err
	}
	defer context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Now()) })()
	var reply bytes.Buffer
	if _, err := io.Copy(&reply, io.LimitReader(r, maxReply)); err != nil {
		if ctx.Err() != nil {
			return d, nil // Esc
		}
		return d, fmt.Errorf("the agent did not decide within %s; the session stops", bound)
	}
	return readDecision(reply.Bytes()), nil
}

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
