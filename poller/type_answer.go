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

// canType reports whether the poller can type the answer: it knows the pane and may use
// it. The pane comes from the index entry. The question's own file names the pane only
// if a person named the question's folder.
func (p *Poller) canType(record *trackedRecord) bool {
	if !record.question.CanBeTyped() {
		return false
	}
	if record.isInNamedFolder {
		return !record.question.Mode.Traits().NeedsHook || record.question.TmuxPane != ""
	}
	return record.TmuxPane != "" && !inject.IsElsewhere(record.question.ClaudeStart)
}

// withPane returns the question with the pane that its answer may be typed into.
func (p *Poller) withPane(record *trackedRecord, q *state.Question) *state.Question {
	if record.isInNamedFolder {
		return q
	}
	placed := *q
	placed.TmuxPane, placed.TmuxSocket = record.TmuxPane, record.TmuxSocket
	return &placed
}

// abandonWithoutPane abandons questions whose tmux session is missing in three scans in
// a row. It can be missing for a moment.
func (p *Poller) abandonWithoutPane(ctx context.Context) {
	var questions []*state.Question
	for _, record := range p.ownRecords {
		q := record.question
		needsPane := q != nil && q.Status.IsOpen() && q.Mode.Traits().NeedsPane &&
			!record.isTyping.Load()
		if needsPane && !inject.IsElsewhere(q.ClaudeStart) {
			questions = append(questions, p.withPane(record, q))
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
			p.Log.ErrorOnce(err, "missing tmux session not counted")
			if err == nil && stored.PaneMissedCycles >= maxMissedRounds {
				p.closeQuestion(q, state.Abandoned, "tmux_gone", nil)
			}
		}
	})
}

// completeForeign completes a question that another program wrote. The question's
// folder says which project it belongs to, and the project says which space.
func (p *Poller) completeForeign(ctx context.Context, record *trackedRecord) {
	chat, space := p.findChat(ctx, record)
	p.changeRecord(record, "question not completed", func(q *state.Question) {
		if q.Chat == "" {
			q.Chat, q.Space = chat, space
		}
		q.Mode = state.ModeInject // no hook of ours waits for the answer, so it is typed
		q.ProjectDir = cmp.Or(q.ProjectDir, p.projectDirOf(stateDirOf(q)))
		name := q.SessionID
		if uuid.Validate(name) == nil { // Claude Code's own ids say nothing to a person
			name = cmp.Or(q.TmuxSession, name)
		}
		q.SessionName = cmp.Or(q.SessionName, name)
	})
}

// findChat returns the space of a question that names none: the space that its
// project's webhook posts to, or the configured one if another program posts. It
// returns "" while the space is unknown, and if the question's thread is in another
// space.
func (p *Poller) findChat(ctx context.Context, record *trackedRecord) (chat, space string) {
	q := record.question
	projectDir := cmp.Or(q.ProjectDir, p.projectDirOf(stateDirOf(q)))
	gateway := p.gatewayFor(ctx, configSource{projectDir, record.IsTrusted})
	switch {
	case gateway.err == nil:
		chat, space = gateway.transport.Chat(), gateway.spaceName
	case !gateway.cfg.CanSend() && gateway.cfg.SpaceID != "":
		space = gateway.cfg.SpaceID
		chat = gchat.ChatAtEndpoint(gateway.cfg.APIEndpoint, space)
	}
	if q.ThreadName != "" && !strings.HasPrefix(q.ThreadName, space+"/") {
		return "", ""
	}
	return chat, space
}

// projectDirOf returns the project that a state folder belongs to: PROJECT if the
// folder is PROJECT/.claude/state, else this process's own project.
func (p *Poller) projectDirOf(stateDir string) string {
	if project, ok := strings.CutSuffix(stateDir, "/.claude/state"); ok && project != "" {
		return project
	}
	return state.ProjectDir(p.Env)
}

const (
	// confirmTimeout is how long the PostToolUse hook may take after the dialog closed.
	confirmTimeout = 3 * time.Second
	// typeTimeout is enough for 10 kB of text into a slow terminal.
	typeTimeout = time.Minute
	// triesBeforeNote is how many tries change nothing before a note says why.
	triesBeforeNote = 3
	// maxDialogMisses is how many tries in a row miss the dialog before its question is
	// closed.
	maxDialogMisses = 3
	// retryPause is the minimum from one try to the next.
	retryPause = 2 * time.Second
)

