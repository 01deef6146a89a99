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

// The keys of messages that hold a question's text begin with one of these. A later
// card belongs to an open question whose text is already in the space: the card is
// posted in the question's thread, and is the question's message from then on.
const firstMessageKey, laterCardKey = "question", "card"

func messageKey(key string, q *state.Question) string { return key + "-" + q.QuestionID }

// enqueueQuestion enqueues a message that holds a question's text, once.
func (p *Poller) enqueueQuestion(q *state.Question, entry *state.IndexEntry, key string) error {
	message := p.newQuestionMessage(q, entry)
	message.ID, message.Key = state.MessageID(key, q.QuestionID), messageKey(key, q)
	message.Type = state.MessageQuestion
	message.IsUrgent = !q.Kind.Traits().IsPrompt
	return p.enqueue(message)
}

func (p *Poller) newQuestionMessage(q *state.Question, entry *state.IndexEntry) *state.Message {
	source := configSourceOf(q, entry)
	return &state.Message{
		Question:   q.Path,
		ProjectDir: source.projectDir,
		IsTrusted:  source.isTrusted,
		SessionID:  q.ClaudeSession(),
		Chat:       q.Chat,
		ThreadName: q.ThreadName,
		ThreadKey:  q.ThreadKey,
		IsUrgent:   true,
		CreatedAt:  p.Now().UTC(),
	}
}

// enqueue writes a message into the outbox, once. A message that has its texts already
// counts as tried, so it is sent at once.
func (p *Poller) enqueue(message *state.Message) error {
	if len(message.Parts) > 0 {
		message.FirstTriedAt = message.CreatedAt
	}
	outbox := state.OutboxIn(p.userStateDir)
	stored, isNew, err := outbox.Enqueue(p.Env, message, state.MaxQuestionAge)
	if isNew && err == nil && len(message.Parts) > 0 {
		p.untriedPaths.Store(stored.Path, true)
	}
	return err
}

// enqueueNote enqueues a note that the question owes its thread. It is done when the
// note is in the outbox, or when there is no thread to post it in. It is not done while
// the question's own message is neither sent nor dropped.
func (p *Poller) enqueueNote(
	q *state.Question,
	entry *state.IndexEntry,
	owed state.OwedNote,
) (done bool, err error) {
	isReplaced := q.ResolvedBy == state.EndedReplaced && q.Kind != state.KindPrompt
	if isReplaced && (!q.Kind.Traits().IsPrompt || q.CardMessage == "") {
		return true, nil // its successor has its own messages
	}
	if !q.IsMessageSent {
		return p.hasNoThread(q)
	}
	if !p.loadPersonalConfig().AccessTo(config.KindScreen, "").CanShow {
		// The question may be older than the policy that hides its text.
		q, owed = withTitleOnly(q, owed)
	}
	closesCard := q.CardMessage != "" && removesButtons(owed)
	message := p.newQuestionMessage(q, entry)
	message.Parts = wording.NoteTexts(q, owed)
	if len(message.Parts) == 0 && !closesCard {
		return true, nil
	}
	message.ID, message.Type, message.Note = noteMessageID(q, owed), state.MessageNote, &owed
	if closesCard {
		text, card := wording.ClosedCard(q, p.Now())
		message.PatchedMessage = q.CardMessage
		message.Parts, message.Card = []string{text}, gchat.StoredCard(card)
	} else if reply := q.FindReply(owed.ReplyMessage); reply != nil && reply.Choice != "" {
		message.Viewer = reply.Sender // only the person who tapped sees the note
	}
	// The session's next permission goes before the closing note of the last one.
	message.IsUrgent = !q.Kind.Traits().IsPersonal || owed.About != state.NoteClosed
	err = p.enqueue(message)
	if err == nil && owed.About == state.NoteKept && q.CardMessage != "" {
		err = p.enqueueCardChange(q, entry, owed)
	}
	return err == nil, err
}

// removesButtons reports whether the note removes the buttons of its question's card.
func removesButtons(owed state.OwedNote) bool {
	return owed.About == state.NoteClosed || owed.About == state.NoteHandedOver
}

// noteMessageID returns the id of a note's message. The id of a closing note has the
// question's status in it, because a question that timed out can still be answered, and
// is then closed a second time.
func noteMessageID(q *state.Question, owed state.OwedNote) string {
	about := owed.About
	if about == state.NoteClosed {
		about += " " + string(q.Status)
	}
	return state.MessageID("note", q.QuestionID, about, owed.ReplyMessage, owed.Text)
}

