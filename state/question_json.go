package state

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Other programs read and write questions, too: stop gates look at session_id, status, answer and response; poll scripts look
// for status "pending", list the space from forwarded_at on, take what is in thread_name, and write status "answered" with
// answer, answered_at and answered_by. They are Python as a rule.

// pythonTime is a time as datetime.fromisoformat reads it in every Python: before 3.11 it takes three or six digits of a
// second, and a zone only in numbers.
const pythonTime = "2006-01-02T15:04:05.000-07:00"

// JSONTime is a time in JSON that other programs read.
type JSONTime time.Time

func (t JSONTime) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Time(t).UTC().Format(pythonTime))
}

func (r Reply) MarshalJSON() ([]byte, error) {
	type plain Reply
	return json.Marshal(struct {
		plain
		CreateTime JSONTime `json:"create_time"`
	}{plain(r), JSONTime(r.CreateTime)})
}

func (t Typing) MarshalJSON() ([]byte, error) {
	type plain Typing
	return json.Marshal(struct {
		plain
		At JSONTime `json:"at"`
	}{plain(t), JSONTime(t.At)})
}

func marshalMember(value any) ([]byte, error) {
	switch v := value.(type) {
	case time.Time:
		value = JSONTime(v)
	case *time.Time:
		value = (*JSONTime)(v)
	}
	return json.Marshal(value)
}

// closedAs is what stop gates are told of a marker that is over: they know "resolved" and "timeout", and send a session back
// for any other word. The finer word stands in closed_as.
var closedAs = map[Status]Status{Cancelled: Resolved, Abandoned: TimedOut, Expired: TimedOut}

// inFile is the question's status as it stands in its file, and the members that stand there for other programs alone; nil
// is left out.
func (q *Question) inFile() (Status, map[string]any) {
	forwarded := q.AskedAt
	if q.PostedAt != nil { // the server's clock, which counts for the replies
		forwarded = *q.PostedAt
	}
	foreign := map[string]any{"thread_name": q.ThreadName, "forwarded_at": forwarded, "closed_as": nil}
	word := closedAs[q.Status]
	if word == "" || q.Mode != Deny {
		return q.Status, foreign
	}
	foreign["closed_as"] = q.Status
	return word, foreign
}

// readForeign takes over what the file says in other programs' words.
func (q *Question) readForeign() {
	q.ThreadKey, q.ThreadName = cmp.Or(q.ThreadKey, q.rawText("thread_key")), cmp.Or(q.ThreadName, q.rawText("thread_name"))
	if word := Status(q.rawText("closed_as")); word != "" && closedAs[word] == q.Status {
		q.Status = word
	}
	if q.Status == Answered && q.Response == nil && len(q.Answers) == 0 {
		q.takeForeignAnswer()
	}
}

// takeForeignAnswer makes a reply that is still to be judged of an answer that another program wrote into the file. Without
// one the question still waits: an empty answer is none.
func (q *Question) takeForeignAnswer() {
	q.Status = Pending
	by := q.AnsweredBy // a display name
	q.AnsweredBy = ""
	text := q.rawText("answer")
	if text == "" {
		var number json.Number
		_ = json.Unmarshal(q.raw["answer"], &number)
		text = number.String()
	}
	sum := sha256.Sum256([]byte(text))
	name := "local/" + hex.EncodeToString(sum[:8])
	if strings.TrimSpace(text) == "" || q.Reply(name) != nil {
		return
	}
	at, err := time.Parse(time.RFC3339, q.rawText("answered_at"))
	if err != nil {
		at = q.AskedAt
	}
	q.Replies = append(q.Replies, Reply{MessageName: name, Sender: Local, DisplayName: by, Text: text, CreateTime: at.UTC()})
}

// rawText is a member of the file that is a string; "" where it is none.
func (q *Question) rawText(name string) (text string) {
	_ = json.Unmarshal(q.raw[name], &text)
	return text
}

