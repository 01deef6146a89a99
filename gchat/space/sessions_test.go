package space

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// However many pages ask for the sessions, they are listed once in two seconds. A page
// that has the list gets it only if it changes.
func TestSessions_ListedOnceAndByVersion(t *testing.T) {
	var looks, ahead atomic.Int64
	s, _ := testServer(t, Options{
		Now: func() time.Time { return time.Unix(ahead.Load(), 0) },
		ListSessions: func(context.Context) []ListedSession {
			return []ListedSession{{ID: "a", Name: fmt.Sprint("look ", (looks.Add(1)+1)/2)}}
		},
	})
	ask := func(version string) (list sessionList) {
		response := callHandler(s, "GET", "http://localhost/page/sessions?version="+version, "",
			pageKeyField(s))
		kit.NoError(t, json.Unmarshal(response.Body.Bytes(), &list))
		return list
	}
	first := ask("")
	kit.Equal(t, string(first.Sessions), `[{"id":"a","name":"look 1","does":""}]`)
	var pages sync.WaitGroup
	for range 5 {
		pages.Go(func() { kit.Equal(t, len(ask(first.Version).Sessions), 0) })
	}
	pages.Wait()
	kit.Equalf(t, looks.Load(), 1, "looks")
	ahead.Store(2) // listed again, and unchanged
	kit.Equal(t, len(ask(first.Version).Sessions), 0)
	ahead.Store(4)
	kit.Equal(t, string(ask(first.Version).Sessions), `[{"id":"a","name":"look 2","does":""}]`)

	none, _ := testServer(t, Options{})
	kit.Equal(t, callHandler(none, "GET", "http://localhost/page/sessions", "",
		pageKeyField(none)).Body.String(), `{"version":""}`+"\n")
	kit.Equalf(t, callHandler(s, "GET", "http://localhost/page/sessions", "").Code, 401,
		"status without the key")
}
