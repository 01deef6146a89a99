package hooks

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

const (
	// denyBound is how long posting may take before the question goes to the terminal instead. A session waits for as long.
	denyBound = 3 * time.Second
	// undenied is how young a denial is that may not have reached Claude Code: older than a hook becomes.
	undenied = 15 * time.Second
	// ownBound is how long a rewake hook looks for the marker of its own call, which the other hook of that call writes.
	ownBound = 8 * time.Second
	// transcriptLag is how long after it happened a transcript may not say yet that a session was woken.
	transcriptLag = 3 * time.Second
)

// deny puts the question of a PreToolUse event into the space and denies the call, so that Claude goes on working; the reply
// is delivered later. Where it cannot be put there, or no hook would deliver the reply, the question goes to the terminal as in
// native mode: a question is never denied into the void. goesOn says that it does so from here on.
func (h *Hook) deny(ctx context.Context, e *Event) (goesOn bool, err error) {
	one, err := h.question(e, state.Deny)
	if err != nil {
		return false, err
	}
	if h.askedAgain(e, one) {
		return true, nil
	}
	if h.lacksRewake() {
		h.log.Warn().Str("hint", "gchat-hooks install registers it").
			Msg("no gchat-ask-user-rewake hook is registered to wake the session: the question is asked in the terminal")
		return true, nil
	}
	q, err := h.record(ctx, e, h.folders(state.MarkersIn), func(have []*state.Question) *state.Question {
		return cmp.Or(h.ofCall(e, have), one)
	}, callTexts(e)...)
	if q != one {
		return false, err // another process has this very call
	}
	if err == nil {
		err = h.inThread(ctx, q)
	}
	if err == nil {
		_, err = state.ChangeQuestion(q.Path, func(q *state.Question) { q.Denied = true })
	}
	if err != nil {
		h.log.Error().Str("error", h.log.Clean(err.Error())).Str("question", q.QuestionID).
			Msg("question not denied: it is asked in the terminal")
		_, err = h.askInTerminal(q)
		return false, err
	}
	return false, h.Print(map[string]any{"hookSpecificOutput": map[string]string{
		"hookEventName": e.HookEventName, "permissionDecision": "deny", "permissionDecisionReason": h.denial(q),
	}})
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
		b, _ := state.ReadLinked(file, state.MostRead)
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
		return q.MessageSent || q.PostError != "" || !q.Status.Open()
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("it was not in its thread within %s", denyBound)
	case err == nil && now.MessageSent:
		return nil
	case err == nil:
		err = errors.New(cmp.Or(now.PostError, "it was closed meanwhile"))
	}
	return fmt.Errorf("post question: %w", err)
}

// denial is what Claude reads in place of an answer. It names the command by which Claude waits for the reply itself.
func (h *Hook) denial(q *state.Question) string {
	wait := state.ShellQuoted(h.Self) + " wait"
	if JobName(filepath.Base(h.Self)) != "gchat-hooks" { // a copy under a hook's name would run as that
		wait = "gchat-wait"
	}
	return fmt.Sprintf("Question forwarded to Google Chat (thread: %s). "+
		"Continue with other work, or end your turn: "+
		"the user's reply comes to you by itself as a message beginning GCHAT_RESPONSE, and if none did within %s, "+
		"run `%s --question-id %s` in the background, which prints it.",
		q.ThreadKey, state.InWords(h.config().ReplyTimeout), wait, q.QuestionID)
}

// askedAgain says whether this question had no reply in time, and is asked again: it goes to the terminal, once. Claude is told
// to ask in the same words, and may have chosen others: the same options count as well.
func (h *Hook) askedAgain(e *Event, one *state.Question) bool {
	alike := func(was state.Prompt) bool {
		return slices.ContainsFunc(one.Questions, func(is state.Prompt) bool {
			return was.Question == is.Question ||
				slices.EqualFunc(was.Options, is.Options, func(a, b state.Option) bool { return a.Label == b.Label })
		})
	}
	for _, q := range h.markers(e) {
		unanswered := q.TimeoutPolicy == state.AskTerminal && q.Status == state.TimedOut && !q.AskedAgain
		if unanswered && slices.ContainsFunc(q.Questions, alike) {
			_, err := state.ChangeQuestion(q.Path, func(q *state.Question) { q.AskedAgain = true })
			h.logFailed(err, "markers")
			return true
		}
	}
	return false
}

// askInTerminal makes a question that was to be denied one of native mode, in its place. Claude
// Code draws its dialog, and the PermissionRequest hook finds the record.
func (h *Hook) askInTerminal(q *state.Question) (*state.Question, error) {
	q, err := state.ChangeQuestion(q.Path, func(q *state.Question) {
		q.Mode, q.Denied, q.TimesOutAt, q.TimeoutPolicy = state.Native, false, nil, ""
	})
	if err == nil {
		err = state.AnnounceQuestion(h.Env, q)
	}
	h.StartPoller() // it lets go of the record, so that no hook waits to wake the session
	return q, err
}

