package state

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// Other programs read and write questions, too; most are written in Python. Stop gates
// look at session_id, status, answer and response. Poll scripts look for status
// "pending", list the space from forwarded_at on, use what is in thread_name, and write
// status "answered" with answer, answered_at and answered_by.

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

// gateStatuses are the statuses that a closed marker shows to stop gates: these know
// "resolved" and "timeout", and send a session back for any other word. The exact status
// is in closed_as.
var gateStatuses = map[Status]Status{Cancelled: Resolved, Abandoned: TimedOut, Expired: TimedOut}

// forOthers adds what only other programs read in a question's file: times and names
// under their members, and the status in words that stop gates know.
func (q *Question) forOthers(members map[string]json.RawMessage) {
	forwardedAt := q.AskedAt
	if q.PostedAt != nil { // replies carry the server's clock, too
		forwardedAt = *q.PostedAt
	}
	members["forwarded_at"], _ = jsonTime(forwardedAt).MarshalJSON()
	members["thread_name"] = members["gchat_thread_name"]
	isMarker := q.Mode.Traits().HasMarker || q.isAskedInTerminalInstead()
	if word, ok := gateStatuses[q.Status]; ok && isMarker {
		members["closed_as"], _ = json.Marshal(q.Status)
		members["status"], _ = json.Marshal(word)
	}
}

// readForeignMembers reads what other programs' members of the file say.
func (q *Question) readForeignMembers() {
	q.ThreadKey = cmp.Or(q.ThreadKey, q.rawString("thread_key"))
	q.ThreadName = cmp.Or(q.ThreadName, q.rawString("thread_name"))
	if word := Status(q.rawString("closed_as")); word != "" && gateStatuses[word] == q.Status {
		q.Status = word
	}
	hasAnswer := q.Response != nil || len(q.Answers) > 0
	if q.Status == Answered && !hasAnswer && !q.Kind.Traits().IsPersonal {
		q.adoptForeignAnswer()
	}
}

// adoptForeignAnswer turns an answer that another program wrote into the file into a
// reply that is still to be judged. Where the answer is empty, the question keeps
// waiting.
func (q *Question) adoptForeignAnswer() {
	q.Status = Pending
	displayName := q.AnsweredBy // another program writes a display name there
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
	q.Replies = append(q.Replies, Reply{
		MessageName: name, Sender: LocalSender, DisplayName: displayName, Text: text,
		CreatedAt: at.UTC(),
	})
}

// adopt takes over an answer that another program wrote into the question's file. Only a
// question that still waits takes one.
func (q *Question) adopt(file []byte, written time.Time) {
	theirs := &Question{}
	if q.Status != Pending || decode(file, theirs, written) != nil {
		return
	}
	for _, reply := range theirs.Replies {
		if reply.Sender == LocalSender && q.FindReply(reply.MessageName) == nil {
			q.Replies = append(q.Replies, reply)
		}
	}
}

// check completes a question that another program wrote, or returns what it lacks.
func (q *Question) check(written time.Time) error {
	if q.QuestionID == "" || q.Status == "" {
		return errors.New("question_id or status is missing")
	}
	if q.AskedAt.IsZero() { // another program does not write asked_at
		var err error
		q.AskedAt, err = parseTimeNear(q.rawString("forwarded_at"), written)
		if err != nil {
			q.AskedAt = written.UTC()
		}
	}
	q.readForeignMembers()
	return nil
}

// UnmarshalJSON reads a question whose times other programs may have written in their own
// forms.
func (q *Question) UnmarshalJSON(b []byte) error {
	type plain Question
	err := json.Unmarshal(b, (*plain)(q))
	if err != nil {
		*q = Question{}
		err = json.Unmarshal(normalizeTimes(b), (*plain)(q))
	}
	return err
}

// parseForeignTime parses a time as we or other programs write it: Python's isoformat
// writes no Z, and for a time without a zone no offset. A time without a zone is in zone.
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

// MarkerClockSlack is how far in the future a marker's time may lie: other programs
// round, and clocks are set.
const MarkerClockSlack = 2 * time.Minute

// parseTimeNear parses a time as we or other programs write it. A time without a zone may
// be in UTC or in this machine's zone: the result is the later of the two that is not
// after the file was written.
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

// normalizeTimes returns a question's JSON with its times as RFC 3339, where a time
// without a zone is UTC. JSON that is no object is returned unchanged.
func normalizeTimes(b []byte) []byte {
	var raw map[string]json.RawMessage
	if json.Unmarshal(b, &raw) != nil {
		return b
	}
	for _, name := range []string{"asked_at", "resolved_at"} {
		var text string
		var seconds float64 // seconds since 1970
		if json.Unmarshal(raw[name], &seconds) == nil && seconds > 0 {
			raw[name], _ = json.Marshal(time.Unix(int64(seconds), 0).UTC())
		} else if json.Unmarshal(raw[name], &text) == nil && text == "" {
			raw[name] = json.RawMessage("null")
		} else if t, err := parseForeignTime(text, time.UTC); err == nil {
			raw[name], _ = json.Marshal(t.UTC())
		}
	}
	normalized, _ := json.Marshal(raw)
	return normalized
}
