package space

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// The cards of every kind of question, open and closed, are such as Google takes.
func TestCard_IsAsGoogleTakesIt(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	one := state.SubQuestion{
		Header: "DB", Question: "Which?",
		Options: []state.Option{{Label: "A", Description: "a"}, {Label: "B"}},
	}
	several := one
	several.MultiSelect = true
	labels := func(labels ...string) []state.SubQuestion {
		var p state.SubQuestion
		for _, l := range labels {
			p.Options = append(p.Options, state.Option{Label: l})
		}
		return []state.SubQuestion{p}
	}
	for name, q := range map[string]*state.Question{
		"single":  {SubQuestions: []state.SubQuestion{one}},
		"multi":   {SubQuestions: []state.SubQuestion{several}},
		"several": {SubQuestions: []state.SubQuestion{one, several}}, "none": {},
		"permission": {Kind: state.KindPermission, ToolName: "Bash", ShownText: strings.Repeat("ls\n", 99), AlwaysAllows: "ls",
			SubQuestions: labels(state.LabelAllow, state.LabelDeny, state.LabelAlways)},
		"plan": {Kind: state.KindPlan, ShownText: "# Plan",
			SubQuestions: labels(state.LabelApprove, state.LabelSendBack, state.LabelApproveAuto)},
		"next": {Kind: state.KindNext, ShownText: "Done.", SubQuestions: labels("Reply")},
	} {
		texts, card := wording.CardTexts(q, id, gchat.CardSize)
		q.Status = state.Resolved
		text, closed := wording.ClosedCard(q, time.Now())
		for _, m := range []*chat.Message{
			{FallbackText: texts[len(texts)-1], CardsV2: []*chat.CardWithId{gchat.CardV2(card)}},
			{FallbackText: text, CardsV2: []*chat.CardWithId{gchat.CardV2(closed)}},
		} {
			body := kit.JSON(t, m)
			r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/spaces/A/messages",
				bytes.NewReader(body))
			strict.CheckRequests(t, http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
			for _, s := range m.CardsV2[0].Card.Sections {
				if len(s.Widgets) == 0 {
					t.Errorf("%s: a section is empty", name) // "Must contain at least one widget"
				}
			}
		}
	}
}
