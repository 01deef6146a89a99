package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

func TestQuestionStore_NamesFilesBySessionAndSecond(t *testing.T) {
	s := QuestionsIn(t.TempDir())
	for _, want := range []string{"s1-1771669800.json", "s1-1771669800-2.json",
		"s1-1771669800-3.json"} {
		kit.Equalf(t, filepath.Base(record(t, s, question("s1")).Path), want, "file")
	}
	info, err := os.Stat(filepath.Join(s.Dir, "s1-1771669800.json"))
	kit.True(t, err == nil && info.Mode().Perm() == 0o600,
		"file mode %v, %v; want 0600", info.Mode(), err)
	info, _ = os.Stat(s.Dir)
	kit.True(t, info.Mode().Perm() == 0o700, "folder mode %v, want 0700", info.Mode())
}

func TestQuestionStore_CreatesAtOnce(t *testing.T) {
	s := QuestionsIn(t.TempDir())
	var wg sync.WaitGroup
	for i := range 8 { // each waits two seconds at most for the others
		wg.Go(func() {
			q := question("s1")
			q.QuestionID = fmt.Sprint("id-", i)
			_, err := s.Record("s1", fresh(q))
			kit.True(t, err == nil, "%v", err)
		})
	}
	wg.Wait()
	qs, bad, err := s.OfSession("s1")
	kit.Must(t, err == nil && len(bad) == 0 && len(qs) == 8,
		"%d questions, bad %v, err %v; want 8", len(qs), bad, err)
}

// At a day's end there are hundreds of closed questions, and a hook looks after each of
// Claude's steps. So closed ones are not parsed.
func TestQuestionStore_ParsesNoClosedRecord(t *testing.T) {
	env := envOf(t)
	s := QuestionsIn(t.TempDir())
	two := map[Status]*Question{}
	for _, status := range []Status{Answered, Resolved} {
		q := question("s")
		q.ToolUseID = "toolu_" + string(status)
		q = record(t, s, q)
		update(t, q.Path, moveTo(status))
		kit.NoError(t, AddQuestionToIndex(env, q))
		two[status] = q
	}
	for _, tt := range []struct {
		texts []string
		want  int
	}{{nil, 2}, {OpenStatusTexts, 1}, {[]string{"toolu_resolved"}, 1}, {[]string{"toolu_1"}, 0}} {
		qs, _, err := s.OfSession("s", tt.texts...)
		all, bad := ReadIndexedQuestions(env, tt.texts...)
		kit.True(t, err == nil && len(bad) == 0 && len(qs) == tt.want && len(all) == tt.want,
			"%q: %d of the session, %d of all, %v, %v; want %d", tt.texts, len(qs), len(all), err,
			bad, tt.want)
	}
	qs, _, _ := s.OfSession("s", OpenStatusTexts...)
	kit.True(t, len(qs) == 1 && qs[0].QuestionID == two[Answered].QuestionID,
		"the open one is not found")
	kit.NoError(t, os.WriteFile(two[Answered].Path, []byte(`{"session_id":"s","ques`), 0o600))
	_, bad := ReadIndexedQuestions(env, OpenStatusTexts...)
	kit.True(t, len(bad) == 1, "of a damaged one is said: %v", bad)
}

func TestQuestionStore_HostileSessionIDs(t *testing.T) {
	root := t.TempDir()
	s := QuestionsIn(root)
	ids := []string{"../../etc/passwd", "/abs", "..", ".", "", "a b", "a_b",
		strings.Repeat("x", 300), "emoji 😀", "nul\x00", ".hidden"}
	for _, id := range ids {
		q := record(t, s, question(id))
		kit.Equalf(t, filepath.Dir(q.Path), s.Dir, "session %q was recorded at %s", id, q.Path)
		got, _, err := s.OfSession(id)
		kit.True(t, err == nil && len(got) == 1 && got[0].SessionID == id,
			"session %q: found %d, %v", id, len(got), err)
	}
}

func TestQuestionStore_KeepsUnknownFields(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q.json")
	before := `{"question_id":"x","session_id":"s","status":"pending","asked_at":"2026-02-21T10:30:00.123Z",
		"questions":[{"question":"Q?","header":null,"options":[{"label":"A","color":"red"}],"multiSelect":false,"option_count":1,"hint":7}],
		"from_the_future":{"a":[1,2,{"b":null}]},"gchat_message_name":null,"zz":1}`
	kit.NoError(t, os.WriteFile(path, []byte(before), 0o600))
	update(t, path, moveTo(Cancelled))
	left := kit.ReadFile(t, path)
	kit.True(t, json.Valid([]byte(left)), "no JSON: %s", left)
	for _, want := range []string{`"from_the_future":{"a":[1,2,{"b":null}]}`, `"color":"red"`,
		`"hint":7`, `"zz":1`, `"gchat_message_name":null`, `"status":"cancelled"`} {
		kit.Contains(t, left, want)
	}
}

