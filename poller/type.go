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

// typable says whether the poller may type the answer, and knows where: into the pane that the index names. Only of a question
// in a folder that a person named, the question's own file says which pane it is.
func (p *Poller) typable(s *served) bool {
	if !s.q.CanBeTyped() {
		return false
	}
	if s.named {
		return !s.q.Mode.Traits().NeedsHook || s.q.TmuxPane != ""
	}
	return s.TmuxPane != "" && !inject.Elsewhere(s.q.ClaudeStart)
}

// placed is a question with the pane that its answer may be typed into.
func (p *Poller) placed(s *served, q *state.Question) *state.Question {
	if s.named {
		return q
	}
	at := *q
	at.TmuxPane, at.TmuxSocket = s.TmuxPane, s.TmuxSocket
	return &at
}

// findPanes gives questions up whose tmux session is missing three rounds running: it can be gone for a moment.
func (p *Poller) findPanes(ctx context.Context) {
	var qs []*state.Question
	for _, s := range p.index {
		types := s.q != nil && s.q.Status.IsOpen() && s.q.Mode.Traits().NeedsPane && !s.typing.Load()
		if types && !inject.Elsewhere(s.q.ClaudeStart) {
			qs = append(qs, p.placed(s, s.q))
		}
	}
	if len(qs) == 0 || !p.asking.CompareAndSwap(false, true) {
		return
	}
	p.beside("find panes", func() {
		defer p.asking.Store(false)
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		for _, q := range qs {
			_, err := inject.Locate(ctx, q, p.Env("TMUX"))
			gone := errors.Is(err, inject.ErrGone)
			if !gone && q.PaneMissedCycles == 0 {
				continue
			}
			now, err := state.ChangeQuestion(q.Path, func(q *state.Question) {
				q.PaneMissedCycles++
				if !gone {
					q.PaneMissedCycles = 0
				}
			})
			p.Log.ErrorOnce(err, "tmux session not counted")
			if err == nil && now.PaneMissedCycles >= mostMissed {
				p.end(q, state.Abandoned, "tmux_gone", nil)
			}
		}
	})
}

// adopt completes a question that another program wrote down: its project follows from where it lies, its space from that.
func (p *Poller) adopt(ctx context.Context, s *served) {
	chat, space := p.chatFor(ctx, s)
	p.change(s, "question not completed", func(q *state.Question) {
		if q.Chat == "" {
			q.Chat, q.Space = chat, space
		}
		q.Mode, q.ProjectDir = state.ModeInject, cmp.Or(q.ProjectDir, p.projectOf(stateDirOf(q)))
		name := q.SessionID
		if uuid.Validate(name) == nil { // Claude Code's own ids are no names
			name = cmp.Or(q.TmuxSession, name)
		}
		q.SessionName = cmp.Or(q.SessionName, name)
	})
}

// chatFor is the space of a question that names none: where its project's webhook posts, or, where another program posts, the one
// that is configured; "" while that cannot be told, and where its thread is in another space.
func (p *Poller) chatFor(ctx context.Context, s *served) (chat, space string) {
	way := p.gateway(ctx, configured{cmp.Or(s.q.ProjectDir, p.projectOf(stateDirOf(s.q))), s.IsTrusted})
	switch {
	case way.err == nil:
		chat, space = way.transport.Chat(), way.space
	case !way.cfg.CanSend() && way.cfg.SpaceID != "":
		chat, space = gchat.ChatAt(way.cfg.APIEndpoint, way.cfg.SpaceID), way.cfg.SpaceID
	}
	if s.q.ThreadName != "" && !strings.HasPrefix(s.q.ThreadName, space+"/") {
		return "", ""
	}
	return chat, space
}

// projectOf is the project that a state folder belongs to: PROJECT/.claude/state, else this process's own.
func (p *Poller) projectOf(stateDir string) string {
	if project, ok := strings.CutSuffix(stateDir, "/.claude/state"); ok && project != "" {
		return project
	}
	return state.ProjectDir(p.Env)
}

const (
	confirmBound    = 3 * time.Second // after the dialog closed, for the PostToolUse hook
	typeBound       = time.Minute     // 10 kB of text into a slow terminal
	triesBeforeTold = 3               // that changed nothing: then the thread is told why
	mostOffs        = 3               // tries running that find the dialog gone: then it is
	retryPause      = 2 * time.Second // at least, from one try to the next
)

// try is what the poller did about an answer that it types, and when it comes again.
type try struct {
	next  time.Time // no try before
	tries int       // that changed nothing
	offs  int       // tries running that found the dialog gone
	why   string    // why nothing was typed the last time
}

// spoiled says that a person has to finish the dialog.
func spoiled(q *state.Question) bool { return q.InjectionSucceeded != nil && !*q.InjectionSucceeded }

