package poller

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// The messages that hold a question's text begin their keys with one of these. The card is that of
// an open question whose text is in the space already: it is posted once more, in its thread, and
// is the question's message from then on.
const firstMessage, laterCard = "question", "card"

func messageKey(which string, q *state.Question) string { return which + "-" + q.QuestionID }

// putQuestion puts a message that holds a question's text, once.
func (p *Poller) putQuestion(q *state.Question, o *state.IndexEntry, which string) error {
	m := p.aboutQuestion(q, o)
	m.ID, m.Key, m.Type = state.MessageID(which, q.QuestionID), messageKey(which, q), state.MessageQuestion
	m.IsUrgent = !q.Kind.Traits().IsPrompt
	return p.put(m)
}

func (p *Poller) aboutQuestion(q *state.Question, o *state.IndexEntry) *state.Message {
	by := configuredFor(q, o)
	return &state.Message{
		Question: q.Path, ProjectDir: by.projectDir, IsTrusted: by.trusted, SessionID: q.ClaudeSession(),
		Chat: q.Chat, ThreadName: q.ThreadName, ThreadKey: q.ThreadKey, IsUrgent: true, CreatedAt: p.Now().UTC(),
	}
}

// put puts a message into the outbox, once. One that has its texts counts as tried: it is sent at once.
func (p *Poller) put(m *state.Message) error {
	if len(m.Parts) > 0 {
		m.FirstTriedAt = m.CreatedAt
	}
	stands, put, err := state.OutboxIn(p.user).Enqueue(p.Env, m, state.MaxQuestionAge)
	if put && err == nil && len(m.Parts) > 0 {
		p.fresh.Store(stands.Path, true)
	}
	return err
}

// putNote puts a note that a question's thread is owed. done says that the question owes it no more: it is in the outbox, or
// there is no thread that it could be told in. Until the question's own message is sent or dropped, it is not done.
func (p *Poller) putNote(q *state.Question, o *state.IndexEntry, owed state.OwedNote) (done bool, err error) {
	if q.ResolvedBy == state.EndedReplaced && q.Kind != state.KindPrompt && (!q.Kind.Traits().IsPrompt || q.CardMessage == "") {
		return true, nil // another one came in its place
	}
	if !q.IsMessageSent {
		return p.hasNoThread(q)
	}
	if !p.personal().AccessTo(config.KindScreen, "").CanShow { // it may have been asked before
		q, owed = titleOnly(q, owed)
	}
	m, isOver := p.aboutQuestion(q, o), q.CardMessage != "" && takesButtons(owed)
	m.Parts = wording.NoteTexts(q, owed)
	if len(m.Parts) == 0 && !isOver {
		return true, nil
	}
	m.ID, m.Type, m.Note = noteID(q, owed), state.MessageNote, &owed
	if isOver {
		text, card := wording.ClosedCard(q, p.Now())
		m.PatchedMessage, m.Parts, m.Card = q.CardMessage, []string{text}, gchat.StoredCard(card)
	} else if r := q.FindReply(owed.ReplyMessage); r != nil && r.Choice != "" {
		m.Viewer = r.Sender // a tap is no one else's business
	}
	m.IsUrgent = !q.Kind.Traits().IsPersonal || owed.About != state.NoteClosed // the next permission goes first
	err = p.put(m)
	if err == nil && owed.About == state.NoteKept && q.CardMessage != "" {
		err = p.putKept(q, o, owed)
	}
	return err == nil, err
}

// takesButtons reports whether a question has no buttons from this note on.
func takesButtons(owed state.OwedNote) bool {
	return owed.About == state.NoteClosed || owed.About == state.NoteHandedOver
}

// noteID is the id of a note's message. A question that timed out can be answered, and so
// closed again, later.
func noteID(q *state.Question, owed state.OwedNote) string {
	about := owed.About
	if about == state.NoteClosed {
		about += " " + string(q.Status)
	}
	return state.MessageID("note", q.QuestionID, about, owed.ReplyMessage, owed.Text)
}

