package gchat

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/state"
)

// Person is somebody in Chat.
type Person struct {
	Name        string // users/ID
	Email       string // where Chat gives it
	DisplayName string // where Chat gives it
}

// ErrNotTold says that Chat cannot tell who the credentials belong to: that person wrote nothing that a search finds.
var ErrNotTold = errors.New("chat does not tell who that is")

// Me is the person whose login reads. With the scopes that reading takes, the API tells nobody who they are
// (members.get takes chat.memberships.readonly), but messages.search finds the messages of "users/me", and a message
// has its sender. Errors are ErrNotTold, ErrCredentials and the API's.
func (r *Reader) Me(ctx context.Context) (Person, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	got, err := r.svc.Spaces.Messages.Search("spaces/-", &chat.SearchMessagesRequest{Filter: `sender.name = "users/me"`, PageSize: 25}).
		Fields("results/message/sender"). // not what was said
		Context(ctx).Do()
	if err != nil {
		return Person{}, fmt.Errorf("ask who logged in: %w", r.failed(err))
	}
	var me Person
	for _, res := range got.Results {
		if res == nil || res.Message == nil || res.Message.Sender == nil {
			continue
		}
		s := res.Message.Sender
		// Two senders would mean that the filter was not understood; then none of them is known to be the one.
		if s.Type != "HUMAN" || !state.IsPerson(s.Name) || me.Name != "" && s.Name != me.Name {
			return Person{}, ErrNotTold
		}
		me = Person{s.Name, s.Email, s.DisplayName}
	}
	if me.Name == "" {
		return Person{}, ErrNotTold
	}
	return me, nil
}