func TestQuestionStore_AllowedTransitions(t *testing.T) {
	for _, c := range []struct {
		from, to Status
		ok       bool
	}{
		{Pending, Answered, true}, {Answered, Resolved, true}, {Pending, Resolved, true},
		{Pending, Cancelled, true},
		{Pending, Abandoned, true}, {Pending, TimedOut, true}, {Pending, Expired, true},
		{TimedOut, Resolved, true},
		{Answered, Answered, false}, {Answered, Pending, false}, {Resolved, Answered, false},
		{Cancelled, Answered, false},
		{Expired, Pending, false}, {Resolved, Cancelled, false},
	} {
		q := &Question{Status: c.from}
		err := q.MoveTo(c.to, asked)
		kit.True(t, (err == nil) == c.ok && (c.ok || errors.Is(err, ErrTransition)),
			"%s to %s: %v", c.from, c.to, err)
		kit.True(t, !c.ok || (q.ResolvedAt != nil) == (c.to != Answered),
			"%s to %s: resolved_at is %v", c.from, c.to, q.ResolvedAt)
	}
}

func TestQuestionStore_OneWinner(t *testing.T) {
	q := record(t, QuestionsIn(t.TempDir()), question("s"))
	var wins, wg = make(chan int, 50), sync.WaitGroup{}
	for i := range 50 {
		wg.Go(func() {
			_, err := UpdateQuestion(q.Path, func(q *Question) error {
				response := "A"
				q.Response = &response
				return q.MoveTo(Answered, asked)
			})
			if err == nil {
				wins <- i
			}
			kit.True(t, err == nil || errors.Is(err, ErrTransition), "%v", err)
		})
	}
	wg.Wait()
	kit.Equalf(t, len(wins), 1, "processes claimed the question")
}

func TestQuestionStore_SetsBrokenFilesAside(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "garbage": "\x00\xff{", "half": `{"question_id":"x","status":"pen`,
		"other type": `[1,2]`, "null": "null",
		"wrong types": `{"question_id":7}`, "no status": `{"question_id":"x"}`,
		"deep": strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000),
	} {
		t.Run(name, func(t *testing.T) {
			s := QuestionsIn(t.TempDir())
			good := record(t, s, question("s"))
			path := filepath.Join(s.Dir, "s-1.json")
			kit.NoError(t, os.WriteFile(path, []byte(content), 0o600))
			old := time.Now().Add(-time.Minute)
			kit.NoError(t, os.Chtimes(path, old, old))
			qs, bad, err := s.OfSession("s")
			var c *CorruptFileError
			kit.Must(t, err == nil && len(qs) == 1 && qs[0].QuestionID == good.QuestionID &&
				len(bad) == 1 && errors.As(bad[0], &c),
				"questions %d, bad %v, err %v", len(qs), bad, err)
			kit.Equalf(t, kit.ReadFile(t, c.MovedTo), content, "moved aside")
			_, err = os.Stat(path)
			kit.True(t, errors.Is(err, fs.ErrNotExist), "it still stands there: %v", err)
		})
	}
}

// Other programs do not rename files into place. A young file that is not complete may
// still be written, and is left alone.
func TestQuestionStore_LeavesUnfinishedFilesAlone(t *testing.T) {
	s := QuestionsIn(t.TempDir())
	good := record(t, s, question("s"))
	path := filepath.Join(s.Dir, "s-1.json")
	whole := `{"question_id":"x","session_id":"s","status":"pending","asked_at":"2026-11-21T12:00:00"}`
	var cache Cache[Question]
	for n := range whole[:len(whole)-1] {
		kit.NoError(t, os.WriteFile(path, []byte(whole[:n]), 0o600))
		qs, bad := s.All()
		kit.Must(t, len(qs) == 1 && qs[0].QuestionID == good.QuestionID && len(bad) == 0,
			"after %d bytes: %d questions, %v", n, len(qs), bad)
		q, err := cache.Load(path, false)
		kit.Must(t, q == nil && err == nil, "after %d bytes the cache has %v, %v", n, q, err)
	}
	kit.NoError(t, os.WriteFile(path, []byte(whole), 0o600))
	qs, bad := s.All()
	kit.True(t, len(qs) == 2 && len(bad) == 0, "when it is whole: %d questions, %v", len(qs), bad)
}

