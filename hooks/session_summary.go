package hooks

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gchat-hooks/state"
)

// Summary tells what a session did that stopped or ended, and counts its turns. The poller calls it, since a SessionEnd hook has
// no time for git and the transcript. What is not known is left out, also of a transcript that cannot be read. The only error
// is ctx's.
func Summary(ctx context.Context, env state.Getenv, s *state.Session) (state.Report, int, error) {
	end := s.OwesSummary
	since := s.StartedAt
	if s.Source == "" || since.After(end) { // no hook saw the start, or the session began anew meanwhile
		since = time.Time{}
	}
	did := tallyOf(ctx, s.TranscriptPath, since)
	if did.prompted && s.EndedAt.IsZero() { // the session stopped, so it answered: the transcript lags
		did.turns++
	}
	git, inGit := changesSince(ctx, cmp.Or(s.CWD, s.ProjectDir), s.Commit, s.StartedAt)
	if err := ctx.Err(); err != nil {
		return state.Report{}, 0, err
	}
	branch := cmp.Or(git.branch, s.Branch)
	if branch == "HEAD" {
		branch = "(detached)"
	}
	files := git.files
	if !inGit || s.Commit == "" {
		files = did.files
	}
	reason := s.Reason
	if reason == "other" {
		reason = ""
	}
	tools := byCount(did.tools, 8, func(tool string, n int) string { return fmt.Sprintf("%s %d", plain(flat(tool, 100)), n) })
	text := textLines(
		"Duration", duration(end.Sub(since), !since.IsZero()),
		"Turns", number(did.turns),
		"Tools", tools,
		"Branch", strings.Join(nonEmpty(plain(flat(branch, 100)), counted(len(git.subjects), "commit"), git.stat), ", "),
		"Files", fileList(files, s.ProjectDir),
		"Commits", subjectLines(git.subjects[:min(5, len(git.subjects))]),
		"Promises", promises(s.ProjectDir),
		"Formatting", formatting(env, s, since),
		"Reason", plain(flat(reason, 100)))
	last := shorten(cmp.Or(s.LastWords, did.last.Text), shownBytes, shownLines)
	if strings.Contains(last, "\n") {
		text += "\n\nLast words:\n" + last // a line of dashes in them makes no heading of ours
	} else {
		text += textLines("\nLast words", last)
	}
	report := state.Report{Type: state.SessionEnded, Session: s.Name, At: end.Local(), Text: strings.TrimLeft(text, "\n")}
	return report, did.turns, nil
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
	h, m := int(d.Hours()), int(d.Minutes())%60
	switch {
	case !known || d < 0:
		return ""
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case h == 0:
		return fmt.Sprintf("%d min", m)
	case m == 0:
		return fmt.Sprintf("%d h", h)
	}
	return fmt.Sprintf("%d h %d min", h, m)
}