// hasNoThread reports whether a question has no thread and gets none: its own message
// was dropped or set aside.
func (p *Poller) hasNoThread(q *state.Question) (bool, error) {
	message, err := state.OutboxIn(p.userStateDir).FindByKey(messageKey(firstMessageKey, q))
	if err != nil || message == nil { // it is not enqueued yet, or was dropped
		return err == nil && !q.Status.IsOpen(), err
	}
	return message.SetAsideReason != "", nil
}

// withTitleOnly returns copies of a question and a note without the text that a policy
// keeps in the terminal. The reason why a prompt is not typed is left out, too: it may
// quote a dialog.
func withTitleOnly(q *state.Question, owed state.OwedNote) (*state.Question, state.OwedNote) {
	titled := *q
	titled.ReduceToTitle()
	if owed.About == state.NoteNotTyped || owed.About == state.NoteStillKept && owed.Text != "" {
		owed.Text = "the terminal shows something else"
	}
	return &titled, owed
}

// enqueueCardChange has the question's card show what counted of a reply that answered
// only a part of the question.
func (p *Poller) enqueueCardChange(
	q *state.Question,
	entry *state.IndexEntry,
	owed state.OwedNote,
) error {
	message := p.newQuestionMessage(q, entry)
	message.ID = state.MessageID("kept", q.QuestionID, owed.ReplyMessage)
	message.Type = state.MessageQuestion
	message.PatchedMessage = q.CardMessage
	return p.enqueue(message)
}

// wordMessage gives a message its texts before its first try. Later tries keep them,
// because other texts would be another message. It returns nil if nothing is to be sent
// yet.
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

// wordQuestion words a question's message. It drops the message of a question that is
// closed. In a mode that denies the call, it fails the message if no reply could be
// read.
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
			// The deny hook asks in the terminal instead. The message is sent once
			// replies can be read.
			until := s.Now().Add(backoff(retryPause, message.FailedTries+1))
			reason := s.Log.Redact(why.Error())
			return nil, s.writeFailure(message, reason, true, sendResult{retryAt: until})
		}
	}
	if gateway.err != nil {
		return message, sendResult{} // the message waits until the gateway works
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
	cardID := state.CardID(s.Env, q.QuestionID)
	message.Parts, message.Card = gateway.transport.QuestionTexts(q, cardID)
	if message.PatchedMessage != "" { // the texts above the card do not change
		message.Parts = message.Parts[len(message.Parts)-1:]
	}
	return message, sendResult{}
}

// canHaveCard reports whether an open question can get the card, or the change to its
// card, that this message carries.
func canHaveCard(q *state.Question, message *state.Message, gateway *projectGateway) bool {
	hasCard := q.CardMessage != "" && message.PatchedMessage == ""
	canDrawCards := gateway.err != nil || gateway.transport.DrawsCards()
	return q.HandedOverAt == nil && !hasCard && canDrawCards
}

const (
	// graceForWording is how long after it was asked a question waits for the process
	// that its hook started to have it worded.
	graceForWording = 2500 * time.Millisecond
	wordingPause    = 100 * time.Millisecond
)

// needsRewording reports whether a model is still to word the question.
func needsRewording(cfg *config.Config, q *state.Question) bool {
	return cfg.Format == "haiku" && q.Wording == nil && !q.IsWordingTried
}

// WordQuestion has a model word a question with this process's environment, which is
// that of the hook that asked it.
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

// reword has a model word the question. If the model fails, the question keeps Claude's
// own text.
func (p *Poller) reword(
	ctx context.Context,
	cfg *config.Config,
	q *state.Question,
) *state.Question {
	p.Log.AddSecrets(cfg.AnthropicKey)
	model := gchat.Haiku{Key: cfg.AnthropicKey, BaseURL: p.Env("ANTHROPIC_BASE_URL")}
	rewording, err := model.Reword(ctx, q.SubQuestions)
	logLine := p.Log.Info()
	if err != nil {
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
		// A second try to post must not pay for the wording again.
		q.Wording, q.IsWordingTried = rewording.Texts, err != nil
	})
	p.Log.ErrorOnce(updateErr, "wording not saved")
	return cmp.Or(stored, q)
}

// wordDigest merges the reports that were held back until this time, of one project and
// destination, into one message.
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
		isDue := other.Path > message.Path && !s.Now().Before(other.NotBefore)
		if !other.IsDigest || other.Report == nil || !isAlike || !isUntried || !isDue {
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
