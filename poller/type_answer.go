package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// canType says whether the poller may type the answer, and knows where: into the pane
// that the index names. Only of a question in a folder that a person named, the
// question's own file says which pane it is.
func (p *Poller) canType(record *trackedRecord) bool {
	if !record.question.CanBeTyped() {
		return false
	}
	if record.isInNamedFolder {
		return !record.question.Mode.Traits().NeedsHook || record.question.TmuxPane != ""
	}
	return record.TmuxPane != "" && !inject.IsElsewhere(record.question.ClaudeStart)
}

// withPane is a question with the pane that its answer may be typed into.
func (p *Poller) withPane(record *trackedRecord, q *state.Question) *state.Question {
	if record.isInNamedFolder {
		return q
	}
	placed := *q
	placed.TmuxPane, placed.TmuxSocket = record.TmuxPane, record.TmuxSocket
	return &placed
}

// abandonWithoutPane gives questions up whose tmux session is missing three rounds
// running: it can be gone for a moment.
func (p *Poller) abandonWithoutPane(ctx context.Context) {
	var questions []*state.Question
	for _, record := range p.ownRecords {
		needsPane := record.question != nil && record.question.Status.IsOpen() &&
			record.question.Mode.Traits().NeedsPane &&
			!record.isTyping.Load()
		if needsPane && !inject.IsElsewhere(record.question.ClaudeStart) {
			questions = append(questions, p.withPane(record, record.question))
		}
	}
	if len(questions) == 0 || !p.isFindingPanes.CompareAndSwap(false, true) {
		return
	}
	p.runInBackground("find panes", func() {
		defer p.isFindingPanes.Store(false)
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		for _, q := range questions {
			_, err := inject.Locate(ctx, q, p.Env("TMUX"))
			isGone := errors.Is(err, inject.ErrTmuxGone)
			if !isGone && q.PaneMissedCycles == 0 {
				continue
			}
			stored, err := state.ChangeQuestion(q.Path, func(q *state.Question) {
				q.PaneMissedCycles++
				if !isGone {
					q.PaneMissedCycles = 0
				}
			})
			p.Log.ErrorOnce(err, "tmux session not counted")
			if err == nil && stored.PaneMissedCycles >= maxMissedRounds {
				p.closeQuestion(q, state.Abandoned, "tmux_gone", nil)
			}
		}
	})
}

// completeForeign completes a question that another program wrote down: its project
// follows from where it lies, its space from that.
func (p *Poller) completeForeign(ctx context.Context, record *trackedRecord) {
	chat, space := p.findChat(ctx, record)
	p.changeRecord(record, "question not completed", func(q *state.Question) {
		if q.Chat == "" {
			q.Chat, q.Space = chat, space
		}
		q.Mode, q.ProjectDir = state.ModeInject, cmp.Or(q.ProjectDir, p.projectDirOf(stateDirOf(q)))
		name := q.SessionID
		if uuid.Validate(name) == nil { // Claude Code's own ids are no names
			name = cmp.Or(q.TmuxSession, name)
		}
		q.SessionName = cmp.Or(q.SessionName, name)
	})
}

// findChat is the space of a question that names none: where its project's webhook posts,
// or, where another program posts, the one that is configured; "" while that cannot be
// told, and where its thread is in another space.
func (p *Poller) findChat(ctx context.Context, record *trackedRecord) (chat, space string) {
	gateway := p.gatewayFor(
		ctx,
		configSource{
			cmp.Or(record.question.ProjectDir, p.projectDirOf(stateDirOf(record.question))),
			record.IsTrusted,
		},
	)
	switch {
	case gateway.err == nil:
		chat, space = gateway.transport.Chat(), gateway.spaceName
	case !gateway.cfg.CanSend() && gateway.cfg.SpaceID != "":
		chat, space = gchat.ChatAtEndpoint(
			gateway.cfg.APIEndpoint,
			gateway.cfg.SpaceID,
		), gateway.cfg.SpaceID
	}
	if record.question.ThreadName != "" &&
		!strings.HasPrefix(record.question.ThreadName, space+"/") {
		return "", ""
	}
	return chat, space
}