// number is a count, "" for none.
func number(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// counted is a count of things, "" for none.
func counted(n int, what string) string {
	switch {
	case n <= 0:
		return ""
	case n == 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// formatting is how many of the session's questions a model was paid for to reword, and what that cost. Questions are kept for
// a day, so of a longer session it says no more than that.
func formatting(env state.Getenv, s *state.Session, since time.Time) string {
	n, usd := 0, 0.0
	projects, _ := state.Projects(env)
	for _, p := range projects {
		if p.Dir != s.ProjectDir {
			continue
		}
		for _, folder := range []state.Questions{state.QuestionsIn(p.State), state.MarkersIn(p.State)} {
			qs, _, _ := folder.OfSession(s.ID)
			for _, q := range qs {
				if q.FormatUSD > 0 && !q.AskedAt.Before(since) {
					n++
					usd += q.FormatUSD
				}
			}
		}
	}
	if n == 0 {
		return ""
	}
	text := fmt.Sprintf("%s, $%.4f", counted(n, "question"), usd)
	if time.Since(s.StartedAt) > state.MaxAge {
		text += " in the last day"
	}
	return text
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

const (
	maxPromises    = 1000
	maxPromiseFile = 1 << 20 // bytes
)

// promises counts a project's completion promises, the files .claude/completion-state/promises/*.json, by their status:
// "2 verified, 1 pending". It is "" where there are none.
func promises(projectDir string) string {
	dir := filepath.Join(projectDir, ".claude", "completion-state", "promises")
	counts := map[string]int{}
	files, _ := os.ReadDir(dir)
	for _, f := range files[:min(maxPromises, len(files))] {
		name := f.Name()
		if !strings.HasSuffix(name, ".json") || strings.HasPrefix(name, ".") {
			continue
		}
		var p struct {
			Status string `json:"status"`
		}
		b, err := state.ReadPlain(filepath.Join(dir, name), maxPromiseFile)
		if err != nil || json.Unmarshal(b, &p) != nil || strings.TrimSpace(p.Status) == "" {
			p.Status = "unreadable"
		}
		counts[plain(flat(p.Status, 40))]++
	}
	return byCount(counts, 6, func(status string, n int) string { return fmt.Sprintf("%d %s", n, status) })
}

const (
	tallyBound   = 10 * time.Second // for all of a session's transcripts, which is some gigabytes; what takes longer is not told
	maxLine      = 64 << 20         // bytes; a transcript is read up to a longer one
	maxSubagents = 1000
)

// tally is what a session did, by its transcripts.
type tally struct {
	turns int // prompts of the person that Claude answered
	tools map[string]int
	files []string // edited, in the order of their first edit
	last  Said     // of the main transcript

	since    time.Time
	prompted bool            // by a prompt that has no answer yet
	seen     map[string]bool // calls, prompts and files: a resumed session's transcript can hold one twice
}

// tallyOf reads the transcripts of a session and its subagents from since on: a resumed session goes on in the same file.
func tallyOf(ctx context.Context, transcript string, since time.Time) *tally {
	ctx, cancel := context.WithTimeout(ctx, tallyBound)
	defer cancel()
	t := &tally{tools: map[string]int{}, since: since, seen: map[string]bool{}}
	t.read(ctx, transcript, true)
	subagents := filepath.Join(strings.TrimSuffix(transcript, ".jsonl"), "subagents")
	files, _ := os.ReadDir(subagents)
	for _, f := range files[:min(maxSubagents, len(files))] {
		t.read(ctx, filepath.Join(subagents, f.Name()), false)
	}
	if ctx.Err() != nil {
		return &tally{}
	}
	return t
}

// read counts what stands in a transcript; main is false for a subagent's.
func (t *tally) read(ctx context.Context, path string, main bool) {
	f, _, err := openTranscript(path)
	if err != nil {
		return
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for ctx.Err() == nil && lines.Scan() {
		t.add(lines.Bytes(), main)
	}
}

func (t *tally) add(line []byte, main bool) {
	if !bytes.Contains(line, []byte(`"assistant"`)) && !(main && mayPrompt(line)) { // most bytes need no parser
		return
	}
	e, blocks, ok := readEntry(line)
	if at, err := time.Parse(time.RFC3339, string(e.Timestamp)); !ok || err == nil && at.Before(t.since) {
		return
	}
	main = main && !e.IsSidechain
	if _, prompt := promptOf(line, e, blocks); prompt && main && t.first("prompt "+string(e.UUID), e.UUID == "") {
		t.prompted = true
	}
	if e.Type != "assistant" {
		return
	}
	if main && t.prompted {
		t.turns++
		t.prompted = false
	}
	if main {
		t.last.add(e, blocks)
	}
	for _, b := range blocks {
		if b.Type == "tool_use" && b.Name != "" && t.first("call "+b.ID, b.ID == "") {
			t.tools[b.Name]++
			t.edited(b)
		}
	}
}

// first says whether this is new; what has no name is always.
func (t *tally) first(name string, unnamed bool) bool {
	if unnamed {
		return true
	}
	known := t.seen[name]
	t.seen[name] = true
	return !known
}

func (t *tally) edited(b block) {
	if b.Name != "Edit" && b.Name != "MultiEdit" && b.Name != "Write" && b.Name != "NotebookEdit" {
		return
	}
	path := (toolCall{Name: b.Name, Input: b.Input}).what()
	if path != "" && !strings.HasPrefix(path, "{") && t.first("file "+path, false) {
		t.files = append(t.files, path)
	}
}
