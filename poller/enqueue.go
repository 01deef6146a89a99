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

// The messages that hold a question's text begin their keys with one of these. The card
// is that of an open question whose text is in the space already: it is posted once more,
// in its thread, and is the question's message from then on.
const firstMessageKey, laterCardKey = "question", "card"

func messageKey(key string, q *state.Question) string { return key + "-" + q.QuestionID }

// enqueueQuestion puts a message that holds a question's text, once.
func (p *Poller) enqueueQuestion(q *state.Question, entry *state.IndexEntry, key string) error {
	message := p.newQuestionMessage(q, entry)
	message.ID, message.Key, message.Type = state.MessageID(
		key,
		q.QuestionID,
	), messageKey(
		key,
		q,
	), state.MessageQuestion
	message.IsUrgent = !q.Kind.Traits().IsPrompt
	return p.isNew(message)
}

func (p *Poller) newQuestionMessage(q *state.Question, entry *state.IndexEntry) *state.Message {
	source := configSourceOf(q, entry)
	return &state.Message{
		Question: q.Path, ProjectDir: source.projectDir, IsTrusted: source.isTrusted, SessionID: q.ClaudeSession(),
		Chat: q.Chat, ThreadName: q.ThreadName, ThreadKey: q.ThreadKey, IsUrgent: true, CreatedAt: p.Now().UTC(),
	}
}

// isNew puts a message into the outbox, once. One that has its texts counts as tried: it
// is sent at once.
func (p *Poller) isNew(message *state.Message) error {
	if len(message.Parts) > 0 {
		message.FirstTriedAt = message.CreatedAt
	}
	stored, isNew, err := state.OutboxIn(p.userStateDir).
		Enqueue(p.Env, message, state.MaxQuestionAge)
	if isNew && err == nil && len(message.Parts) > 0 {
		p.untriedPaths.Store(stored.Path, true)
	}
	return err
}

// enqueueNote puts a note that a question's thread is owed. done says that the question
// owes it no more: it is in the outbox, or there is no thread that it could be told in.
// Until the question's own message is sent or dropped, it is not done.
func (p *Poller) enqueueNote(
	q *state.Question,
	entry *state.IndexEntry,
	owed state.OwedNote,
) (done bool, err error) {
	if q.ResolvedBy == state.EndedReplaced && q.Kind != state.KindPrompt &&
		(!q.Kind.Traits().IsPrompt || q.CardMessage == "") {
		return true, nil // another one came in its place
	}
	if !q.IsMessageSent {
		return p.hasNoThread(q)
	}
	if !p.loadPersonalConfig().AccessTo(config.KindScreen, "").CanShow {
		// it may have been asked before
		q, owed = withTitleOnly(q, owed)
	}
	message, isOver := p.newQuestionMessage(q, entry), q.CardMessage != "" && removesButtons(owed)
	message.Parts = wording.NoteTexts(q, owed)
	if len(message.Parts) == 0 && !isOver {
		return true, nil
	}
	message.ID, message.Type, message.Note = noteMessageID(q, owed), state.MessageNote, &owed
	if isOver {
		text, card := wording.ClosedCard(q, p.Now())
		message.PatchedMessage, message.Parts, message.Card = q.CardMessage, []string{
			text,
		}, gchat.StoredCard(
			card,
		)
	} else if reply := q.FindReply(owed.ReplyMessage); reply != nil && reply.Choice != "" {
		message.Viewer = reply.Sender // a tap is no one else's business
	}
	// the next permission goes first
	message.IsUrgent = !q.Kind.Traits().IsPersonal || owed.About != state.NoteClosed
	err = p.isNew(message)
	if err == nil && owed.About == state.NoteKept && q.CardMessage != "" {
		err = p.enqueueCardChange(q, entry, owed)
	}
	return err == nil, err
}

// removesButtons reports whether a question has no buttons from this note on.
func removesButtons(owed state.OwedNote) bool {
	return owed.About == state.NoteClosed || owed.About == state.NoteHandedOver
}

// noteMessageID is the id of a note's message. A question that timed out can be answered,
// and so closed again, later.
func noteMessageID(q *state.Question, owed state.OwedNote) string {
	about := owed.About
	if about == state.NoteClosed {
		about += " " + string(q.Status)
	}
	return state.MessageID("note", q.QuestionID, about, owed.ReplyMessage, owed.Text)
}

