package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// keptWords is how much of Claude's last words a ledger keeps, in bytes.
const keptWords = 2 << 10

// sessionNews is what the events of a session's life say besides what all events say.
type sessionNews struct {
	Source     words             `json:"source"`
	Model      words             `json:"model"`
	Transcript words             `json:"transcript_path"`
	LastWords  words             `json:"last_assistant_message"`
	Tasks      []json.RawMessage `json:"background_tasks"`
	Reason     words             `json:"reason"`
}

// sessionEvent is gchat-session-event: it keeps the session's ledger, from which the flusher composes the summary.
func (h *Hook) sessionEvent(ctx context.Context, e *Event) error {
	var keep func(context.Context, *Event, sessionNews, *state.Config) error
	switch e.HookEventName {
	case "SessionStart":
		keep = h.sessionStart
	case "Stop":
		keep = h.turnEnd
	case "SessionEnd":
		keep = h.sessionEnd
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
	cfg := state.LoadConfig(h.Env, state.ProjectDir(h.Env))
	if cfg.WebhookURL == "" && cfg.WebhookCommand == "" {
		return nil // there is no space to report to
	}
	return keep(ctx, e, news, cfg)
}

func (h *Hook) ledgers() state.Ledgers { return state.LedgersIn(state.UserState(h.Env)) }

// hasLedger says whether the session's start, or a turn of it, was written down.
func (h *Hook) hasLedger(e *Event) bool {
	_, err := h.ledgers().Load(e.SessionID)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.log.Error().Err(err).Msg("ledger")
	}
	return err == nil
}

// begin makes the ledger of a session that begins now, or is first seen now.
func (h *Hook) begin(ctx context.Context, e *Event, news sessionNews, source string) state.Ledger {
	now := time.Now().UTC()
	l := state.Ledger{
		SessionID: e.SessionID, SessionName: h.asker(e).Name, ProjectDir: absolute(state.ProjectDir(h.Env)), CWD: e.CWD,
		StartedAt: now, LastSeen: now, Source: source, Model: string(news.Model), TranscriptPath: string(news.Transcript),
	}
	ctx, cancel := context.WithTimeout(ctx, gitQuick)
	defer cancel()
	l.Branch, l.Commit = headOf(ctx, cmp.Or(l.CWD, l.ProjectDir))
	return l
}

// sessionStart begins the ledger. After a compaction the session goes on: it keeps its start and its turns.
func (h *Hook) sessionStart(ctx context.Context, e *Event, news sessionNews, cfg *state.Config) error {
	source := cmp.Or(string(news.Source), state.Unknown)
	if news.Source == "compact" {
		if h.hasLedger(e) {
			return h.ledgers().Update(e.SessionID, func(l *state.Ledger, known bool) error {
				if !known {
					return state.ErrUnchanged // it ended just now
				}
				l.LastSeen, l.Model = time.Now().UTC(), cmp.Or(string(news.Model), l.Model)
				l.TranscriptPath = cmp.Or(string(news.Transcript), l.TranscriptPath)
				return nil
			})
		}
		source = state.Unknown
	}
	begun := h.begin(ctx, e, news, source)
	err := h.ledgers().Update(e.SessionID, func(l *state.Ledger, _ bool) error { *l = begun; return nil })
	if rule := cfg.ReportRule(string(gchat.SessionStarted)); news.Source == "compact" || rule == "" || rule == state.ReportOff {
		return err
	}
	text := textLines(
		"Project", plain(flat(filepath.Base(begun.ProjectDir), 100)), "Branch", plain(flat(begun.Branch, 100)),
		"Model", plain(flat(begun.Model, 100)), "Source", plain(flat(string(news.Source), 100)))
	return errors.Join(err, h.put(e, poller.Report{
		Report:  gchat.Report{Type: gchat.SessionStarted, At: begun.StartedAt.Local(), Text: text},
		Default: state.ReportOff,
	}))
}

// turnEnd counts a turn. While background tasks run it is a pause; and a prompt counts once, though another Stop hook
// can send Claude back to work on it, and two installs see each Stop twice.
func (h *Hook) turnEnd(ctx context.Context, e *Event, news sessionNews, _ *state.Config) error {
	var begun state.Ledger
	if !h.hasLedger(e) {
		begun = h.begin(ctx, e, news, state.Unknown)
	}
	return h.ledgers().Update(e.SessionID, func(l *state.Ledger, known bool) error {
		switch {
		case !known && begun.SessionID == "":
			return state.ErrUnchanged // it ended just now
		case !known:
			*l = begun
		}
		l.LastSeen = time.Now().UTC()
		if said := shorten(string(news.LastWords), keptWords, 4*shownLines); said != "" {
			l.LastWords = said
		}
		if len(news.Tasks) == 0 && (e.PromptID == "" || string(e.PromptID) != l.LastPromptID) {
			l.Turns++
			l.LastPromptID = string(e.PromptID)
		}
		return nil
	})
}

// sessionEnd writes down that the session has ended. All hooks of this event share a second and a half: git and the
// transcript are the flusher's.
func (h *Hook) sessionEnd(_ context.Context, e *Event, news sessionNews, cfg *state.Config) error {
	chat, err := poller.ChatOf(cfg)
	if err != nil {
		return err
	}
	name := ""
	if !h.hasLedger(e) {
		name = h.asker(e).Name
	}
	_, err = h.ledgers().End(e.SessionID, time.Now(), func(l *state.Ledger, known bool) {
		if !known {
			l.SessionName, l.Source, l.ProjectDir, l.CWD = name, state.Unknown, absolute(state.ProjectDir(h.Env)), e.CWD
		}
		l.Chat, l.Reason = chat, strings.TrimSpace(string(news.Reason))
		l.TranscriptPath = cmp.Or(string(news.Transcript), l.TranscriptPath)
	})
	h.wake() // also when another install had told it: it may have been killed since
	return err
}
