package hooks

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// sessionEvent is gchat-session-event: it keeps the session's record, from which the poller has the summary worded. A turn's
// end is written nowhere: turns are counted in the transcript.
func (h *Hook) sessionEvent(_ context.Context, e *Event) error {
	if e.HookEventName == "UserPromptSubmit" {
		return h.beginThread(e)
	}
	if !slices.Contains([]string{"SessionStart", "Stop", "SessionEnd"}, e.HookEventName) {
		return nil
	}
	defer h.notify(e)
	switch {
	case e.SessionID == "":
		return errors.New("hook event: session_id is missing")
	case e.HookEventName == "Stop", !h.config().Sends():
		return nil
	case e.HookEventName == "SessionEnd":
		return h.sessionEnd(e)
	}
	s := h.session(e)
	if e.Source == "compact" {
		return nil
	}
	text := textLines(
		"Project", noMarkup(flat(filepath.Base(s.ProjectDir), 100)), "Branch", noMarkup(flat(s.Branch, 100)),
		"Model", noMarkup(flat(string(e.Model), 100)), "Source", noMarkup(flat(string(e.Source), 100)),
		"Machine", noMarkup(flat(state.MachineName(), 100)))
	return h.put(e, &state.Message{
		Report: &state.Report{Type: state.SessionStarted, At: time.Now(), Text: text},
	}, config.ReportOff)
}

// beginThread begins the thread of a session with its first prompt, once. From then on its person can write to it there. A
// session that was resumed or cleared has its thread already. A session without a terminal has nobody who would write to it.
func (h *Hook) beginThread(e *Event) error {
	if h.unattended() || e.SessionID == "" || !h.rules(e).AskMode.Row().Asks {
		return nil
	}
	h.asked.listens = true
	s := h.session(e)
	if s.ThreadName != "" || s.Begun {
		return nil
	}
	begins := false
	_, err := state.SessionsIn(state.UserState(h.Env)).Change(e.SessionID, func(s *state.Session) {
		begins = !s.Begun
		s.Begun = true
	})
	waiting, _ := state.OutboxIn(state.UserState(h.Env)).Waiting()
	told := slices.ContainsFunc(waiting, func(m *state.Message) bool { return m.ThreadKey == state.SessionThread(e.SessionID) })
	if err != nil || !begins || told { // SessionStart was told of, where reports want that
		return err
	}
	text := textLines(
		"Project", noMarkup(flat(filepath.Base(s.ProjectDir), 100)),
		"Machine", noMarkup(flat(state.MachineName(), 100)))
	if s.TmuxPane == "" {
		text += "\n\n" + state.OutsideTmux
	}
	return h.put(e, &state.Message{
		Report: &state.Report{Type: state.SessionStarted, At: time.Now(), Text: text},
	}, config.ReportOn)
}

// tellTurn leaves a line in the session's thread at the end of a turn that asks for nothing: the beginning of Claude's last
// words. A session without a thread to write to it gets none.
func (h *Hook) tellTurn(e *Event) error {
	if e.SessionID == "" || e.AgentID != "" || !h.session(e).Listens {
		return nil
	}
	return h.put(e, &state.Message{Report: &state.Report{
		Type: state.Plain, Kind: config.TurnDone, Prefix: "[Turn Done]", Text: noMarkup(flat(state.MaskKeys(lastSaid(e)), turnBytes)),
	}}, config.ReportOn)
}

// turnBytes is how much of Claude's last words such a line shows.
const turnBytes = 200

// sessionEnd writes down, in one write, that the session ended and that its thread is owed the summary. A second install's hook
// finds it written. All hooks of SessionEnd share a second and a half: git and the transcript are the poller's.
func (h *Hook) sessionEnd(e *Event) error {
	h.session(e)
	now := time.Now().UTC()
	stands, err := state.SessionsIn(state.UserState(h.Env)).Change(e.SessionID, func(s *state.Session) {
		if !s.Running() {
			return
		}
		s.EndedAt, s.OwesSummary, s.LastSeen, s.Reason = now, now, now, strings.TrimSpace(string(e.Reason))
		s.TranscriptPath = cmp.Or(string(e.Transcript), s.TranscriptPath)
	})
	if err == nil && !stands.OwesSummary.IsZero() {
		h.StartPoller() // also where another hook wrote it: that one may have been killed
	}
	return err
}

// endings are the reasons of SessionEnd in a person's words.
var endings = map[string]string{
	"clear":                       "the conversation was cleared",
	"resume":                      "another session was resumed in its place",
	"logout":                      "the person logged out",
	"prompt_input_exit":           "the person closed it in the terminal",
	"bypass_permissions_disabled": "permissions may no longer be bypassed",
	"other":                       "Claude Code was closed",
}

