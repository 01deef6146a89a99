package hooks

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
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

const (
	tallyBound   = 10 * time.Second // for all of a session's transcripts
	tallyBytes   = 200 << 20        // of them, the end of the longest
	maxLine      = 16 << 20         // bytes; a longer line (a picture) is passed over
	maxSubagents = 1000
	maxFiles     = 1000 // edited ones that are told apart
)

// tally is what a session did, by its transcripts.
type tally struct {
	tools     map[string]int
	files     []string // edited, in the order of their first edit
	lastWords string
	cut       bool // not everything was read

	since time.Time
	calls map[string]bool // a resumed session's transcript can hold a call twice
	known map[string]bool
	left  int64
}

// tallyOf reads the transcripts of a session and its subagents from since on: a resumed session goes on in the same file.
func tallyOf(ctx context.Context, transcript string, since time.Time) *tally {
	ctx, cancel := context.WithTimeout(ctx, tallyBound)
	defer cancel()
	t := &tally{tools: map[string]int{}, since: since, calls: map[string]bool{}, known: map[string]bool{}, left: tallyBytes}
	t.read(ctx, transcript, true)
	subagents := filepath.Join(strings.TrimSuffix(transcript, ".jsonl"), "subagents")
	for _, name := range filesIn(subagents, maxSubagents) {
		t.read(ctx, filepath.Join(subagents, name), false)
	}
	return t
}

func (t *tally) read(ctx context.Context, path string, main bool) {
	f, size, err := openTranscript(path)
	if err != nil {
		return
	}
	defer f.Close()
	if size > t.left {
		t.cut = true
		if _, err := f.Seek(size-t.left, io.SeekStart); err != nil {
			return
		}
		size = t.left
	}
	t.left -= size
	lines := bufio.NewReaderSize(io.LimitReader(f, size), 64<<10)
	for ctx.Err() == nil {
		line, err := readLine(lines)
		t.add(line, main)
		if err != nil {
			return
		}
	}
	t.cut = true
}

// readLine gives the next line; one that is too long comes empty.
func readLine(r *bufio.Reader) (line []byte, err error) {
	tooLong := false
	for {
		part, err := r.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) > maxLine; !tooLong {
			line = append(line, part...)
		} else {
			line = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func (t *tally) add(line []byte, main bool) {
	if !bytes.Contains(line, []byte(`"assistant"`)) { // most bytes are tools' results: those are not parsed
		return
	}
	e, blocks, ok := readEntry(line)
	if !ok || e.Type != "assistant" {
		return
	}
	if at, err := time.Parse(time.RFC3339, string(e.Timestamp)); err == nil && at.Before(t.since) {
		return
	}
	for _, b := range blocks {
		switch b.Type {
		case "text":
			if main && !e.IsSidechain && strings.TrimSpace(b.Text) != "" {
				t.lastWords = b.Text
			}
		case "tool_use":
			if b.Name == "" || b.ID != "" && t.calls[b.ID] {
				continue
			}
			t.calls[b.ID] = true
			t.tools[b.Name]++
			t.edited(b)
		}
	}
}

func (t *tally) edited(b block) {
	if b.Name != "Edit" && b.Name != "MultiEdit" && b.Name != "Write" && b.Name != "NotebookEdit" {
		return
	}
	path := (toolCall{Name: b.Name, Input: b.Input}).what()
	if path != "" && !strings.HasPrefix(path, "{") && !t.known[path] && len(t.files) < maxFiles {
		t.known[path] = true
		t.files = append(t.files, path)
	}
}

const (
	maxPromises    = 1000
	maxPromiseFile = 1 << 20 // bytes
)

// promises counts a project's completion promises, the files .claude/completion-state/promises/*.json, by their status:
// "2 verified, 1 pending". It is "" where there are none.
func promises(projectDir string) string {
	dir := filepath.Join(projectDir, ".claude", "completion-state", "promises")
	counts := map[string]int{}
	for _, name := range filesIn(dir, maxPromises) {
		if strings.HasSuffix(name, ".json") && !strings.HasPrefix(name, ".") {
			counts[promiseStatus(filepath.Join(dir, name))]++
		}
	}
	return byCount(counts, 6, func(status string, n int) string { return fmt.Sprintf("%d %s", n, status) })
}

func promiseStatus(path string) string {
	const unreadable = "unreadable"
	f, size, err := openRegular(path)
	if err != nil {
		return unreadable
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPromiseFile))
	var p struct {
		Status string `json:"status"`
	}
	if err != nil || size > maxPromiseFile || json.Unmarshal(b, &p) != nil || strings.TrimSpace(p.Status) == "" {
		return unreadable
	}
	return plain(flat(p.Status, 40))
}

// byCount lists what was counted, the most frequent first, and how many kinds are not shown.
func byCount(counts map[string]int, most int, show func(what string, n int) string) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var shown []string
	for _, name := range names[:min(most, len(names))] {
		shown = append(shown, show(name, counts[name]))
	}
	return strings.Join(shown, ", ") + more(len(names)-len(shown))
}

// more says how many are not shown.
func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
