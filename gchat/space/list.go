package space

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/api/chat/v1"
)

const (
	defaultPage = 25
	maxPage     = 1000
)

// listMessages is spaces.messages.list. Nothing is ever deleted here, so showDeleted changes nothing.
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
	words := append(strings.Fields(s), "", "")
	direction := strings.ToUpper(strings.TrimSpace(strings.Join(words[1:], " ")))
	switch {
	case words[0] == "", isCreateTime(words[0]) && (direction == "" || direction == "ASC"):
		return false, nil
	case isCreateTime(words[0]) && direction == "DESC":
		return true, nil
	}
	return false, invalid("Invalid order by: " + brief(s))
}

// A page token is the next row's number and a hash of what was asked, so that a token used with another filter is noticed.
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

// A filter is what spaces.messages.list can be asked for:
//
//	createTime > "2026-01-02T15:04:05Z" AND createTime < "…" AND thread.name = spaces/S/threads/T
//
// each part at most once, in any order. Both bounds are exclusive.
type filter struct {
	after, before *time.Time
	thread        string
}

func (f filter) matches(m *chat.Message) bool {
	if f.thread != "" && m.Thread.Name != f.thread {
		return false
	}
	if f.after == nil && f.before == nil {
		return true
	}
	t, err := time.Parse(time.RFC3339Nano, m.CreateTime)
	return err == nil && (f.after == nil || t.After(*f.after)) && (f.before == nil || t.Before(*f.before))
}

// String is the filter in its own language.
func (f filter) String() string {
	var terms []string
	if f.after != nil {
		terms = append(terms, `createTime > "`+f.after.Format(time.RFC3339Nano)+`"`)
	}
	if f.before != nil {
		terms = append(terms, `createTime < "`+f.before.Format(time.RFC3339Nano)+`"`)
	}
	if f.thread != "" {
		terms = append(terms, `thread.name = "`+f.thread+`"`)
	}
	return strings.Join(terms, " AND ")
}

func isCreateTime(s string) bool { return s == "createTime" || s == "create_time" }

// parseFilter reads a filter. Google tells no more than that one is invalid.
func parseFilter(s string) (filter, error) {
	var f filter
	words := filterWords(s)
	for i := 0; i < len(words); i += 4 {
		if i > 0 && words[i-1] != "AND" || i+3 > len(words) || i+4 == len(words) || !f.add(words[i], words[i+1], words[i+2]) {
			return filter{}, invalid("Invalid filter query")
		}
	}
	return f, nil
}

// add takes one comparison into f, unless it makes no sense there.
func (f *filter) add(field, op, value string) bool {
	value, quoted := strings.CutPrefix(value, `"`)
	if quoted {
		var closed bool
		if value, closed = strings.CutSuffix(value, `"`); !closed {
			return false
		}
	}
	if field == "thread.name" {
		if op != "=" || f.thread != "" || !threadForm().MatchString(value) {
			return false
		}
		f.thread = value
		return true
	}
	t, err := time.Parse(time.RFC3339Nano, value)
	if !isCreateTime(field) || !quoted || err != nil {
		return false
	}
	switch {
	case op == ">" && f.after == nil:
		f.after = &t
	case op == "<" && f.before == nil:
		f.before = &t
	default:
		return false
	}
	return true
}

// filterWords cuts a filter into names, operators and values. Quoted values keep
// their quotes. The operators need no spaces around them.
func filterWords(s string) []string {
	var words []string
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		n := 0
		switch {
		case s[0] == '"':
			n = len(s)
			if end := strings.IndexByte(s[1:], '"'); end >= 0 {
				n = end + 2
			}
		case strings.IndexByte("<>=!", s[0]) >= 0:
			for n < len(s) && strings.IndexByte("<>=!", s[n]) >= 0 {
				n++
			}
		default:
			if n = strings.IndexAny(s, " \t\r\n\"<>=!"); n < 0 {
				n = len(s)
			}
		}
		words, s = append(words, s[:n]), s[n:]
	}
	return words
}
