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

// runSessionEvent is gchat-session-event: it keeps the session's record, from which the
// poller has the summary written. A turn's end is not recorded: turns are counted in the
// transcript.
func (h *Hook) runSessionEvent(_ context.Context, e *Event) error {
	if e.HookEventName == "UserPromptSubmit" {
		return h.startThread(e)
	}
	if !slices.Contains([]string{"SessionStart", "Stop", "SessionEnd"}, e.HookEventName) {
		return nil
	}
	defer h.deliverPending(e)
	switch {
	case e.SessionID == "":
		return errors.New("hook event: session_id is missing")
	case e.HookEventName == "Stop", !h.config().CanSend():
		return nil
	case e.HookEventName == "SessionEnd":
		return h.recordSessionEnd(e)
	}
	session := h.ensureSession(e)
	if e.Source == "compact" {
		return nil
	}
	text := labelledLines(
		"Project", markdownLine(filepath.Base(session.ProjectDir)),
		"Branch", markdownLine(session.Branch),
		"Model", markdownLine(string(e.Model)),
		"Source", markdownLine(string(e.Source)),
		"Machine", markdownLine(state.MachineName()),
	)
	return h.enqueueMessage(e, &state.Message{
		Report: &state.Report{Type: state.ReportSessionStarted, At: time.Now(), Text: text},
	}, config.ReportOff)
}

// startThread starts a session's thread with its first prompt, once. From then on a
// person can write to the session there. A session that was resumed or cleared already
// has its thread. A session without a terminal gets none, since nobody would write to it.
func (h *Hook) startThread(e *Event) error {
	if h.isUnattended() || e.SessionID == "" || !h.rules(e).AskMode.Traits().Asks {
		return nil
	}
	h.cached.acceptsCommands = true
	session := h.ensureSession(e)
	if session.ThreadName != "" || session.HasThreadStart {
		return nil
	}
	isFirst := false
	_, err := h.sessions().Change(e.SessionID, func(session *state.Session) {
		isFirst = !session.HasThreadStart
		session.HasThreadStart = true
	})
	waitingMessages, _ := state.OutboxIn(state.UserStateDir(h.Env)).Waiting()
	// If reports include the session's start, its SessionStart hook has enqueued a
	// message.
	isReported := slices.ContainsFunc(waitingMessages, func(message *state.Message) bool {
		return message.ThreadKey == state.SessionThreadKey(e.SessionID)
	})
	if err != nil || !isFirst || isReported {
		return err
	}
	text := labelledLines(
		"Project", markdownLine(filepath.Base(session.ProjectDir)),
		"Machine", markdownLine(state.MachineName()))
	if session.TmuxPane == "" {
		text += "\n\n" + state.OutsideTmuxWarning
	}
	return h.enqueueMessage(e, &state.Message{
		Report: &state.Report{Type: state.ReportSessionStarted, At: time.Now(), Text: text},
	}, config.ReportOn)
}

// reportTurnEnd reports in the session's thread that a turn ended without a question,
// with the beginning of Claude's last text. A session that takes no commands from a
// thread gets no report.
func (h *Hook) reportTurnEnd(e *Event) error {
	if e.SessionID == "" || e.AgentID != "" || !h.ensureSession(e).AcceptsCommands {
		return nil
	}
	lastText := shortenToLine(state.MaskKeys(lastTextOfTurn(e)), maxTurnTextBytes)
	text := nonEmpty(escapeMarkdown(lastText), turnFigures(e))
	return h.enqueueMessage(e, &state.Message{Report: &state.Report{
		Type:     state.ReportPlain,
		RuleKind: config.KindTurnDone,
		Prefix:   "[Turn Done]",
		Text:     strings.Join(text, "\n\n"),
	}}, config.ReportOn)
}

// maxTurnTextBytes is how much of Claude's last text the report of a turn's end shows.
const maxTurnTextBytes = 200

