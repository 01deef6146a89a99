package space

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/googleapi"

	"gchat-hooks/e2e/kit"
)

func TestSpace_Conversation(t *testing.T) {
	s, srv := testServer(t, Options{})
	asked := mustPost(t, s.WebhookURL(srv.URL)+"&messageReplyOption="+replyOrFallback,
		`{"text":"Which one?","thread":{"threadKey":"ask-1"},"sender":{"name":"users/liar"},`+
			`"deleteTime":"2001-01-01T00:00:00Z"}`)
	thread := asked["thread"].(map[string]any)
	if len(asked) != 3 || asked["text"] != "Which one?" || thread["threadKey"] != "ask-1" {
		t.Errorf("a webhook gets more than name, thread and its own text: %v", asked)
	}
	id := strings.TrimPrefix(threadOf(asked), Name+"/threads/")
	kit.Equalf(t, asked["name"], any(Name+"/messages/"+id+"."+id), "the root message of %s", id)

	reply := postAsPerson(t, s, threadOf(asked), "2")
	kit.Containsf(t, reply.Name, Name+"/messages/"+id+".", "the reply's name")
	api := newClient(t, s.APIEndpoint(srv.URL))
	list, err := api.Spaces.Messages.List(Name).Filter(`createTime > "2020-01-01T00:00:00Z"`).Do()
	kit.NoError(t, err)
	if len(list.Messages) != 2 || list.NextPageToken != "" {
		t.Fatalf("list gives %d messages", len(list.Messages))
	}
	q, a := list.Messages[0], list.Messages[1]
	kit.Equalf(t, q.DeleteTime, "", "an output-only field of the request")
	if q.Sender.Name != webhookName || q.Sender.Type != "BOT" ||
		q.Sender.DisplayName != "gchat-hooks" {
		t.Errorf("question is from %+v", q.Sender)
	}
	wantFromPerson(t, a)
	if a.Sender.DisplayName != "You" || a.Text != "2" || !a.ThreadReply {
		t.Errorf("reply is %+v from %+v", a, a.Sender)
	}
	if got, err := api.Spaces.Messages.Get(a.Name).Do(); err != nil || got.Text != "2" ||
		got.CreateTime != a.CreateTime {
		t.Errorf("get: %+v, %v", got, err)
	}
}

func TestSpace_NotFound(t *testing.T) {
	s, srv := testServer(t, Options{})
	api := newClient(t, s.APIEndpoint(srv.URL))
	_, err := api.Spaces.Messages.Get(Name + "/messages/none").Do()
	var apiErr *googleapi.Error
	if !errors.As(err, &apiErr) || apiErr.Code != 404 {
		t.Errorf("get of no message: %v", err)
	}
	if _, err := api.Spaces.Messages.List("spaces/other").Do(); !errors.As(err, &apiErr) ||
		apiErr.Code != 404 {
		t.Errorf("list of no space: %v", err)
	}
	for _, path := range []string{
		"v1", "v1/", "v1/users/me", "v2/spaces", "nothing", "page/", "page/../space.go",
	} {
		answer, err := http.Get(s.APIEndpoint(srv.URL) + path)
		kit.NoError(t, err)
		if code, v := readAnswer(t, answer); code != 404 ||
			!strings.HasPrefix(errorOf(v), "NOT_FOUND") {
			t.Errorf("%s: %d %v", path, code, v)
		}
	}
	if _, err := s.PostAs(nil, Name+"/threads/none", "hello?"); err == nil {
		t.Error("Say talks into a thread that is not there")
	}
}

func TestSpace_TimesIncrease(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	clock := []time.Time{noon, noon, noon.Add(-time.Hour), noon.Add(time.Second)}
	s, _ := testServer(t, Options{Now: func() time.Time {
		now := clock[0]
		clock = clock[1:]
		return now
	}})
	for range 4 {
		postAsPerson(t, s, "", "tick")
	}
	var got []string
	for _, m := range s.Messages() {
		got = append(got, strings.TrimPrefix(m.CreateTime, "2026-03-01T12:00:"))
	}
	kit.Equalf(t, fmt.Sprint(got), "[00.123456Z 00.123457Z 00.123458Z 01.123456Z]", "times")
}

func TestSpace_ManyAtOnce(t *testing.T) {
	s, srv := testServer(t, Options{DataDir: t.TempDir()})
	url := s.WebhookURL(srv.URL) + "&messageReplyOption=" + replyOrFallback
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			postTo(t, url,
				fmt.Sprintf(`{"text":"n","thread":{"threadKey":"k%d"}}`, i%3))
		})
		wg.Go(func() { s.Messages() })
	}
	wg.Wait()
	threads, last := map[string]bool{}, ""
	for _, m := range s.Messages() {
		if threads[m.Thread.Name] = true; m.CreateTime <= last {
			t.Errorf("%s comes after %s", m.CreateTime, last)
		}
		last = m.CreateTime
	}
	kit.Equalf(t, len(s.Messages()), 20, "messages")
	kit.Equalf(t, len(threads), 3, "threads")
}