// hasNoThread reports whether no thread of a question will begin whose own message is not
// in the space: it was dropped, or put aside.
func (p *Poller) hasNoThread(q *state.Question) (bool, error) {
	message, err := state.OutboxIn(p.userStateDir).FindByKey(messageKey(firstMessageKey, q))
	if err != nil || message == nil { // it was not put yet, or was dropped
		return err == nil && !q.Status.IsOpen(), err
	}
	return message.SetAsideReason != "", nil
}

// withTitleOnly is a question and a note without what a policy keeps in the terminal. The
// reason why words are not typed may quote a dialog.
func withTitleOnly(q *state.Question, owed state.OwedNote) (*state.Question, state.OwedNote) {
	titled := *q
	titled.ReduceToTitle()
	if owed.About == state.NoteNotTyped || owed.About == state.NoteStillKept && owed.Text != "" {
		owed.Text = "the terminal shows something else"
	}
	return &titled, owed
}

// enqueueCardChange has the card of a question show what counted of a reply that answered
// a part of it.
func (p *Poller) enqueueCardChange(
	q *state.Question,
	entry *state.IndexEntry,
	owed state.OwedNote,
) error {
	message := p.newQuestionMessage(q, entry)
	message.ID, message.Type = state.MessageID(
		"kept",
		q.QuestionID,
		owed.ReplyMessage,
	), state.MessageQuestion
	message.PatchedMessage = q.CardMessage
	return p.isNew(message)
}

// wordMessage gives a message its texts before its first try: later ones would be another
// message. Nil is for none to send now.
func (s *sender) wordMessage(
	ctx context.Context,
	message *state.Message,
	gateway *projectGateway,
) (*state.Message, sendResult) {
	if message.PartsSent > 0 || !message.FirstTriedAt.IsZero() && len(message.Parts) > 0 {
		return message, sendResult{}
	}
	worded := *message
	if worded.ID == "" {
		worded.ID = state.MessageID(string(message.Type), message.Key, message.Path)
	}
	switch {
	case message.Type == state.MessageQuestion:
		return s.wordQuestion(ctx, &worded, gateway)
	case message.IsDigest && message.Report != nil:
		s.wordDigest(&worded)
	case message.Report != nil:
		worded.Parts = wording.ReportTexts(*message.Report)
	}
	if len(worded.Parts) == 0 {
		return nil, s.dropMessage(message)
	}
	return &worded, sendResult{}
}

func (s *sender) dropMessage(message *state.Message) sendResult {
	return s.resultOfWrite(s.outbox.RemoveMessage(s.Env, message))
}

// wordQuestion words a question, unless it is over, or a reply to it could not be used.
func (s *sender) wordQuestion(
	ctx context.Context,
	message *state.Message,
	gateway *projectGateway,
) (*state.Message, sendResult) {
	q, err := state.LoadQuestion(message.Question)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.As(err, new(*state.CorruptFileError)):
		return nil, s.dropMessage(message)
	case err != nil:
		return nil, s.resultOfWrite(err)
	}
	isCard := message.Key == messageKey(laterCardKey, q) || message.PatchedMessage != ""
	if q.Status != state.Pending || isCard && !canHaveCard(q, message, gateway) {
		return nil, s.dropMessage(message)
	}
	message.ThreadKey = q.ThreadKey
	if !isCard {
		message.ID = state.MessageID("question", q.QuestionID)
	}
	if q.Mode.Traits().HasMarker {
		if why := s.checkCanReply(ctx, gateway); why != nil {
			// asked in the terminal instead, it is sent
			until := s.Now().Add(backoff(retryPause, message.FailedTries+1))
			return nil, s.writeFailure(
				message,
				s.Log.Redact(why.Error()),
				true,
				sendResult{retryAt: until},
			)
		}
	}
	if gateway.err != nil {
		return message, sendResult{} // it waits
	}
	if needsRewording(gateway.cfg, q) {
		if q.IsWordedByAsker && s.Now().Sub(q.AskedAt).Abs() < graceForWording {
			return nil, sendResult{retryAt: s.Now().Add(wordingPause)}
		}
		q = s.reword(ctx, gateway.cfg, q)
	}
	if !gateway.cfg.AccessToQuestion(q).CanShow {
		q.ReduceToTitle()
	}
	message.Parts, message.Card = gateway.transport.QuestionTexts(
		q,
		state.CardID(s.Env, q.QuestionID),
	)
	if message.PatchedMessage != "" { // the texts above the card stay
		message.Parts = message.Parts[len(message.Parts)-1:]
	}
	return message, sendResult{}
}