// recordSessionEnd records, in one write, that the session ended and that its thread is
// owed the summary. The hook of a second install finds that recorded. All hooks of
// SessionEnd share one and a half seconds, so the poller runs git and reads the
// transcript.
func (h *Hook) recordSessionEnd(e *Event) error {
	h.ensureSession(e)
	now := time.Now().UTC()
	stored, err := h.sessions().Change(e.SessionID, func(s *state.Session) {
		if !s.IsRunning() {
			return
		}
		s.EndedAt, s.SummaryOwedFor, s.LastSeen = now, now, now
		s.EndReason = strings.TrimSpace(string(e.Reason))
		s.TranscriptPath = cmp.Or(string(e.TranscriptPath), s.TranscriptPath)
	})
	if err == nil && !stored.SummaryOwedFor.IsZero() {
		h.StartPoller() // even if another hook recorded it: that one may have been killed
	}
	return err
}

// endReasonTexts say the reasons of SessionEnd in words for a person.
var endReasonTexts = map[string]string{
	"clear":                       "the conversation was cleared",
	"resume":                      "another session was resumed in its place",
	"logout":                      "the person logged out",
	"prompt_input_exit":           "the person closed it in the terminal",
	"bypass_permissions_disabled": "permissions may no longer be bypassed",
	"other":                       "Claude Code was closed",
}

// EnqueueSummary enqueues the summary that a session's thread is owed. The poller calls
// it, since a SessionEnd hook has no time for git and the transcript. A session that was
// resumed and ended again without a turn gets no second summary.
func EnqueueSummary(ctx context.Context, env state.Getenv, session *state.Session) error {
	owed := session.SummaryOwedFor
	report, turns, err := buildSummary(ctx, env, session)
	if err != nil {
		return err
	}
	if session.SummarySentFor.IsZero() || turns > 0 {
		message := &state.Message{
			Report:     &report,
			ProjectDir: session.ProjectDir,
			IsTrusted:  session.IsTrusted,
			SessionID:  session.ID,
			Key:        "summary-" + session.ID + "-" + owed.UTC().Format(time.RFC3339Nano),
		}
		_, err := config.EnqueueReport(env, loadProjectConfig(env, session), message, "")
		if err != nil && !errors.Is(err, config.ErrNoWebhook) {
			return err
		}
	}
	sessions := state.SessionsIn(state.UserStateDir(env))
	_, err = sessions.Change(session.ID, func(session *state.Session) {
		session.SummarySentFor = owed
		if session.SummaryOwedFor.Equal(owed) {
			session.SummaryOwedFor = time.Time{}
		}
	})
	return err
}

// buildSummary describes what a session that ended has done, and counts its turns. It
// leaves out what it does not know. Its only error is ctx's.
func buildSummary(
	ctx context.Context, env state.Getenv, session *state.Session,
) (state.Report, int, error) {
	end := session.SummaryOwedFor
	since := session.StartedAt
	if session.Source == "" || since.After(end) {
		// No hook saw the start, or the session has started again since.
		since = time.Time{}
	}
	counts := tallyTranscript(ctx, session.TranscriptPath, since)
	changes := gitChangesSince(
		ctx, cmp.Or(session.CWD, session.ProjectDir), session.Commit, session.StartedAt)
	if err := ctx.Err(); err != nil {
		return state.Report{}, 0, err
	}
	branch := cmp.Or(changes.branch, session.Branch)
	if branch == "HEAD" {
		branch = "(detached)"
	}
	text := labelledLines(
		"Duration", durationText(since, end),
		"Turns", strings.TrimPrefix(strconv.Itoa(counts.turns), "0"), // no line for none
		"Tools", listFirst(sortByCount(counts.tools), 8, ", "),
		"Cost", costText(counts.costUSD),
		"Branch", strings.Join(nonEmpty(markdownLine(branch), changes.diffStat), ", "),
		"Files", listFirst(changes.files, 10, ", "),
		"Commits", listFirst(changes.subjects, 5, "\n• "),
		"", promisesText(session.ProjectDir),
		"Ended", cmp.Or(endReasonTexts[session.EndReason],
			markdownLine(strings.ReplaceAll(session.EndReason, "_", " "))),
		"To continue", resumeHint(env, session, counts.turns),
	)
	if counts.lastText != "" {
		// A blank line comes first: a line of dashes in the text would make our last line
		// a heading.
		text += "\n\nLast words:\n" + shorten(counts.lastText, maxTextBytes, maxTextLines)
	}
	return state.Report{
		Type:        state.ReportSessionEnded,
		SessionName: session.Name,
		At:          end.Local(),
		Text:        strings.TrimLeft(text, "\n"),
	}, counts.turns, nil
}