// startTyping has an answer typed that no process delivers, beside the loop: typing takes its time.
func (p *Poller) startTyping(ctx context.Context, s *served) (again time.Time) {
	q, now := s.q, p.Now()
	isOld := q.Kind == state.KindPrompt // the inbox has these words, or takes them with the next round
	if q.Status != state.Answered || spoiled(q) || !p.typable(s) || isOld {
		return time.Time{}
	}
	if now.Before(s.try.next) {
		return s.try.next
	}
	if q.Kind.Traits().IsPrompt && (p.waitsForEarlier(s) || p.isBehindWords(q)) {
		return now.Add(retryPause)
	}
	lock, err := state.LockWaiter(p.Env, s.Path)
	if err != nil {
		return time.Time{} // a hook waits: it delivers the answer
	}
	s.typing.Store(true)
	// A signal does not cut what is being typed: half an answer is worse than a late end.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), typeBound)
	p.beside("type", func() {
		defer s.typing.Store(false)
		defer lock.Unlock()
		defer cancel()
		p.typeAnswer(ctx, s)
	})
	return time.Time{}
}

// waitsForEarlier says whether something that was said to the same session earlier is not with Claude yet.
func (p *Poller) waitsForEarlier(s *served) bool {
	for _, other := range p.index {
		q := other.q
		if other != s && q != nil && q.Kind.Traits().IsPrompt && q.Status == state.Answered && !spoiled(q) &&
			q.ClaudeSession() == s.q.ClaudeSession() && q.AskedAt.Before(s.q.AskedAt) {
			return true
		}
	}
	return false
}

func (p *Poller) typeAnswer(ctx context.Context, s *served) {
	q, err := state.LoadQuestion(s.Path)
	if err != nil || q.Status != state.Answered || q.IsPrinted {
		return
	}
	q = p.placed(s, q)
	if q.Kind.Traits().IsPrompt {
		p.typePrompt(ctx, &prompt{q: q, try: &s.try, trusted: s.IsTrusted})
		return
	}
	s.try.next = p.Now().Add(retryPause) // whatever fails below
	if q.Typing != nil && !q.Typing.IsEnded {
		// A poller was killed while it typed. Its last key may have been sent or not, so none is sent again: where no hook says
		// that Claude has the answer, a person has to finish the dialog.
		if !p.awaitClosed(ctx, q.Path) {
			p.leaveToPerson(q, inject.Outcome{Result: inject.Dirty, Why: "the poller was stopped while it typed your answer"})
		}
		return
	}
	if q.InjectionSucceeded != nil && *q.InjectionSucceeded { // killed while it was waiting for the confirmation
		p.confirmTyped(ctx, q)
		return
	}
	to, err := inject.Locate(ctx, q, p.Env("TMUX"))
	if err != nil {
		p.notTyped(s, q, err.Error(), false)
		return
	}
	typist := p.typist(s.Path)
	out := typist.Answer(ctx, to, choices(q))
	if out.Keys > 0 {
		p.Log.Info().Str("question", q.QuestionID).Str("session", q.SessionName).Str("pane", to.Pane).
			Str("result", string(out.Result)).Int("keys", out.Keys).Str("why", out.Why).Msg("answer typed")
	}
	switch {
	case typist.DryRun:
		would := "would type: " + strings.Join(out.Steps, ", ")
		if out.Why != "" {
			would = "would not type: " + out.Why
		}
		p.endDryRun(s, q, to.Pane, would, len(out.Steps))
	case out.Result == inject.Injected:
		p.endTyping(q, out, func(q *state.Question) { q.InjectionSucceeded = new(true) })
		p.confirmTyped(ctx, q)
	case out.Result == inject.Dirty:
		p.awaitClosed(ctx, s.Path)
		p.leaveToPerson(q, out)
	default:
		p.endTyping(q, out, nil) // also without a key: one may have been written down and then not sent
		p.notTyped(s, q, out.Why, out.Gone)
	}
}

// typist writes down each key before it is sent.
func (p *Poller) typist(path string) inject.Typist {
	return inject.Typist{UserState: p.user, DryRun: p.isDryRun(), Before: func(key string, commit bool) error {
		var late error
		_, err := state.ChangeQuestionRelaxed(path, func(q *state.Question) {
			if q.Status != state.Answered {
				late = fmt.Errorf("type answer: the question is %s", q.Status) // a person was faster
				return
			}
			if q.Typing == nil || q.Typing.IsEnded {
				q.Typing = &state.Typing{}
			}
			q.InjectionAttempted = true
			if strings.HasPrefix(key, "text") {
				key = "text" // the person's words are in the reply
			}
			q.Typing.LastKeyAt, q.Typing.LastKey, q.Typing.IsSubmit = p.Now().UTC(), key, commit
			q.Typing.KeyCount++
		})
		return cmp.Or(late, err)
	}}
}

// isDryRun says whether nothing is to be typed: by this process's own options, or by another poller's.
func (p *Poller) isDryRun() bool { return p.DryRun || state.IsDryRunMarked(p.Env) }

