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
// poller has the summary worded. A turn's end is written nowhere: turns are counted in
// the transcript.
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
		"Project",
		escapeMarkdown(shortenToLine(filepath.Base(session.ProjectDir), 100)),
		"Branch",
		escapeMarkdown(shortenToLine(session.Branch, 100)),
		"Model",
		escapeMarkdown(shortenToLine(string(e.Model), 100)),
		"Source",
		escapeMarkdown(shortenToLine(string(e.Source), 100)),
		"Machine",
		escapeMarkdown(shortenToLine(state.MachineName(), 100)),
	)
	return h.enqueueMessage(e, &state.Message{
		Report: &state.Report{Type: state.ReportSessionStarted, At: time.Now(), Text: text},
	}, config.ReportOff)
}

// startThread begins the thread of a session with its first prompt, once. From then on
// its person can write to it there. A session that was resumed or cleared has its thread
// already. A session without a terminal has nobody who would write to it.
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
	_, err := state.SessionsIn(state.UserStateDir(h.Env)).
		Change(e.SessionID, func(session *state.Session) {
			isFirst = !session.HasThreadStart
			session.HasThreadStart = true
		})
	waitingMessages, _ := state.OutboxIn(state.UserStateDir(h.Env)).Waiting()
	isReported := slices.ContainsFunc(
		waitingMessages,
		func(message *state.Message) bool { return message.ThreadKey == state.SessionThreadKey(e.SessionID) },
	)
	if err != nil || !isFirst || isReported { // SessionStart was told of, where reports want that
		return err
	}
	text := labelledLines(
		"Project", escapeMarkdown(shortenToLine(filepath.Base(session.ProjectDir), 100)),
		"Machine", escapeMarkdown(shortenToLine(state.MachineName(), 100)))
	if session.TmuxPane == "" {
		text += "\n\n" + state.OutsideTmuxWarning
	}
	return h.enqueueMessage(e, &state.Message{
		Report: &state.Report{Type: state.ReportSessionStarted, At: time.Now(), Text: text},
	}, config.ReportOn)
}

// reportTurnEnd leaves a line in the session's thread at the end of a turn that asks for
// nothing: the beginning of Claude's last words. A session without a thread to write to
// it gets none.
func (h *Hook) reportTurnEnd(e *Event) error {
	if e.SessionID == "" || e.AgentID != "" || !h.ensureSession(e).AcceptsCommands {
		return nil
	}
	return h.enqueueMessage(e, &state.Message{Report: &state.Report{
		Type: state.ReportPlain, RuleKind: config.KindTurnDone, Prefix: "[Turn Done]", Text: escapeMarkdown(shortenToLine(state.MaskKeys(lastTextOfTurn(e)), maxTurnTextBytes)),
	}}, config.ReportOn)
}

// maxTurnTextBytes is how much of Claude's last words such a line shows.
const maxTurnTextBytes = 200

// recordSessionEnd writes down, in one write, that the session ended and that its thread
// is owed the summary. A second install's hook finds it written. All hooks of SessionEnd
// share a second and a half: git and the transcript are the poller's.
func (h *Hook) recordSessionEnd(e *Event) error {
	h.ensureSession(e)
	now := time.Now().UTC()
	stored, err := state.SessionsIn(state.UserStateDir(h.Env)).
		Change(e.SessionID, func(s *state.Session) {
			if !s.IsRunning() {
				return
			}
			s.EndedAt, s.SummaryOwedFor, s.LastSeen, s.EndReason = now, now, now, strings.TrimSpace(
				string(e.Reason),
			)
			s.TranscriptPath = cmp.Or(string(e.TranscriptPath), s.TranscriptPath)
		})
	if err == nil && !stored.SummaryOwedFor.IsZero() {
		h.StartPoller() // also where another hook wrote it: that one may have been killed
	}
	return err
}

// endReasonTexts are the reasons of SessionEnd in a person's words.
var endReasonTexts = map[string]string{
	"clear":                       "the conversation was cleared",
	"resume":                      "another session was resumed in its place",
	"logout":                      "the person logged out",
	"prompt_input_exit":           "the person closed it in the terminal",
	"bypass_permissions_disabled": "permissions may no longer be bypassed",
	"other":                       "Claude Code was closed",
}

