package space

import (
	"strings"
	"time"

	"google.golang.org/api/chat/v1"
)

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
