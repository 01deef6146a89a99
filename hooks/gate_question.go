package hooks

import (
	"fmt"
	"slices"
	"time"

	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// recently is how long a question, or its answer, lets its session stop.
const recently = 30 * time.Minute

// mostPassedOver bounds how many files that are no markers are logged one by one.
const mostPassedOver = 50

// checkQuestion finds fault with a session whose person was not asked anything lately.
func (h *Hook) checkQuestion(e *Event, news gateNews, markers []*state.MarkerFolder) *finding {
	if h.wasAsked(e, markers, string(news.Transcript)) {
		return nil
	}
	how := "The dialog is drawn in the terminal."
	switch h.asked.rules.AskMode {
	case state.Deny:
		how = "The question goes to Google Chat, and the call comes back as denied: that is as it should be. " +
			"Then go on with other work or stop; the reply comes to you by itself."
	case state.Native, state.Hold, state.Inject:
		how = "The question goes to the terminal and to Google Chat; wait for the answer and act on it."
	}
	return &finding{
		forClaude: "The user was not asked anything within " + poller.Spoken(recently) + ", so do not stop yet. " +
			"Ask with the AskUserQuestion tool what comes next, with two to four concrete options, " +
			"and say briefly what is done and what is open. " + how,
		forPerson: "Claude stops without having asked you what comes next.",
	}
}

// wasAsked says whether the person was asked something: in a space, by a marker; or in the terminal, by a question that our
// hooks wrote down, or by the transcript where they did not.
func (h *Hook) wasAsked(e *Event, markers []*state.MarkerFolder, transcript string) bool {
	now, sessions := time.Now(), h.sessions(e)
	for _, folder := range markers {
		asked, bad := folder.Find(sessions, now.Add(-state.MaxAge-state.MarkerSlack), func(m *state.Proof) (bool, error) {
			return askedInSpace(m, now)
		})
		if h.passedOver(bad); asked {
			return true
		}
	}
	for _, dir := range h.stateDirs() {
		folder, err := state.QuestionsIn(dir).OpenMarkers()
		if err != nil {
			continue // the other hooks say so, and of what is broken in it, too
		}
		asked, _ := folder.Find(sessions, now.Add(-recently-state.MarkerSlack), func(m *state.Proof) (bool, error) {
			return m.Status != state.Expired && within(now, m.AskedAt, recently), nil
		})
		if folder.Close(); asked {
			return true
		}
	}
	tail, err := tailOf(transcript)
	return err == nil && askedInTurn(tail)
}

// markerFolders opens the folders that this project's markers may be in.
func (h *Hook) markerFolders() (folders []*state.MarkerFolder) {
	for _, dir := range h.stateDirs() {
		folder, err := state.MarkersIn(dir).OpenMarkers()
		if err != nil {
			h.log.Error().Err(err).Msg("markers not looked at")
			continue
		}
		folders = append(folders, folder)
	}
	return folders
}

// askedInSpace says whether a marker lets its session stop.
func askedInSpace(m *state.Proof, now time.Time) (bool, error) {
	if m.AskedAt.After(now.Add(state.MarkerSlack)) {
		why := fmt.Errorf("it is from the future: asked_at is %s", m.AskedAt.Format(time.RFC3339))
		return false, &state.Corrupt{Path: m.Path, Err: why}
	}
	switch m.Status {
	case state.Pending:
		return within(now, m.AskedAt, recently), nil
	case state.TimedOut: // asked in vain: there is nothing more to do about it
		return within(now, m.AskedAt, state.MaxAge), nil
	case state.Answered, state.Resolved:
		answered := m.ResolvedAt
		if answered.IsZero() {
			answered = m.Written
		}
		return within(now, m.AskedAt, recently) || within(now, answered, recently), nil
	case state.Cancelled, state.Abandoned, state.Expired:
		return false, nil
	}
	return within(now, m.Written, recently), nil // another program's word
}

// within says whether then is less than so long ago, or just ahead.
func within(now, then time.Time, long time.Duration) bool {
	ago := now.Sub(then)
	return ago >= -state.MarkerSlack && ago < long
}

// passedOver logs what a look at markers did not understand, a line each, and not again with every look of a process.
func (h *Hook) passedOver(bad []error) {
	if h.passed == nil {
		h.passed = map[string]bool{}
	}
	bad = slices.DeleteFunc(bad, func(err error) bool {
		known := h.passed[err.Error()]
		h.passed[err.Error()] = true
		return known
	})
	for _, err := range bad[:min(len(bad), mostPassedOver)] {
		h.log.Warn().Err(err).Msg("marker passed over")
	}
	if more := len(bad) - mostPassedOver; more > 0 {
		h.log.Warn().Int("more", more).Msg("markers passed over")
	}
}