// projectDirOf is the project that a state folder belongs to: PROJECT/.claude/state, else
// this process's own.
func (p *Poller) projectDirOf(stateDir string) string {
	if project, ok := strings.CutSuffix(stateDir, "/.claude/state"); ok && project != "" {
		return project
	}
	return state.ProjectDir(p.Env)
}

const (
	confirmTimeout  = 3 * time.Second // after the dialog closed, for the PostToolUse hook
	typeTimeout     = time.Minute     // 10 kB of text into a slow terminal
	triesBeforeNote = 3               // that changed nothing: then the thread is told why
	maxDialogMisses = 3               // tries running that find the dialog gone: then it is
	retryPause      = 2 * time.Second // at least, from one try to the next
)

// typingTries is what the poller did about an answer that it types, and when it comes
// again.
type typingTries struct {
	nextAt       time.Time // no try before
	failed       int       // that changed nothing
	dialogMisses int       // tries running that found the dialog gone
	lastReason   string    // why nothing was typed the last time
}

// needsPerson says that a person has to finish the dialog.
func needsPerson(q *state.Question) bool {
	return q.InjectionSucceeded != nil && !*q.InjectionSucceeded
}

// startTyping has an answer typed that no process delivers, beside the loop: typing takes
// its time.
func (p *Poller) startTyping(ctx context.Context, record *trackedRecord) (retryAt time.Time) {
	q, now := record.question, p.Now()
	// the inbox has these words, or takes them with the next round
	isOld := q.Kind == state.KindPrompt
	if q.Status != state.Answered || needsPerson(q) || !p.canType(record) || isOld {
		return time.Time{}
	}
	if now.Before(record.tries.nextAt) {
		return record.tries.nextAt
	}
	if q.Kind.Traits().IsPrompt && (p.hasEarlierPrompt(record) || p.isBehindPrompt(q)) {
		return now.Add(retryPause)
	}
	lock, err := state.LockWaiter(p.Env, record.Path)
	if err != nil {
		return time.Time{} // a hook waits: it delivers the answer
	}
	record.isTyping.Store(true)
	// A signal does not cut what is being typed: half an answer is worse than a late end.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), typeTimeout)
	p.runInBackground("type", func() {
		defer record.isTyping.Store(false)
		defer lock.Unlock()
		defer cancel()
		p.typeAnswer(ctx, record)
	})
	return time.Time{}
}

// hasEarlierPrompt says whether something that was said to the same session earlier is
// not with Claude yet.
func (p *Poller) hasEarlierPrompt(record *trackedRecord) bool {
	for _, other := range p.ownRecords {
		q := other.question
		if other != record && q != nil && q.Kind.Traits().IsPrompt && q.Status == state.Answered &&
			!needsPerson(q) &&
			q.ClaudeSession() == record.question.ClaudeSession() &&
			q.AskedAt.Before(record.question.AskedAt) {
			return true
		}
	}
	return false
}

func (p *Poller) typeAnswer(ctx context.Context, record *trackedRecord) {
	q, err := state.LoadQuestion(record.Path)
	if err != nil || q.Status != state.Answered || q.IsPrinted {
		return
	}
	q = p.withPane(record, q)
	if q.Kind.Traits().IsPrompt {
		p.typePrompt(
			ctx,
			&nextPrompt{question: q, tries: &record.tries, isTrusted: record.IsTrusted},
		)
		return
	}
	record.tries.nextAt = p.Now().Add(retryPause) // whatever fails below
	if q.Typing != nil && !q.Typing.IsEnded {
		// A poller was killed while it typed. Its last key may have been sent or not, so
		// none is sent again: where no hook says that Claude has the answer, a person has
		// to finish the dialog.
		if !p.waitUntilClosed(ctx, q.Path) {
			p.leaveToPerson(
				q,
				inject.Outcome{
					Result: inject.Dirty,
					Why:    "the poller was stopped while it typed your answer",
				},
			)
		}
		return
	}
	if q.InjectionSucceeded != nil && *q.InjectionSucceeded {
		// killed while it was waiting for the confirmation
		p.confirmTyped(ctx, q)
		return
	}
	target, err := inject.Locate(ctx, q, p.Env("TMUX"))
	if err != nil {
		p.handleNotTyped(record, q, err.Error(), false)
		return
	}
	typist := p.newTypist(record.Path)
	outcome := typist.AnswerDialog(ctx, target, answerChoices(q))
	if outcome.KeyCount > 0 {
		p.Log.Info().
			Str("question", q.QuestionID).
			Str("session", q.SessionName).
			Str("pane", target.Pane).
			Str("result", string(outcome.Result)).
			Int("keys", outcome.KeyCount).
			Str("why", outcome.Why).
			Msg("answer typed")
	}
	switch {
	case typist.DryRun:
		would := "would type: " + strings.Join(outcome.Steps, ", ")
		if outcome.Why != "" {
			would = "would not type: " + outcome.Why
		}
		p.endDryRun(record, q, target.Pane, would, len(outcome.Steps))
	case outcome.Result == inject.Injected:
		p.saveTypingEnd(q, outcome, func(q *state.Question) { q.InjectionSucceeded = new(true) })
		p.confirmTyped(ctx, q)
	case outcome.Result == inject.Dirty:
		p.waitUntilClosed(ctx, record.Path)
		p.leaveToPerson(q, outcome)
	default:
		// also without a key: one may have been written down and then not sent
		p.saveTypingEnd(q, outcome, nil)
		p.handleNotTyped(record, q, outcome.Why, outcome.DialogGone)
	}
}

