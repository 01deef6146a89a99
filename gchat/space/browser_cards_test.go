package space

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

func newOption(label, about string) state.Option {
	return state.Option{Label: label, Description: about}
}

var (
	deploymentQuestion = state.SubQuestion{
		Header: "Deployment Strategy", Question: "Which deployment approach should we use?",
		Options: []state.Option{
			newOption("Blue-green deployment", "Zero-downtime with instant rollback."),
			newOption("Rolling deployment", "Gradual rollout."), newOption("Recreate", "Simple; a short downtime."),
		},
	}
	featuresQuestion = state.SubQuestion{
		Header: "Features", Question: "Which features should the first release have?", MultiSelect: true,
		Options: []state.Option{
			newOption("Search", "Full text, with typo tolerance."), newOption("Wish lists", ""),
			newOption("Gift cards", "Needs the new payment provider."),
		},
	}
	retriesQuestion = state.SubQuestion{
		Header: "Retry policy", Question: "How often should a failed delivery be tried again?",
		Options: []state.Option{
			newOption("Five times in an hour", "Then it goes to the dead letters."), newOption("Until it works", ""),
		},
	}
	databaseQuestion = state.SubQuestion{
		Header: "Database", Question: "Where should sessions be stored?",
		Options: []state.Option{newOption("PostgreSQL", "What we have."), newOption("Redis", "Faster, one more service.")},
	}
	mergesQuestion = state.SubQuestion{
		Header: "Checks", Question: "Which checks should block a merge?", MultiSelect: true,
		Options: []state.Option{newOption("Unit tests", ""), newOption("Lint", ""), newOption("Race detector", "Twice as slow.")},
	}
)

func askQuestions(prompts ...state.SubQuestion) state.Question {
	return state.Question{SubQuestions: prompts}
}

// askDecision is a permission, a plan or the next instruction, with these answers.
func askDecision(kind state.Kind, labels ...string) state.Question {
	p := state.SubQuestion{Question: "May it?"}
	for _, label := range labels {
		p.Options = append(p.Options, newOption(label, ""))
	}
	return state.Question{Kind: kind, SubQuestions: []state.SubQuestion{p}}
}

func bashPermission() state.Question {
	q := askDecision(state.KindPermission, state.LabelAllow, state.LabelDeny, state.LabelAlways)
	q.ToolName, q.About, q.ShownText, q.AlwaysAllows = "Bash", "Delete the build folder", "rm -rf build", "rm -rf build:* in this folder"
	return q
}

func oncePermission() state.Question {
	q := askDecision(state.KindPermission, state.LabelAllow, state.LabelDeny)
	q.ToolName, q.About = "WebFetch", "https://example.com/a"
	return q
}

func editPermission() state.Question {
	q := askDecision(state.KindPermission, state.LabelAllow, state.LabelDeny, state.LabelAlways)
	q.ToolName, q.About, q.AlwaysAllows = "Edit", "cart/total.go", "all edits in this session"
	q.ShownText = " func total(items []Item) int {\n-\treturn len(items)\n+\tsum := 0\n" + strings.Repeat("+\tsum++\n", 40) + " }"
	return q
}

func terminalPermission() state.Question {
	q := bashPermission()
	q.About, q.ShownText, q.AlwaysAllows, q.IsTerminalOnly = "Publish", "git push --force", "", true
	return q
}

func planQuestion() state.Question {
	q := askDecision(state.KindPlan, state.LabelApprove, state.LabelSendBack, state.LabelApproveAuto)
	q.ShownText = "**Totals**\n\n- Sum the prices in `cart/total.go`\n- Round once, at the end\n\nNo change to the database."
	return q
}

func nextQuestion() state.Question {
	q := askDecision(state.KindNext, "Reply")
	q.TmuxPane = "%1"
	q.ShownText = "The totals are right now, and all *42* tests pass. Shall I look at the rounding, too?"
	return q
}

// cardDesk has the app of a space write to it, as the poller does, and hear what is
// tapped there.
type cardDesk struct {
	t     *testing.T
	s     *Space
	base  string
	app   *gchat.App
	asked map[string]*askedQuestion // by thread
}

type askedQuestion struct {
	q    state.Question
	name string // of the message with its card
}

func newCardDesk(t *testing.T) *cardDesk {
	t.Helper()
	s, srv, app := openApp(t, Options{IsDirect: true})
	return &cardDesk{t, s, srv.URL, app, map[string]*askedQuestion{}}
}

