package gchat

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/kit"
)

// The Date header has whole seconds only. The measured difference of the clocks must not
// jump between two lists.
func TestListMessages_ServerClockIsSteady(t *testing.T) {
	ahead := time.Hour
	srv := chatServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		io.WriteString(w, `{}`)
	})
	r := newReader(t, srv.URL, "")
	list := func() time.Duration {
		_, err := listAll(t, r)
		kit.NoError(t, err)
		return r.ClockAhead
	}
	was := list()
	ahead += time.Second
	is := list()
	kit.True(t, is == was, "%v ahead, and then %v", was, is)
	ahead = 0
	is = list()
	kit.True(t, is >= -2*time.Second && is <= 0, "the clocks are set, and it is %v ahead", is)
}

func TestListMessages_ReadsAllPages(t *testing.T) {
	var filters, tokens []string
	srv := chatServer(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		filters, tokens = append(filters, q.Get("filter")), append(tokens, q.Get("pageToken"))
		kit.True(t, q.Get("pageSize") == "1000" && !q.Has("orderBy") &&
			q.Get("showDeleted") == "true" && r.URL.Path == "/v1/spaces/AAA/messages" &&
			r.Header.Get("Authorization") == "",
			"asked %s", r.URL)
		kit.True(t, !q.Has("pageToken") || q.Get("pageToken") != "", "an empty page token was sent")
		switch q.Get("pageToken") {
		case "":
			io.WriteString(w, `{"messages":[{"name":"spaces/AAA/messages/1","text":"@bot 2","argumentText":" 2","createTime":"2026-11-21T10:00:00.123456Z",
				"sender":{"name":"users/1","type":"HUMAN","email":"a@b","displayName":"A"},"thread":{"name":"spaces/AAA/threads/T","retentionSettings":{}}},null],"nextPageToken":"empty"}`)
		case "empty": // is not the end
			io.WriteString(w, `{"nextPageToken":"last"}`)
		case "last":
			io.WriteString(w,
				`{"messages":[{"name":"spaces/AAA/messages/2","text":"bye","clientAssignedMessageId":"client-x","sender":{"type":"BOT"},"deleteTime":"2026-11-21T10:00:01Z"}]}`)
		}
	})
	r := newReader(t, srv.URL, "")
	at := time.Date(2026, 11, 21, 9, 0, 0, 5000, time.FixedZone("", 3600))
	var ms []Message
	err := r.ListSince(t.Context(), "spaces/AAA", at,
		func(page []Message) { ms = append(ms, page...) })
	kit.Must(t, err == nil && len(ms) == 2, "%d messages, %v", len(ms), err)
	m := ms[0]
	kit.True(t, m.Text == " 2" && m.IsHuman && m.Sender == "users/1" && m.SenderEmail == "a@b" &&
		m.ThreadName == "spaces/AAA/threads/T" && m.CreateTime.Nanosecond() == 123456000,
		"first %+v", m)
	m = ms[1]
	kit.True(t, !m.IsHuman && m.IsDeleted, "second %+v", m)
	kit.True(t, filters[0] == `createTime > "2026-11-21T08:00:00.000005Z"` &&
		strings.Join(tokens, ",") == ",empty,last",
		"filters %q, tokens %q", filters, tokens)
}

func TestListMessages_PagesBeforeAnError(t *testing.T) {
	srv := chatServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("pageToken") != "" {
			w.WriteHeader(500)
			return
		}
		io.WriteString(w, `{"messages":[{"name":"spaces/AAA/messages/1"}],"nextPageToken":"x"}`)
	})
	r := newReader(t, srv.URL, "")
	ms, err := listAll(t, r)
	kit.True(t, len(ms) == 1 && IsOverloaded(err), "%d messages, %v", len(ms), err)
}

func TestListMessages_Errors(t *testing.T) {
	for code, check := range map[int]func(error) bool{401: IsAuthFailure, 403: IsAuthFailure,
		404: IsPermanent, 429: IsOverloaded, 503: IsOverloaded} {
		srv := chatServer(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(code)
			io.WriteString(w, `{"error":{"message":"why","status":"STATUS"}}`)
		})
		r := newReader(t, srv.URL, "")
		_, err := listAll(t, r)
		kit.True(t, check(err) && strings.Contains(err.Error(), "why") &&
			RetryAfter(err) == 3*time.Second,
			"%d: %v", code, err)
	}
}

// FuzzMessages reads any answer to a list request.
func FuzzMessages(f *testing.F) {
	f.Add(`{"messages":[{"name":"spaces/A/messages/M","text":"2","sender":{"name":"users/1","type":"HUMAN"},"thread":{"name":"spaces/A/threads/T"},"createTime":"2026-11-21T10:00:00Z"}]}`)
	f.Add(`{"messages":[null,{"sender":null,"thread":null,"createTime":"yesterday"}]}`)
	f.Add(`{"messages":{}}`)
	f.Fuzz(func(t *testing.T, body string) {
		var page chat.ListMessagesResponse
		if json.Unmarshal([]byte(body), &page) != nil {
			return
		}
		for _, m := range page.Messages {
			if m == nil {
				continue
			}
			got := messageFromChat(m)
			kit.True(t, !got.IsHuman || m.Sender != nil && m.Sender.Type == "HUMAN",
				"taken for a person: %s", body)
		}
	})
}

// Only a name that begins with users/ is a sender. "local" would count as the person at
// this machine, who may always answer.
func TestListMessages_SenderIsAUserOrNobody(t *testing.T) {
	m := &chat.Message{Sender: &chat.User{Name: "local", Type: "HUMAN"}}
	kit.Equalf(t, messageFromChat(m).Sender, "", "sender")
}

// A small compressed answer can be very large in memory. Such a page gives no messages.
func TestListMessages_LargeAnswer(t *testing.T) {
	srv := chatServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		zip := gzip.NewWriter(w)
		io.WriteString(zip, `{"messages":[{"text":"`+strings.Repeat("a", maxBodyBytes)+`"}]}`)
		zip.Close()
	})
	r := newReader(t, srv.URL, "")
	ms, err := listAll(t, r)
	var tooMuch *http.MaxBytesError
	kit.True(t, len(ms) == 0 && errors.As(err, &tooMuch), "%d messages, %v", len(ms), err)
}

func TestListMessages_Attachments(t *testing.T) {
	for name, m := range map[string]*chat.Message{
		"a file":  {Attachment: []*chat.Attachment{{ContentName: "a.png"}}},
		"a GIF":   {AttachedGifs: []*chat.AttachedGif{{Uri: "https://example.com/a.gif"}}},
		"nothing": {Text: "a.png"},
	} {
		kit.Equalf(t, messageFromChat(m).HasAttachment, (name != "nothing"), "%s", name)
	}
}