// newTypist writes down each key before it is sent.
func (p *Poller) newTypist(path string) inject.Typist {
	return inject.Typist{
		UserState: p.userStateDir,
		DryRun:    p.isDryRun(),
		BeforeKey: func(key string, isSubmit bool) error {
			var closedErr error
			_, err := state.ChangeQuestionRelaxed(path, func(q *state.Question) {
				if q.Status != state.Answered {
					// a person was faster
					closedErr = fmt.Errorf("type answer: the question is %s", q.Status)
					return
				}
				if q.Typing == nil || q.Typing.IsEnded {
					q.Typing = &state.Typing{}
				}
				q.InjectionAttempted = true
				if strings.HasPrefix(key, "text") {
					key = "text" // the person's words are in the reply
				}
				q.Typing.LastKeyAt, q.Typing.LastKey, q.Typing.IsSubmit = p.Now().
					UTC(),
					key, isSubmit
				q.Typing.KeyCount++
			})
			return cmp.Or(closedErr, err)
		},
	}
}

// isDryRun says whether nothing is to be typed: by this process's own options, or by
// another poller's.
func (p *Poller) isDryRun() bool { return p.DryRun || state.IsDryRunMarked(p.Env) }

// endDryRun says what would have been typed, and gives the answer up: nothing of a dry
// run is typed after its end.
func (p *Poller) endDryRun(record *trackedRecord, q *state.Question, pane, would string, keys int) {
	p.reportDryRun(q, pane, would, keys)
	record.tries.nextAt = time.Time{} // for the next reply
	p.withdrawDryRunAnswer(q)
}

func (p *Poller) reportDryRun(q *state.Question, pane, would string, keys int) {
	p.Log.Info().Str("question", q.QuestionID).Str("pane", pane).Int("keys", keys).Msg("dry run")
	if p.DryRunOutput != nil {
		fmt.Fprintf(
			p.DryRunOutput,
			"%s, pane %s: %s\n",
			wording.SafeLine(q.SessionName),
			pane,
			wording.SafeLine(would),
		)
	}
}

func (p *Poller) withdrawDryRunAnswer(q *state.Question) {
	p.changeQuestion(q.Path, "answer of a dry run not given up", func(q *state.Question) {
		if q.Status == state.Answered {
			q.OweNote(state.NoteDryRun, q.AnsweredMessage)
			q.WithdrawAnswer()
		}
	})
}

// answerChoices are the prompts of a question with their answers.
func answerChoices(q *state.Question) []inject.Choice {
	list := make([]inject.Choice, len(q.SubQuestions))
	for i, subQuestion := range q.SubQuestions {
		answer := wording.ParseAnswerValue(subQuestion, q.Answers[subQuestion.Question])
		answer.Notes = q.Notes[subQuestion.Question]
		list[i] = inject.Choice{
			SubQuestion: subQuestion,
			Answer:      answer,
			ChoosesChat: q.Declined != "",
		}
	}
	return list
}