// endDryRun says what would have been typed, and gives the answer up: nothing of a dry run is typed after its end.
func (p *Poller) endDryRun(s *served, q *state.Question, pane, would string, keys int) {
	p.tellDryRun(q, pane, would, keys)
	s.try.next = time.Time{} // for the next reply
	p.giveUpDry(q)
}

func (p *Poller) tellDryRun(q *state.Question, pane, would string, keys int) {
	p.Log.Info().Str("question", q.QuestionID).Str("pane", pane).Int("keys", keys).Msg("dry run")
	if p.Out != nil {
		fmt.Fprintf(p.Out, "%s, pane %s: %s\n", wording.Line(q.SessionName), pane, wording.Line(would))
	}
}

func (p *Poller) giveUpDry(q *state.Question) {
	p.update(q.Path, "answer of a dry run not given up", func(q *state.Question) {
		if q.Status == state.Answered {
			q.OweNote(state.NoteDryRun, q.AnsweredMessage)
			q.WithdrawAnswer()
		}
	})
}

// choices are the prompts of a question with their answers.
func choices(q *state.Question) []inject.Choice {
	cs := make([]inject.Choice, len(q.SubQuestions))
	for i, p := range q.SubQuestions {
		a := wording.Decompose(p, q.Answers[p.Question])
		a.Notes = q.Notes[p.Question]
		cs[i] = inject.Choice{Prompt: p, Answer: a, Chat: q.Declined != ""}
	}
	return cs
}

// endTyping writes down how typing ended; also, where it is not nil, changes more in that write.
func (p *Poller) endTyping(q *state.Question, out inject.Outcome, also func(*state.Question)) {
	p.update(q.Path, "the end of typing not written down", func(q *state.Question) {
		if q.Typing == nil && out.Result == inject.Unchanged {
			return
		}
		if q.Typing == nil {
			q.Typing = &state.Typing{LastKeyAt: p.Now().UTC()}
		}
		q.Typing.IsEnded, q.Typing.Result, q.Typing.Why = true, string(out.Result), wording.Line(out.Why)
		if also != nil {
			also(q)
		}
	})
}

// update changes a question beside the loop, which reads it again.
func (p *Poller) update(path, what string, change func(*state.Question)) {
	_, err := state.ChangeQuestion(path, change)
	p.Log.ErrorOnce(err, what)
}

// confirmTyped closes a question whose answer was typed, where no hook does, which knows what Claude was told.
func (p *Poller) confirmTyped(ctx context.Context, q *state.Question) {
	if !p.awaitClosed(ctx, q.Path) {
		p.end(q, state.Resolved, "chat", nil)
	}
}

func (p *Poller) awaitClosed(ctx context.Context, path string) (closed bool) {
	ctx, cancel := context.WithTimeout(ctx, confirmBound)
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

// leaveToPerson tells the thread that a person has to finish the dialog: no further key is sent.
// Where a hook said meanwhile how the question ended, nobody has to look.
func (p *Poller) leaveToPerson(q *state.Question, out inject.Outcome) {
	p.endTyping(q, out, func(q *state.Question) {
		q.InjectionSucceeded = new(q.ResolvedBy == "chat")
		if q.Status.IsOpen() {
			q.OwedNotes = append(q.OwedNotes, state.OwedNote{About: state.NoteNotTyped, ReplyMessage: q.AnsweredMessage, Text: out.Why})
		}
	})
}

// notTyped counts a try that changed nothing, and tells the thread why when it goes on. Off says that the dialog is not there.
func (p *Poller) notTyped(s *served, q *state.Question, why string, off bool) {
	t := &s.try
	isLong := t.failed(p.Now(), p.config(configured{q.ProjectDir, s.IsTrusted}).PollInterval, why)
	if t.offs++; !off {
		t.offs = 0
	}
	if t.offs >= mostOffs {
		p.end(q, state.Cancelled, "screen", nil)
		return
	}
	p.logNotTyped(q, t)
	if isLong {
		p.oweNotTyped(q, why)
	}
}

// failed counts a try that changed nothing. It reports whether the thread is to be told.
func (t *try) failed(now time.Time, interval time.Duration, why string) (isLong bool) {
	t.why = why
	t.tries++
	t.next = now.Add(min(time.Second<<min(t.tries-1, 8), max(interval, time.Second)))
	return t.tries == triesBeforeTold
}

func (p *Poller) logNotTyped(q *state.Question, t *try) {
	if t.tries == 1 || t.tries == triesBeforeTold {
		p.Log.Warn().Str("question", q.QuestionID).Str("session", q.SessionName).Str("why", t.why).Msg("answer not typed yet")
	}
}

func (p *Poller) oweNotTyped(q *state.Question, why string) {
	p.update(q.Path, "thread not told that the answer waits", func(q *state.Question) {
		if q.Status.IsOpen() { // else the note of its end is the last
			q.OwedNotes = append(q.OwedNotes, state.OwedNote{About: state.NoteNotTyped, Text: why})
		}
	})
}
