package poller

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	chatapi "google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/poller/commands"
	"gchat-hooks/state"
)

func allowEveryone(q *state.Question) {
	q.Kind, q.ToolName, q.Approvers = state.KindPermission, "Bash", &[]string{"users/1"}
	q.SubQuestions[0].Options = []state.Option{{Label: state.LabelAllow}, {Label: state.LabelDeny}}
}

// Another machine of the app can read what a card's buttons carry, and put it on a card
// of its own. A tap on that card does not count, and does not hold back a tap on the
// question's own card.
func TestMachines_TapCountsOnOwnCard(t *testing.T) {
	d, g := newAppMachine(t)
	q, _ := d.addCardQuestion(allowEveryone)
	d.startWaiter(q) // the hook
	var later testClock
	d.runPoller(Options{Daemon: true, Now: later.now})
	m := g.awaitPost("[Permission]")
	q = d.awaitQuestion(q, "posted", func(q *state.Question) bool { return q.MessageName != "" })
	card := buttonCardID(t, m)
	copied := *g.post([]byte(`{"text":"Is it warm?"}`), "")
	copied.CardsV2 = m.CardsV2
	elsewhere := *m
	elsewhere.Name = strings.Replace(m.Name, appSpace, "spaces/OTHER", 1)
	unnamed := *m
	unnamed.Name = ""
	for _, on := range []*chatapi.Message{&copied, &elsewhere, &unnamed} {
		g.awaitDelivered(g.tap("users/1", on, card, "allow", nil))
	}
	g.tap("users/1", m, card, "deny", nil)
	q = d.awaitQuestion(q, "decided", isAnswered)
	label, _ := q.Decision()
	kit.True(t, label == state.LabelDeny && len(q.Replies) == 1, "%q, %+v", label, q.Replies)
	bound.Until(t, "all events are acknowledged", func() bool {
		later.Add(int64(undecidedTimeout))
		return g.countUnacknowledged() == 0
	})
	q = d.loadQuestion(q)
	kit.True(t, len(q.Replies) == 1, "%+v", q.Replies)
}

// awaitBothGot waits until two machines got these events.
func (g *fakeGoogle) awaitBothGot(ids []string) {
	g.t.Helper()
	bound.Until(g.t, "both machines got all", func() bool {
		return !slices.ContainsFunc(ids, func(id string) bool {
			return g.pubsubServer.Message(id).Deliveries < 2
		})
	})
}

// awaitBothAcked lets time pass until two machines acknowledged these events.
func (g *fakeGoogle) awaitBothAcked(ids []string, clock *testClock) {
	g.t.Helper()
	bound.Until(g.t, "both machines acknowledge all", func() bool {
		clock.Add(int64(undecidedTimeout) / 2)
		return !slices.ContainsFunc(ids, func(id string) bool {
			return g.pubsubServer.Message(id).Acks < 2
		})
	})
}

// Two machines of one app get all events. Each uses its own, and the other acknowledges
// them at once.
func TestMachines_EachUsesItsEvents(t *testing.T) {
	t.Parallel()
	d, g := newAppMachine(t)
	other := g.newSecondMachine()
	q, _ := d.addCardQuestion(nil)
	d.runPoller(Options{Daemon: true})
	m := g.awaitPost("Which?")
	others, _ := other.addCardQuestion(func(q *state.Question) {
		q.SubQuestions[0].Question = "Whose?"
	})
	other.runPoller(Options{Daemon: true})
	theirs := g.awaitPost("Whose?")
	both := func(id string) {
		t.Helper()
		bound.Until(t, "both machines acknowledge it", func() bool {
			return g.pubsubServer.Message(id).Acks == 2
		})
	}
	both(g.tap("users/1", m, buttonCardID(t, m), "2", nil))
	both(g.tap("users/2", theirs, buttonCardID(t, theirs), "1", nil))
	_, machine, _ := strings.Cut(buttonCardID(t, m), "-")
	// a card of a closed question of the first machine
	both(g.tap("users/1", m, strings.Repeat("0", 32)+"-"+machine, "2", nil))
	g.awaitPost("This card is closed")
	q = d.loadQuestion(q)
	kit.True(t, q.Answers["Which?"] == "Two" && len(q.Replies) == 1, "%+v", q)
	others = other.loadQuestion(others)
	kit.True(t, others.Answers["Whose?"] == "One" && len(others.Replies) == 1, "%+v", others)
}

