package state

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// Other programs read and write questions, too: stop gates look at session_id, status,
// answer and response; poll scripts look for status "pending", list the space from
// forwarded_at on, take what is in thread_name, and write status "answered" with answer,
// answered_at and answered_by. They are Python as a rule.

func (r Reply) MarshalJSON() ([]byte, error) {
	type plain Reply
	return json.Marshal(struct {
		plain
		CreateTime jsonTime `json:"create_time"`
	}{plain(r), jsonTime(r.CreatedAt)})
}

func (t Typing) MarshalJSON() ([]byte, error) {
	type plain Typing
	return json.Marshal(struct {
		plain
		At jsonTime `json:"at"`
	}{plain(t), jsonTime(t.LastKeyAt)})
}

// gateStatuses is what stop gates are told of a marker that is over: they know "resolved"
// and "timeout", and send a session back for any other word. The finer word stands in
// closed_as.
var gateStatuses = map[Status]Status{Cancelled: Resolved, Abandoned: TimedOut, Expired: TimedOut}

// forOthers completes a question's members: its status in words that stop gates know, and
// what stands in its file for other programs alone.
func (q *Question) forOthers(members map[string]json.RawMessage) {
	forwardedAt := q.AskedAt
	if q.PostedAt != nil { // the server's clock, which counts for the replies
		forwardedAt = *q.PostedAt
	}
	members["forwarded_at"], _ = jsonTime(forwardedAt).MarshalJSON()
	members["thread_name"] = members["gchat_thread_name"]
	if word, ok := gateStatuses[q.Status]; ok &&
		(q.Mode.Traits().HasMarker || q.isAskedInTerminalInstead()) {
		members["closed_as"], _ = json.Marshal(q.Status)
		members["status"], _ = json.Marshal(word)
	}
}

// readForeignMembers takes over what the file says in other programs' words.
func (q *Question) readForeignMembers() {
	q.ThreadKey, q.ThreadName = cmp.Or(
		q.ThreadKey,
		q.rawString("thread_key"),
	), cmp.Or(
		q.ThreadName,
		q.rawString("thread_name"),
	)
	if word := Status(q.rawString("closed_as")); word != "" && gateStatuses[word] == q.Status {
		q.Status = word
	}
	if q.Status == Answered && q.Response == nil && len(q.Answers) == 0 &&
		!q.Kind.Traits().IsPersonal {
		q.adoptForeignAnswer()
	}
}

// adoptForeignAnswer makes a reply that is still to be judged of an answer that another
// program wrote into the file. Without one the question still waits: an empty answer is
// none.
func (q *Question) adoptForeignAnswer() {
	q.Status = Pending
	displayName := q.AnsweredBy // a display name
	q.AnsweredBy = ""
	text := q.rawString("answer")
	if text == "" {
		var number json.Number
		_ = json.Unmarshal(q.rawMembers["answer"], &number)
		text = number.String()
	}
	name := "local/" + Hash(8, text)
	if strings.TrimSpace(text) == "" || q.FindReply(name) != nil {
		return
	}
	at, err := parseTimeNear(q.rawString("answered_at"), time.Now())
	if err != nil {
		at = q.AskedAt
	}
	q.Replies = append(
		q.Replies,
		Reply{
			MessageName: name,
			Sender:      LocalSender,
			DisplayName: displayName,
			Text:        text,
			CreatedAt:   at.UTC(),
		},
	)
}

// check completes another program's question, and says what is missing in it.
func (q *Question) check(written time.Time) error {
	if q.QuestionID == "" || q.Status == "" {
		return errors.New("question_id or status is missing")
	}
	if q.AskedAt.IsZero() { // another program's
		var err error
		q.AskedAt, err = parseTimeNear(q.rawString("forwarded_at"), written)
		if err != nil {
			q.AskedAt = written.UTC()
		}
	}
	q.readForeignMembers()
	return nil
}

// UnmarshalJSON reads a question with its times as other programs may have written them.
func (q *Question) UnmarshalJSON(b []byte) error {
	type plain Question
	err := json.Unmarshal(b, (*plain)(q))
	if err != nil {
		*q = Question{}
		err = json.Unmarshal(normalizeTimes(b), (*plain)(q))
	}
	return err
}

// parseForeignTime reads a time as we or other programs write it: Python's isoformat
// knows neither a Z nor, of UTC, a zone. A time without a zone is taken for one in zone.
func parseForeignTime(text string, zone *time.Location) (t time.Time, err error) {
	for _, layout := range []string{
		time.RFC3339, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999",
		"2006-01-02T15:04:05.999999999Z0700", "2006-01-02 15:04:05.999999999Z07:00",
	} {
		t, err = time.ParseInLocation(layout, text, zone)
		if err == nil {
			break
		}
	}
	return t, err
}

// MarkerClockSlack is how far a marker's time can lie ahead: other programs round, and
// clocks are set.
const MarkerClockSlack = 2 * time.Minute

// parseTimeNear reads a time as we or other programs write it. One without a zone may be
// UTC or this machine's: it is the later of the two that does not lie after the file was
// written.
func parseTimeNear(text string, written time.Time) (time.Time, error) {
	earlier, err := parseForeignTime(text, time.UTC)
	later, _ := parseForeignTime(text, time.Local)
	if earlier.After(later) {
		earlier, later = later, earlier
	}
	if later.After(written.Add(MarkerClockSlack)) {
		return earlier, err
	}
	return later, err
}

// normalizeTimes is a question with its times as RFC 3339, a time without a zone taken
// for UTC. What is no object stays as it is.
func normalizeTimes(b []byte) []byte {
	var raw map[string]json.RawMessage
	if json.Unmarshal(b, &raw) != nil {
		return b
	}
	for _, name := range []string{"asked_at", "resolved_at"} {
		var text string
		var seconds float64 // since 1970
		if json.Unmarshal(raw[name], &seconds) == nil && seconds > 0 {
			raw[name], _ = json.Marshal(time.Unix(int64(seconds), 0).UTC())
		} else if json.Unmarshal(raw[name], &text) == nil && text == "" {
			raw[name] = json.RawMessage("null")
		} else if t, err := parseForeignTime(text, time.UTC); err == nil {
			raw[name], _ = json.Marshal(t.UTC())
		}
	}
	normalized, _ := json.Marshal(raw) // its members were just read
	return normalized
}
