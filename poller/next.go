package poller

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/inject"
	"gchat-hooks/poller/commands"
	"gchat-hooks/state"
)

const (
	proofBound = 10 * time.Second       // after its typing, for the hook that saw an instruction as a prompt
	proofLook  = 300 * time.Millisecond // from one look for such a proof to the next
	mostPastes = 3                      // of an instruction that no hook ever sees
)

// A prompt is what the poller types as a session's next prompt: the answer to its question for
// the next instruction, or words that were said unasked.
type prompt struct {
	q   *state.Question // of words, what they look like as one
	in  *state.Incoming // words; nil of an answer
	one *state.Session  // of words
	try *try
	// trusted says that the files of its project count.
	trusted bool
}

// typePrompt types a session's next prompt at its empty input box, and submits it. The next
// UserPromptSubmit or Stop of the session proves that it arrived and closes it; where neither
// comes, it is typed again. What is said while Claude works is queued by Claude Code, and typed
// once: where it cannot be seen that Claude Code has it, a person has to look.
func (p *Poller) typePrompt(ctx context.Context, t *prompt) {
	t.try.next = p.Now().Add(retryPause)
	words, _ := t.q.Decision()
	switch {
	case t.q.Typing != nil && strings.HasPrefix(words, "/"): // a poller was killed
		p.endPrompt(t, "chat", "What became of it was not seen.")
		return
	case t.q.Typing != nil && p.isTypingOver(t, words):
		return
	case p.isDryRun():
		p.endDryPrompt(t, "would type: "+words)
		return
	}
	one, last, why := p.readyFor(ctx, t, words)
	// What was said after a /clear from Chat is for what its Claude Code has by now.
	isLeft := one != nil && one.EndReason != "clear" && commands.Left(state.SessionsIn(p.user), one)
	hasJustBegun := one != nil && p.Now().Sub(one.StartingAt).Abs() < commands.BeginBound
	switch {
	case isLeft:
		p.endPrompt(t, "superseded", "")
	case why != "" && !hasJustBegun:
		p.promptNotTyped(t, why)
	case why == "":
		p.typeAt(ctx, t, one, words, last)
	}
}

// isTypingOver looks for the proof that a prompt arrived which was typed before. It says whether
// there is nothing to be typed for now.
func (p *Poller) isTypingOver(t *prompt, words string) bool {
	typing := t.q.Typing
	left, isQueued := typing.LastKeyAt.Add(proofBound).Sub(p.Now()), typing.LastKey == state.KeyQueued
	waits := left > 0 && left <= proofBound
	one, err := state.SessionsIn(p.user).Get(t.q.ClaudeSession())
	looks := (isQueued || !waits) && err == nil
	switch {
	case looks && inject.Queued(p.transcriptOf(one), words, typing.LastKeyAt, true):
		p.endPrompt(t, "chat", "") // it is in the queue; or no hook of ours runs there
	case waits && isQueued: // 2.1.329 tells a hook of the queue, and the transcript says so in both versions
		t.try.next = p.Now().Add(proofLook)
	case waits:
		t.try.next = p.Now().Add(left)
	case isQueued:
		p.lookAtPrompt(t, "Claude Code did not say that it has your message")
	case typing.KeyCount >= mostPastes:
		p.endPrompt(t, "not_typed", "")
	default:
		return false
	}
	return true
}

// typeAt types a prompt where the screen just showed that it can be typed.
func (p *Poller) typeAt(ctx context.Context, t *prompt, one *state.Session, words, last string) {
	was := t.q.Typing
	now := state.Typing{LastKeyAt: p.Now().UTC(), LastKey: last, IsSubmit: true, KeyCount: 1}
	if was != nil {
		now.KeyCount = was.KeyCount + 1
	}
	if p.savePrompt(t, &now) != nil {
		return // its person went on in the terminal
	}
	if was == nil {
		p.Log.ErrorOnce(state.AppendDecision(p.Env, p.Log, t.q.DecisionLine(words)), "not in the audit log")
	}
	p.noteTyped(one, words, now.LastKeyAt)
	menu := commands.Menu(p.Env, one)
	if was != nil {
		menu.Ours = words
	}
	err := menu.Run(ctx, one.TmuxPane, "type", []string{words})
	p.Log.Info().Str("question", t.q.QuestionID).Str("session", t.q.SessionName).Err(err).Msg("next instruction typed")
	refused := new(state.UserError)
	isRefused := errors.As(err, &refused) && refused.Code == 2
	isUnsent := errors.As(err, new(inject.Unsubmitted)) && last == state.KeyQueued
	switch {
	case isRefused: // nothing of it stands there
		p.savePrompt(t, was)
		p.promptNotTyped(t, err.Error())
	case isUnsent:
		now.LastKey = "text"
		p.savePrompt(t, &now)
		p.promptNotTyped(t, err.Error())
	case strings.HasPrefix(words, "/"):
		p.endPrompt(t, "chat", p.room().Outcome(ctx, one, words))
	case last == state.KeyQueued:
		t.try.next = time.Time{} // its proof is looked for
	default:
		t.try.next = p.Now().Add(proofBound)
	}
}

// noteTyped notes what was typed last into a session's terminal: a hook is told of it as of a
// prompt, and /stop may find it in the box.
func (p *Poller) noteTyped(one *state.Session, words string, at time.Time) {
	_, err := state.SessionsIn(p.user).Change(one.ID, func(one *state.Session) {
		one.LastTyped = &state.TypedPrompt{Text: words, TypedAt: at}
	})
	p.Log.ErrorOnce(err, "what is typed not noted")
}