// A message that no machine knows gets one note from all machines together. A message
// after one of a certain machine is left to that machine.
func TestMachines_UnboundGetsOneNote(t *testing.T) {
	t.Parallel()
	d, g := newAppMachine(t)
	var later testClock
	ask := func(by *testMachine, text, machine string) *chatapi.Message {
		by.addCardQuestion(func(q *state.Question) {
			q.SubQuestions[0].Question, q.Machine = text, machine
		})
		by.runPoller(Options{Daemon: true, Now: later.now})
		return g.awaitPost(text)
	}
	ask(d, "Which?", state.MachineName())
	theirs := ask(g.newSecondMachine(), "Whose?", "another")
	const over = `{"text":"[Permission] Session: shop\nMachine: %s\n\nIt is over."%s}`
	old := g.post(fmt.Appendf(nil, over, state.MachineName(), ""), "client-old")
	closed := g.post(
		[]byte(`{"cardsV2":[{"card":{"header":{"subtitle":"shop · `+state.MachineName()+`"}}}]}`),
		"client-closed")
	gone := g.post([]byte(`{"text":"[Report] of a machine that nobody knows"}`), "client-gone")
	report := g.post([]byte(`{"text":"hello"}`), state.MachineMessageID("report"))
	theirReport := g.post([]byte(`{"text":"hello"}`), state.MachineIDPrefix+"01234567-89")
	bot := g.post([]byte(`{"text":"of another app"}`), "")
	theirsToo := g.post(fmt.Appendf(nil, over, "another", `,"cardsV2":[null,{}]`), "client-theirs")
	var ids []string
	say := func(thread, quotes string) {
		m := g.addHumanMessage(thread, "hello", quotes)
		m.ThreadReply = !strings.HasSuffix(thread, "/new")
		ids = append(ids, g.publish(newEvent("MESSAGE", "users/1", m)))
	}
	say(theirs.Thread.Name, "") // the other one uses it
	say(theirsToo.Thread.Name, "")
	say(theirReport.Thread.Name, "")
	const note, answered = "Nothing here is waiting for that", 9
	say(report.Thread.Name, "")
	say(appSpace+"/threads/new", gone.Name) // it names no machine
	say(gone.Thread.Name, "")
	say(appSpace+"/threads/new", "")
	say(old.Thread.Name, "")
	say(appSpace+"/threads/new", closed.Name)
	say(appSpace+"/threads/deleted", "")
	say(bot.Thread.Name, "")
	say(appSpace+"/threads/secret", "")
	g.awaitBothGot(ids)
	g.awaitBothAcked(ids, &later)
	bound.Until(t, "all are answered", func() bool { return g.countMessages(note) >= answered })
	kit.True(t, !bound.WaitFor(time.Second, func() bool {
		return g.countMessages(note) > answered
	}),
		"%d notes", g.countMessages(note))
}

// Outside of a machine's own threads, /new starts a session only where its first word
// names the machine. A /new that names none gets one note from all machines together. One
// that another machine has carried out gets none.
func TestMachines_NewNamesItsMachine(t *testing.T) {
	d, g := newAppMachine(t)
	var later testClock
	for _, one := range []*testMachine{d, g.newSecondMachine()} {
		trusted := `{"projects": {"` + one.dir + `": {"hasTrustDialogAccepted": true}}}`
		kit.WriteFile(t, filepath.Join(one.dir, ".claude.json"), trusted, 0o600)
		one.writeConfig(`{"start_sessions": true}`)
		kit.NoError(t,
			state.RegisterProject(one.env, filepath.Join(one.dir, ".claude", "state"), one.dir))
		one.addCardQuestion(nil)
		one.runPoller(Options{Daemon: true, Now: later.now})
	}
	project := filepath.Base(d.dir)
	var ids []string
	for _, text := range []string{
		"/new", "/new " + project + " fix it", "/new vps3 shop fix it", "/new vps2 shop fix it",
	} {
		m := g.addHumanMessage(appSpace+"/threads/new", text, "")
		if strings.HasPrefix(text, "/new vps2") { // that one began it
			g.post([]byte(`{"text":"[New session] shop on vps2"}`),
				commands.NewSessionNoteID(m.Name, "vps2"))
		}
		ids = append(ids, g.publish(newEvent("MESSAGE", "users/1", m)))
	}
	g.awaitBothGot(ids)
	n := g.countMessages("[Not used]")
	kit.True(t, n == 0, "%d were answered before a machine that is named could take them", n)
	g.awaitBothAcked(ids, &later)
	const note = "Start with the name of a machine: `/new "
	bound.Until(t, "three are answered", func() bool { return g.countMessages(note) >= 3 })
	isMore := func() bool {
		return g.countMessages(note) > 3 || g.countMessages("[New session]") > 1
	}
	kit.True(t, !bound.WaitFor(time.Second, isMore),
		"%d notes, %d sessions", g.countMessages(note), g.countMessages("[New session]"))
}
