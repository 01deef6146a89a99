package poller

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// A transport carries messages into one space. gchat has three: a webhook whose space is
// listed, a Chat app, and a Chat app behind a team's hub. Code that depends on a
// difference between them asks the transport. TestTransport_KeepsItsContract checks this
// contract for all three.
//
// Errors are gchat's, and mean the same for each transport: IsAuthFailure, IsPermanent,
// IsRateLimited, MayHaveArrived. A method that a transport cannot support returns
// errors.ErrUnsupported.
type transport interface {
	Chat() string // host/spaces/S
	ID() string   // distinguishes it from others into the same space, without a secret

	// Post creates a message, and only one for an id. The second of two posts of an id
	// returns the first one's receipt, or IsAlreadyExists. A thread of another space is
	// IsMalformed.
	Post(ctx context.Context, p gchat.Post) (gchat.PostedMessage, error)

	// Update changes a message of ours to the text and the card of p. The name may end
	// with the id that the message was posted with. No error means changed, or deleted
	// before.
	Update(ctx context.Context, name string, p gchat.Post) error

	// Find returns the receipt of a post with an id. The post was made after from, by the
	// space's clock. The error IsPermanent where there is no such message.
	Find(ctx context.Context, id string, from time.Time) (gchat.PostedMessage, error)

	// QuestionTexts returns the messages that hold a question's text. The last one gets
	// the card, in the outbox's form. The card's buttons carry id. A nil card means none.
	QuestionTexts(q *state.Question, id string) (texts []string, card json.RawMessage)

	// DrawsCards reports whether a question has a card on which a person may tap.
	DrawsCards() bool

	// KeepsThreadKeys reports whether a thread's key is enough to find the thread later.
	KeepsThreadKeys() bool

	// ReceivesAllAsEvents reports whether all messages of people in the space come as
	// events, so that no poller has to list it.
	ReceivesAllAsEvents(ctx context.Context) (bool, error)
}

// An eventSource is a transport that gets what people do as events, from the subscription
// with its ID. Google sends an app the taps, the messages that mention it, and all
// messages of a direct conversation.
type eventSource interface {
	transport

	// Pull returns events. It may wait until there are some. Google sends an event once
	// more until Ack gets its id.
	Pull(ctx context.Context) ([]gchat.PulledEvent, error)
	Ack(ctx context.Context, ackIDs []string) error

	// IsShared reports whether other machines may get the same events.
	IsShared() bool

	// IsForOtherMachine reports whether a tap is on the card of another machine. That
	// machine gets the same event.
	IsForOtherMachine(t *wording.Tap) bool

	// HasButtonOf reports whether a message has a button of a question at present.
	HasButtonOf(ctx context.Context, m gchat.Message, question string) (bool, error)

	// CanAnswerFor reports whether this machine may write a note that messages after that
	// one in its thread were not used.
	CanAnswerFor(ctx context.Context, message string) (bool, error)

	// CanFindOthers reports whether Find finds what other machines posted.
	CanFindOthers() bool
}

// A fileSource is a transport that can fetch what people attach to their messages.
type fileSource interface {
	// OpenFile opens the content of a file by its resource name, and by the name of the
	// message that it is attached to. The caller limits what it reads.
	OpenFile(ctx context.Context, message, resource string) (io.ReadCloser, error)
}

// spaceOf returns the space of a transport: spaces/S.
func spaceOf(t transport) string {
	_, space, _ := strings.Cut(t.Chat(), "/")
	return space
}
