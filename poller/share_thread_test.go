package poller

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/state"
)

// Another program put two questions into one thread: a reply answers the older one, and the next the other.
func TestOneReplyAnswersOneQuestionOfAThread(t *testing.T) {
	said := []string{}
	chat := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"messages":[%s]}`, strings.Join(said, ","))
			return
		}
		fmt.Fprint(w, "{}")
	}))
	defer chat.Close()
	d := newDesk(t)
	base := d.Env
	d.Poller.Env = func(name string) string {
		switch name {
		case "GOOGLE_CHAT_WEBHOOK_URL":
			return chat.URL + "/v1/spaces/S/messages?key=k&token=t"
		case "GCHAT_ALLOWED_USERS":
			return "users/1"
		}
		return base(name)
	}
	say := func(text string) {
		said = append(said, fmt.Sprintf(`{"name":"spaces/S/messages/%d","sender":{"name":"users/1","type":"HUMAN"},"text":%q,"createTime":%q,"thread":{"name":"spaces/S/threads/T"}}`,
			len(said), text, d.clock.Add(time.Duration(len(said))*time.Second).Format(time.RFC3339Nano)))
	}
	var qs []*state.Question // the newer one first, as a scan has them
	for n, session := range []string{"older", "newer"} {
		q := d.asked(state.Question{TmuxSession: session})
		q, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
			q.Chat, q.ProjectDir = strings.TrimPrefix(chat.URL, "http://")+"/spaces/S", filepath.Join(d.dir, "shop")
			q.AskedAt = q.AskedAt.Add(time.Duration(n) * time.Minute)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		qs = slices.Insert(qs, 0, q)
	}
	read := func(want ...string) {
		t.Helper()
		in := d.newInbox(qs[0])
		cfg := d.config(qs[0].ProjectDir)
		for range 2 { // the list shows a reply again for a while
			for i := range qs {
				qs[i] = d.load(qs[i])
			}
			if err := in.list(t.Context(), cfg, qs); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for i := range qs {
			q, err := d.Judge(qs[i].Path)
			if err != nil {
				t.Fatal(err)
			}
			qs[i] = q
			if a := q.Answers["Which?"]; a != "" {
				got = append(got, q.TmuxSession+": "+a)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("answered %q, want %q", got, want)
		}
	}
	say("2")
	read("older: Two")
	read("older: Two")
	say("1")
	read("newer: One", "older: Two")
}
