package hooks

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// oldEnd is how old an end may be and still be reported.
const oldEnd = 7 * 24 * time.Hour

// ReportEnded reports the sessions that have ended: it composes each summary, puts it into the outbox and takes the
// session out. The flusher calls it, since a SessionEnd hook has no time for git. Killed anywhere it is called again, and
// each end is reported once. left says that ctx ended before it was done.
func ReportEnded(ctx context.Context, p *poller.Poller) (left bool) {
	box := state.LedgersIn(state.UserState(p.Env))
	ended, bad := box.Ended()
	for _, err := range bad {
		p.Log.Error().Err(err).Msg("ended session set aside")
	}
	for _, l := range ended {
		cfg := state.LoadConfig(p.Env, l.ProjectDir)
		if !reaches(cfg, l.Chat) {
			continue // another environment's: its flusher reports it
		}
		if err := reportEnd(ctx, p, cfg, l); err != nil {
			p.Log.Error().Str("error", p.Log.Clean(err.Error())).Str("session", l.SessionID).
				Msg("end of session not reported; the next hook tries again")
			continue
		}
		if ctx.Err() != nil {
			return true
		}
		if err := box.Reported(l); err != nil {
			p.Log.Error().Err(err).Msg("ended session not taken out")
		}
		box.Sweep(time.Now())
	}
	return false
}

// reaches says whether a configuration is for where a session's reports go.
func reaches(cfg *state.Config, chat string) bool {
	if chat == "" {
		return cfg.WebhookURL == "" && cfg.WebhookCommand != ""
	}
	at, err := poller.ChatOf(cfg)
	return err == nil && at == chat
}

func reportEnd(ctx context.Context, p *poller.Poller, cfg *state.Config, l *state.Ledger) error {
	if cfg.ReportRule(string(gchat.SessionEnded)) == state.ReportOff {
		return nil
	}
	if time.Since(l.EndedAt) > oldEnd {
		p.Log.Warn().Str("session", l.SessionID).Time("ended", l.EndedAt).Msg("end of session not reported: it is too long ago")
		return nil
	}
	text := summary(ctx, l)
	if ctx.Err() != nil {
		return nil
	}
	_, err := p.PutReport(poller.Report{
		Report:    gchat.Report{Type: gchat.SessionEnded, Session: l.SessionName, At: l.EndedAt.Local(), Text: text},
		SessionID: l.SessionID, ProjectDir: l.ProjectDir, Once: fmt.Sprint("end ", l.SessionID, " ", l.EndedAt.UnixNano()),
	})
	return err
}

// summary tells what a session did, in Markdown. What is not known is left out.
func summary(ctx context.Context, l *state.Ledger) string {
	since := l.StartedAt
	if l.Source == state.Unknown {
		since = time.Time{}
	}
	git, inGit := changesSince(ctx, cmp.Or(l.CWD, l.ProjectDir), l.Commit, l.StartedAt)
	did := tallyOf(ctx, l.TranscriptPath, since)
	tools := byCount(did.tools, 8, func(tool string, n int) string { return fmt.Sprintf("%s %d", plain(flat(tool, 100)), n) })
	if tools != "" && did.cut {
		tools += " (in the end of a long transcript)"
	}
	branch := cmp.Or(git.branch, l.Branch)
	if branch == "HEAD" {
		branch = "(detached)"
	}
	files := git.files
	if !inGit || l.Commit == "" {
		files = did.files
	}
	reason := l.Reason
	if reason == "other" {
		reason = ""
	}
	text := textLines(
		"Duration", duration(l.EndedAt.Sub(since), !since.IsZero()),
		"Turns", count(l.Turns),
		"Tools", tools,
		"Branch", strings.Join(nonEmpty(plain(flat(branch, 100)), counted(git.commits, "commit"), git.stat), ", "),
		"Files", fileList(files, l.ProjectDir),
		"Commits", subjectLines(git.subjects),
		"Promises", promises(l.ProjectDir),
		"Formatting", formatting(l),
		"Reason", plain(flat(reason, 100)))
	last := shorten(cmp.Or(l.LastWords, did.lastWords), shownBytes, shownLines)
	if strings.Contains(last, "\n") {
		return strings.TrimPrefix(text+"\n\nLast words:\n"+last, "\n\n") // a line of dashes in them makes no heading of ours
	}
	return strings.TrimPrefix(text+textLines("\nLast words", last), "\n")
}

// textLines are "name: value" lines, of the values that say something.
func textLines(nameValue ...string) string {
	var lines []string
	for i := 0; i+1 < len(nameValue); i += 2 {
		name, value := nameValue[i], nameValue[i+1]
		switch {
		case strings.HasPrefix(value, "\n"):
			lines = append(lines, name+":"+value)
		case value != "":
			lines = append(lines, name+": "+value)
		}
	}
	return strings.Join(lines, "\n")
}

// duration is in hours, minutes or seconds, as coarse as people say it.
func duration(d time.Duration, known bool) string {
	d = d.Truncate(time.Second)
	switch h, m := int(d.Hours()), int(d.Minutes())%60; {
	case !known || d < 0:
		return ""
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case h == 0:
		return fmt.Sprintf("%d min", m)
	case m == 0:
		return fmt.Sprintf("%d h", h)
	default:
		return fmt.Sprintf("%d h %d min", h, m)
	}
}

func count(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// formatting is how many questions a model was paid for to reword, and what that cost.
func formatting(l *state.Ledger) string {
	if l.FormattingQuestions == 0 {
		return ""
	}
	return fmt.Sprintf("%s, $%.4f", counted(l.FormattingQuestions, "question"), l.FormattingUSD)
}

func counted(n int, what string) string {
	switch {
	case n <= 0:
		return ""
	case n == 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// fileList names at most ten files, those of the project without its folder.
func fileList(files []string, projectDir string) string {
	var shown []string
	for _, f := range files[:min(10, len(files))] {
		if rel, err := filepath.Rel(projectDir, f); err == nil && filepath.IsAbs(f) && filepath.IsLocal(rel) {
			f = rel
		}
		shown = append(shown, plain(flat(f, 120)))
	}
	return strings.Join(shown, ", ") + more(len(files)-len(shown))
}

// subjectLines are no list to a Markdown parser, which would take the line after them into its last item.
func subjectLines(subjects []string) (text string) {
	for _, s := range subjects {
		text += "\n• " + plain(flat(s, 120))
	}
	return text
}
