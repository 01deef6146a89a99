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
func (p *Poller) putQuestion(q *state.Question, o *state.Open, which string) error {
	m := p.aboutQuestion(q, o)
	m.ID, m.Key, m.Type = state.MessageID(which, q.QuestionID), messageKey(which, q), state.MessageQuestion
	m.Urgent = !q.Kind.Row().Prompt
	return p.put(m)
}

func (p *Poller) aboutQuestion(q *state.Question, o *state.Open) *state.Message {
	by := configuredFor(q, o)
	return &state.Message{
		Question: q.Path, ProjectDir: by.projectDir, Trusted: by.trusted, SessionID: q.ClaudeSession(),
		Chat: q.Chat, ThreadName: q.ThreadName, ThreadKey: q.ThreadKey, Urgent: true, CreatedAt: p.Now().UTC(),
	}
}

// put puts a message into the outbox, once. One that has its texts counts as tried: it is sent at once.
func (p *Poller) put(m *state.Message) error {
	if len(m.Parts) > 0 {
		m.TriedAt = m.CreatedAt
	}
	stands, put, err := state.OutboxIn(p.user).Put(p.Env, m, state.MaxAge)
	if put && err == nil && len(m.Parts) > 0 {
		p.fresh.Store(stands.Path, true)
	}
	return err
}

// putNote puts a note that a question's thread is owed. done says that the question owes it no more: it is in the outbox, or
// there is no thread that it could be told in. Until the question's own message is sent or dropped, it is not done.
func (p *Poller) putNote(q *state.Question, o *state.Open, owed state.Owed) (done bool, err error) {
	if q.ResolvedBy == state.Instead && q.Kind != state.Said && (!q.Kind.Row().Prompt || q.Card == "") {
		return true, nil // another one came in its place
	}
	if !q.MessageSent {
		return p.hasNoThread(q)
	}
	if !p.personal().Terms(config.Screen, "").Shown { // it may have been asked before
		q, owed = titleOnly(q, owed)
	}
	m, isOver := p.aboutQuestion(q, o), q.Card != "" && takesButtons(owed)
	m.Parts = wording.NoteTexts(q, owed)
	if len(m.Parts) == 0 && !isOver {
		return true, nil
	}
	m.ID, m.Type, m.Note = noteID(q, owed), state.MessageNote, &owed
	if isOver {
		text, card := wording.ClosedCard(q, p.Now())
		m.Patch, m.Parts, m.Card = q.Card, []string{text}, gchat.StoredCard(card)
	} else if r := q.Reply(owed.Reply); r != nil && r.Choice != "" {
		m.Viewer = r.Sender // a tap is no one else's business
	}
	m.Urgent = !q.Kind.Row().Personal || owed.About != state.NoteClosed // the next permission goes first
	err = p.put(m)
	if err == nil && owed.About == state.NoteKept && q.Card != "" {
		err = p.putKept(q, o, owed)
	}
	return err == nil, err
}

// takesButtons reports whether a question has no buttons from this note on.
func takesButtons(owed state.Owed) bool {
	return owed.About == state.NoteClosed || owed.About == state.NoteHandedOver
}

// noteID is the id of a note's message. A question that timed out can be answered, and so
// closed again, later.
func noteID(q *state.Question, owed state.Owed) string {
	about := owed.About
	if about == state.NoteClosed {
		about += " " + string(q.Status)
	}
	return state.MessageID("note", q.QuestionID, about, owed.Reply, owed.Seen)
}

// hasNoThread reports whether no thread of a question will begin whose own message is not in
// the space: it was dropped, or put aside.
func (p *Poller) hasNoThread(q *state.Question) (bool, error) {
	m, err := state.OutboxIn(p.user).ByKey(messageKey(firstMessage, q))
	if err != nil || m == nil { // it was not put yet, or was dropped
		return err == nil && !q.Status.Open(), err
	}
	return m.SetAside != "", nil
}

// titleOnly is a question and a note without what a policy keeps in the terminal. The reason why
// words are not typed may quote a dialog.
func titleOnly(q *state.Question, owed state.Owed) (*state.Question, state.Owed) {
	titled := *q
	titled.TitleOnly()
	if owed.About == state.NoteNotTyped || owed.About == state.NoteStillKept && owed.Seen != "" {
		owed.Seen = "the terminal shows something else"
	}
	return &titled, owed
}

// putKept has the card of a question show what counted of a reply that answered a part of it.
func (p *Poller) putKept(q *state.Question, o *state.Open, owed state.Owed) error {
	m := p.aboutQuestion(q, o)
	m.ID, m.Type = state.MessageID("kept", q.QuestionID, owed.Reply), state.MessageQuestion
	m.Patch = q.Card
	return p.put(m)
}