// saveTypingEnd writes down how typing ended; also, where it is not nil, changes more in
// that write.
func (p *Poller) saveTypingEnd(
	q *state.Question,
	outcome inject.Outcome,
	change func(*state.Question),
) {
	p.changeQuestion(q.Path, "the end of typing not written down", func(q *state.Question) {
		if q.Typing == nil && outcome.Result == inject.Unchanged {
			return
		}
		if q.Typing == nil {
			q.Typing = &state.Typing{LastKeyAt: p.Now().UTC()}
		}
		q.Typing.IsEnded, q.Typing.Result, q.Typing.Why = true, string(
			outcome.Result,
		), wording.SafeLine(
			outcome.Why,
		)
		if change != nil {
			change(q)
		}
	})
}

// changeQuestion changes a question beside the loop, which reads it again.
func (p *Poller) changeQuestion(path, failure string, change func(*state.Question)) {
	_, err := state.ChangeQuestion(path, change)
	p.Log.ErrorOnce(err, failure)
}

// confirmTyped closes a question whose answer was typed, where no hook does, which knows
// what Claude was told.
func (p *Poller) confirmTyped(ctx context.Context, q *state.Question) {
	if !p.waitUntilClosed(ctx, q.Path) {
		p.closeQuestion(q, state.Resolved, "chat", nil)
	}
}

func (p *Poller) waitUntilClosed(ctx context.Context, path string) (isClosed bool) {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	for {
		if q, err := state.LoadQuestion(path); err != nil || !q.Status.IsOpen() {
			return true
		}
		if !state.Sleep(ctx, 50*time.Millisecond) {
			return false
		}
	}
}

// leaveToPerson tells the thread that a person has to finish the dialog: no further key
// is sent. Where a hook said meanwhile how the question ended, nobody has to look.
func (p *Poller) leaveToPerson(q *state.Question, outcome inject.Outcome) {
	p.saveTypingEnd(q, outcome, func(q *state.Question) {
		q.InjectionSucceeded = new(q.ResolvedBy == "chat")
		if q.Status.IsOpen() {
			q.OwedNotes = append(
				q.OwedNotes,
				state.OwedNote{
					About:        state.NoteNotTyped,
					ReplyMessage: q.AnsweredMessage,
					Text:         outcome.Why,
				},
			)
		}
	})
}

// handleNotTyped counts a try that changed nothing, and tells the thread why when it goes
// on. Off says that the dialog is not there.
func (p *Poller) handleNotTyped(
	record *trackedRecord,
	q *state.Question,
	why string,
	isDialogGone bool,
) {
	tries := &record.tries
	mustNotify := tries.countFailure(
		p.Now(),
		p.loadConfig(configSource{q.ProjectDir, record.IsTrusted}).PollInterval,
		why,
	)
	if tries.dialogMisses++; !isDialogGone {
		tries.dialogMisses = 0
	}
	if tries.dialogMisses >= maxDialogMisses {
		p.closeQuestion(q, state.Cancelled, "screen", nil)
		return
	}
	p.logNotTyped(q, tries)
	if mustNotify {
		p.oweNotTypedNote(q, why)
	}
}

// countFailure counts a try that changed nothing. It reports whether the thread is to be
// told.
func (t *typingTries) countFailure(
	now time.Time,
	interval time.Duration,
	why string,
) (mustNotify bool) {
	t.lastReason = why
	t.failed++
	t.nextAt = now.Add(min(time.Second<<min(t.failed-1, 8), max(interval, time.Second)))
	return t.failed == triesBeforeNote
}

func (p *Poller) logNotTyped(q *state.Question, tries *typingTries) {
	if tries.failed == 1 || tries.failed == triesBeforeNote {
		p.Log.Warn().
			Str("question", q.QuestionID).
			Str("session", q.SessionName).
			Str("why", tries.lastReason).
			Msg("answer not typed yet")
	}
}

func (p *Poller) oweNotTypedNote(q *state.Question, why string) {
	p.changeQuestion(q.Path, "thread not told that the answer waits", func(q *state.Question) {
		if q.Status.IsOpen() { // else the note of its end is the last
			q.OwedNotes = append(q.OwedNotes, state.OwedNote{About: state.NoteNotTyped, Text: why})
		}
	})
}