// savePrompt writes down what is typed of a prompt; nil is that nothing was. An error is also
// that the prompt is over.
func (p *Poller) savePrompt(t *prompt, typing *state.Typing) error {
	t.q.Typing = typing
	if t.in != nil {
		return p.changeWords(t.in, func(in *state.Incoming) error {
			in.Status, in.Typing = state.IncomingDoing, typing
			if typing == nil {
				in.Status = state.IncomingKept
			}
			return nil
		})
	}
	_, err := state.UpdateQuestion(t.q.Path, func(q *state.Question) error {
		if q.Status != state.Answered {
			return state.ErrTransition
		}
		q.InjectionAttempted, q.Typing = true, typing
		return nil
	})
	if !errors.Is(err, state.ErrTransition) {
		p.Log.ErrorOnce(err, "typing not written down")
	}
	return err
}

// endPrompt ends a prompt; said is what the terminal said of a command.
func (p *Poller) endPrompt(t *prompt, by, said string) {
	switch {
	case t.in != nil:
		p.endWords(t.in, by, said)
	case by == "chat":
		p.end(t.q, state.Resolved, by, nil)
	default:
		p.end(t.q, state.Cancelled, by, nil)
	}
}

func (p *Poller) endDryPrompt(t *prompt, would string) {
	p.tellDryRun(t.q, t.q.TmuxPane, would, 0)
	t.try.next = time.Time{} // for the next reply
	if t.in == nil {
		p.giveUpDry(t.q)
		return
	}
	in := *t.in
	in.ResolvedBy, in.EndedAt = state.EndedReplaced, p.Now().UTC() // nothing else waits for it
	err := p.finishWords(t.one, &in, state.OwedNote{About: state.NoteDryRun, ReplyMessage: in.MessageName})
	p.Log.ErrorOnce(err, "words of a dry run not given up")
}

// promptNotTyped counts a try that changed nothing, and tells the thread why when it goes on.
func (p *Poller) promptNotTyped(t *prompt, why string) {
	interval := p.config(configured{t.q.ProjectDir, t.trusted}).PollInterval
	isLong := t.try.failed(p.Now(), interval, why)
	p.logNotTyped(t.q, t.try)
	switch {
	case !isLong:
	case t.in != nil:
		p.noteWords(t.one, t.q, state.OwedNote{About: state.NoteNotTyped, Text: why})
	default:
		p.oweNotTyped(t.q, why)
	}
}

// lookAtPrompt tells the thread that a person has to look: nothing more is typed.
func (p *Poller) lookAtPrompt(t *prompt, why string) {
	if t.in == nil {
		p.leaveToPerson(t.q, inject.Outcome{Result: inject.Dirty, Why: why})
		return
	}
	typing := *t.q.Typing
	typing.IsEnded, typing.Result, typing.Why = true, string(inject.Dirty), wording.Line(why)
	if p.savePrompt(t, &typing) == nil {
		p.noteWords(t.one, t.q, state.OwedNote{About: state.NoteNotTyped, ReplyMessage: t.in.MessageName, Text: why})
	}
}

// transcriptOf is a session's transcript; of one that was begun from Chat, and called no hook yet, where Claude Code puts it.
func (p *Poller) transcriptOf(one *state.Session) string {
	if one.TranscriptPath != "" {
		return one.TranscriptPath
	}
	usual, _ := filepath.Glob(filepath.Join(state.Home(p.Env), ".claude", "projects", "*", one.ID+".jsonl"))
	return strings.Join(usual, "") // of several none
}

// readyFor says whether an instruction can be typed into the pane of its session: at an
// empty prompt, or where it stands there already, since a poller was killed; then it is
// taken out first. last is the key that is written down before. why says what is in the
// way; a person's draft is left alone.
func (p *Poller) readyFor(ctx context.Context, t *prompt, words string) (one *state.Session, last, why string) {
	q := t.q
	one, err := state.SessionsIn(p.user).Get(q.ClaudeSession())
	var screen inject.Screen
	if err == nil {
		_, screen, err = commands.Shot(ctx, one)
	}
	dialog := (*state.Dialog)(nil)
	if err == nil {
		dialog, _ = inject.DialogOf(one)
	}
	last = "text"
	if screen.Busy {
		last = state.KeyQueued
	}
	switch {
	case err != nil:
		return one, "", err.Error()
	case screen.Busy && (t.in == nil || q.Typing != nil || strings.HasPrefix(words, "/")):
		return one, "", wording.ClaudeWorks
	case dialog != nil && !screen.Dialog(): // whatever the screen looks like
		return one, "", "a dialog is open in the terminal; answer it there, and your message goes in then"
	case screen.Limit != "": // the request would be refused
		return one, "", "the usage limit is reached, and Claude goes on " + screen.Limit + "; your message goes in then"
	case screen.Shows == inject.Prompt,
		screen.Shows == inject.Draft && q.Typing != nil && inject.Same(screen.Draft, words):
		return one, last, ""
	}
	if screen.Shows == inject.Draft { // which is its person's, and not for the space
		return one, "", wording.DraftStands
	}
	why = "the terminal shows " + screen.String()
	if screen.Dialog() {
		why += "; answer it in its own thread, or in the terminal, and your message goes in then"
	}
	return one, "", why
}
