package space

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"
	"google.golang.org/api/googleapi"

	"gchat-hooks/e2e/kit"
)

// postNumbers fills a space with messages "0", "1", … a second apart, from noon
// on; the even ones are in one thread, the odd ones in another.
func postNumbers(t *testing.T, n int) (*Space, *chat.Service) {
	t.Helper()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s, srv := testServer(t, Options{Now: func() time.Time { return now }})
	threads := make([]string, 2)
	for i := range n {
		m := postAsPerson(t, s, threads[i%2], fmt.Sprint(i))
		threads[i%2] = m.Thread.Name
		now = now.Add(time.Second)
	}
	return s, newClient(t, s.APIEndpoint(srv.URL))
}

func TestList_Filters(t *testing.T) {
	_, api := postNumbers(t, 6)
	for _, tt := range []struct{ name, filter, want string }{
		{"all", "", "0 1 2 3 4 5"},
		{"after is exclusive", `createTime > "2026-03-01T12:00:03.000000Z"`, "4 5"},
		{"other time zone", `createTime > "2026-03-01T14:00:03+02:00"`, "4 5"},
		{"microseconds", `createTime > "2026-03-01T12:00:02.999999Z"`, "3 4 5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, err := api.Spaces.Messages.List(Name).Filter(tt.filter).ShowDeleted(true).Do()
			kit.NoError(t, err)
			kit.Equal(t, joinTexts(list.Messages), tt.want)
		})
	}
}

func TestList_Refuses(t *testing.T) {
	_, api := postNumbers(t, 1)
	list := func() *chat.SpacesMessagesListCall { return api.Spaces.Messages.List(Name) }
	for _, tt := range []struct {
		name string
		call *chat.SpacesMessagesListCall
		want string
	}{
		{
			"at or after", list().Filter(`createTime >= "2026-03-01T12:00:00Z"`),
			"Invalid filter query",
		},
		{"no quotes", list().Filter(`createTime > 2026-03-01T12:00:00Z`), "Invalid filter query"},
		{
			"or",
			list().Filter(`createTime > "2026-03-01T12:00:00Z" OR createTime < ` +
				`"2026-03-01T12:00:00Z"`),
			"Invalid filter query",
		},
		{"half", list().Filter(`createTime >`), "Invalid filter query"},
		{"open quote", list().Filter(`createTime > "2026-03-01T12:00:00Z`), "Invalid filter query"},
		{"other field", list().Filter(`sender.name = "users/x"`), "Invalid filter query"},
		{"order", list().OrderBy("sender DESC"), "Invalid order by"},
		{"thread", list().Filter(`thread.name = spaces/local/threads/x`), "Invalid filter query"},
		{"no page", list().PageSize(0), "Page size must be positive"},
		{"negative page", list().PageSize(-1), "Page size must be positive"},
		{"negative page token", list().PageToken("-1"), "Invalid page token"},
		{"page token", list().PageToken("nonsense"), "Invalid page token"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.call.Do()
			var apiErr *googleapi.Error
			if !errors.As(err, &apiErr) || apiErr.Code != 400 ||
				!strings.Contains(apiErr.Message, tt.want) {
				t.Errorf("got %v, want 400 %s", err, tt.want)
			}
		})
	}
}

func TestList_Empty(t *testing.T) {
	s, srv := testServer(t, Options{})
	answer, err := srv.Client().Get(s.APIEndpoint(srv.URL) + "v1/" + Name + "/messages")
	kit.NoError(t, err)
	if code, v := readAnswer(t, answer); code != 200 || len(v) != 0 {
		t.Errorf("an empty space gives %d %v", code, v)
	}
}

func TestList_Pages(t *testing.T) {
	for _, tt := range []struct {
		size, total int64
		pages       string
	}{
		{4, 10, "0 1 2 3|4 5 6 7|8 9"},
		{5, 10, "0 1 2 3 4|5 6 7 8 9"},
	} {
		t.Run(fmt.Sprint(tt.size), func(t *testing.T) {
			_, api := postNumbers(t, int(tt.total))
			var pages []string
			err := api.Spaces.Messages.List(Name).PageSize(tt.size).Pages(t.Context(),
				func(list *chat.ListMessagesResponse) error {
					pages = append(pages, joinTexts(list.Messages))
					return nil
				})
			kit.NoError(t, err)
			kit.Equal(t, strings.Join(pages, "|"), tt.pages)
		})
	}
}

func TestList_PageSizes(t *testing.T) {
	_, api := postNumbers(t, 1010)
	for asked, want := range map[int64]int{1: 1, 1000: 1000, 5000: 1000} {
		list, err := api.Spaces.Messages.List(Name).PageSize(asked).Do()
		kit.NoError(t, err)
		kit.Equalf(t, len(list.Messages), want, "messages for the page size %d", asked)
		kit.Equalf(t, list.NextPageToken == "", false, "the last page is size %d", asked)
	}
}
