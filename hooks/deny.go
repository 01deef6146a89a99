package hooks

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gchat-hooks/state"
)

const (
	// denyBound is how long posting may take before the question goes to the terminal instead. A session waits for as long.
	denyBound = 3 * time.Second
	// undenied is how young a marker is whose denial may not have reached Claude Code: older than a hook becomes.
	undenied = 15 * time.Second
)

// deny puts the question of a PreToolUse event into the space and denies the call, so that Claude goes on working; the reply
// is delivered later. Where it cannot be put there, or no hook would deliver the reply, the question goes to the terminal as in
// native mode: a question is never denied into the void.
func (h *Hook) deny(ctx context.Context, e *Event) error {
	again, err := h.askAgain(e)
	h.logFailed(err, "markers")
	if !again && h.lacksRewake() {
		h.log.Warn().Str("hint", "gchat-hooks install registers it").
			Msg("no gchat-ask-user-rewake hook is registered to wake the session: the question is asked in the terminal")
		again = true
	}
	if again {
		_, _, err := h.recordCall(ctx, e, state.Native)
		h.StartPoller()
		return err
	}
	q, fresh, err := h.recordCall(ctx, e, state.Deny)
	if !fresh {
		return err // another process has this very call
	}
	if err == nil {
		err = h.inThread(ctx, q)
	}
	if err != nil {
		h.log.Error().Str("error", h.log.Clean(err.Error())).Str("question", q.QuestionID).
			Msg("question not put into the space: it is asked in the terminal")
		return h.askInTerminal(e, q)
	}
	if _, err = state.UpdateQuestion(q.Path, func(q *state.Question) error { q.Denied = true; return nil }); err != nil {
		return errors.Join(err, h.askInTerminal(e, q))
	}
	return h.Print(decide("PreToolUse", map[string]any{
		"permissionDecision": "deny", "permissionDecisionReason": h.denial(q),
	}))
}

// lacksRewake says whether our hooks are registered in Claude Code's settings, and the hook that delivers replies in deny mode
// is not. A plugin or a script that runs us without them is trusted to know.
func (h *Hook) lacksRewake() bool {
	person := cmp.Or(h.Env("CLAUDE_CONFIG_DIR"), filepath.Join(state.Home(h.Env), ".claude"))
	project := filepath.Join(state.ProjectDir(h.Env), ".claude")
	registered := false
	for _, file := range []string{
		filepath.Join(person, "settings.json"), filepath.Join(project, "settings.json"),
		filepath.Join(project, "settings.local.json"),
	} {
		b, _ := os.ReadFile(file)
		if bytes.Contains(b, []byte("gchat-ask-user-rewake")) {
			return false
		}
		registered = registered || bytes.Contains(b, []byte("gchat-ask-user-forward"))
	}
	return registered
}

// inThread waits until the poller put a marker into its thread, as long as a session can be kept waiting.
func (h *Hook) inThread(ctx context.Context, q *state.Question) error {
	ctx, cancel := context.WithTimeout(ctx, denyBound)
	defer cancel()
	now, err := state.Await(ctx, h.Env, h.Self, q.Path, func(q *state.Question) bool {
		return q.MessageSent || q.PostError != "" || q.Closed()
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("post question: it was not in its thread within %s", denyBound)
	case err != nil:
		return fmt.Errorf("post question: %w", err)
	case now.MessageSent:
		return nil
	case now.PostError != "":
		return fmt.Errorf("post question: %s", now.PostError)
	}
	return errors.New("post question: it was closed meanwhile")
}

// denial is what Claude reads in place of an answer.
func (h *Hook) denial(q *state.Question) string {
	return fmt.Sprintf("Question forwarded to Google Chat (thread: %s). "+
		"Continue with other work, or end your turn: "+
		"the user's reply comes to you by itself as a message beginning GCHAT_RESPONSE, and if none did within %s, "+
		"run `%s` in the background, which prints it.",
		q.ThreadKey, state.InWords(h.asked.cfg.ReplyTimeout), h.waitCommand(q.QuestionID))
}

// waitCommand is how Claude waits for the reply itself.
func (h *Hook) waitCommand(id string) string {
	if JobName(filepath.Base(h.Self)) != "gchat-hooks" { // a copy under a hook's name would run as that
		return "gchat-wait --question-id " + id
	}
	return state.ShellQuoted(h.Self) + " wait --question-id " + id
}

// askAgain says whether this call is a question that had no reply in time, asked again: it goes to the terminal, once.
// Claude is told to ask in the same words, and may have chosen others: the same options count as well.
func (h *Hook) askAgain(e *Event) (again bool, err error) {
	prompts, err := e.prompts()
	if err != nil {
		return false, err
	}
	alike := func(was state.Prompt) bool {
		return slices.ContainsFunc(prompts, func(is state.Prompt) bool {
			return was.Question == is.Question ||
				slices.EqualFunc(was.Options, is.Options, func(a, b state.Option) bool { return a.Label == b.Label })
		})
	}
	for _, q := range h.markers(e) {
		again = q.TimeoutPolicy == state.AskTerminal && q.Status == state.TimedOut && !q.AskedAgain
		if again && slices.ContainsFunc(q.Questions, alike) {
			_, err = state.UpdateQuestion(q.Path, func(q *state.Question) error { q.AskedAgain = true; return nil })
			return true, err
		}
	}
	return false, nil
}

// askInTerminal hands a marker's question over to native mode: Claude Code draws its dialog, and the PermissionRequest hook
// finds the record. That is there before the marker goes: killed in between, the question is not lost.
func (h *Hook) askInTerminal(e *Event, q *state.Question) error {
	if now, err := state.LoadQuestion(q.Path); err == nil {
		q = now
	}
	_, err := h.record(context.Background(), h.stateDirs(), state.QuestionsIn, e, func(have []*state.Question) *state.Question {
		for _, known := range have {
			if known.QuestionID == q.QuestionID || q.ToolUseID != "" && known.ToolUseID == q.ToolUseID {
				return known // a hook that was killed, or a second install's, wrote it down
			}
		}
		there := *q
		there.Mode, there.Path, there.Denied, there.TimesOutAt, there.TimeoutPolicy = state.Native, "", false, nil, ""
		return &there
	})
	if err != nil {
		return err
	}
	_, err = state.CloseQuestion(q.Path, state.Cancelled, state.Instead, nil)
	if gone, lerr := state.LoadQuestion(q.Path); err == nil && lerr == nil {
		err = state.RemoveQuestion(h.Env, gone)
	}
	h.logFailed(err, "marker not removed")
	h.StartPoller()
	return nil
}

// reclaim hands a marker over to native mode whose dialog is on the screen after all: its denial never arrived, since the
// hook was killed, or ran out of its time.
func (h *Hook) reclaim(e *Event) error {
	hash := e.inputHash()
	for _, q := range h.markers(e) {
		mayBe := !q.Denied || time.Since(q.AskedAt).Abs() < undenied
		if q.Status.Open() && q.InputHash == hash && mayBe {
			return h.askInTerminal(e, q)
		}
	}
	return nil
}