// We read the times that other programs write, Python's above all.
func TestQuestionStore_ReadsForeignTimes(t *testing.T) {
	want := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, at := range []string{"2026-11-21T12:00:00Z", "2026-11-21T12:00:00",
		"2026-11-21T12:00:00.000000", "2026-11-21T12:00:00.000000+00:00",
		"2026-11-21 12:00:00", "2026-11-21T13:00:00+0100", "2026-11-21 13:00:00+01:00"} {
		path := filepath.Join(t.TempDir(), "q.json")
		kit.NoError(t, os.WriteFile(path,
			[]byte(`{"question_id":"x","status":"pending","asked_at":"`+at+
				`","resolved_at":"","note":1}`), 0o600))
		q, err := UpdateQuestion(path, func(q *Question) error { q.SessionName = "n"; return nil })
		if err != nil || !q.AskedAt.Equal(want) || q.ResolvedAt != nil {
			t.Errorf("%s: %v, %v", at, q, err)
			continue
		}
		again, err := LoadQuestion(path)
		kit.True(t, err == nil && again.AskedAt.Equal(want) && again.SessionName == "n",
			"%s, written again: %v, %v", at, again, err)
	}
}

func TestQuestionStore_CacheSeesChanges(t *testing.T) {
	s := QuestionsIn(t.TempDir())
	q := record(t, s, question("s"))
	var cache Cache[Question]
	first, err := cache.Load(q.Path, false)
	again, _ := cache.Load(q.Path, false)
	kit.True(t, err == nil && first == again, "an unchanged file was read twice: %v", err)
	update(t, q.Path, func(q *Question) error { q.IsDenied = true; return nil })
	now, err := cache.Load(q.Path, false)
	kit.True(t, err == nil && now.IsDenied, "after a change: %+v, %v", now, err)
	cache.ForgetUnused()
	cache.ForgetUnused()
	kit.True(t, len(cache.entries) == 0, "what is not loaded any more is kept")
}

// The cache does not load messages that are only receipts.
func TestQuestionStore_CacheSkipsReceipts(t *testing.T) {
	env := envOf(t)
	m := enqueue(t, env,
		&Message{ID: "client-a", Parts: []string{`a "sent_at":"2 b`}, CreatedAt: asked})
	cache := Cache[Message]{ShouldSkip: HasReceipt}
	now, err := cache.Load(m.Path, false)
	kit.True(t, err == nil && now != nil, "one that waits: %v, %v", now, err)
	changeMessage(t, env, m, func(m *Message) { m.SentAt = asked })
	now, err = cache.Load(m.Path, false)
	kit.True(t, err == nil && now == nil, "a receipt: %v, %v", now, err)
}

// A closed marker has a status that stop gates of other programs know. We read it back as
// the status that it had.
func TestQuestionStore_ClosedMarkersForGates(t *testing.T) {
	const went = Mode("was to be denied, and is asked in the terminal")
	for _, c := range []struct {
		mode     Mode
		status   Status
		word, as string
	}{
		{ModeDeny, Pending, "pending", ""}, {ModeDeny, Resolved, "resolved", ""},
		{ModeDeny, TimedOut, "timeout", ""},
		{ModeDeny, Cancelled, "resolved", "cancelled"},
		{ModeDeny, Abandoned, "timeout", "abandoned"}, {ModeDeny, Expired, "timeout", "expired"},
		{went, Cancelled, "resolved", "cancelled"}, {ModeNative, Cancelled, "cancelled", ""},
		{ModeInject, Abandoned, "abandoned", ""},
	} {
		q := question("s")
		q.Mode, q.Status = c.mode, c.status
		if c.mode == went {
			q.Mode, q.QuestionID = ModeNative, q.ThreadKey
		}
		b := encode(q, nil)
		var file struct {
			Status string `json:"status"`
			As     string `json:"closed_as"`
		}
		var again Question
		err := errors.Join(json.Unmarshal(b, &file), decode(b, &again, asked))
		kit.True(t, err == nil && file.Status == c.word && file.As == c.as &&
			again.Status == c.status,
			"%s, %s: %s closed as %q, read as %s, %v", c.mode, c.status, file.Status, file.As,
			again.Status, err)
	}
}

