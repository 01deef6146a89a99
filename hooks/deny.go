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
	// denyTimeout is how long the session waits for the question to be posted. After that
	// the question is asked in the terminal instead.
	denyTimeout = 3 * time.Second
	// denyGrace is how long a deny hook may still be running. A denial that is older has
	// reached Claude Code.
	denyGrace = 15 * time.Second
	// ownMarkerTimeout is how long a rewake hook looks for the marker of its own call.
	// Another hook of that call writes it.
	ownMarkerTimeout = 8 * time.Second
	// transcriptLag is how long after a wake-up its text may still be missing in the
	// transcript.
	transcriptLag = 3 * time.Second
)

// denyCall posts the question of a PreToolUse event and denies the call, so that Claude
// goes on working. A rewake hook delivers the reply later. If no such hook is registered,
// or if the question cannot be posted in time, the question is asked in the terminal as
// in native mode: a question is never denied when nobody can answer it. asksInTerminal
// reports that the caller is to ask as in native mode. It is false if the record of this
// call exists already or was changed to native mode here.
func (h *Hook) denyCall(ctx context.Context, e *Event) (asksInTerminal bool, err error) {
	newQuestion, err := h.newQuestion(e, state.ModeDeny)
	if err != nil {
		return false, err
	}
	if h.markAskedAgain(e, newQuestion) {
		return true, nil
	}
	if h.lacksRewakeHook() {
		h.log.Warn().
			Str("hint", "gchat-hooks install registers it").
			Msg("no gchat-ask-user-rewake hook is registered to wake the session: " +
				"the question is asked in the terminal")
		return true, nil
	}
	chooseRecord := func(existing []*state.Question) *state.Question {
		return cmp.Or(h.findQuestionOfCall(e, existing), newQuestion)
	}
	q, err := h.writeQuestion(ctx, e, h.folders(state.MarkersIn), chooseRecord, callSearchTexts(e)...)
	if q != newQuestion {
		return false, err // another process handles this very call
	}
	if err == nil {
		err = h.awaitPosted(ctx, q)
	}
	var denied *state.Question
	if err == nil {
		denied, err = state.ChangeQuestion(q.Path, func(q *state.Question) { q.IsDenied = true })
	}
	if err != nil {
		h.log.Error().
			Str("error", h.log.Redact(err.Error())).
			Str("question", q.QuestionID).
			Msg("question not denied: it is asked in the terminal")
		_, err = h.askInTerminal(q)
		return false, err
	}
	return false, h.Print(map[string]any{"hookSpecificOutput": map[string]string{
		"hookEventName":            e.HookEventName,
		"permissionDecision":       "deny",
		"permissionDecisionReason": h.denialText(denied),
	}})
}