// hasNoThread reports whether no thread of a question will begin whose own message is not in
// the space: it was dropped, or put aside.
func (p *Poller) hasNoThread(q *state.Question) (bool, error) {
	m, err := state.OutboxIn(p.user).FindByKey(messageKey(firstMessage, q))
	if err != nil || m == nil { // it was not put yet, or was dropped
		return err == nil && !q.Status.IsOpen(), err
	}
	return m.SetAsideReason != "", nil
}

// titleOnly is a question and a note without what a policy keeps in the terminal. The reason why
// words are not typed may quote a dialog.
func titleOnly(q *state.Question, owed state.OwedNote) (*state.Question, state.OwedNote) {
	titled := *q
	titled.ReduceToTitle()
	if owed.About == state.NoteNotTyped || owed.About == state.NoteStillKept && owed.Text != "" {
		owed.Text = "the terminal shows something else"
	}
	return &titled, owed
}

// putKept has the card of a question show what counted of a reply that answered a part of it.
func (p *Poller) putKept(q *state.Question, o *state.IndexEntry, owed state.OwedNote) error {
	m := p.aboutQuestion(q, o)
	m.ID, m.Type = state.MessageID("kept", q.QuestionID, owed.ReplyMessage), state.MessageQuestion
	m.PatchedMessage = q.CardMessage
	return p.put(m)
}

// word gives a message its texts before its first try: later ones would be another message. Nil is for none to send now.
func (s *sender) word(ctx context.Context, m *state.Message, way *gateway) (*state.Message, outcome) {
	if m.PartsSent > 0 || !m.FirstTriedAt.IsZero() && len(m.Parts) > 0 {
		return m, outcome{}
	}
	worded := *m
	if worded.ID == "" {
		worded.ID = state.MessageID(string(m.Type), m.Key, m.Path)
	}
	switch {
	case m.Type == state.MessageQuestion:
		return s.wordQuestion(ctx, &worded, way)
	case m.IsDigest && m.Report != nil:
		s.wordDigest(&worded)
	case m.Report != nil:
		worded.Parts = wording.ReportTexts(*m.Report)
	}
	if len(worded.Parts) == 0 {
		return nil, s.drop(m)
	}
	return &worded, outcome{}
}

func (s *sender) drop(m *state.Message) outcome { return s.written(s.box.RemoveMessage(s.Env, m)) }

// wordQuestion words a question, unless it is over, or a reply to it could not be used.
func (s *sender) wordQuestion(ctx context.Context, m *state.Message, way *gateway) (*state.Message, outcome) {
	q, err := state.LoadQuestion(m.Question)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.As(err, new(*state.CorruptFileError)):
		return nil, s.drop(m)
	case err != nil:
		return nil, s.written(err)
	}
	isCard := m.Key == messageKey(laterCard, q) || m.PatchedMessage != ""
	if q.Status != state.Pending || isCard && !takesCard(q, m, way) {
		return nil, s.drop(m)
	}
	m.ThreadKey = q.ThreadKey
	if !isCard {
		m.ID = state.MessageID("question", q.QuestionID)
	}
	if q.Mode.Traits().HasMarker {
		if why := s.unreplyable(ctx, way); why != nil { // asked in the terminal instead, it is sent
			until := s.Now().Add(backoff(retryPause, m.FailedTries+1))
			return nil, s.failed(m, s.Log.Redact(why.Error()), true, outcome{until: until})
		}
	}
	if way.err != nil {
		return m, outcome{} // it waits
	}
	if isToReword(way.cfg, q) {
		if q.IsWordedByAsker && s.Now().Sub(q.AskedAt).Abs() < graceForWords {
			return nil, outcome{until: s.Now().Add(wordsPause)}
		}
		q = s.reword(ctx, way.cfg, q)
	}
	if !way.cfg.AccessToQuestion(q).CanShow {
		q.ReduceToTitle()
	}
	m.Parts, m.Card = way.transport.QuestionTexts(q, state.CardID(s.Env, q.QuestionID))
	if m.PatchedMessage != "" { // the texts above the card stay
		m.Parts = m.Parts[len(m.Parts)-1:]
	}
	return m, outcome{}
}

