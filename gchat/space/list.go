package space

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/api/chat/v1"
)

const (
	defaultPage = 25
	maxPage     = 1000
)

// listMessages is spaces.messages.list. Nothing is ever deleted here, so
// showDeleted changes nothing.
func (s *Space) listMessages(r *http.Request) (any, error) {
	query := r.URL.Query()
	f, err := parseFilter(query.Get("filter"))
	if err != nil {
		return nil, err
	}
	descending, err := parseOrder(query.Get("orderBy"))
	if err != nil {
		return nil, err
	}
	size, _ := strconv.Atoi(query.Get("pageSize")) // an int32, or absent
	switch {
	case size < 0:
		return nil, invalid("Page size must not be negative")
	case size == 0:
		size = defaultPage
	case size > maxPage:
		size = maxPage
	}

	s.mu.Lock()
	rows := s.rows
	s.mu.Unlock()

	asked := fmt.Sprint(f, descending)
	from := 0 // rows already given, counted in the order asked for
	if descending {
		from = -len(rows) // rows that came in while paging must not shift the pages
	}
	if token := query.Get("pageToken"); token != "" {
		if from, err = readPageToken(token, asked); err != nil {
			return nil, err
		}
	}
	answer := new(chat.ListMessagesResponse)
	for i := from; ; i++ {
		at := i
		if descending {
			at = -i - 1
		}
		if at < 0 || at >= len(rows) {
			return answer, nil
		}
		if !f.matches(rows[at].Message) {
			continue
		}
		if len(answer.Messages) == size {
			answer.NextPageToken = pageToken(i, asked)
			return answer, nil
		}
		answer.Messages = append(answer.Messages, rows[at].Message)
	}
}

// parseOrder reads orderBy; it tells whether the newest come first.
func parseOrder(s string) (descending bool, err error) {
	words := strings.Fields(s)
	if len(words) == 0 {
		return false, nil
	}
	if len(words) <= 2 && isCreateTime(words[0]) {
		if len(words) == 1 {
			return false, nil
		}
		switch strings.ToUpper(words[1]) {
		case "ASC":
			return false, nil
		case "DESC":
			return true, nil
		}
	}
	return false, invalid("Invalid order by: " + brief(s))
}

// A page token is the next row's number and a hash of what was asked, so that a
// token used with another filter is noticed.
func pageToken(next int, asked string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %d", next, hash(asked)))
}

func readPageToken(token, asked string) (int, error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		var next int
		var sum uint32
		if _, err = fmt.Sscanf(string(b), "%d %d", &next, &sum); err == nil && sum == hash(asked) {
			return next, nil
		}
	}
	return 0, invalid("Invalid page token: it belongs to another request")
}

func hash(s string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(s))
	return h.Sum32()
}