// Every time has three digits and a numeric zone, because Python before 3.11 reads no
// others.
func TestQuestionStore_TimesForPython(t *testing.T) {
	q, at := question("s"), asked.Add(456789*time.Nanosecond)
	q.ThreadName, q.AskedAt, q.PostedAt, q.ResolvedAt, q.TimesOutAt, q.SessionEndedAt, q.DeliveredAt = "spaces/S/threads/T", at, &at, &at, &at, &at, &at
	q.Replies, q.Typing = []Reply{{CreatedAt: at}}, &Typing{LastKeyAt: at}
	b := encode(q, nil)
	n := strings.Count(string(b), `"2026-02-21T10:30:00.123+00:00"`)
	kit.True(t, n == 9 && strings.Count(string(b), "2026-02-21T") == n &&
		strings.Contains(string(b), `"thread_name":"spaces/S/threads/T"`),
		"%d times: %s", n, b)
	kit.Equalf(t, len(b), len(strings.ReplaceAll(string(b), "00:00Z", "")), "a Z: %s", b)
}

// An answer that another program writes becomes one reply, which is still to be judged.
// Without an answer the question stays pending.
func TestQuestionStore_ForeignAnswerIsAReply(t *testing.T) {
	for name, c := range map[string]struct{ members, want string }{
		"a number as text": {`"answer":"2","answered_by":"Ann","answered_at":"2026-02-21T10:31:00.5+00:00"`, "2"},
		"a number":         {`"answer":2`, "2"},
		"words":            {`"answer":"Q1: 2\nother: no","response":null`, "Q1: 2\nother: no"},
		"empty":            {`"answer":""`, ""},
		"blank":            {`"answer":" \n"`, ""},
		"null":             {`"answer":null`, ""},
		"none":             {`"x":1`, ""},
		"a list":           {`"answer":["2"]`, ""},
	} {
		path := filepath.Join(t.TempDir(), "q.json")
		kit.NoError(t, os.WriteFile(path,
			[]byte(`{"question_id":"x","session_id":"s","status":"answered",`+c.members+
				`,"thread_name":"spaces/S/threads/T","forwarded_at":"2026-02-21T10:30:00.123456+00:00"}`), 0o600))
		for range 2 { // as it was written, and as we wrote it
			q, err := UpdateQuestion(path,
				func(q *Question) error { q.IsDenied = true; return nil })
			kit.Must(t, err == nil && q.Status == Pending &&
				len(q.Replies) == min(len(c.want), 1) && q.ThreadName == "spaces/S/threads/T" &&
				q.AskedAt.Truncate(time.Millisecond).Equal(asked),
				"%s: %+v, %v", name, q, err)
			kit.True(t, c.want == "" ||
				q.Replies[0].Text == c.want && q.Replies[0].Sender == LocalSender &&
					q.Replies[0].Verdict == VerdictUnread && q.AnsweredBy == "",
				"%s: %+v", name, q.Replies)
		}
	}
}

func FuzzQuestionFile(f *testing.F) {
	f.Add([]byte(`{"question_id":"x","status":"answered","answer":2,"answered_by":"Ann","forwarded_at":"nonsense","thread_name":7,"closed_as":"cancelled"}`))
	f.Add([]byte(`{"question_id":"x","status":"resolved","closed_as":"cancelled","mode":"deny"}`))
	f.Add([]byte(`{"question_id":"x","status":"pending","replies":[{"verdict":"used"}],"partial":{"0":{"text":"a"}}}`))
	f.Add([]byte(`{"question_id":"x","status":"pending","asked_at":"nonsense"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q Question
		if decode(b, &q, asked) != nil {
			return
		}
		out := encode(&q, nil)
		var again Question
		err := decode(out, &again, asked)
		kit.Must(t, err == nil, "written but not read: %v\n%s", err, out)
		var before, after map[string]json.RawMessage
		_ = json.Unmarshal(b, &before)
		_ = json.Unmarshal(out, &after)
		for k := range before {
			_, ok := after[k]
			kit.True(t, ok, "member %q got lost", k)
		}
	})
}

// Another program may write a time as a number of seconds.
func TestQuestionStore_AskedAtInSeconds(t *testing.T) {
	var q Question
	err := json.Unmarshal([]byte(`{"question_id":"x","session_id":"s","status":"pending","asked_at":1795357346}`), &q)
	kit.True(t, err == nil && q.AskedAt.Unix() == 1795357346, "asked at %v, %v", q.AskedAt, err)
}
