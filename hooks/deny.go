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
	// denyTimeout is how long posting may take before the question goes to the terminal
	// instead. A session waits for as long.
	denyTimeout = 3 * time.Second
	// denyGrace is how young a denial is that may not have reached Claude Code: older
	// than a hook becomes.
	denyGrace = 15 * time.Second
	// ownMarkerTimeout is how long a rewake hook looks for the marker of its own call,
	// which the other hook of that call writes.
	ownMarkerTimeout = 8 * time.Second
	// transcriptLag is how long after it happened a transcript may not say yet that a
	// session was woken.
	transcriptLag = 3 * time.Second
)

// denyCall puts the question of a PreToolUse event into the space and denies the call, so
// that Claude goes on working; the reply is delivered later. Where it cannot be put
// there, or no hook would deliver the reply, the question goes to the terminal as in
// native mode: a question is never denied into the void. isClaudeRunning says that it
// does so from here on.
func (h *Hook) denyCall(ctx context.Context, e *Event) (asksInTerminal bool, err error) {
	newQuestion, err := h.newQuestion(e, state.ModeDeny)
	if err != nil {
		return false, err
	}
	if h.markAskedAgain(e, newQuestion) {
		return true, nil
	}
	if h.lacksRewakeHook() {
		h.log.Warn().Str("hint", "gchat-hooks install registers it").
			Msg("no gchat-ask-user-rewake hook is registered to wake the session: the question is asked in the terminal")
		return true, nil
	}
	q, err := h.writeQuestion(
		ctx,
		e,
		h.folders(state.MarkersIn),
		func(existing []*state.Question) *state.Question {
			return cmp.Or(h.findQuestionOfCall(e, existing), newQuestion)
		},
		callSearchTexts(e)...)
	if q != newQuestion {
		return false, err // another process has this very call
	}
	if err == nil {
		err = h.awaitPosted(ctx, q)
	}
	if err == nil {
		_, err = state.ChangeQuestion(q.Path, func(q *state.Question) { q.IsDenied = true })
	}
	if err != nil {
		h.log.Error().Str("error", h.log.Redact(err.Error())).Str("question", q.QuestionID).
			Msg("question not denied: it is asked in the terminal")
		_, err = h.askInTerminal(q)
		return false, err
	}
	return false, h.Print(map[string]any{"hookSpecificOutput": map[string]string{
		"hookEventName": e.HookEventName, "permissionDecision": "deny", "permissionDecisionReason": h.denialText(q),
	}})
}

// lacksRewakeHook says whether our hooks are registered in Claude Code's settings, and
// the hook that delivers replies in deny mode is not. A plugin or a script that runs us
// without them is trusted to know.
func (h *Hook) lacksRewakeHook() bool {
	userDir := cmp.Or(h.Env("CLAUDE_CONFIG_DIR"), filepath.Join(state.Home(h.Env), ".claude"))
	projectDir := filepath.Join(state.ProjectDir(h.Env), ".claude")
	isRegistered := false
	for _, file := range []string{
		filepath.Join(userDir, "settings.json"), filepath.Join(projectDir, "settings.json"),
		filepath.Join(projectDir, "settings.local.json"),
	} {
		b, _ := state.ReadPlainOrLink(file, state.MaxFileSize)
		if bytes.Contains(b, []byte("gchat-ask-user-rewake")) {
			return false
		}
		isRegistered = isRegistered || bytes.Contains(b, []byte("gchat-ask-user-forward"))
	}
	return isRegistered
}

