package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// The gate sends a session back at most so many times within that time. Claude Code's own stop_hook_active mostly ends it
// earlier; this holds where another hook, or a version of it, does not pass that on.
const (
	mostBlocks   = 3
	blocksWithin = time.Minute
)

// gateNews is what a Stop event says that the gate wants to know.
type gateNews struct {
	sessionNews
	AgentID words           `json:"agent_id"`         // set in a subagent's events
	Again   json.RawMessage `json:"stop_hook_active"` // true when a Stop hook sent the session back already
}

// finding is what a check of the gate has against the session's stopping.
type finding struct {
	level     state.GateLevel
	forClaude string // what to do about it
	forPerson string // what is the case
}

// stopGate is gchat-stop-gate: it keeps a session that rules guard from stopping before its person was asked what comes
// next, and while its team has no persistent agent. It never does so for long, and where it cannot tell the session stops.
func (h *Hook) stopGate(ctx context.Context, e *Event) error {
	if e.HookEventName != "Stop" {
		return nil
	}
	var news gateNews
	if err := e.Read(&news); err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
		return err
	}
	if news.AgentID != "" {
		return nil
	}
	h.mode(e)
	if !h.asked.rules.StopGate.Guards() {
		return nil
	}
	if e.SessionID == "" {
		return errors.New("hook event: session_id is missing")
	}
	markers := h.markerFolders()
	defer func() {
		for _, folder := range markers {
			folder.Close()
		}
	}()
	blocked := false
	if again := string(news.Again); again == "" || again == "false" || again == "null" {
		var out map[string]string
		out, blocked = h.decide(e, h.findings(e, news, markers))
		if len(out) > 0 {
			if err := h.Print(out); err != nil {
				h.log.Error().Err(err).Msg("the session stops all the same")
				blocked = false
			}
		}
	}
	var err error
	if !blocked {
		err = h.tellStop(ctx, e, news)
	}
	for _, folder := range markers {
		h.tidyMarkers(folder)
	}
	return err
}

// findings are what the checks that are made have against the session's stopping.
func (h *Hook) findings(e *Event, news gateNews, markers []*state.MarkerFolder) (found []finding) {
	for _, check := range []struct {
		name string
		look func() *finding
	}{
		{state.QuestionAsked, func() *finding { return h.checkQuestion(e, news, markers) }},
		{state.PersistentAgents, func() *finding { return h.checkAgents(e) }},
	} {
		level := h.asked.rules.StopGate[check.name]
		if level != state.GateOn && level != state.GateAdvice {
			continue
		}
		if f := check.look(); f != nil {
			f.level = level
			found = append(found, *f)
		}
	}
	return found
}

// decide makes one decision of all findings. A block that cannot be counted is none: it could go round for ever.
func (h *Hook) decide(e *Event, found []finding) (out map[string]string, block bool) {
	var reasons, advice []string
	for _, f := range found {
		if f.level == state.GateOn {
			reasons = append(reasons, f.forClaude)
		} else {
			advice = append(advice, f.forPerson)
		}
	}
	out = map[string]string{}
	if len(reasons) > 0 {
		ok, err := state.CountGateBlock(state.UserState(h.Env), e.SessionID, time.Now(), mostBlocks, blocksWithin)
		why := fmt.Sprintf("it was sent back %d times within a minute", mostBlocks)
		if err != nil {
			why = "how often it was sent back cannot be written down"
		}
		if block = ok; !ok {
			advice = advice[:0]
			for _, f := range found {
				advice = append(advice, f.forPerson)
			}
			advice = append(advice, "The stop gate lets it stop all the same: "+why+".")
			h.log.Warn().Err(err).Str("session", e.SessionID).Msg("the stop gate lets a session stop: " + why)
		}
	}
	if len(advice) > 0 {
		out["systemMessage"] = "gchat-hooks: " + strings.Join(advice, " ")
	}
	if block {
		out["decision"], out["reason"] = "block", strings.Join(reasons, "\n\n")
	}
	return out, block
}

// sessions are the names under which other files know this session.
func (h *Hook) sessions(e *Event) []string {
	ids := []string{e.SessionID}
	if name := h.Env("CLAUDE_SESSION_ID"); name != "" && name != e.SessionID {
		ids = append(ids, name)
	}
	return ids
}

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

// besides is how long after one hook of an event another one of the same event can run.
const besides = 2 * time.Second

// tellStop has the summary of a session that stops sent, once: such a session mostly stays open for days. Its end brings
// another one only if there were turns since.
func (h *Hook) tellStop(ctx context.Context, e *Event, news gateNews) error {
	cfg := h.asked.cfg
	if cfg.WebhookURL == "" && cfg.WebhookCommand == "" || cfg.ReportRule(string(gchat.SessionEnded)) == state.ReportOff {
		return nil
	}
	if len(news.Tasks) > 0 { // a pause: they wake it
		return nil
	}
	l, err := h.ledgers().Load(e.SessionID)
	if err == nil {
		if told, waiting := h.ledgers().AtGate(l); told {
			if waiting { // the hook that wrote it may have been killed before it had it sent
				h.wake()
			}
			return nil
		}
	}
	chat, err := poller.ChatOf(cfg)
	if err != nil {
		return fmt.Errorf("tell of the stop: %w", err)
	}
	// gchat-session-event, which runs beside this, counts the turn that ends now. Where prompts have ids a turn counts once;
	// else that hook may be about to count it.
	uncounted := 0
	if l == nil || e.PromptID != "" {
		if err := h.turnEnd(ctx, e, news.sessionNews, cfg); err != nil {
			return fmt.Errorf("tell of the stop: %w", err)
		}
	} else if l.Turns == 0 || time.Since(l.LastSeen).Abs() > besides {
		uncounted = 1
	}
	stopped, err := h.ledgers().StopAtGate(e.SessionID, time.Now(), func(l *state.Ledger) {
		l.Turns += uncounted
		l.Chat, l.Reason = chat, "stopped; the session is still open"
		l.TranscriptPath = cmp.Or(string(news.Transcript), l.TranscriptPath)
	})
	if stopped {
		h.wake()
	}
	return err
}

// What a gate tidies each time, so that it stays quick: files that it looks at, that it removes, and open questions that it
// ends first, which waits for the disk.
const (
	mostLookedAt = 48
	mostRemoved  = 32
	mostExpired  = 2
)

// tidyMarkers removes markers of ours that are a day old, the closed ones first. The decision is out by now.
func (h *Hook) tidyMarkers(folder *state.MarkerFolder) {
	old, bad := folder.Old(time.Now(), mostLookedAt)
	h.passedOver(bad)
	expired := 0
	for _, m := range old[:min(len(old), mostRemoved)] {
		if m.Status.Open() {
			if expired++; expired > mostExpired {
				break // the closed ones came first
			}
			if ended, err := h.poller.Close(m.Path, state.Expired, "age", nil); err != nil || !ended {
				h.log.Warn().Err(err).Str("question", m.QuestionID).Msg("old marker not ended")
				continue
			}
			m.Status = state.Expired
		}
		if err := folder.Remove(m); err != nil {
			h.log.Warn().Err(err).Str("question", m.QuestionID).Msg("old marker not removed")
		}
	}
	if expired > 0 {
		h.wake() // their threads are told
	}
}
