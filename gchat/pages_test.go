package gchat

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state/config"
)

// A broken proxy, or a server in Chat's place, may name a next page for ever.
func TestPages_ListWithoutEnd(t *testing.T) {
	lists := map[string]func(ctx context.Context, url string, row func()) error{
		"messages": func(ctx context.Context, url string, row func()) error {
			api, err := NewReader(ctx, url, "")
			if err != nil {
				return err
			}
			return api.ListSince(ctx, "spaces/AAA", time.Now(), func(page []Message) {
				for range page {
					row()
				}
			})
		},
		"spaces": func(ctx context.Context, url string, row func()) error {
			app, err := NewApp(ctx, &config.Config{
				SpaceID: "spaces/A", Subscription: "projects/p/subscriptions/s",
				APIEndpoint: url, PubSubEndpoint: url,
			})
			if err != nil {
				return err
			}
			spaces, err := app.Spaces(ctx)
			for range spaces {
				row()
			}
			return err
		},
	}
	for list, read := range lists {
		for _, c := range []struct {
			name  string
			token func(request int) string
			most  int
		}{
			{"the same page again", func(int) string { return "x" }, 2},
			{"always another page", strconv.Itoa, maxPages},
		} {
			t.Run(list+", "+c.name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				requests, rows := 0, 0
				server := chatServer(t, func(w http.ResponseWriter, r *http.Request) {
					requests++
					if requests > 10*maxPages {
						cancel()
					}
					fmt.Fprintf(w, `{%q:[{"name":"spaces/AAA/%d"}],"nextPageToken":%q}`,
						list, requests, c.token(requests))
				})
				err := read(ctx, server.URL, func() { rows++ })
				kit.True(t, errors.Is(err, ErrEndlessList) && requests == c.most &&
					rows == requests,
					"%d requests, %d rows, %v", requests, rows, err)
			})
		}
	}
}
