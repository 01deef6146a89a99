package gchat

import (
	"context"
	"fmt"
)

// Space is a space of Chat.
type Space struct {
	Name        string // spaces/S
	DisplayName string // as people see it
}

// Spaces are the named spaces that the credentials' person is in, 1000 at most, in Chat's order. It takes
// chat.spaces.readonly, which a login has; other credentials may be refused with an *APIError.
func (r *Reader) Spaces(ctx context.Context) (spaces []Space, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	got, err := r.svc.Spaces.List().PageSize(1000).Filter(`spaceType = "SPACE"`).Context(ctx).Do()
	if err != nil {
		return nil, fmt.Errorf("list spaces: %w", r.failed(err))
	}
	for _, s := range got.Spaces {
		if s != nil {
			spaces = append(spaces, Space{s.Name, s.DisplayName})
		}
	}
	return spaces, nil
}
