package hooks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"gchat-hooks/state"
)

// mostShown bounds what is kept of a command, a diff or a plan, in bytes.
const mostShown = 200 << 10

// permissionShown is what a person has to see before they allow a call: about says what it is for in one line, shown is the
// command, the diff, or the input. Nothing in it is invisible, and secrets are masked.
func permissionShown(tool string, input json.RawMessage, cwd string) (about, shown string) {
	var in struct {
		Command     Words `json:"command"`
		Description Words `json:"description"`
		File        Words `json:"file_path"`
		Notebook    Words `json:"notebook_path"`
		Old         Words `json:"old_string"`
		New         Words `json:"new_string"`
		URL         Words `json:"url"`
		Content     Words `json:"content"`
	}
	_ = json.Unmarshal(input, &in)
	about = cmp.Or(string(in.Description), near(string(cmp.Or(in.File, in.Notebook)), cwd), string(in.URL))
	switch {
	case tool == "Bash" && in.Command != "":
		shown = string(in.Command)
	case tool == "Edit":
		shown = diffOf(string(in.Old), string(in.New))
	case tool == "Write":
		was, err := state.ReadPlain(string(in.File), 1<<20)
		if err != nil || !utf8.Valid(was) || !filepath.IsAbs(string(in.File)) {
			was = nil // all of it is shown as new
		}
		shown = diffOf(string(was), string(in.Content))
	default:
		var members bytes.Buffer // a line for each
		if shown = string(input); json.Indent(&members, input, "", "  ") == nil {
			shown = members.String()
		}
	}
	return oneLine(visible(about)), visible(strings.TrimRight(shown, "\n"))
}

// visible is text without secrets in which all is seen, of a length that is kept.
func visible(text string) string { return shorter(seen(state.ForReview, state.MaskSecrets(text))) }

// near is a path as its reader knows it: from the working folder, where it is below that.
func near(path, cwd string) string {
	if rel, err := filepath.Rel(cwd, path); err == nil && filepath.IsAbs(cwd) && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// diffOf shows what becomes of a text: "-" and "+" begin the lines that go and come, a blank those around them.
func diffOf(was, is string) string {
	lines := strings.Split(string(diff.Diff("", []byte(was), "", []byte(is))), "\n")
	lines = lines[min(len(lines), 4):] // the names, and where the first change is
	for i, l := range lines {
		if strings.HasPrefix(l, "@@ ") {
			lines[i] = "⋯"
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"), "\n\\ No newline at end of file", "")
}

// shorter keeps the beginning and the end of what is too long.
func shorter(s string) string {
	if len(s) <= mostShown {
		return s
	}
	const half = mostShown / 2
	return strings.ToValidUTF8(fmt.Sprintf("%s\n‹%d bytes are not shown›\n%s", s[:half], len(s)-2*half, s[len(s)-half:]), "")
}

var (
	manyBreaks = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\n(?:[\t\pZ]*\n){4,}`) })
	manyBlanks = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[\t\pZ]{40,}`) })
)

// seen is a text as its place takes it, with the runs of blanks counted that push the end of a command out of sight.
func seen(place state.Place, s string) string {
	s = manyBreaks().ReplaceAllStringFunc(state.Clean(place, s), func(run string) string {
		return fmt.Sprintf("\n‹%d blank lines›\n", strings.Count(run, "\n")-1)
	})
	return manyBlanks().ReplaceAllStringFunc(s, func(run string) string {
		return fmt.Sprintf(" ‹%d blanks› ", utf8.RuneCountInString(run))
	})
}

// alwaysAllows says in words what Claude Code would allow from now on; "" where that is nothing, or of a kind that this version
// does not know: a person cannot agree to what they cannot read.
func alwaysAllows(suggestions json.RawMessage) string {
	var all []struct {
		Type        string   `json:"type"`
		Behavior    string   `json:"behavior"`
		Mode        string   `json:"mode"`
		Destination string   `json:"destination"`
		Directories []string `json:"directories"`
		Rules       []struct {
			Tool    string `json:"toolName"`
			Content string `json:"ruleContent"`
		} `json:"rules"`
	}
	if json.Unmarshal(suggestions, &all) != nil {
		return ""
	}
	places := map[string]string{
		"session": "in this session", "localSettings": "in this project (.claude/settings.local.json)",
		"projectSettings": "in this project, for all who have it (.claude/settings.json)", "userSettings": "in all projects",
	}
	var words []string
	for _, s := range all {
		var what []string
		switch {
		case s.Type == "addRules" && s.Behavior == "allow":
			for _, rule := range s.Rules {
				if rule.Tool == "" {
					return ""
				}
				if rule.Content != "" {
					rule.Tool += "(" + rule.Content + ")"
				}
				what = append(what, rule.Tool)
			}
		case s.Type == "addDirectories" && s.Behavior == "":
			for _, dir := range s.Directories {
				if dir == "" {
					return ""
				}
				what = append(what, "access to "+dir)
			}
		case s.Type == "setMode" && s.Mode == "acceptEdits" && s.Behavior == "":
			what = append(what, "edits without asking")
		}
		if len(what) == 0 || places[s.Destination] == "" {
			return ""
		}
		words = append(words, strings.Join(what, ", ")+" "+places[s.Destination])
	}
	return oneLine(visible(strings.Join(words, "; ")))
}

// planShown is the text of a plan: 2.1.197 has it in the call's input, 2.1.329 in a file that the transcript names.
func planShown(input json.RawMessage, transcript string) string {
	var in struct {
		Plan Words `json:"plan"`
	}
	_ = json.Unmarshal(input, &in)
	plan := string(in.Plan)
	if plan == "" {
		if file := planFile(transcript); strings.HasSuffix(file, ".md") && filepath.IsAbs(file) {
			if b, err := state.ReadPlain(file, 1<<20); err == nil {
				plan = string(b)
			}
		}
	}
	return shorter(seen(state.ForPlan, state.MaskSecrets(strings.TrimSpace(plan))))
}

// planFile is the file of the session's plan, which an attachment in the transcript names when plan mode begins.
func planFile(transcript string) (path string) {
	end, _, _ := transcriptEnd(transcript, endBytes)
	for line := range bytes.Lines(end) {
		if !bytes.Contains(line, []byte(`"planFilePath"`)) {
			continue
		}
		var e struct {
			Attachment struct {
				Type string `json:"type"`
				File Words  `json:"planFilePath"`
			} `json:"attachment"`
		}
		if json.Unmarshal(line, &e) == nil && strings.HasPrefix(e.Attachment.Type, "plan_mode") && e.Attachment.File != "" {
			path = string(e.Attachment.File)
		}
	}
	return path
}