// awaitPosted waits until the poller put a marker into its thread, as long as a session
// can be kept waiting.
func (h *Hook) awaitPosted(ctx context.Context, q *state.Question) error {
	ctx, cancel := context.WithTimeout(ctx, denyTimeout)
	defer cancel()
	stored, err := state.Await(ctx, h.Env, h.Self, q.Path, func(q *state.Question) bool {
		return q.IsMessageSent || q.PostError != "" || !q.Status.IsOpen()
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("it was not in its thread within %s", denyTimeout)
	case err == nil && stored.IsMessageSent:
		return nil
	case err == nil:
		err = errors.New(cmp.Or(stored.PostError, "it was closed meanwhile"))
	}
	return fmt.Errorf("post question: %w", err)
}

// denialText is what Claude reads in place of an answer. It names the command by which
// Claude waits for the reply itself.
func (h *Hook) denialText(q *state.Question) string {
	waitCommand := state.QuoteForShell(h.Self) + " wait"
	if JobName(filepath.Base(h.Self)) != "gchat-hooks" {
		// a copy under a hook's name would run as that
		waitCommand = "gchat-wait"
	}
	return fmt.Sprintf("Question forwarded to Google Chat (thread: %s). "+
		"Continue with other work, or end your turn: "+
		"the user's reply comes to you by itself as a message beginning GCHAT_RESPONSE, and if none did within %s, "+
		"run `%s --question-id %s` in the background, which prints it.",
		q.ThreadKey, state.DescribeDuration(h.config().ReplyTimeout), waitCommand, q.QuestionID)
}

// markAskedAgain says whether this question had no reply in time, and is asked again: it
// goes to the terminal, once. Claude is told to ask in the same words, and may have
// chosen others: the same options count as well.
func (h *Hook) markAskedAgain(e *Event, newQuestion *state.Question) bool {
	isAskedByNew := func(earlier state.SubQuestion) bool {
		return slices.ContainsFunc(newQuestion.SubQuestions, func(current state.SubQuestion) bool {
			return earlier.Question == current.Question ||
				slices.EqualFunc(
					earlier.Options,
					current.Options,
					func(a, b state.Option) bool { return a.Label == b.Label },
				)
		})
	}
	for _, q := range h.markers(e) {
		isUnanswered := q.TimeoutPolicy == state.TimeoutAskTerminal && q.Status == state.TimedOut &&
			!q.IsAskedAgain
		if isUnanswered && slices.ContainsFunc(q.SubQuestions, isAskedByNew) {
			_, err := state.ChangeQuestion(
				q.Path,
				func(q *state.Question) { q.IsAskedAgain = true },
			)
			h.logFailed(err, "markers")
			return true
		}
	}
	return false
}

// askInTerminal makes a question that was to be denied one of native mode, in its place.
// Claude Code draws its dialog, and the PermissionRequest hook finds the record.
func (h *Hook) askInTerminal(q *state.Question) (*state.Question, error) {
	q, err := state.ChangeQuestion(q.Path, func(q *state.Question) {
		q.Mode, q.IsDenied, q.TimesOutAt, q.TimeoutPolicy = state.ModeNative, false, nil, ""
	})
	if err == nil {
		err = state.AddQuestionToIndex(h.Env, q)
	}
	h.StartPoller() // it lets go of the record, so that no hook waits to wake the session
	return q, err
}

// reclaimDialogQuestion is the question of a dialog that is on the screen after all; nil
// where none was to be denied. It was asked in the terminal instead, or its denial never
// arrived, since the hook was killed or ran out of its time.
func (h *Hook) reclaimDialogQuestion(e *Event) (*state.Question, error) {
	candidates := slices.DeleteFunc(
		h.questionsOfSession(e, h.folders(state.MarkersIn), callSearchTexts(e)...),
		func(q *state.Question) bool {
			return !q.Status.IsOpen() || q.IsDenied && time.Since(q.AskedAt).Abs() >= denyGrace
		},
	)
	q := h.findQuestionOfCall(e, candidates)
	if q == nil {
		return nil, nil
	}
	return h.askInTerminal(q)
}

// runRewake is gchat-ask-user-rewake. Claude Code runs it in the background
// ("asyncRewake"): it waits for the replies to the session's questions in deny mode, and
// ends with exit code 2 and a reply on stderr, which wakes the session. On PreToolUse it
// waits for its own call's question, on Stop for those without a waiter, since their
// waiter was killed, the session was resumed, or another reply had to be delivered first.
func (h *Hook) runRewake(ctx context.Context, e *Event) error {
	var markers []*state.Question
	switch {
	case e.HookEventName == "PreToolUse" && e.ToolName == questionTool && h.rules(e).AskMode.Traits().HasMarker:
		markers = h.awaitOwnMarker(ctx, e)
	case e.HookEventName == "Stop":
		markers = h.deniedQuestions(e)
		if lostTexts := h.findLostDeliveries(ctx, e, markers); len(lostTexts) > 0 {
			h.wakeSession(lostTexts)
			return nil
		}
	}
	if paths := h.becomeWaiter(e, markers); len(paths) > 0 {
		h.awaitAndWake(ctx, e, paths)
		h.StartPoller() // the thread is told, and that no process waits for the other questions
		return nil
	}
	if e.HookEventName == "Stop" {
		return h.handleTurnEnd(ctx, e)
	}
	return nil
}

// deniedQuestions are the session's questions whose denial was sent. Without one there is
// a dialog, or a hook is about to deny.
func (h *Hook) deniedQuestions(e *Event) []*state.Question {
	return slices.DeleteFunc(h.markers(e), func(q *state.Question) bool { return !q.IsDenied })
}

// awaitOwnMarker waits for the call's marker, which another hook writes; none when its
// question went another way.
func (h *Hook) awaitOwnMarker(ctx context.Context, e *Event) []*state.Question {
	for deadline := time.Now().Add(ownMarkerTimeout); time.Now().Before(deadline) && ctx.Err() == nil; state.Sleep(ctx, 100*time.Millisecond) {
		if q := h.findQuestionOfCall(e, h.markers(e)); q != nil {
			return []*state.Question{q}
		}
	}
	return nil
}

// becomeWaiter makes this process the waiter of those markers whose reply, or timeout,
// the session is still to be told of. They are this Claude Code's from now on, whichever
// asked: the session may have been resumed.
func (h *Hook) becomeWaiter(e *Event, questions []*state.Question) (paths []string) {
	for _, q := range questions {
		if !q.Status.IsOpen() && !hasUndeliveredTimeout(q) && !q.IsLate(time.Now()) ||
			q.SessionEndedAt == nil && h.isInOtherTerminal(q) {
			continue
		}
		lock, err := state.LockWaiter(h.Env, q.Path)
		if errors.Is(err, state.ErrLocked) {
			continue // another process waits
		}
		if err == nil {
			h.waiterLocks = append(h.waiterLocks, lock)
			session := h.ensureSession(e)
			err = retryWrite(h.retryTimeout(e), func() error {
				_, err := state.ChangeQuestion(q.Path, func(q *state.Question) {
					q.SessionEndedAt, q.ClaudePID, q.ClaudeStart = nil, session.ClaudePID, session.ClaudeStart
				})
				return err
			})
		}
		if err == nil {
			err = state.AddQuestionToIndex(h.Env, q)
		}
		if err == nil {
			paths = append(paths, q.Path)
		}
		h.logFailed(err, "marker not taken over")
	}
	return paths
}

// awaitAndWake waits until the session is to be told something of one of these questions,
// and wakes it with what there is by then. It ends quietly when they were answered
// otherwise or when the session is over.
func (h *Hook) awaitAndWake(ctx context.Context, e *Event, paths []string) {
	session := h.ensureSession(e)
	isOver := func(q *state.Question) bool {
		// its dialog's hook waits
		isInTerminal := q.Kind == state.KindQuestion && !q.Mode.Traits().HasMarker
		return isInTerminal || q.SessionEndedAt != nil ||
			inject.HasEnded(session.ClaudePID, session.ClaudeStart)
	}
	results := make(chan error, len(paths))
	for _, path := range paths {
		go func() {
			defer h.recoverPanic()
			_, err := state.Await(ctx, h.Env, h.Self, path, func(q *state.Question) bool {
				isAnswered := q.Status == state.Answered && (q.IsDenied || q.Kind.Traits().IsPrompt)
				return isOver(q) || isAnswered || hasUndeliveredTimeout(q) ||
					!q.Status.IsOpen() && !q.IsLate(time.Now())
			})
			results <- err
		}()
	}
	for range paths {
		err := <-results
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, state.ErrUnserved) {
			h.logFailed(err, "not waited for any longer")
		}
		var texts []string
		for _, path := range paths {
			if q, err := state.LoadQuestion(path); err == nil && !isOver(q) {
				texts = append(texts, nonEmpty(h.recordDelivery(e, q))...)
			}
		}
		if len(texts) > 0 {
			h.wakeSession(texts)
			return
		}
	}
}

