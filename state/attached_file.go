package state

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
)

// AttachedFile is a file or a picture that came with a message. Only an approved sender's
// files are fetched.
type AttachedFile struct {
	// the sender's name for it, as CleanFileName returns it; no path is made of it
	Name string `json:"name,omitempty"`
	// Chat's name of the content; "" where Chat does not hold it
	Resource string `json:"resource,omitempty"`
	Path     string `json:"path,omitempty"` // where the content is; "" before it was fetched
	Type     string `json:"type,omitempty"` // the content type, by the content itself
	// why it was not fetched, for a person; "" while that is not certain
	Problem string `json:"problem,omitempty"`
}

// IsDecided reports whether the file was fetched, or will not be.
func (f AttachedFile) IsDecided() bool { return f.Path != "" || f.Problem != "" }

// FileLines returns the lines that tell Claude where the fetched files are; "" for none.
func FileLines(files []AttachedFile) string {
	var lines []string
	for _, f := range files {
		if f.Path != "" {
			line := fmt.Sprintf("Attached file: %s (%s, %s)", f.Path, f.Type, f.Name)
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// WithFileLines returns a text with the lines of the fetched files below it.
func WithFileLines(text string, files []AttachedFile) string {
	return strings.TrimSpace(text + "\n" + FileLines(files))
}

// FileProblems says for a person which files were not fetched, and why; "" if all were.
func FileProblems(files []AttachedFile) string {
	var problems []string
	for _, f := range files {
		if f.Path == "" {
			problem := f.Problem
			if problem == "" {
				problem = "it was not fetched"
			}
			problems = append(problems, f.Name+" ("+problem+")")
		}
	}
	return strings.Join(problems, ", ")
}

// maxNameRunes is how many characters of a file's name Claude is told.
const maxNameRunes = 80

// CleanFileName returns what Claude and the thread are told of the name that a sender
// gave a file: one line of letters, digits and a few signs. Nothing else is in it, since
// an "@" would have Claude Code read a file, and a bracket could end a line of ours.
func CleanFileName(name string) string {
	name = Clean(ForAgent, strings.ToValidUTF8(name, "_"))
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		isSafe := unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" ._-+", r)
		if !isSafe {
			return '_'
		}
		return r
	}, name)
	name = strings.Join(strings.Fields(name), " ")
	if runes := []rune(name); len(runes) > maxNameRunes {
		extension := []rune(filepath.Ext(name))
		if len(extension) > 8 {
			extension = nil
		}
		name = string(runes[:maxNameRunes-len(extension)]) + string(extension)
	}
	if strings.Trim(name, "._- ") == "" {
		return "unnamed"
	}
	return name
}
