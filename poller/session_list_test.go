package poller

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/poller/commands"
	"gchat-hooks/state"
)

// The list of sessions comes once, in the thread in which an approver asks for it: a
// session's, a question's, or a new one on the page. It has a limit.
func TestSessionList_WhereItIsAskedFor(t *testing.T) {
	x := newTestSession(t, nil)
	q := x.addPosted(func(q *state.Question) {
		q.ClaudeSessionID, q.Kind, q.ToolName = x.sessionID, state.KindPermission, "Bash"
	})
	questionThread := x.postAsApp("", "a permission").Thread.Name
	x.changeQuestion(q, func(q *state.Question) { q.ThreadName = questionThread })
	link := "http://" + strings.Replace(x.reader.chat, "/spaces/local", "/#", 1)
	link += strings.TrimPrefix(x.threadName, "spaces/local/threads/")
	want := "[Sessions] " + state.MachineName() + "\n• shop · " + filepath.Base(x.dir) +
		" · waits for you · a permission · " + link
	x.checkAnswer("/Sessions", want)
	x.reply(x.threadName, "users/9", "/sessions")
	kit.Equalf(t, len(x.readNotes()), 0, "notes for a stranger")

	inQuestion := x.reply(questionThread, "", "/sessions")
	alone := x.reply("", "", "/sessions")
	x.readNotes()
	x.nextPoller().readNotes() // a second time, it lists nothing
	for _, thread := range []string{inQuestion.Thread.Name, alone.Thread.Name} {
		kit.Equal(t, strings.Join(x.notesIn(thread), "\n---\n"), want)
	}

	for i := range 25 {
		x.changeSession(fmt.Sprint("other", i), func(s *state.Session) {
			s.Name, s.LastSeen = strings.Repeat("<name>", 50), time.Now()
		})
	}
	x.changeSession("over", func(s *state.Session) { s.Name, s.EndedAt = "over", time.Now() })
	list := strings.Join(x.say("/sessions"), "")
	kit.Equalf(t, strings.Count(list, "\n• "), 20, "sessions in %s", list)
	kit.Contains(t, list, "\nand 6 more")
	kit.True(t, len(list) < 4000 && !strings.Contains(list, "<name"), "%d bytes", len(list))

	x.reply(x.threadName, "", "/sessions")
	x.clockLead.Store(int64(commands.MaxCommandAge + time.Minute))
	x.poller.Now = x.clockLead.now
	kit.Contains(t, strings.Join(x.readNotes(), ""), "was read too late")
}

// An app lists the sessions if it is asked in a message of its own. A machine leaves the
// threads of other machines alone.
func TestSessionList_FromTheApp(t *testing.T) {
	d, g := newAppMachine(t)
	d.addCardQuestion(nil)
	d.runPoller(Options{Daemon: true})
	theirs := g.post([]byte(`{"text":"[Report] of another machine"}`), state.MachineIDPrefix+"0")
	inTheirs := g.addHumanMessage(theirs.Thread.Name, "/sessions", "")
	inTheirs.ThreadReply = true
	alone := g.addHumanMessage(appSpace+"/threads/new", "/sessions", "")
	g.publish(newEvent("MESSAGE", "users/1", inTheirs))
	g.publish(newEvent("MESSAGE", "users/9", g.addHumanMessage(appSpace+"/threads/9", "/sessions", "")))
	g.publish(newEvent("MESSAGE", "users/1", alone))
	list := g.awaitPost("[Sessions] " + state.MachineName())
	kit.Equal(t, list.Thread.Name, alone.Thread.Name)
	kit.Equalf(t, g.countMessages("[Sessions]"), 1, "lists")
}