// takesCard reports whether an open question is to have the card, or the change to its card, of
// this message.
func takesCard(q *state.Question, m *state.Message, way *gateway) bool {
	hasCard := q.CardMessage != "" && m.PatchedMessage == ""
	drawsCards := way.err != nil || way.transport.DrawsCards()
	return q.HandedOverAt == nil && !hasCard && drawsCards
}

const (
	// graceForWords is how long after its asking a question waits for the process that its hook
	// started to have it worded.
	graceForWords = 2500 * time.Millisecond
	wordsPause    = 100 * time.Millisecond
)

func isToReword(cfg *config.Config, q *state.Question) bool {
	return cfg.Format == "haiku" && q.Wording == nil && !q.IsWordingTried
}

// Word has a model word a question by this process's environment, as the hook that asked it wants.
func Word(ctx context.Context, o Options, path string) error {
	p := newPoller(o)
	open, err := state.ReadIndexEntry(state.IndexFile(o.Env, path))
	if err != nil {
		return err
	}
	q, err := state.LoadQuestion(path)
	if err != nil {
		return err
	}
	cfg := p.config(configuredFor(q, open))
	if isToReword(cfg, q) {
		p.reword(ctx, cfg, q)
	}
	return nil
}

// reword has a model word the question. Where that fails, Claude's own words stay.
func (p *Poller) reword(ctx context.Context, cfg *config.Config, q *state.Question) *state.Question {
	p.Log.AddSecrets(cfg.AnthropicKey)
	w, err := gchat.Haiku{Key: cfg.AnthropicKey, BaseURL: p.Env("ANTHROPIC_BASE_URL")}.Word(ctx, q.SubQuestions)
	line := p.Log.Info()
	if err != nil { // Claude's own words are used
		line = p.Log.Warn().Str("error", p.Log.Redact(err.Error()))
	}
	line.Str("question", q.QuestionID).Str("model", w.Model).Int64("input_tokens", w.InputTokens).
		Int64("output_tokens", w.OutputTokens).Float64("usd", w.USD()).Msg("a model was asked for a wording")
	after, uerr := state.ChangeQuestion(q.Path, func(q *state.Question) {
		q.WordingCostUSD += w.USD()
		q.Wording, q.IsWordingTried = w.Texts, err != nil // it is not paid for again with the next try to post
	})
	p.Log.ErrorOnce(uerr, "wording not written down")
	return cmp.Or(after, q)
}

// wordDigest makes one message of all that were held back until now, of the same project and to the same place.
func (s *sender) wordDigest(m *state.Message) {
	first := wording.ReportWhole(*m.Report)
	texts, size := []string{first}, len(first)
	m.MergedMessages = nil
	waiting, _ := s.box.Waiting()
	for _, other := range waiting {
		alike := other.Lane() == m.Lane() && other.Environment == m.Environment && gatewayKey(other) == gatewayKey(m)
		untried := other.FirstTriedAt.IsZero() && len(other.MergedMessages) == 0 && other.PartsSent == 0
		if !other.IsDigest || other.Report == nil || !alike || !untried || other.Path <= m.Path || s.Now().Before(other.NotBefore) {
			continue
		}
		text := wording.ReportWhole(*other.Report)
		size += len(text)
		if size > 8*wording.MaxText {
			break
		}
		texts = append(texts, text)
		m.MergedMessages = append(m.MergedMessages, state.RecordName(other.Path))
	}
	m.Parts = wording.Digest(texts)
}