// PutSummary puts the summary that a session's thread is owed. The poller calls it, since a SessionEnd hook has no time for git
// and the transcript. A session that was resumed and ended again without a turn brings no second one.
func PutSummary(ctx context.Context, env state.Getenv, s *state.Session) error {
	owed := s.OwesSummary
	r, turns, err := summaryOf(ctx, env, s)
	if err != nil {
		return err
	}
	if s.ToldSummary.IsZero() || turns > 0 {
		m := &state.Message{
			Report: &r, ProjectDir: s.ProjectDir, Trusted: s.Trusted, SessionID: s.ID,
			Key: "summary-" + s.ID + "-" + owed.UTC().Format(time.RFC3339Nano),
		}
		cfg := config.Load(state.ForProject(env, s.ProjectDir, s.Trusted), s.ProjectDir)
		_, err := config.PutReport(env, cfg, m, "")
		if err != nil && !errors.Is(err, config.ErrNoWebhook) {
			return err
		}
	}
	_, err = state.SessionsIn(state.UserState(env)).Change(s.ID, func(s *state.Session) {
		s.ToldSummary = owed
		if s.OwesSummary.Equal(owed) {
			s.OwesSummary = time.Time{}
		}
	})
	return err
}

// summaryOf tells what a session did that ended, and counts its turns. What is not known is left out. The only error is ctx's.
func summaryOf(ctx context.Context, env state.Getenv, s *state.Session) (state.Report, int, error) {
	end := s.OwesSummary
	since := s.StartedAt
	if s.Source == "" || since.After(end) { // no hook saw the start, or the session began anew meanwhile
		since = time.Time{}
	}
	did := tallyOf(ctx, s.TranscriptPath, since)
	git := changesSince(ctx, cmp.Or(s.CWD, s.ProjectDir), s.Commit, s.StartedAt)
	if err := ctx.Err(); err != nil {
		return state.Report{}, 0, err
	}
	branch := cmp.Or(git.branch, s.Branch)
	if branch == "HEAD" {
		branch = "(detached)"
	}
	text := textLines(
		"Duration", duration(since, end),
		"Turns", strings.TrimPrefix(strconv.Itoa(did.turns), "0"), // none says nothing
		"Tools", some(byCount(did.tools), 8, ", "),
		"Branch", strings.Join(nonEmpty(noMarkup(flat(branch, 100)), git.stat), ", "),
		"Files", some(git.files, 10, ", "),
		"Commits", some(git.subjects, 5, "\n• "),
		"", promises(s.ProjectDir),
		"Ended", cmp.Or(endings[s.Reason], noMarkup(flat(strings.ReplaceAll(s.Reason, "_", " "), 100))),
		"To go on", resumeOf(env, s, did.turns))
	if did.said != "" { // after a blank line, since a line of dashes in them would make a heading of ours
		text += "\n\nLast words:\n" + shorten(did.said, shownBytes, shownLines)
	}
	report := state.Report{Type: state.SessionEnded, Session: s.Name, At: end.Local(), Text: strings.TrimLeft(text, "\n")}
	return report, did.turns, nil
}

// resumeOf says how a session that has ended goes on; "" where its thread goes on, or Claude Code has nothing to go on with.
func resumeOf(env state.Getenv, s *state.Session, turns int) string {
	if turns == 0 || s.Reason == "clear" || s.Reason == "resume" {
		return ""
	}
	text := "`claude --resume " + state.ShellQuoted(flat(s.ID, 100)) + "` in its folder"
	if s.Listens && config.Personal(env).StartSessions {
		text = "write here, or " + text
	}
	return text
}

// textLines are "name: value" lines, of the values that say something. A value whose name is "" stands alone.
func textLines(nameValue ...string) string {
	var lines []string
	for i := 0; i+1 < len(nameValue); i += 2 {
		name, value := nameValue[i], nameValue[i+1]
		switch {
		case strings.HasPrefix(value, "\n"):
			lines = append(lines, name+":"+value)
		case value != "":
			lines = append(lines, strings.TrimPrefix(name+": "+value, ": "))
		}
	}
	return strings.Join(lines, "\n")
}

// duration is the time between two moments, as coarse as people say it: "1h12m". It is "" where the first one is not known.
func duration(since, end time.Time) string {
	d := end.Sub(since)
	switch {
	case since.IsZero() || d < 0:
		return ""
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	}
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(d.Truncate(time.Minute).String())
}