// typingTries is what this process did to type one answer or prompt, and when it may
// try again.
type typingTries struct {
	nextAt       time.Time // no try before this time
	failed       int       // tries that changed nothing
	dialogMisses int       // tries in a row that did not find the dialog
	lastReason   string    // why the last try typed nothing
}

// needsPerson reports whether a person has to finish the dialog in the terminal.
func needsPerson(q *state.Question) bool {
	return q.InjectionSucceeded != nil && !*q.InjectionSucceeded
}

// startTyping starts to type an answer that no process delivers, in a goroutine: typing
// takes time. A retryAt that is not zero says when to call it again.
func (p *Poller) startTyping(ctx context.Context, record *trackedRecord) (retryAt time.Time) {
	q, now := record.question, p.Now()
	// An old version kept prompts as questions. moveOldPrompts moves them into the inbox.
	isOldPrompt := q.Kind == state.KindPrompt
	if q.Status != state.Answered || needsPerson(q) || !p.canType(record) || isOldPrompt {
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
		return time.Time{} // a hook waits, and delivers the answer
	}
	record.isTyping.Store(true)
	// A signal does not interrupt the typing: half an answer is worse than a late end.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), typeTimeout)
	p.runInBackground("type", func() {
		defer record.isTyping.Store(false)
		defer lock.Unlock()
		defer cancel()
		p.typeAnswer(ctx, record)
	})
	return time.Time{}
}

// hasEarlierPrompt reports whether the answer to an earlier "next instruction" question
// of the same session still has to be delivered.
func (p *Poller) hasEarlierPrompt(record *trackedRecord) bool {
	question := record.question
	return p.hasSessionRecord(question.ClaudeSession(), func(other *trackedRecord) bool {
		q := other.question
		isAnswer := q.Kind.Traits().IsPrompt && q.Status == state.Answered && !needsPerson(q)
		return isAnswer && other != record && q.AskedAt.Before(question.AskedAt)
	})
}

func (p *Poller) typeAnswer(ctx context.Context, record *trackedRecord) {
	q, err := state.LoadQuestion(record.Path)
	if err != nil || q.Status != state.Answered || q.IsPrinted {
		return
	}
	q = p.withPane(record, q)
	if q.Kind.Traits().IsPrompt {
		prompt := &nextPrompt{question: q, tries: &record.tries, isTrusted: record.IsTrusted}
		p.typePrompt(ctx, prompt)
		return
	}
	record.tries.nextAt = p.Now().Add(retryPause) // also if a step below fails
	if q.Typing != nil && !q.Typing.IsEnded {
		// A poller was killed while it typed. It is not known whether its last key was
		// sent, so no key is sent a second time. If no hook says that Claude has the
		// answer, a person has to finish the dialog.
		if !p.waitUntilClosed(ctx, q.Path) {
			p.leaveToPerson(q, inject.Outcome{
				Result: inject.Dirty,
				Why:    "the poller was stopped while it typed your answer",
			})
		}
		return
	}
	if q.InjectionSucceeded != nil && *q.InjectionSucceeded {
		// An earlier poller typed the answer, and was killed before it saw the
		// confirmation.
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
		// This is saved even if no key was sent: a key is saved before it is sent, and
		// may then fail.
		p.saveTypingEnd(q, outcome, nil)
		p.handleNotTyped(record, q, outcome.Why, outcome.DialogGone)
	}
}

// newTypist returns a typist that saves each key in the question's record before it
// sends it.
func (p *Poller) newTypist(path string) inject.Typist {
	return inject.Typist{
		UserState: p.userStateDir,
		DryRun:    p.isDryRun(),
		BeforeKey: func(key string, isSubmit bool) error {
			var closedErr error
			_, err := state.ChangeQuestionRelaxed(path, func(q *state.Question) {
				if q.Status != state.Answered {
					// a person answered first
					closedErr = fmt.Errorf("type answer: the question is %s", q.Status)
					return
				}
				if q.Typing == nil || q.Typing.IsEnded {
					q.Typing = &state.Typing{}
				}
				q.InjectionAttempted = true
				if strings.HasPrefix(key, "text") {
					key = "text" // the reply has the text itself
				}
				q.Typing.LastKeyAt = p.Now().UTC()
				q.Typing.LastKey, q.Typing.IsSubmit = key, isSubmit
				q.Typing.KeyCount++
			})
			return cmp.Or(closedErr, err)
		},
	}
}