// EnqueueSummary puts the summary that a session's thread is owed. The poller calls it,
// since a SessionEnd hook has no time for git and the transcript. A session that was
// resumed and ended again without a turn brings no second one.
func EnqueueSummary(ctx context.Context, env state.Getenv, session *state.Session) error {
	owed := session.SummaryOwedFor
	report, turns, err := buildSummary(ctx, env, session)
	if err != nil {
		return err
	}
	if session.SummarySentFor.IsZero() || turns > 0 {
		message := &state.Message{
			Report: &report, ProjectDir: session.ProjectDir, IsTrusted: session.IsTrusted, SessionID: session.ID,
			Key: "summary-" + session.ID + "-" + owed.UTC().Format(time.RFC3339Nano),
		}
		projectConfig := config.Load(
			state.ProjectEnv(env, session.ProjectDir, session.IsTrusted),
			session.ProjectDir,
		)
		_, err := config.EnqueueReport(env, projectConfig, message, "")
		if err != nil && !errors.Is(err, config.ErrNoWebhook) {
			return err
		}
	}
	_, err = state.SessionsIn(state.UserStateDir(env)).
		Change(session.ID, func(session *state.Session) {
			session.SummarySentFor = owed
			if session.SummaryOwedFor.Equal(owed) {
				session.SummaryOwedFor = time.Time{}
			}
		})
	return err
}

// buildSummary tells what a session did that ended, and counts its turns. What is not
// known is left out. The only error is ctx's.
func buildSummary(
	ctx context.Context,
	env state.Getenv,
	session *state.Session,
) (state.Report, int, error) {
	end := session.SummaryOwedFor
	since := session.StartedAt
	if session.Source == "" || since.After(end) {
		// no hook saw the start, or the session began anew meanwhile
		since = time.Time{}
	}
	counts := tallyTranscript(ctx, session.TranscriptPath, since)
	changes := gitChangesSince(
		ctx,
		cmp.Or(session.CWD, session.ProjectDir),
		session.Commit,
		session.StartedAt,
	)
	if err := ctx.Err(); err != nil {
		return state.Report{}, 0, err
	}
	branch := cmp.Or(changes.branch, session.Branch)
	if branch == "HEAD" {
		branch = "(detached)"
	}
	text := labelledLines(
		"Duration",
		durationText(since, end),
		"Turns",
		strings.TrimPrefix(strconv.Itoa(counts.turns), "0"), // none says nothing
		"Tools",
		listFirst(sortByCount(counts.tools), 8, ", "),
		"Branch",
		strings.Join(nonEmpty(escapeMarkdown(shortenToLine(branch, 100)), changes.diffStat), ", "),
		"Files",
		listFirst(changes.files, 10, ", "),
		"Commits",
		listFirst(changes.subjects, 5, "\n• "),
		"",
		promisesText(session.ProjectDir),
		"Ended",
		cmp.Or(
			endReasonTexts[session.EndReason],
			escapeMarkdown(shortenToLine(strings.ReplaceAll(session.EndReason, "_", " "), 100)),
		),
		"To go on",
		resumeHint(env, session, counts.turns),
	)
	if counts.lastText != "" {
		// after a blank line, since a line of dashes in them would make a heading of ours
		text += "\n\nLast words:\n" + shorten(counts.lastText, maxTextBytes, maxTextLines)
	}
	report := state.Report{
		Type:        state.ReportSessionEnded,
		SessionName: session.Name,
		At:          end.Local(),
		Text:        strings.TrimLeft(text, "\n"),
	}
	return report, counts.turns, nil
}

// resumeHint says how a session that has ended goes on; "" where its thread goes on, or
// Claude Code has nothing to go on with.
func resumeHint(env state.Getenv, session *state.Session, turns int) string {
	if turns == 0 || session.EndReason == "clear" || session.EndReason == "resume" {
		return ""
	}
	text := "`claude --resume " + state.QuoteForShell(
		shortenToLine(session.ID, 100),
	) + "` in its folder"
	if session.AcceptsCommands && config.LoadPersonal(env).CanStartSessions {
		text = "write here, or " + text
	}
	return text
}

