package poller

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// A transport carries messages into one space. gchat has three: a webhook whose space is
// listed, a Chat app, and a Chat app behind a team's hub. Whoever wants to know what
// follows from which one it is asks the transport. TestTransports holds all three to what
// stands here.
//
// Errors are gchat's, and tell the same of each: IsAuthFailure, Permanent, IsRateLimited,
// MayHaveArrived. A method that a transport has no way to do returns
// errors.ErrUnsupported.
type transport interface {
	Chat() string // host/spaces/S
	ID() string   // tells it from another one into the same space, without a secret

	// Post creates a message, and one only for an id: the second of two posts of an id
	// has the first one's receipt, or IsAlreadyExists. A thread of another space is
	// Malformed.
	Post(ctx context.Context, p gchat.Post) (gchat.PostedMessage, error)

	// Update has a message of ours show the text and the card of p. The name may end with
	// the id that the message was posted with. A message that is gone needs no change.
	Update(ctx context.Context, name string, p gchat.Post) error

	// Find is what became of a post with an id. It was made after from, by the space's
	// clock. The error is Permanent where there is no such message.
	Find(ctx context.Context, id string, from time.Time) (gchat.PostedMessage, error)

	// QuestionTexts are the messages that hold a question's text. The last one has the
	// card, as it stands in the outbox; its buttons carry id. Nil is for no card.
	QuestionTexts(q *state.Question, id string) (texts []string, card json.RawMessage)

	// DrawsCards says whether a question has a card, on which a person may tap.
	DrawsCards() bool

	// KeepsThreadKeys says whether a thread's key is enough to find the thread again.
	KeepsThreadKeys() bool

	// HearsAll says whether all that people say in the space comes as events, so that
	// nobody lists it.
	HearsAll(ctx context.Context) (bool, error)
}

// An eventSource is a transport that hears what people do as events, from a subscription
// which is its ID. Google gives an app taps, what mentions it, and all of a direct
// message.
type eventSource interface {
	transport

	// Pull takes events. It may wait until there are some. They come again until Ack.
	Pull(ctx context.Context) ([]gchat.PulledEvent, error)
	Ack(ctx context.Context, ackIDs []string) error

	// IsShared says whether other machines may hear the same events.
	IsShared() bool

	// Foreign says whether a tap is on the card of another machine, which hears it, too.
	IsForOtherMachine(t *wording.Tap) bool

	// Shows says whether a message has a button of that question now.
	HasButtonOf(ctx context.Context, m gchat.Message, question string) (bool, error)

	// Concerns says whether this machine may tell a person that words behind that message
	// were not used.
	CanAnswerFor(ctx context.Context, message string) (bool, error)

	// CanFindOthers says whether Find finds what other machines posted.
	CanFindOthers() bool
}

// spaceOf is the space of a transport: spaces/S.
func spaceOf(t transport) string {
	_, space, _ := strings.Cut(t.Chat(), "/")
	return space
}