func hasUndeliveredTimeout(q *state.Question) bool {
	return q.IsDenied && q.Status == state.TimedOut && q.DeliveredAt == nil
}

// recordDelivery is what Claude is to be told now of a question in deny mode, or of its
// next instruction; "" for nothing.
//
// That is written down before it is said, or a disk that is full would have the session
// woken again and again. Killed in between, the transcript does not hold it, and the next
// event says it again.
func (h *Hook) recordDelivery(e *Event, q *state.Question) (text string) {
	var write func() error
	markDelivered := func(q *state.Question) { q.DeliveredAt, q.IsDeliverySeen = new(time.Now().UTC()), false }
	switch {
	case q.IsDenied && q.Status == state.Answered:
		text = answerText(q)
		write = func() error {
			ended, err := state.CloseQuestion(q.Path, state.Resolved, "chat", markDelivered)
			if err == nil && !ended {
				err = errors.New("it was closed just now")
			}
			return err
		}
	case q.Kind.Traits().IsPrompt && q.Status == state.Answered:
		prompt, _ := q.Decision()
		text = promptText(q, prompt)
		h.logFailed(h.auditDecision(q, prompt), "decision not in the audit log")
		write = func() error { return markAnswerPrinted(q.Path) }
	case hasUndeliveredTimeout(q):
		// There may be a reply where the space cannot be read, or the list of those who
		// may answer.
		isUnreadable := state.SpacesIn(state.UserStateDir(h.Env)).Get(q.Chat).ReadTrouble != nil
		text = timeoutText(q, q.HasUnreadReply() || q.ResolvedBy != "policy" && isUnreadable)
		write = func() error {
			_, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
				if !hasUndeliveredTimeout(q) {
					return errors.New("a reply came just now")
				}
				markDelivered(q)
				return nil
			})
			return err
		}
	default:
		return ""
	}
	if err := retryWrite(h.retryTimeout(e), write); err != nil {
		h.log.Error().Err(err).Msg("session not told: that cannot be written down")
		return ""
	}
	return text
}

