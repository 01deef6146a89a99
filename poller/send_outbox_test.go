package poller

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// office is a poller with a clock that the test turns, and a space that answers as the test says.
type office struct {
	*Poller
	t      *testing.T
	space  *space.Space
	env    map[string]string
	clock  time.Time
	posts  []string                                                // texts that were asked to be posted
	fault  func(text string, w http.ResponseWriter) (handled bool) // nil: none
	store  bool                                                    // a faulty answer comes after the message was stored
	idless bool                                                    // Chat knows nothing of message ids
	ids    []string                                                // of the posts
}

// allTrusted is Claude Code's list of a person who trusts every folder.
const allTrusted = `{"projects":{"/":{"hasTrustDialogAccepted":true}}}`

func newOffice(t *testing.T) *office {
	t.Helper()
	s, err := space.Open(space.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := &office{t: t, space: s, clock: time.Now()}
	server := httptest.NewServer(o)
	t.Cleanup(func() { server.Close(); s.Close() })
	dir := t.TempDir()
	o.env = map[string]string{
		"HOME": dir, "XDG_STATE_HOME": dir, "CLAUDE_PROJECT_DIR": dir, "GOOGLE_CHAT_WEBHOOK_URL": s.WebhookURL(server.URL),
	}
	write(t, filepath.Join(dir, ".claude.json"), allTrusted)
	getenv := func(name string) string { return o.env[name] }
	o.Poller = &Poller{Env: getenv, Log: state.NewLog(getenv, "test"), Now: func() time.Time { return o.clock }}
	return o
}

func (o *office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		o.space.Handler().ServeHTTP(w, r)
		return
	}
	if o.idless {
		q := r.URL.Query()
		q.Del("messageId")
		q.Del("requestId")
		r.URL.RawQuery = q.Encode()
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m struct{ Text string }
	_ = json.Unmarshal(body, &m)
	o.posts, o.ids = append(o.posts, m.Text), append(o.ids, r.URL.Query().Get("messageId")+r.URL.Query().Get("requestId"))
	if o.fault != nil {
		answer := httptest.NewRecorder()
		if o.fault(m.Text, answer) {
			if o.store {
				o.space.Handler().ServeHTTP(httptest.NewRecorder(), r)
			}
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes())
			return
		}
	}
	o.space.Handler().ServeHTTP(w, r)
}

func (o *office) report(session, text string, also ...func(*Report)) Outcome {
	o.t.Helper()
	r := Report{Report: gchat.Report{Type: gchat.Plain, Text: text}, SessionID: session, ProjectDir: o.env["CLAUDE_PROJECT_DIR"]}
	for _, f := range also {
		f(&r)
	}
	out, err := o.PutReport(r)
	if err != nil {
		o.t.Fatal(err)
	}
	o.clock = o.clock.Add(time.Millisecond)
	return out
}

// pass is Send, and again while that is due at once.
func (o *office) pass() (left Left) {
	o.t.Helper()
	sent := 0
	for range 1000 {
		left = o.Send(o.t.Context())
		if sent += left.Sent; left.Again.IsZero() || left.Again.After(o.clock) {
			left.Sent = sent
			return left
		}
	}
	o.t.Fatal("it goes on for ever")
	return left
}

func progress(r *Report) { r.Type, r.Session = gchat.ProgressUpdate, "s" }

func (o *office) texts() (texts []string) {
	for _, m := range o.space.Messages() {
		texts = append(texts, m.Text)
	}
	return texts
}

func (o *office) want(texts ...string) {
	o.t.Helper()
	if got := o.texts(); !slices.Equal(got, texts) {
		o.t.Errorf("in the space: %q, want %q", got, texts)
	}
}

func refuse(code int, header ...string) func(string, http.ResponseWriter) bool {
	return func(_ string, w http.ResponseWriter) bool { answer(w, code, "no", header...); return true }
}