// openCards is a browser at the page of such a space.
func openCards(t *testing.T) (context.Context, *cardDesk) {
	t.Helper()
	ctx := newBrowser(t)
	d := newCardDesk(t)
	runActions(t, ctx, chromedp.Navigate(d.s.PageURL(d.base)))
	return ctx, d
}

const deskID = "0123456789abcdef0123456789abcdef"

func (d *cardDesk) post(p gchat.Post) gchat.PostedMessage {
	d.t.Helper()
	posted, err := d.app.Post(d.t.Context(), p)
	kit.NoError(d.t, err)
	return posted
}

// ask posts a question's card, in a thread of its own, and gives that.
func (d *cardDesk) ask(q state.Question) (thread string) { return d.askIn("", q) }

func (d *cardDesk) askIn(thread string, q state.Question) string {
	d.t.Helper()
	if q.SessionName == "" {
		q.SessionName, q.CWD = "web-shop", "/home/ann/web-shop"
	}
	texts, card := wording.CardTexts(&q, d.app.CardID(deskID), gchat.CardSize)
	last := len(texts) - 1
	for _, text := range texts[:last] {
		thread = d.post(gchat.Post{Text: text, ThreadName: thread, About: gchat.About{Kind: "question"}}).ThreadName
	}
	posted := d.post(gchat.Post{Text: texts[last], ThreadName: thread, Card: gchat.StoredCard(card)})
	d.asked[posted.ThreadName] = &askedQuestion{q, posted.Name}
	return posted.ThreadName
}

// postReport posts a text of the app's.
func (d *cardDesk) postReport(thread, kind, session, text string) string {
	d.t.Helper()
	return d.post(gchat.Post{Text: text, ThreadName: thread, About: gchat.About{Kind: kind, Session: session}}).ThreadName
}

// keepPartial shows what counted of a reply.
func (d *cardDesk) keepPartial(thread string, partial map[int]state.Answer) {
	d.t.Helper()
	a := d.asked[thread]
	a.q.PartialAnswers = partial
	texts, card := wording.CardTexts(&a.q, d.app.CardID(deskID), gchat.CardSize)
	d.patch(thread, texts[len(texts)-1], card)
}

func (d *cardDesk) patch(thread, text string, card *wording.Card) {
	d.t.Helper()
	kit.NoError(d.t, d.app.Patch(d.t.Context(), d.asked[thread].name, text, gchat.StoredCard(card)))
}

// end closes the card of a thread.
func (d *cardDesk) end(thread string, change func(q *state.Question)) {
	d.t.Helper()
	q := &d.asked[thread].q
	change(q)
	text, card := wording.ClosedCard(q, time.Now())
	d.patch(thread, text, card)
}

// answerWith ends a question with its first option, or with a label.
func answerWith(label ...string) func(q *state.Question) {
	return func(q *state.Question) {
		q.Status, q.ResolvedBy, q.Answers = state.Resolved, "chat", map[string]string{}
		for _, p := range q.SubQuestions {
			q.Answers[p.Question] = append(slices.Clone(label), p.Options[0].Label)[0]
		}
	}
}

func cancelQuestion(q *state.Question) { q.Status, q.ResolvedBy = state.Cancelled, "session_end" }

// wantTap takes the next tap from the subscription, such as "send q1=1 q1=3 w2=soon".
func (d *cardDesk) wantTap(want string) {
	d.t.Helper()
	for tries := 0; ; tries++ {
		events, err := d.app.Pull(d.t.Context())
		if err != nil || tries == 5 {
			d.t.Fatalf("no tap came, but should be %q (%v)", want, err)
		}
		for _, e := range events {
			kit.NoError(d.t, d.app.Ack(d.t.Context(), []string{e.AckID}))
			if e.Tap == nil {
				continue
			}
			got := e.Tap.Choice
			for _, name := range slices.Sorted(maps.Keys(e.Tap.Inputs)) {
				for _, value := range e.Tap.Inputs[name] {
					got += " " + name + "=" + value
				}
			}
			kit.Equalf(d.t, got, want, "tapped")
			return
		}
	}
}

func wantState(t *testing.T, ctx context.Context, want string) {
	t.Helper()
	waitUntil(t, ctx, fmt.Sprintf(`document.querySelector('#thread-state').dataset.state === %q`, want))
}