func (h *Hook) wakeSession(texts []string) {
	if _, err := fmt.Fprintln(h.Stderr, strings.Join(texts, "\n\n")); err != nil {
		h.log.Error().Err(err).Msg("session not woken")
		return
	}
	h.exitCode = 2 // with which a hook in the background wakes its session
}

// collectUndelivered is what the session was not told, and no waiter delivers: it was
// killed, or the session had ended.
func (h *Hook) collectUndelivered(e *Event) (texts []string) {
	markers := h.deniedQuestions(e)
	texts = h.findLostDeliveries(context.Background(), e, markers)
	paths := h.becomeWaiter(e, markers)
	for _, path := range paths {
		if q, err := state.LoadQuestion(path); err == nil {
			texts = append(texts, nonEmpty(h.recordDelivery(e, q))...)
		}
	}
	if len(paths) > 0 {
		// after the machine was off, nothing else would read what the person replied
		h.StartPoller()
	}
	return texts
}

// markSessionEnded writes down that a session has ended: its waiters end, and a person
// who replies is told when Claude reads it. A yes for a while ends, too: the same Claude
// Code may resume the session.
func (h *Hook) markSessionEnded(e *Event) {
	h.logFailed(
		state.EndGrants(h.questionsOfSession(e, h.personalFolders(), state.GrantText), e.SessionID),
		"yes for a while not ended",
	)
	for _, q := range h.markers(e) {
		if h.isInOtherTerminal(q) {
			continue
		}
		_, err := state.ChangeQuestion(q.Path, func(q *state.Question) {
			isOngoing := q.Status.IsOpen() || q.IsAnswerable()
			if isOngoing && q.SessionEndedAt == nil {
				q.SessionEndedAt = new(time.Now().UTC())
			}
		})
		h.logFailed(err, "end of session not written down")
	}
}

// markers are the session's questions in deny mode.
func (h *Hook) markers(e *Event) []*state.Question {
	return slices.DeleteFunc(
		h.questionsOfSession(e, h.folders(state.MarkersIn)),
		func(q *state.Question) bool {
			return !q.Mode.Traits().HasMarker // it is asked in the terminal instead
		},
	)
}

// findLostDeliveries is what the session was told of its questions in deny mode and what
// its transcript does not hold: the hook was killed before its end, or another hook
// blocked the prompt that carried it. It is told once more. Claude Code keeps what a hook
// gives it as context in the transcript, at a session's start too (2.1.197, 2.1.329).
func (h *Hook) findLostDeliveries(
	ctx context.Context,
	e *Event,
	markers []*state.Question,
) (lostTexts []string) {
	for _, q := range markers {
		if q.DeliveredAt == nil || q.IsDeliverySeen || q.Status.IsOpen() {
			continue
		}
		if q.Status != state.TimedOut &&
			(q.ResolvedAt == nil || q.ResolvedAt.Sub(*q.DeliveredAt).Abs() > time.Second) {
			continue // it was woken with the timeout, and the late reply went another way
		}
		if elapsed := time.Since(*q.DeliveredAt).Abs(); elapsed < transcriptLag {
			if e.HookEventName != "Stop" {
				continue // the next event tells
			}
			state.Sleep(ctx, transcriptLag-elapsed) // in the background
		}
		tail, isComplete, err := inject.TranscriptEnd(string(e.TranscriptPath), maxTailBytes)
		hasArrived := bytes.Contains(tail, []byte(deliveryMark(q)))
		if err != nil || !hasArrived && !isComplete {
			continue // that cannot be told
		}
		_, err = state.ChangeQuestion(q.Path, func(q *state.Question) { q.IsDeliverySeen = true })
		if err != nil || hasArrived {
			continue
		}
		if q.Status == state.TimedOut {
			lostTexts = append(lostTexts, timeoutText(q, false))
		} else {
			lostTexts = append(lostTexts, answerText(q))
		}
	}
	return lostTexts
}