// isDryRun reports whether nothing is to be typed, by this process's own options or by
// another poller's.
func (p *Poller) isDryRun() bool { return p.DryRun || state.IsDryRunMarked(p.Env) }

// endDryRun reports what would have been typed, and withdraws the answer. What a dry
// run did not type is not typed after its end.
func (p *Poller) endDryRun(record *trackedRecord, q *state.Question, pane, would string, keys int) {
	p.reportDryRun(q, pane, would, keys)
	record.tries.nextAt = time.Time{} // the next reply may be tried at once
	p.withdrawDryRunAnswer(q)
}

func (p *Poller) reportDryRun(q *state.Question, pane, would string, keys int) {
	p.Log.Info().Str("question", q.QuestionID).Str("pane", pane).Int("keys", keys).Msg("dry run")
	if p.DryRunOutput != nil {
		session, action := wording.SafeLine(q.SessionName), wording.SafeLine(would)
		fmt.Fprintf(p.DryRunOutput, "%s, pane %s: %s\n", session, pane, action)
	}
}

func (p *Poller) withdrawDryRunAnswer(q *state.Question) {
	p.changeQuestion(q.Path, "answer of a dry run not withdrawn", func(q *state.Question) {
		if q.Status == state.Answered {
			q.OweNote(state.NoteDryRun, q.AnsweredMessage)
			q.WithdrawAnswer()
		}
	})
}

// answerChoices returns the sub-questions of a question, each with its answer.
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

// saveTypingEnd saves how the typing ended. A change that is not nil is made in the
// same write.
func (p *Poller) saveTypingEnd(
	q *state.Question,
	outcome inject.Outcome,
	change func(*state.Question),
) {
	p.changeQuestion(q.Path, "end of typing not saved", func(q *state.Question) {
		if q.Typing == nil && outcome.Result == inject.Unchanged {
			return
		}
		if q.Typing == nil {
			q.Typing = &state.Typing{LastKeyAt: p.Now().UTC()}
		}
		q.Typing.IsEnded = true
		q.Typing.Result, q.Typing.Why = string(outcome.Result), wording.SafeLine(outcome.Why)
		if change != nil {
			change(q)
		}
	})
}

// changeQuestion changes a question from outside the loop. The loop reads the file
// again.
func (p *Poller) changeQuestion(path, failure string, change func(*state.Question)) {
	_, err := state.ChangeQuestion(path, change)
	p.Log.ErrorOnce(err, failure)
}

// confirmTyped closes a question whose answer was typed, unless a hook closes it first.
// The hook knows what Claude was told.
func (p *Poller) confirmTyped(ctx context.Context, q *state.Question) {
	if !p.waitUntilClosed(ctx, q.Path) {
		p.closeQuestion(q, state.Resolved, "chat", nil)
	}
}

// waitUntilClosed waits for a short time, and reports whether the question was closed
// meanwhile.
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

// leaveToPerson has the thread informed that a person has to finish the dialog, and
// sends no further key. If a hook has reported the end of the question meanwhile, no
// note is needed.
func (p *Poller) leaveToPerson(q *state.Question, outcome inject.Outcome) {
	p.saveTypingEnd(q, outcome, func(q *state.Question) {
		q.InjectionSucceeded = new(q.ResolvedBy == "chat")
		if q.Status.IsOpen() {
			q.OwedNotes = append(q.OwedNotes, state.OwedNote{
				About:        state.NoteNotTyped,
				ReplyMessage: q.AnsweredMessage,
				Text:         outcome.Why,
			})
		}
	})
}

// handleNotTyped counts a try that changed nothing. After some tries a note says why,
// and if the dialog stays gone, the question is closed.
func (p *Poller) handleNotTyped(
	record *trackedRecord,
	q *state.Question,
	why string,
	isDialogGone bool,
) {
	tries := &record.tries
	interval := p.loadConfig(configSource{q.ProjectDir, record.IsTrusted}).PollInterval
	mustNotify := tries.countFailure(p.Now(), interval, why)
	tries.dialogMisses++
	if !isDialogGone {
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

// countFailure counts a try that changed nothing. It reports whether a note must say
// so.
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
	p.changeQuestion(q.Path, "note of an answer that waits not saved", func(q *state.Question) {
		if q.Status.IsOpen() { // else the closing note is the last one
			q.OwedNotes = append(q.OwedNotes, state.OwedNote{About: state.NoteNotTyped, Text: why})
		}
	})
}