// reclaim is the question of a dialog that is on the screen after all; nil where none was to be
// denied. It was asked in the terminal instead, or its denial never arrived, since the hook was
// killed or ran out of its time.
func (h *Hook) reclaim(e *Event) (*state.Question, error) {
	qs := slices.DeleteFunc(h.ofSession(e, h.folders(state.MarkersIn), callTexts(e)...), func(q *state.Question) bool {
		return !q.Status.Open() || q.Denied && time.Since(q.AskedAt).Abs() >= undenied
	})
	q := h.ofCall(e, qs)
	if q == nil {
		return nil, nil
	}
	return h.askInTerminal(q)
}

// rewake is gchat-ask-user-rewake. Claude Code runs it in the background ("asyncRewake"): it waits for the replies to the
// session's questions in deny mode, and ends with exit code 2 and a reply on stderr, which wakes the session. On PreToolUse
// it waits for its own call's question, on Stop for those without a waiter, since their waiter was killed, the session
// was resumed, or another reply had to be delivered first.
func (h *Hook) rewake(ctx context.Context, e *Event) error {
	var markers []*state.Question
	switch {
	case e.HookEventName == "PreToolUse" && e.ToolName == askTool && h.rules(e).AskMode.Row().Marker:
		markers = h.ownMarker(ctx, e)
	case e.HookEventName == "Stop":
		markers = h.denied(e)
		if lost := h.neverArrived(ctx, e, markers); len(lost) > 0 {
			h.wakeWith(lost)
			return nil
		}
	}
	if paths := h.take(e, markers); len(paths) > 0 {
		h.waitFor(ctx, e, paths)
		h.StartPoller() // the thread is told, and that no process waits for the other questions
		return nil
	}
	if e.HookEventName == "Stop" {
		return h.next(ctx, e)
	}
	return nil
}

// denied are the session's questions whose denial was sent. Without one there is a dialog, or a hook is about to deny.
func (h *Hook) denied(e *Event) []*state.Question {
	return slices.DeleteFunc(h.markers(e), func(q *state.Question) bool { return !q.Denied })
}

// ownMarker waits for the call's marker, which another hook writes; none when its question went another way.
func (h *Hook) ownMarker(ctx context.Context, e *Event) []*state.Question {
	for end := time.Now().Add(ownBound); time.Now().Before(end) && ctx.Err() == nil; state.Sleep(ctx, 100*time.Millisecond) {
		if q := h.ofCall(e, h.markers(e)); q != nil {
			return []*state.Question{q}
		}
	}
	return nil
}

// take makes this process the waiter of those markers whose reply, or timeout, the session is still to be told of. They are
// this Claude Code's from now on, whichever asked: the session may have been resumed.
func (h *Hook) take(e *Event, markers []*state.Question) (paths []string) {
	for _, q := range markers {
		if !q.Status.Open() && !untold(q) && !q.Late(time.Now()) || q.SessionEnded == nil && h.inOtherTerminal(q) {
			continue
		}
		lock, err := state.LockWaiter(h.Env, q.Path)
		if errors.Is(err, state.ErrLocked) {
			continue // another process waits
		}
		if err == nil {
			h.locks = append(h.locks, lock)
			s := h.session(e)
			err = again(h.patience(e), func() error {
				_, err := state.ChangeQuestion(q.Path, func(q *state.Question) {
					q.SessionEnded, q.ClaudePID, q.ClaudeStart = nil, s.ClaudePID, s.ClaudeStart
				})
				return err
			})
		}
		if err == nil {
			err = state.AnnounceQuestion(h.Env, q)
		}
		if err == nil {
			paths = append(paths, q.Path)
		}
		h.logFailed(err, "marker not taken over")
	}
	return paths
}

// waitFor waits until the session is to be told something of one of these questions, and wakes it with what there is by then.
// It ends quietly when they were answered otherwise or when the session is over.
func (h *Hook) waitFor(ctx context.Context, e *Event, paths []string) {
	s := h.session(e)
	over := func(q *state.Question) bool {
		inTerminal := q.Kind == state.AskedQuestion && !q.Mode.Row().Marker // its dialog's hook waits
		return inTerminal || q.SessionEnded != nil || inject.Ended(s.ClaudePID, s.ClaudeStart)
	}
	final := make(chan error, len(paths))
	for _, path := range paths {
		go func() {
			defer h.catch()
			_, err := state.Await(ctx, h.Env, h.Self, path, func(q *state.Question) bool {
				answered := q.Status == state.Answered && (q.Denied || q.Kind.Row().Prompt)
				return over(q) || answered || untold(q) || !q.Status.Open() && !q.Late(time.Now())
			})
			final <- err
		}()
	}
	for range paths {
		err := <-final
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, state.ErrUnserved) {
			h.logFailed(err, "not waited for any longer")
		}
		var texts []string
		for _, path := range paths {
			if q, err := state.LoadQuestion(path); err == nil && !over(q) {
				texts = append(texts, nonEmpty(h.tellOf(e, q))...)
			}
		}
		if len(texts) > 0 {
			h.wakeWith(texts)
			return
		}
	}
}

func untold(q *state.Question) bool {
	return q.Denied && q.Status == state.TimedOut && q.DeliveredAt == nil
}