// lacksRewakeHook reports whether Claude Code's settings register our hooks, but not the
// one that delivers replies in deny mode. A plugin or a script that runs our hooks
// without these settings is trusted to register it.
func (h *Hook) lacksRewakeHook() bool {
	projectDir := filepath.Join(state.ProjectDir(h.Env), ".claude")
	isRegistered := false
	for _, file := range []string{
		filepath.Join(state.ClaudeDir(h.Env), "settings.json"),
		filepath.Join(projectDir, "settings.json"),
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

// awaitPosted waits until the poller has posted the question of a marker, for at most
// denyTimeout.
func (h *Hook) awaitPosted(ctx context.Context, q *state.Question) error {
	ctx, cancel := context.WithTimeout(ctx, denyTimeout)
	defer cancel()
	stored, err := state.Await(ctx, h.Env, h.Self, q.Path, func(q *state.Question) bool {
		return q.IsMessageSent || q.PostError != "" || !q.Status.IsOpen()
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("not posted within %s", denyTimeout)
	case err == nil && stored.IsMessageSent:
		return nil
	case err == nil:
		err = errors.New(cmp.Or(stored.PostError, "the question was closed meanwhile"))
	}
	return fmt.Errorf("post question: %w", err)
}

// denialText is what Claude reads in place of an answer. It names the command with which
// Claude can wait for the reply itself.
func (h *Hook) denialText(q *state.Question) string {
	waitCommand := state.QuoteForShell(h.Self) + " wait"
	if JobName(filepath.Base(h.Self)) != "gchat-hooks" {
		// A copy under a hook's name runs as that hook, so it does not know "wait".
		waitCommand = "gchat-wait"
	}
	return fmt.Sprintf(
		"Question forwarded to %s (thread: %s). Continue with other work, or end your turn: "+
			"the user's reply comes to you by itself as a message beginning GCHAT_RESPONSE. "+
			"If none arrives within %s, run `%s --question-id %s` in the background. It prints the reply.",
		state.ChatName(q.Chat), q.ThreadKey, state.DescribeDuration(h.config().ReplyTimeout),
		waitCommand, q.QuestionID)
}

// markAskedAgain reports whether Claude asks a question again that had no reply in time
// and is to be asked in the terminal then. It marks the earlier question, so that this
// happens once. Claude gets the instruction to ask in the same words. It may choose other
// words, so the same options count as well.
func (h *Hook) markAskedAgain(e *Event, newQuestion *state.Question) bool {
	isAskedByNew := func(earlier state.SubQuestion) bool {
		return slices.ContainsFunc(newQuestion.SubQuestions, func(current state.SubQuestion) bool {
			hasSameLabel := func(a, b state.Option) bool { return a.Label == b.Label }
			return earlier.Question == current.Question ||
				slices.EqualFunc(earlier.Options, current.Options, hasSameLabel)
		})
	}
	for _, q := range h.markers(e) {
		isUnanswered := q.TimeoutPolicy == state.TimeoutAskTerminal && q.Status == state.TimedOut &&
			!q.IsAskedAgain
		if isUnanswered && slices.ContainsFunc(q.SubQuestions, isAskedByNew) {
			_, err := state.ChangeQuestion(q.Path, func(q *state.Question) { q.IsAskedAgain = true })
			h.logFailed(err, "markers")
			return true
		}
	}
	return false
}

// askInTerminal changes a question of deny mode into one of native mode. Claude Code
// draws its dialog, and the PermissionRequest hook finds the record.
func (h *Hook) askInTerminal(q *state.Question) (*state.Question, error) {
	q, err := state.ChangeQuestion(q.Path, func(q *state.Question) {
		q.Mode, q.IsDenied = state.ModeNative, false
		q.TimesOutAt, q.TimeoutPolicy = nil, ""
	})
	if err == nil {
		err = state.AddQuestionToIndex(h.Env, q)
	}
	h.StartPoller() // it releases the record, so that no rewake hook waits for it
	return q, err
}

// reclaimDialogQuestion returns the deny-mode question of a dialog that Claude Code has
// drawn, changed to native mode; nil if there is none. The dialog is drawn because the
// question is asked in the terminal instead, or because the denial never arrived: the
// hook was killed or ran out of time.
func (h *Hook) reclaimDialogQuestion(e *Event) (*state.Question, error) {
	markers := h.questionsOfSession(e, h.folders(state.MarkersIn), callSearchTexts(e)...)
	candidates := slices.DeleteFunc(markers, func(q *state.Question) bool {
		return !q.Status.IsOpen() || q.IsDenied && time.Since(q.AskedAt).Abs() >= denyGrace
	})
	q := h.findQuestionOfCall(e, candidates)
	if q == nil {
		return nil, nil
	}
	return h.askInTerminal(q)
}

// runRewake is gchat-ask-user-rewake. Claude Code runs it in the background
// ("asyncRewake"). It waits for the replies to the session's deny-mode questions. It ends
// with exit code 2 and the reply on stderr, which wakes the session. On PreToolUse it
// waits for the question of its own call. On Stop it waits for those without a waiter:
// their waiter was killed, the session was resumed, or another reply was delivered first.
func (h *Hook) runRewake(ctx context.Context, e *Event) error {
	var markers []*state.Question
	isOwnCall := e.HookEventName == "PreToolUse" && e.ToolName == questionTool
	switch {
	case isOwnCall && h.rules(e).AskMode.Traits().HasMarker:
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
		// The poller posts the note to the thread. It also sees that no process waits for
		// the other questions.
		h.StartPoller()
		return nil
	}
	if e.HookEventName == "Stop" {
		return h.handleTurnEnd(ctx, e)
	}
	return nil
}

// deniedQuestions are the session's questions whose call was denied. For any other marker
// a dialog is open, or a hook is about to deny the call.
func (h *Hook) deniedQuestions(e *Event) []*state.Question {
	return slices.DeleteFunc(h.markers(e), func(q *state.Question) bool { return !q.IsDenied })
}

// awaitOwnMarker waits for the marker of the event's call, which another hook writes. It
// returns none if that hook asks in another way.
func (h *Hook) awaitOwnMarker(ctx context.Context, e *Event) []*state.Question {
	deadline := time.Now().Add(ownMarkerTimeout)
	for time.Now().Before(deadline) && ctx.Err() == nil {
		if q := h.findQuestionOfCall(e, h.markers(e)); q != nil {
			return []*state.Question{q}
		}
		state.Sleep(ctx, 100*time.Millisecond)
	}
	return nil
}

// becomeWaiter makes this process the waiter of those questions whose reply or timeout
// the session does not know yet, and returns their paths. It records this Claude Code as
// theirs even if another one asked: the session may have been resumed.
func (h *Hook) becomeWaiter(e *Event, questions []*state.Question) (paths []string) {
	for _, q := range questions {
		isDeliverable := q.Status.IsOpen() || hasUndeliveredTimeout(q) || q.IsLate(time.Now())
		if !isDeliverable || q.SessionEndedAt == nil && h.isInOtherTerminal(q) {
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
				_, err := state.ChangeQuestion(q.Path, func(current *state.Question) {
					// The session may have ended since this hook read the question.
					endedBefore := q.SessionEndedAt != nil && current.SessionEndedAt != nil &&
						current.SessionEndedAt.Equal(*q.SessionEndedAt)
					if endedBefore {
						current.SessionEndedAt = nil
					}
					current.ClaudePID, current.ClaudeStart = session.ClaudePID, session.ClaudeStart
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
		h.logFailed(err, "cannot wait for the reply to a question; the next hook tries again")
	}
	return paths
}

// awaitAndWake waits until one of these questions has something for the session. It wakes
// the session with all that there is by then. It ends quietly if the questions end
// without an answer to deliver, or if the session ends.
func (h *Hook) awaitAndWake(ctx context.Context, e *Event, paths []string) {
	session := h.ensureSession(e)
	isOver := func(q *state.Question) bool {
		// A question without a marker stands in a dialog in the terminal. There the
		// PermissionRequest hook brings its answer, and no wake is needed.
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
			h.logFailed(err, "wait for a reply failed; a later hook delivers the reply")
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

// hasUndeliveredTimeout reports whether a denied call's question timed out and Claude
// does not know it yet.
func hasUndeliveredTimeout(q *state.Question) bool {
	return q.IsDenied && q.Status == state.TimedOut && q.DeliveredAt == nil
}

// recordDelivery returns the text that Claude is to be given about a deny-mode question
// or its next instruction; "" for none.
//
// It records the delivery before the text is printed. Otherwise a full disk would let the
// session be woken again and again. If the hook is killed in between, the transcript
// lacks the text, and the next event delivers it again.
func (h *Hook) recordDelivery(e *Event, q *state.Question) (text string) {
	var write func() error
	markDelivered := func(q *state.Question) {
		q.DeliveredAt, q.IsDeliverySeen = new(time.Now().UTC()), false
	}
	switch {
	case q.IsDenied && q.Status == state.Answered:
		text = answerText(q)
		write = func() error {
			ended, err := state.CloseQuestion(q.Path, state.Resolved, "chat", markDelivered)
			if err == nil && !ended {
				err = errors.New("the question was closed just now")
			}
			return err
		}
	case q.Kind.Traits().IsPrompt && q.Status == state.Answered:
		prompt, _ := q.Decision()
		text = promptText(q, prompt)
		h.logFailed(h.auditDecision(q, prompt), "decision not in the audit log")
		write = func() error { return markAnswerPrinted(q.Path) }
	case hasUndeliveredTimeout(q):
		// If the space cannot be read, or if it is not known who may answer, there may be
		// a reply that we do not see.
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
		h.log.Error().Err(err).
			Msg("answer not delivered: it cannot be recorded; a later event tries again")
		return ""
	}
	return text
}

// wakeSession has Claude Code wake the session with these texts.
func (h *Hook) wakeSession(texts []string) {
	if _, err := fmt.Fprintln(h.Stderr, strings.Join(texts, "\n\n")); err != nil {
		h.log.Error().Err(err).Msg("session not woken")
		return
	}
	h.exitCode = 2 // with this code, a hook in the background wakes its session
}

// collectUndelivered returns what the session does not know and no waiter delivers: the
// waiter was killed, or the session had ended.
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
		// After the machine was off, nothing else would read the person's replies.
		h.StartPoller()
	}
	return texts
}

// markSessionEnded records in the session's markers that the session has ended. Their
// waiters then end, and a person who replies hears when Claude will read it. It also ends
// the session's grants (a yes for a while): the same Claude Code may resume the session.
func (h *Hook) markSessionEnded(e *Event) {
	permissions := h.questionsOfSession(e, h.personalFolders(), state.GrantText)
	h.logFailed(state.EndGrants(permissions, e.SessionID), "a yes for a while not ended")
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
		h.logFailed(err, "end of session not recorded in a question")
	}
}

// markers are the session's questions in deny mode, without those that are asked in the
// terminal instead.
func (h *Hook) markers(e *Event) []*state.Question {
	isInTerminal := func(q *state.Question) bool { return !q.Mode.Traits().HasMarker }
	return slices.DeleteFunc(h.questionsOfSession(e, h.folders(state.MarkersIn)), isInTerminal)
}

// findLostDeliveries returns the texts about deny-mode questions that a hook delivered
// but that the transcript lacks. The hook was killed before its end, or another hook
// blocked the prompt that carried the text. Such a text is delivered once more. Claude
// Code keeps the context that a hook gives it in the transcript, also at a session's
// start (2.1.197, 2.1.329).
func (h *Hook) findLostDeliveries(
	ctx context.Context, e *Event, markers []*state.Question,
) (lostTexts []string) {
	for _, q := range markers {
		if q.DeliveredAt == nil || q.IsDeliverySeen || q.Status.IsOpen() {
			continue
		}
		// If the session was woken with the timeout, a late reply may have reached it
		// otherwise.
		isDeliveredHere := q.ResolvedAt != nil && q.ResolvedAt.Sub(*q.DeliveredAt).Abs() <= time.Second
		if q.Status != state.TimedOut && !isDeliveredHere {
			continue
		}
		hasArrived, isKnown := h.checkArrival(ctx, e, q, *q.DeliveredAt)
		if !isKnown {
			continue
		}
		_, err := state.ChangeQuestion(q.Path, func(q *state.Question) { q.IsDeliverySeen = true })
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

// checkArrival reports whether the session's transcript has the text about q, which a
// hook printed at that time. isKnown is false while the transcript may lack the text only
// because it is young, or if the transcript cannot be read or is too long.
func (h *Hook) checkArrival(
	ctx context.Context, e *Event, q *state.Question, printedAt time.Time,
) (hasArrived, isKnown bool) {
	if elapsed := time.Since(printedAt).Abs(); elapsed < transcriptLag {
		if e.HookEventName != "Stop" {
			return false, false // the next event looks again
		}
		state.Sleep(ctx, transcriptLag-elapsed) // this hook runs in the background
	}
	tail, isComplete, err := inject.TranscriptEnd(string(e.TranscriptPath), maxTailBytes)
	hasArrived = bytes.Contains(tail, []byte(deliveryMark(q)))
	return hasArrived, err == nil && (hasArrived || isComplete)
}