// UnmarshalJSON keeps the raw members, so that MarshalJSON can give back what it does not know.
func (q *Question) UnmarshalJSON(b []byte) error {
	type plain Question
	var p plain
	err := json.Unmarshal(b, &p)
	if err != nil {
		if b = withOurTimes(b); b == nil {
			return err
		}
		p = plain{}
		err = json.Unmarshal(b, &p)
	}
	if err == nil {
		err = json.Unmarshal(b, &p.raw)
	}
	if err != nil {
		return err
	}
	*q = Question(p)
	q.readForeign()
	return nil
}

// foreignTimes are how other programs write a time: Python's isoformat knows neither a Z nor, of UTC, a zone.
var foreignTimes = []string{
	"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999",
	"2006-01-02T15:04:05.999999999Z0700", "2006-01-02 15:04:05.999999999Z07:00",
}

// withOurTimes is a question with its times as RFC 3339, a time without a zone taken for UTC; nil when that mends nothing.
func withOurTimes(b []byte) []byte {
	var raw map[string]json.RawMessage
	if json.Unmarshal(b, &raw) != nil {
		return nil
	}
	for _, name := range []string{"asked_at", "resolved_at"} {
		var text string
		var seconds float64 // since 1970
		switch {
		case json.Unmarshal(raw[name], &seconds) == nil && seconds > 0:
			text = time.Unix(int64(seconds), 0).UTC().Format(foreignTimes[0])
		case json.Unmarshal(raw[name], &text) != nil:
			continue
		}
		if text == "" {
			raw[name] = json.RawMessage("null")
		}
		for _, layout := range foreignTimes {
			if t, err := time.Parse(layout, text); err == nil {
				raw[name], _ = json.Marshal(t.UTC())
				break
			}
		}
	}
	mended, err := json.Marshal(raw)
	if err != nil {
		return nil
	}
	return mended
}

// MarshalJSON writes known members in the order of the struct, then unknown ones by name. A known member whose value
// did not change keeps the bytes it was read with: unknown fields inside it survive too.
func (q *Question) MarshalJSON() ([]byte, error) {
	type plain Question
	was, err := members(q.raw)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	known := map[string]bool{}
	write := func(name string, value []byte) {
		if out.Len() == 0 {
			out.WriteByte('{')
		} else {
			out.WriteByte(',')
		}
		key, _ := json.Marshal(name)
		out.Write(key)
		out.WriteByte(':')
		out.Write(value)
	}
	status, foreign := q.inFile()
	v := reflect.ValueOf((*plain)(q)).Elem()
	for i := range v.NumField() {
		name, opts, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		known[name] = true
		f := v.Field(i)
		empty := f.IsZero() || (f.Kind() == reflect.Map || f.Kind() == reflect.Slice) && f.Len() == 0
		if empty && q.raw[name] == nil && opts == "omitempty" {
			continue
		}
		value := f.Interface()
		if name == "status" {
			value = status
		}
		b, err := marshalMember(value)
		if err != nil {
			return nil, err
		}
		if raw, ok := q.raw[name]; ok && bytes.Equal(b, was[name]) {
			b = raw
		}
		write(name, b)
	}
	for _, name := range slices.Sorted(maps.Keys(foreign)) {
		if foreign[name] == nil {
			continue
		}
		known[name] = true
		b, err := marshalMember(foreign[name])
		if err != nil {
			return nil, err
		}
		write(name, b)
	}
	for _, name := range slices.Sorted(maps.Keys(q.raw)) {
		if !known[name] {
			write(name, q.raw[name])
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// members marshals the known members of a raw question again: the shape that an unchanged value would take.
func members(raw map[string]json.RawMessage) (map[string][]byte, error) {
	if raw == nil {
		return nil, nil
	}
	type plain Question
	b, err := json.Marshal(raw)
	if err != nil {
		return nil, err
	}
	var p plain
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, err
	}
	was := map[string][]byte{}
	v := reflect.ValueOf(&p).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		if b, err := marshalMember(v.Field(i).Interface()); err == nil {
			was[name] = b
		}
	}
	return was, nil
}