// tellOf is what Claude is to be told now of a question in deny mode, or of its next instruction; "" for nothing.
//
// That is written down before it is said, or a disk that is full would have the session woken again and again. Killed in
// between, the transcript does not hold it, and the next event says it again.
func (h *Hook) tellOf(e *Event, q *state.Question) (text string) {
	var write func() error
	delivered := func(q *state.Question) { q.DeliveredAt, q.DeliverySeen = new(time.Now().UTC()), false }
	switch {
	case q.Denied && q.Status == state.Answered:
		text = replyText(q)
		write = func() error {
			ended, err := state.CloseQuestion(q.Path, state.Resolved, "chat", delivered)
			if err == nil && !ended {
				err = errors.New("it was closed just now")
			}
			return err
		}
	case q.Kind.Row().Prompt && q.Status == state.Answered:
		words, _ := q.Decision()
		text = instructionText(q, words)
		h.logFailed(h.audit(q, words), "decision not in the audit log")
		write = func() error { return markPrinted(q.Path) }
	case untold(q):
		// There may be a reply where the space cannot be read, or the list of those who may answer.
		troubled := state.SpacesIn(state.UserState(h.Env)).Of(q.Chat).Trouble != nil
		text = timeoutText(q, q.Unread() || q.ResolvedBy != "policy" && troubled)
		write = func() error {
			_, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
				if !untold(q) {
					return errors.New("a reply came just now")
				}
				delivered(q)
				return nil
			})
			return err
		}
	default:
		return ""
	}
	if err := again(h.patience(e), write); err != nil {
		h.log.Error().Err(err).Msg("session not told: that cannot be written down")
		return ""
	}
	return text
}

func (h *Hook) wakeWith(texts []string) {
	if _, err := fmt.Fprintln(h.Stderr, strings.Join(texts, "\n\n")); err != nil {
		h.log.Error().Err(err).Msg("session not woken")
		return
	}
	h.code = 2 // with which a hook in the background wakes its session
}

// undelivered is what the session was not told, and no waiter delivers: it was killed, or the session had ended.
func (h *Hook) undelivered(e *Event) (texts []string) {
	markers := h.denied(e)
	texts = h.neverArrived(context.Background(), e, markers)
	paths := h.take(e, markers)
	for _, path := range paths {
		if q, err := state.LoadQuestion(path); err == nil {
			texts = append(texts, nonEmpty(h.tellOf(e, q))...)
		}
	}
	if len(paths) > 0 {
		h.StartPoller() // after the machine was off, nothing else would read what the person replied
	}
	return texts
}

// sessionEnded writes down that a session has ended: its waiters end, and a person who replies is told when Claude reads it. A
// yes for a while ends, too: the same Claude Code may resume the session.
func (h *Hook) sessionEnded(e *Event) {
	h.logFailed(state.AskAgain(h.ofSession(e, h.own(), state.TextGrant), e.SessionID), "yes for a while not ended")
	for _, q := range h.markers(e) {
		if h.inOtherTerminal(q) {
			continue
		}
		_, err := state.ChangeQuestion(q.Path, func(q *state.Question) {
			goesOn := q.Status.Open() || q.Answerable()
			if goesOn && q.SessionEnded == nil {
				q.SessionEnded = new(time.Now().UTC())
			}
		})
		h.logFailed(err, "end of session not written down")
	}
}

// markers are the session's questions in deny mode.
func (h *Hook) markers(e *Event) []*state.Question {
	return slices.DeleteFunc(h.ofSession(e, h.folders(state.MarkersIn)), func(q *state.Question) bool {
		return !q.Mode.Row().Marker // it is asked in the terminal instead
	})
}

// neverArrived is what the session was told of its questions in deny mode and what its transcript does not hold: the hook was
// killed before its end, or another hook blocked the prompt that carried it. It is told once more. Claude Code keeps what a hook
// gives it as context in the transcript, at a session's start too (2.1.197, 2.1.329).
func (h *Hook) neverArrived(ctx context.Context, e *Event, markers []*state.Question) (lost []string) {
	for _, q := range markers {
		if q.DeliveredAt == nil || q.DeliverySeen || q.Status.Open() {
			continue
		}
		if q.Status != state.TimedOut && (q.ResolvedAt == nil || q.ResolvedAt.Sub(*q.DeliveredAt).Abs() > time.Second) {
			continue // it was woken with the timeout, and the late reply went another way
		}
		if since := time.Since(*q.DeliveredAt).Abs(); since < transcriptLag {
			if e.HookEventName != "Stop" {
				continue // the next event tells
			}
			state.Sleep(ctx, transcriptLag-since) // in the background
		}
		end, all, err := inject.TranscriptEnd(string(e.Transcript), endBytes)
		there := bytes.Contains(end, []byte(endOf(q)))
		if err != nil || !there && !all {
			continue // that cannot be told
		}
		_, err = state.ChangeQuestion(q.Path, func(q *state.Question) { q.DeliverySeen = true })
		if err != nil || there {
			continue
		}
		if q.Status == state.TimedOut {
			lost = append(lost, timeoutText(q, false))
		} else {
			lost = append(lost, replyText(q))
		}
	}
	return lost
}