func answer(w http.ResponseWriter, code int, message string, header ...string) {
	for i := 0; i < len(header); i += 2 {
		w.Header().Set(header[i], header[i+1])
	}
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"error":{"code":%d,"message":%q,"status":"X"}}`, code, message)
}

func TestSendKeepsOrderInAThreadOnly(t *testing.T) {
	o := newOffice(t)
	o.fault = func(text string, w http.ResponseWriter) bool {
		if text == "a1" {
			answer(w, 500, "no")
			return true
		}
		return false
	}
	for _, text := range []string{"a1", "a2", "b1", "a3", "b2"} {
		o.report(text[:1], text)
	}
	left := o.pass()
	o.want("b1", "b2")
	if left.Sent != 2 || !left.Again.After(o.clock) {
		t.Errorf("left: %+v", left)
	}
	o.fault, o.clock = nil, left.Again
	if left = o.pass(); left != (Left{Sent: 3}) {
		t.Errorf("left: %+v", left)
	}
	o.want("b1", "b2", "a1", "a2", "a3")
}

func TestSendWithinTheRate(t *testing.T) {
	o := newOffice(t)
	for i := range 15 {
		o.report(fmt.Sprint("s", i), fmt.Sprint("m", i))
	}
	o.report("s99", "urgent", func(r *Report) { r.Type = gchat.BlockedAlert })
	began := o.clock
	o.pass()
	if got := o.texts(); len(got) != 10 || !strings.Contains(got[0], "urgent") {
		t.Fatalf("at once: %q", got)
	}
	for range 6 {
		left := o.pass()
		o.clock = left.Again
	}
	if took := o.clock.Sub(began); len(o.texts()) != 15 || took != 6*time.Second {
		t.Errorf("%d after %s", len(o.texts()), took)
	}
}

func TestSendLeavesASpaceAloneThatHadEnough(t *testing.T) {
	o := newOffice(t)
	o.fault = refuse(429, "Retry-After", "40")
	o.report("a", "one")
	o.report("b", "two")
	left := o.pass()
	if len(o.posts) != 1 || left.Again.Sub(o.clock) != 40*time.Second {
		t.Fatalf("%d posts, again in %s", len(o.posts), left.Again.Sub(o.clock))
	}
	o.clock = o.clock.Add(39 * time.Second)
	if o.pass(); len(o.posts) != 1 {
		t.Error("Retry-After was not honoured")
	}
	o.clock, o.fault = o.clock.Add(time.Second), nil
	o.pass()
	o.want("one", "two")
}

func TestSendBacksOffWithoutRetryAfter(t *testing.T) {
	o := newOffice(t)
	o.fault = refuse(429)
	o.report("a", "one")
	var pauses []time.Duration
	for range 11 {
		left := o.pass()
		pauses = append(pauses, left.Again.Sub(o.clock))
		o.clock = left.Again
	}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		if pauses[i] != want*time.Second {
			t.Fatalf("pauses %v", pauses)
		}
	}
}

func TestSendParksWhatChatRefuses(t *testing.T) {
	for _, code := range []int{400, 404} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			o := newOffice(t)
			o.fault = func(text string, w http.ResponseWriter) bool {
				if text == "bad" {
					answer(w, code, "The request contains an invalid thread resource name")
					return true
				}
				return false
			}
			bad := o.report("a", "bad")
			o.report("a", "good")
			if left := o.pass(); left != (Left{Sent: 1}) {
				t.Errorf("left: %+v", left)
			}
			o.want("good")
			dead := o.outbox().Dead()
			if len(dead) != 1 || !strings.Contains(dead[0].LastError, "invalid thread resource name") {
				t.Fatalf("dead: %+v", dead)
			}
			if f := o.FateOf(bad); !strings.Contains(f.Refused, "invalid thread") {
				t.Errorf("fate: %+v", f)
			}
			if said := state.TakeNotices(o.user(), "a"); !strings.Contains(said, "was refused") {
				t.Errorf("the person is told %q", said)
			}
			o.fault = nil
			if n, err := o.outbox().Revive(o.clock); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			o.pass()
			o.want("good", "bad")
		})
	}
}

func TestSendPausesUntilAPersonMendsIt(t *testing.T) {
	for name, fault := range map[string]func(string, http.ResponseWriter) bool{
		"401": refuse(401), "403": refuse(403),
		"a key that is cut off": func(_ string, w http.ResponseWriter) bool {
			answer(w, 400, "API key not valid. Please pass a valid API key.")
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			o.fault = fault
			o.report("a", "one")
			o.report("b", "two")
			for range 5 { // a try a minute, and no more
				left := o.pass()
				if pause := left.Again.Sub(o.clock); pause != time.Minute {
					t.Fatalf("again in %s", pause)
				}
				o.clock = left.Again
			}
			if len(o.posts) != 5 || len(o.outbox().Dead()) != 0 {
				t.Errorf("%d posts, %d dead", len(o.posts), len(o.outbox().Dead()))
			}
			if said := state.TakeNotices(o.user(), "a"); strings.Count(said, "nothing can be sent") != 1 {
				t.Errorf("the person is told %q", said)
			}
			if said := state.TakeNotices(o.user(), "a") + state.TakeNotices(o.user(), "b"); said != "" {
				t.Errorf("and once more: %q", said)
			}
			// The webhook is replaced: at once it goes on.
			o.pass()
			o.fault = nil
			o.env["GOOGLE_CHAT_WEBHOOK_URL"] += "&threadKey=ignored"
			o.pass()
			o.want("one", "two")
			if len(o.outbox().Pauses()) != 0 {
				t.Error("still paused")
			}
		})
	}
}

func TestSendAfterAnswersThatLeaveADoubt(t *testing.T) {
	for _, code := range []int{429, 500, 503, 200} { // 200 without a message: a hotel's network
		for _, ids := range []bool{true, false} {
			t.Run(fmt.Sprint(code, " ids ", ids), func(t *testing.T) {
				o := newOffice(t)
				// The same words were said, and sent, before: they must not be taken for this message.
				o.store, o.idless = true, !ids
				o.report("a", "ping")
				o.pass()
				o.clock = o.clock.Add(2 * time.Minute)
				o.fault = refuse(code)
				o.report("a", "ping")
				o.report("a", "pong")
				left := o.pass()
				o.fault, o.clock = nil, left.Again
				o.pass()
				o.want("ping", "ping", "pong")
				if !o.outbox().Empty() {
					t.Error("something waits")
				}
			})
		}
	}
}

func TestSendKilledBetweenRequestAndAnswer(t *testing.T) {
	o := newOffice(t)
	out := o.report("a", "one")
	if _, err := o.outbox().Try(out.Message); err != nil {
		t.Fatal(err)
	}
	o.idless = true
	hook, err := o.Webhook(t.Context(), o.env["CLAUDE_PROJECT_DIR"])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hook.Post(t.Context(), gchat.Post{Text: "one", ThreadKey: "session-a"}); err != nil {
		t.Fatal(err)
	}
	o.report("a", "two")
	o.pass()
	o.want("one", "two")
	if f := o.FateOf(out); !f.Arrived || f.Name == "" {
		t.Errorf("fate: %+v", f)
	}
}

func TestSendMergesABurst(t *testing.T) {
	o := newOffice(t)
	o.fault = refuse(429, "Retry-After", "5")
	o.report("x", "first") // the space has had enough
	o.pass()
	o.report("a", "one", progress)
	last := o.report("a", "two", progress)
	o.report("a", "no progress")
	o.report("a", "three", progress)
	o.report("b", "another session", progress)
	o.fault, o.clock = nil, o.clock.Add(5*time.Second)
	if left := o.pass(); left != (Left{Sent: 5}) {
		t.Errorf("left: %+v", left)
	}
	o.want("first", "[Progress] s\n\none\n\n[Progress] s\n\ntwo", "no progress", "[Progress] s\n\nthree", "[Progress] s\n\nanother session")
	if f := o.FateOf(last); !f.Arrived || f.Name != o.space.Messages()[1].Name {
		t.Errorf("fate of the merged one: %+v", f)
	}
	if again := o.report("a", "two", progress); !again.Repeated {
		t.Error("what went inside another message is said again")
	}
}

func TestQuietHoursEndInOneDigest(t *testing.T) {
	o := newOffice(t)
	evening := time.Date(2026, 11, 21, 22, 30, 0, 0, time.UTC)
	o.clock = evening
	writeConfig(t, o, `{"quiet_hours": {"from": "22:00", "to": "07:00", "time_zone": "UTC"}}`)
	out := o.report("a", "one")
	o.report("b", "two", progress)
	o.report("a", "help", func(r *Report) { r.Type, r.Session = gchat.BlockedAlert, "s" })
	o.report("a", "in a thread", func(r *Report) { r.ThreadKey = "asked-for" })
	if want := time.Date(2026, 11, 22, 7, 0, 0, 0, time.UTC); !out.HeldUntil.Equal(want) {
		t.Errorf("held until %s", out.HeldUntil)
	}
	left := o.pass()
	o.want("[BLOCKED] s\n\nACTION REQUIRED: help")
	if !left.Again.IsZero() || !left.HeldUntil.Equal(out.HeldUntil) {
		t.Errorf("left: %+v", left)
	}
	o.clock = out.HeldUntil
	o.pass()
	o.want("[BLOCKED] s\n\nACTION REQUIRED: help", "[Digest] 2 messages\n\none\n\n[Progress] s\n\ntwo", "in a thread")
}

func TestRulesOfReports(t *testing.T) {
	o := newOffice(t)
	writeConfig(t, o, `{"reports": {"heartbeat": "off", "progress_update": "digest", "session_start": "on"}}`)
	o.clock = time.Date(2026, 11, 21, 12, 10, 0, 0, time.UTC)
	if out := o.report("a", "beat", func(r *Report) { r.Type = gchat.Heartbeat }); !out.Off || out.Put {
		t.Errorf("heartbeat: %+v", out)
	}
	if out := o.report("a", "step", progress); out.HeldUntil != time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC) {
		t.Errorf("progress: %+v", out)
	}
	off := func(r *Report) { r.Default = state.ReportOff }
	if out := o.report("a", "begun", off, func(r *Report) { r.Type = gchat.SessionStarted }); !out.Put {
		t.Errorf("what is off by default and on by rule: %+v", out)
	}
	if out := o.report("a", "quiet", off); !out.Off {
		t.Errorf("what is off by default: %+v", out)
	}
}

func TestRepeatsAreSaidOnce(t *testing.T) {
	o := newOffice(t)
	say := func(session, text string) bool { return o.report(session, text).Put }
	if !say("a", "x") || say("a", "x") || !say("b", "x") || !say("a", "y") {
		t.Error("the same text of the same session is said once, nothing else is")
	}
	if !say("", "x") || !say("", "x") {
		t.Error("outside a session nothing is a repetition")
	}
	o.clock = o.clock.Add(time.Minute)
	if !say("a", "x") {
		t.Error("a minute later it is news")
	}
}

func TestPartsArriveOnceAndInOrder(t *testing.T) {
	o := newOffice(t)
	failing := true
	o.fault = func(text string, w http.ResponseWriter) bool {
		if failing && strings.HasPrefix(text, "(2/3)") {
			answer(w, 500, "no")
			return true
		}
		return false
	}
	long := strings.Repeat(strings.Repeat("word ", 200)+"\n\n", 80)
	o.report("a", long)
	o.report("a", "after it")
	left := o.pass()
	failing, o.clock = false, left.Again
	o.pass()
	got := o.texts()
	if len(got) != 4 || !strings.HasPrefix(got[0], "(1/3)") || !strings.HasPrefix(got[1], "(2/3)") || !strings.HasPrefix(got[2], "(3/3)") || got[3] != "after it" {
		for _, g := range got {
			t.Logf("%.40q", g)
		}
		t.Errorf("%d messages", len(got))
	}
}

func TestSendLeavesOthersSpacesAlone(t *testing.T) {
	o := newOffice(t)
	if _, err := o.outbox().Put(&state.Outgoing{
		MessageID: "client-1", Chat: "chat.googleapis.com/spaces/OTHER", Parts: []string{"secret"}, CreatedAt: o.clock, ProjectDir: o.env["CLAUDE_PROJECT_DIR"],
	}, 0); err != nil {
		t.Fatal(err)
	}
	o.report("a", "ours")
	if left := o.pass(); left != (Left{Sent: 1}) {
		t.Errorf("left: %+v", left)
	}
	o.want("ours")
}

func writeConfig(t *testing.T, o *office, content string) {
	t.Helper()
	path := filepath.Join(o.env["HOME"], ".config", "gchat-hooks", "config.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEveryTryCarriesTheSameID(t *testing.T) {
	o := newOffice(t)
	o.fault = refuse(500)
	o.report("a", "one")
	for range 3 {
		o.clock = o.pass().Again
	}
	if len(o.ids) != 3 || len(o.ids[0]) < 20 || o.ids[0] != o.ids[1] || o.ids[1] != o.ids[2] {
		t.Errorf("ids %q", o.ids)
	}
	o.report("a", "two")
	o.fault = nil
	o.pass()
	if last := o.ids[len(o.ids)-1]; last == o.ids[0] {
		t.Errorf("another message has the same id, %q", last)
	}
}

func TestSendEndsAMergeThatWasCut(t *testing.T) {
	o := newOffice(t)
	first, second := o.report("a", "one", progress).Message, o.report("a", "two", progress).Message
	// Killed right after the texts were put together: the second still waits as well.
	first.Parts = []string{"one and two"}
	first.Merged = []state.Merged{{Key: second.Key, MessageID: second.MessageID, CreatedAt: second.CreatedAt, File: filepath.Base(second.Path)}}
	if err := o.outbox().Rewrite(first); err != nil {
		t.Fatal(err)
	}
	o.pass()
	o.want("one and two")
}

func TestOutOfReachIsTriedByOneMessageOnly(t *testing.T) {
	o := newOffice(t)
	tries := 0
	hotel := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			tries++
		}
		fmt.Fprint(w, "please log in")
	}))
	defer hotel.Close()
	o.env["GOOGLE_CHAT_WEBHOOK_URL"] = hotel.URL + "/v1/spaces/local/messages?key=k"
	for _, session := range []string{"a", "b", "c"} {
		o.report(session, session)
	}
	left := o.pass()
	if tries != 1 || !left.Again.After(o.clock) {
		t.Errorf("%d tries, left %+v", tries, left)
	}
	// For a person who asks it is tried again, before its time.
	o.Poller = &Poller{Env: o.Env, Log: o.Log, Now: o.Now, Probe: true}
	if o.pass(); tries != 1+1 {
		t.Errorf("%d tries when a person asks, want one more", tries)
	}
	if f := o.FateOf(o.report("d", "d")); f.LastError == "" {
		t.Error("nobody is told why a message waits that was not tried")
	}
}

// What failed is tried at once when a person asks, however long it would have waited.
func TestAPersonWhoAsksNeedNotWait(t *testing.T) {
	o := newOffice(t)
	o.fault = refuse(503)
	o.report("a", "one")
	for range 6 {
		o.clock = o.pass().Again
	}
	o.pass()
	o.fault, o.Poller = nil, &Poller{Env: o.Env, Log: o.Log, Now: o.Now, Probe: true}
	o.pass()
	o.want("one")
}

// Who is told to stop by Ctrl-Z lets go of the outbox before the next message, and goes on with it afterwards.
func TestCtrlZStopsBetweenTwoMessages(t *testing.T) {
	o := newOffice(t)
	o.Stoppable = true
	o.report("a", "one")
	ctrlZ.asked.Store(true)
	defer ctrlZ.asked.Store(false)
	if left := o.Send(t.Context()); left.Sent != 0 || left.Again.IsZero() || left.Again.After(o.clock) {
		t.Errorf("sent all the same: %+v", left)
	}
	ctrlZ.asked.Store(false)
	if left := o.pass(); left.Sent != 1 {
		t.Errorf("afterwards: %+v", left)
	}
}