// word gives a message its texts before its first try: later ones would be another message. Nil is for none to send now.
func (s *sender) word(ctx context.Context, m *state.Message, way *gateway) (*state.Message, outcome) {
	if m.PartsSent > 0 || !m.TriedAt.IsZero() && len(m.Parts) > 0 {
		return m, outcome{}
	}
	worded := *m
	if worded.ID == "" {
		worded.ID = state.MessageID(string(m.Type), m.Key, m.Path)
	}
	switch {
	case m.Type == state.MessageQuestion:
		return s.wordQuestion(ctx, &worded, way)
	case m.Digest && m.Report != nil:
		s.wordDigest(&worded)
	case m.Report != nil:
		worded.Parts = wording.ReportTexts(*m.Report)
	}
	if len(worded.Parts) == 0 {
		return nil, s.drop(m)
	}
	return &worded, outcome{}
}

func (s *sender) drop(m *state.Message) outcome { return s.written(s.box.Drop(s.Env, m)) }

// wordQuestion words a question, unless it is over, or a reply to it could not be used.
func (s *sender) wordQuestion(ctx context.Context, m *state.Message, way *gateway) (*state.Message, outcome) {
	q, err := state.LoadQuestion(m.Question)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.As(err, new(*state.Corrupt)):
		return nil, s.drop(m)
	case err != nil:
		return nil, s.written(err)
	}
	isCard := m.Key == messageKey(laterCard, q) || m.Patch != ""
	if q.Status != state.Pending || isCard && !takesCard(q, m, way) {
		return nil, s.drop(m)
	}
	m.ThreadKey = q.ThreadKey
	if !isCard {
		m.ID = state.MessageID("question", q.QuestionID)
	}
	if q.Mode.Row().Marker {
		if why := s.unreplyable(ctx, way); why != nil { // asked in the terminal instead, it is sent
			until := s.Now().Add(backoff(retryPause, m.Tries+1))
			return nil, s.failed(m, s.Log.Clean(why.Error()), true, outcome{until: until})
		}
	}
	if way.err != nil {
		return m, outcome{} // it waits
	}
	if isToReword(way.cfg, q) {
		if q.AskerWords && s.Now().Sub(q.AskedAt).Abs() < graceForWords {
			return nil, outcome{until: s.Now().Add(wordsPause)}
		}
		q = s.reword(ctx, way.cfg, q)
	}
	if !way.cfg.TermsOf(q).Shown {
		q.TitleOnly()
	}
	m.Parts, m.Card = way.transport.QuestionTexts(q, state.CardID(s.Env, q.QuestionID))
	if m.Patch != "" { // the texts above the card stay
		m.Parts = m.Parts[len(m.Parts)-1:]
	}
	return m, outcome{}
}

// takesCard reports whether an open question is to have the card, or the change to its card, of
// this message.
func takesCard(q *state.Question, m *state.Message, way *gateway) bool {
	hasCard := q.Card != "" && m.Patch == ""
	drawsCards := way.err != nil || way.transport.DrawsCards()
	return q.HandedOver == nil && !hasCard && drawsCards
}

const (
	// graceForWords is how long after its asking a question waits for the process that its hook
	// started to have it worded.
	graceForWords = 2500 * time.Millisecond
	wordsPause    = 100 * time.Millisecond
)

func isToReword(cfg *config.Config, q *state.Question) bool {
	return cfg.Format == "haiku" && q.Wording == nil && !q.FormatTried
}

// Word has a model word a question by this process's environment, as the hook that asked it wants.
func Word(ctx context.Context, o Options, path string) error {
	p := newPoller(o)
	open, err := state.ReadOpen(state.OpenFile(o.Env, path))
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
	p.Log.Hide(cfg.AnthropicKey)
	w, err := gchat.Haiku{Key: cfg.AnthropicKey, BaseURL: p.Env("ANTHROPIC_BASE_URL")}.Word(ctx, q.Questions)
	line := p.Log.Info()
	if err != nil { // Claude's own words are used
		line = p.Log.Warn().Str("error", p.Log.Clean(err.Error()))
	}
	line.Str("question", q.QuestionID).Str("model", w.Model).Int64("input_tokens", w.InputTokens).
		Int64("output_tokens", w.OutputTokens).Float64("usd", w.USD()).Msg("a model was asked for a wording")
	after, uerr := state.ChangeQuestion(q.Path, func(q *state.Question) {
		q.FormatUSD += w.USD()
		q.Wording, q.FormatTried = w.Texts, err != nil // it is not paid for again with the next try to post
	})
	p.Log.Once(uerr, "wording not written down")
	return cmp.Or(after, q)
}

// wordDigest makes one message of all that were held back until now, of the same project and to the same place.
func (s *sender) wordDigest(m *state.Message) {
	first := wording.ReportWhole(*m.Report)
	texts, size := []string{first}, len(first)
	m.With = nil
	waiting, _ := s.box.Waiting()
	for _, other := range waiting {
		alike := other.Lane() == m.Lane() && other.Env == m.Env && gatewayKey(other) == gatewayKey(m)
		untried := other.TriedAt.IsZero() && len(other.With) == 0 && other.PartsSent == 0
		if !other.Digest || other.Report == nil || !alike || !untried || other.Path <= m.Path || s.Now().Before(other.NotBefore) {
			continue
		}
		text := wording.ReportWhole(*other.Report)
		size += len(text)
		if size > 8*wording.MaxText {
			break
		}
		texts = append(texts, text)
		m.With = append(m.With, state.NameOf(other.Path))
	}
	m.Parts = wording.Digest(texts)
}