// labelledLines are "name: value" lines, of the values that say something. A value whose
// name is "" stands alone.
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

// durationText is the time between two moments, as coarse as people say it: "1h12m". It
// is "" where the first one is not known.
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

// listFirst are at most so many of the texts, a separator before each (", " not before
// the first), and how many are not shown. Bullets make no list in Markdown, which would
// take the next line into its last item.
func listFirst(texts []string, limit int, separator string) (shown string) {
	for _, t := range texts[:min(limit, len(texts))] {
		shown += separator + escapeMarkdown(shortenToLine(t, 120))
	}
	if omitted := len(texts) - limit; omitted > 0 {
		shown += fmt.Sprintf(" and %d more", omitted)
	}
	return strings.TrimPrefix(shown, ", ")
}

func sortByCount(counts map[string]int) (tools []string) {
	for _, name := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	}) {
		tools = append(tools, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return tools
}

// promisesText counts a project's completion promises, the files
// .claude/completion-state/promises/*.json: "1 of 3 promises verified". It is "" where
// there are none.
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
	// for a transcript, which may be some gigabytes; of one that takes longer nothing is
	// told
	tallyTimeout = 10 * time.Second
	maxLineBytes = 64 << 20 // bytes; a transcript is read up to a longer one
)

// tallyTranscript reads a session's transcript from since on: a resumed session goes on
// in the same file.
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

// gitOutput runs git in dir. It takes no lock, starts none of the programs that a
// repository can name for hooks, diffs and signatures, asks for no password, fetches
// nothing, and is gone with its children at ctx's end. It says "" where git fails.
func gitOutput(ctx context.Context, dir string, args ...string) string {
	options := []string{
		"--no-pager",
		"-c",
		"core.fsmonitor=false",
		"-c",
		"core.hooksPath=/dev/null",
		"-c",
		"color.ui=false",
		"-c",
		"log.showSignature=false",
		"-c",
		"protocol.allow=never",
	}
	cmd := exec.CommandContext(ctx, "git", append(options, args...)...)
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

// gitHead is the branch and the commit that dir is at; "" for what git does not say in
// that time.
func gitHead(ctx context.Context, dir string, timeout time.Duration) (branch, commit string) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// it fails before the first commit
	output := gitOutput(ctx, dir, "rev-parse", "HEAD", "--abbrev-ref", "HEAD")
	commit, branch, _ = strings.Cut(strings.TrimSpace(output), "\n")
	return branch, commit
}

type gitChanges struct {
	branch   string
	diffStat string   // "5 files changed, 120 insertions(+), 8 deletions(-)"
	files    []string // committed or not
	subjects []string // of the commits, the newest first
}

// gitChangesSince asks git what happened since a commit and its time; what it does not
// answer is left out.
func gitChangesSince(
	ctx context.Context,
	dir, commit string,
	start time.Time,
) (changes gitChanges) {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	changes.branch, _ = gitHead(ctx, dir, gitTimeout)
	if len(commit) < 40 || strings.Trim(commit, "0123456789abcdef") != "" {
		// nor is it an option or a range
		return changes
	}
	changes.subjects = gitOutputList(ctx, dir, "log", "-z", "--format=%s", commit+"..HEAD", "--")
	diff := []string{"diff", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"}
	changes.diffStat = strings.TrimSpace(
		gitOutput(ctx, dir, append(diff, "--shortstat", commit, "--")...),
	)
	changes.files = gitOutputList(ctx, dir, append(diff, "--name-only", "-z", commit, "--")...)
	// A diff knows nothing of files that were never added. What is in .claude is our own
	// and other tools'.
	for _, file := range gitOutputList(ctx, dir, "ls-files", "--others", "--exclude-standard", "-z", "--", ".", ":(exclude).claude") {
		info, err := os.Lstat(filepath.Join(dir, file))
		if err == nil && !info.ModTime().Before(start) {
			changes.files = append(changes.files, file)
		}
	}
	return changes
}

// gitOutputList is what git answers with -z; none where it fails.
func gitOutputList(ctx context.Context, dir string, args ...string) []string {
	return nonEmpty(strings.Split(gitOutput(ctx, dir, args...), "\x00")...)
}