// canHaveCard reports whether an open question is to have the card, or the change to its
// card, of this message.
func canHaveCard(q *state.Question, message *state.Message, gateway *projectGateway) bool {
	hasCard := q.CardMessage != "" && message.PatchedMessage == ""
	canDrawCards := gateway.err != nil || gateway.transport.DrawsCards()
	return q.HandedOverAt == nil && !hasCard && canDrawCards
}

const (
	// graceForWording is how long after its asking a question waits for the process that
	// its hook started to have it worded.
	graceForWording = 2500 * time.Millisecond
	wordingPause    = 100 * time.Millisecond
)

func needsRewording(cfg *config.Config, q *state.Question) bool {
	return cfg.Format == "haiku" && q.Wording == nil && !q.IsWordingTried
}

// WordQuestion has a model word a question by this process's environment, as the hook
// that asked it wants.
func WordQuestion(ctx context.Context, o Options, path string) error {
	p := newPoller(o)
	entry, err := state.ReadIndexEntry(state.IndexFile(o.Env, path))
	if err != nil {
		return err
	}
	q, err := state.LoadQuestion(path)
	if err != nil {
		return err
	}
	cfg := p.loadConfig(configSourceOf(q, entry))
	if needsRewording(cfg, q) {
		p.reword(ctx, cfg, q)
	}
	return nil
}

// reword has a model word the question. Where that fails, Claude's own words stay.
func (p *Poller) reword(
	ctx context.Context,
	cfg *config.Config,
	q *state.Question,
) *state.Question {
	p.Log.AddSecrets(cfg.AnthropicKey)
	rewording, err := gchat.Haiku{
		Key:     cfg.AnthropicKey,
		BaseURL: p.Env("ANTHROPIC_BASE_URL"),
	}.Reword(
		ctx,
		q.SubQuestions,
	)
	logLine := p.Log.Info()
	if err != nil { // Claude's own words are used
		logLine = p.Log.Warn().Str("error", p.Log.Redact(err.Error()))
	}
	logLine.Str("question", q.QuestionID).
		Str("model", rewording.Model).
		Int64("input_tokens", rewording.InputTokens).
		Int64("output_tokens", rewording.OutputTokens).
		Float64("usd", rewording.USD()).
		Msg("a model was asked for a wording")
	stored, updateErr := state.ChangeQuestion(q.Path, func(q *state.Question) {
		q.WordingCostUSD += rewording.USD()
		// it is not paid for again with the next try to post
		q.Wording, q.IsWordingTried = rewording.Texts, err != nil
	})
	p.Log.ErrorOnce(updateErr, "wording not written down")
	return cmp.Or(stored, q)
}

// wordDigest makes one message of all that were held back until now, of the same project
// and to the same place.
func (s *sender) wordDigest(message *state.Message) {
	first := wording.WholeReportText(*message.Report)
	texts, size := []string{first}, len(first)
	message.MergedMessages = nil
	waiting, _ := s.outbox.Waiting()
	for _, other := range waiting {
		isAlike := other.Lane() == message.Lane() && other.Environment == message.Environment &&
			gatewayKey(other) == gatewayKey(message)
		isUntried := other.FirstTriedAt.IsZero() && len(other.MergedMessages) == 0 &&
			other.PartsSent == 0
		if !other.IsDigest || other.Report == nil || !isAlike || !isUntried ||
			other.Path <= message.Path ||
			s.Now().Before(other.NotBefore) {
			continue
		}
		text := wording.WholeReportText(*other.Report)
		size += len(text)
		if size > 8*wording.MaxText {
			break
		}
		texts = append(texts, text)
		message.MergedMessages = append(message.MergedMessages, state.RecordName(other.Path))
	}
	message.Parts = wording.DigestTexts(texts)
}