// resumeHint says how to continue a session that has ended. It is "" if the session's
// thread goes on, or if Claude Code has nothing to resume.
func resumeHint(env state.Getenv, session *state.Session, turns int) string {
	if turns == 0 || session.EndReason == "clear" || session.EndReason == "resume" {
		return ""
	}
	command := state.ResumeCommand(session.ProjectDir, shortenToLine(session.ID, 100))
	text := "`" + strings.ReplaceAll(oneLine(command), "`", "'") + "`"
	if session.AcceptsCommands && config.LoadPersonal(env).CanStartSessions {
		text = "write here, or " + text
	}
	return text
}

// labelledLines are "name: value" lines of those values that are not empty. A value whose
// name is "" is a line by itself.
func labelledLines(nameValue ...string) string {
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

// markdownLine returns foreign text as a value for labelledLines.
func markdownLine(s string) string { return escapeMarkdown(shortenToLine(s, 100)) }

// durationText is the time between two moments, as coarse as people say it: "1h12m". It
// is "" if the first is not known.
func durationText(since, end time.Time) string {
	d := end.Sub(since)
	switch {
	case since.IsZero() || d < 0:
		return ""
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	}
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(d.Truncate(time.Minute).String())
}

// costText is a cost, as Claude Code estimates it at list prices; "" if there is none.
func costText(usd float64) string {
	if usd < 0.005 {
		return ""
	}
	return fmt.Sprintf("about $%.2f, by Claude Code's estimate", usd)
}

// listFirst lists at most limit of the texts, and how many it leaves out. The separator
// comes before each text, except that a leading ", " is removed. Bullets are no list in
// Markdown, which would take the line that follows into its last item.
func listFirst(texts []string, limit int, separator string) (shown string) {
	for _, t := range texts[:min(limit, len(texts))] {
		shown += separator + escapeMarkdown(shortenToLine(t, 120))
	}
	if omitted := len(texts) - limit; omitted > 0 {
		shown += fmt.Sprintf(" and %d more", omitted)
	}
	return strings.TrimPrefix(shown, ", ")
}

// sortByCount lists tools with their counts, the most used first.
func sortByCount(counts map[string]int) (tools []string) {
	byCount := func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	}
	for _, name := range slices.SortedFunc(maps.Keys(counts), byCount) {
		tools = append(tools, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return tools
}

// promisesText counts a project's completion promises, which are the files
// .claude/completion-state/promises/*.json: "1 of 3 promises verified". It is "" without
// promises.
func promisesText(projectDir string) string {
	files, _ := fs.Glob(os.DirFS(projectDir), ".claude/completion-state/promises/[^.]*.json")
	if len(files) == 0 {
		return ""
	}
	verified := 0
	for _, file := range files {
		var promise struct {
			Status string `json:"status"`
		}
		b, err := state.ReadPlain(filepath.Join(projectDir, file), 1<<20)
		if err == nil && json.Unmarshal(b, &promise) == nil && promise.Status == "verified" {
			verified++
		}
	}
	return fmt.Sprintf("%d of %d promises verified", verified, len(files))
}

const (
	// tallyTimeout is for a transcript, which may have gigabytes. A transcript that takes
	// longer is not reported.
	tallyTimeout = 10 * time.Second
	// maxLineBytes bounds a line. A transcript is read up to the first longer one.
	maxLineBytes = 64 << 20
)

// tallyTranscript counts what a session's transcript has from since on: a resumed session
// goes on in the same file.
func tallyTranscript(ctx context.Context, transcript string, since time.Time) *tally {
	ctx, cancel := context.WithTimeout(ctx, tallyTimeout)
	defer cancel()
	counts := &tally{tools: map[string]int{}, since: since}
	file, err := inject.OpenTranscript(transcript)
	if err != nil {
		return counts
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLineBytes)
	for ctx.Err() == nil && lines.Scan() {
		counts.addLine(lines.Bytes())
	}
	if ctx.Err() != nil {
		return &tally{}
	}
	return counts
}

const (
	gitHookTimeout = 300 * time.Millisecond // for a hook
	gitTimeout     = 5 * time.Second        // for the poller
)

// gitOutput returns what git prints in dir; "" if git fails. Git takes no lock here. It
// starts none of the programs that a repository can name for hooks, diffs and signatures.
// It asks for no password and fetches nothing. It ends with its children when ctx ends.
func gitOutput(ctx context.Context, dir string, args ...string) string {
	cmd := exec.CommandContext(ctx, "git", append([]string{
		"--no-pager",
		"-c", "core.fsmonitor=false",
		"-c", "core.hooksPath=/dev/null",
		"-c", "color.ui=false",
		"-c", "log.showSignature=false",
		"-c", "protocol.allow=never",
	}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(
		os.Environ(),
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_NO_LAZY_FETCH=1",
		"LC_ALL=C",
	)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = gitHookTimeout
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(out), "\uFFFD")
}

// gitHead returns the branch and the commit that dir is at; "" for what git does not say
// within the timeout.
func gitHead(ctx context.Context, dir string, timeout time.Duration) (branch, commit string) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// git rev-parse HEAD fails in a repository without a commit.
	output := gitOutput(ctx, dir, "rev-parse", "HEAD", "--abbrev-ref", "HEAD")
	commit, branch, _ = strings.Cut(strings.TrimSpace(output), "\n")
	return branch, commit
}

// gitChanges are the changes of a session that git knows.
type gitChanges struct {
	branch   string
	diffStat string   // "5 files changed, 120 insertions(+), 8 deletions(-)"
	files    []string // committed or not
	subjects []string // the commits' subjects, newest first
}

// gitChangesSince asks git what changed since a commit and its time. It leaves out what
// git does not answer.
func gitChangesSince(
	ctx context.Context, dir, commit string, start time.Time,
) (changes gitChanges) {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	changes.branch, _ = gitHead(ctx, dir, gitTimeout)
	if len(commit) < 40 || strings.Trim(commit, "0123456789abcdef") != "" {
		return changes // nor can it be an option or a range
	}
	changes.subjects = gitOutputList(ctx, dir, "log", "-z", "--format=%s", commit+"..HEAD", "--")
	diff := []string{"diff", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"}
	changes.diffStat = strings.TrimSpace(
		gitOutput(ctx, dir, append(diff, "--shortstat", commit, "--")...))
	changes.files = gitOutputList(ctx, dir, append(diff, "--name-only", "-z", commit, "--")...)
	// git diff does not list files that were never added. Files in .claude belong to us
	// and to other tools.
	untracked := gitOutputList(ctx, dir,
		"ls-files", "--others", "--exclude-standard", "-z", "--", ".", ":(exclude).claude")
	for _, file := range untracked {
		info, err := os.Lstat(filepath.Join(dir, file))
		if err == nil && !info.ModTime().Before(start) {
			changes.files = append(changes.files, file)
		}
	}
	return changes
}

// gitOutputList returns the parts of what git prints with -z; none if git fails.
func gitOutputList(ctx context.Context, dir string, args ...string) []string {
	return nonEmpty(strings.Split(gitOutput(ctx, dir, args...), "\x00")...)
}
