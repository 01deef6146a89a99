package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"gchat-hooks/state"
)

// sessionNews is what the events of a session's life say besides what all events say.
type sessionNews struct {
	Source     words             `json:"source"`
	Model      words             `json:"model"`
	Transcript words             `json:"transcript_path"`
	LastWords  words             `json:"last_assistant_message"`
	Tasks      []json.RawMessage `json:"background_tasks"`
	Reason     words             `json:"reason"`
}

// sessionEvent is gchat-session-event: it keeps the session's record, from which the poller has the summary worded. A turn's
// end is written nowhere: turns are counted in the transcript.
func (h *Hook) sessionEvent(ctx context.Context, e *Event) error {
	switch e.HookEventName {
	case "SessionStart", "Stop", "SessionEnd":
	default:
		return nil
	}
	defer h.notify(e)
	var news sessionNews
	if err := e.Read(&news); err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
		return err
	}
	if e.SessionID == "" {
		return errors.New("hook event: session_id is missing")
	}
	if e.HookEventName == "Stop" {
		return nil
	}
	cfg := state.LoadConfig(h.Env, state.ProjectDir(h.Env))
	if !hasSpace(cfg) {
		return nil
	}
	if e.HookEventName == "SessionEnd" {
		return h.owe(e, news, string(news.Reason), func(s *state.Session) bool {
			s.EndedAt = time.Now().UTC()
			return true
		})
	}
	return h.sessionStart(ctx, e, news, cfg)
}

// sessionStart begins the session's record anew. After a compaction the session goes on: it keeps its start.
func (h *Hook) sessionStart(ctx context.Context, e *Event, news sessionNews, cfg *state.Config) error {
	goesOn := news.Source == "compact"
	known := h.session(e)
	var branch, commit string
	if !goesOn {
		branch, commit = headOf(ctx, cmp.Or(e.CWD, known.ProjectDir), gitQuick)
	}
	now := time.Now().UTC()
	_, err := state.SessionsIn(state.UserState(h.Env)).Change(e.SessionID, func(s *state.Session) error {
		s.LastSeen, s.EndedAt = now, time.Time{}
		s.Model, s.TranscriptPath = cmp.Or(string(news.Model), s.Model), cmp.Or(string(news.Transcript), s.TranscriptPath)
		if goesOn {
			return nil
		}
		s.StartedAt, s.Source, s.CWD = now, string(news.Source), e.CWD
		s.Branch, s.Commit = branch, commit
		s.ToldSummary, s.ToldTurns = time.Time{}, 0
		return nil
	})
	if goesOn {
		return err
	}
	text := textLines(
		"Project", plain(flat(filepath.Base(known.ProjectDir), 100)), "Branch", plain(flat(branch, 100)),
		"Model", plain(flat(string(news.Model), 100)), "Source", plain(flat(string(news.Source), 100)))
	return errors.Join(err, h.put(e, cfg, &state.Message{
		Report: &state.Report{Type: state.SessionStarted, At: now.Local(), Text: text},
	}, state.ReportOff))
}

// owe writes down, in one write, that the session stopped or ended and that its thread is owed the summary; also says more of
// that and whether it is so. All hooks of SessionEnd share a second and a half: git and the transcript are the poller's.
func (h *Hook) owe(e *Event, news sessionNews, reason string, also func(*state.Session) bool) error {
	h.session(e)
	now := time.Now().UTC()
	stands, err := state.SessionsIn(state.UserState(h.Env)).Change(e.SessionID, func(s *state.Session) error {
		if !also(s) {
			return state.ErrUnchanged
		}
		s.OwesSummary, s.LastSeen, s.Reason = now, now, strings.TrimSpace(reason)
		s.LastWords = shorten(string(news.LastWords), shownBytes, shownLines)
		s.TranscriptPath = cmp.Or(string(news.Transcript), s.TranscriptPath)
		return nil
	})
	if err == nil && !stands.OwesSummary.IsZero() {
		h.startPoller() // also where another hook wrote it: that one may have been killed
	}
	return err
}