// some are at most so many of the texts, a separator before each (", " not before the first), and how many are not shown. Bullets
// make no list in Markdown, which would take the next line into its last item.
func some(texts []string, most int, separator string) (shown string) {
	for _, t := range texts[:min(most, len(texts))] {
		shown += separator + noMarkup(flat(t, 120))
	}
	if n := len(texts) - most; n > 0 {
		shown += fmt.Sprintf(" and %d more", n)
	}
	return strings.TrimPrefix(shown, ", ")
}

func byCount(counts map[string]int) (tools []string) {
	for _, name := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	}) {
		tools = append(tools, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return tools
}

// promises counts a project's completion promises, the files .claude/completion-state/promises/*.json: "1 of 3 promises
// verified". It is "" where there are none.
func promises(projectDir string) string {
	files, _ := fs.Glob(os.DirFS(projectDir), ".claude/completion-state/promises/[^.]*.json")
	if len(files) == 0 {
		return ""
	}
	verified := 0
	for _, file := range files {
		var p struct {
			Status string `json:"status"`
		}
		b, err := state.ReadPlain(filepath.Join(projectDir, file), 1<<20)
		if err == nil && json.Unmarshal(b, &p) == nil && p.Status == "verified" {
			verified++
		}
	}
	return fmt.Sprintf("%d of %d promises verified", verified, len(files))
}

const (
	tallyBound = 10 * time.Second // for a transcript, which may be some gigabytes; of one that takes longer nothing is told
	maxLine    = 64 << 20         // bytes; a transcript is read up to a longer one
)

// tallyOf reads a session's transcript from since on: a resumed session goes on in the same file.
func tallyOf(ctx context.Context, transcript string, since time.Time) *tally {
	ctx, cancel := context.WithTimeout(ctx, tallyBound)
	defer cancel()
	t := &tally{tools: map[string]int{}, since: since}
	f, err := inject.OpenTranscript(transcript)
	if err != nil {
		return t
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for ctx.Err() == nil && lines.Scan() {
		t.add(lines.Bytes())
	}
	if ctx.Err() != nil {
		return &tally{}
	}
	return t
}

const (
	gitQuick = 300 * time.Millisecond // for a hook
	gitBound = 5 * time.Second        // for the poller
)

// git runs git in dir. It takes no lock, starts none of the programs that a repository can name for hooks, diffs and
// signatures, asks for no password, fetches nothing, and is gone with its children at ctx's end. It says "" where git fails.
func git(ctx context.Context, dir string, args ...string) string {
	options := []string{"--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
		"-c", "color.ui=false", "-c", "log.showSignature=false", "-c", "protocol.allow=never"}
	cmd := exec.CommandContext(ctx, "git", append(options, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = gitQuick
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(out), "\uFFFD")
}

// headOf is the branch and the commit that dir is at; "" for what git does not say in that time.
func headOf(ctx context.Context, dir string, bound time.Duration) (branch, commit string) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	said := git(ctx, dir, "rev-parse", "HEAD", "--abbrev-ref", "HEAD") // it fails before the first commit
	commit, branch, _ = strings.Cut(strings.TrimSpace(said), "\n")
	return branch, commit
}

type changes struct {
	branch   string
	stat     string   // "5 files changed, 120 insertions(+), 8 deletions(-)"
	files    []string // committed or not
	subjects []string // of the commits, the newest first
}

// changesSince asks git what happened since a commit and its time; what it does not answer is left out.
func changesSince(ctx context.Context, dir, commit string, began time.Time) (c changes) {
	ctx, cancel := context.WithTimeout(ctx, gitBound)
	defer cancel()
	c.branch, _ = headOf(ctx, dir, gitBound)
	if len(commit) < 40 || strings.Trim(commit, "0123456789abcdef") != "" { // nor is it an option or a range
		return c
	}
	c.subjects = gitList(ctx, dir, "log", "-z", "--format=%s", commit+"..HEAD", "--")
	diff := []string{"diff", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"}
	c.stat = strings.TrimSpace(git(ctx, dir, append(diff, "--shortstat", commit, "--")...))
	c.files = gitList(ctx, dir, append(diff, "--name-only", "-z", commit, "--")...)
	// A diff knows nothing of files that were never added. What is in .claude is our own and other tools'.
	for _, f := range gitList(ctx, dir, "ls-files", "--others", "--exclude-standard", "-z", "--", ".", ":(exclude).claude") {
		info, err := os.Lstat(filepath.Join(dir, f))
		if err == nil && !info.ModTime().Before(began) {
			c.files = append(c.files, f)
		}
	}
	return c
}

// gitList is what git answers with -z; none where it fails.
func gitList(ctx context.Context, dir string, args ...string) []string {
	return nonEmpty(strings.Split(git(ctx, dir, args...), "\x00")...)
}
