package migrate

import "strings"

// pyString is a string in Python's source: its place with prefix and quotes, and its value. doc says that it stands alone,
// as a docstring does.
type pyString struct {
	start, end int
	value      string
	doc        bool
}

// python finds the strings and the comments of a Python file. ok is false when a string has no end: then nothing in it is
// where it seems to be.
func python(src string) (strs []pyString, comments []span, ok bool) {
	for i := 0; i < len(src); {
		switch {
		case src[i] == '#':
			end := lineEnd(src, i)
			comments = append(comments, span{start: i, end: end})
			i = end
			continue
		case i == 0 || !wordByte(src[i-1]):
			quote, _, _, from := quoteAt(src, i)
			if quote == "" {
				break
			}
			value, end, err := readString(src, i)
			if err != nil || len(quote) == 1 && strings.Contains(strings.ReplaceAll(src[from:end], "\\\n", ""), "\n") {
				return nil, nil, false
			}
			begin := strings.LastIndexByte(src[:i], '\n') + 1
			doc := strings.TrimSpace(src[begin:i]) == "" && strings.TrimSpace(src[end:lineEnd(src, end)]) == "" && len(quote) == 3
			strs = append(strs, pyString{i, end, value, doc})
			i = end
			continue
		}
		i++
	}
	return strs, comments, true
}

// importsEnd is the place behind a file's first comments (one may name its interpreter), its docstring and its imports,
// where constants are defined.
func importsEnd(src string, strs []pyString) int {
	at := len(src) - len(strings.TrimPrefix(src, "\ufeff"))
	for at < len(src) && src[at] == '#' {
		at = min(lineEnd(src, at)+1, len(src))
	}
	if len(strs) > 0 && strs[0].doc && onlyComments(src[:strs[0].start]) {
		at = min(lineEnd(src, strs[0].end)+1, len(src))
	}
	for i := at; i < len(src); {
		end := min(lineEnd(src, i)+1, len(src))
		words := src[i:end]
		switch {
		case strings.HasPrefix(words, "import ") || strings.HasPrefix(words, "from "):
			if open := strings.IndexByte(words, '('); open >= 0 && !strings.Contains(words, ")") {
				shut := strings.IndexByte(src[i:], ')')
				if shut < 0 {
					return at
				}
				end = min(lineEnd(src, i+shut)+1, len(src))
			}
			for strings.HasSuffix(strings.TrimRight(src[i:end], "\r\n"), "\\") && end < len(src) {
				end = min(lineEnd(src, end)+1, len(src))
			}
			at = end
		case strings.TrimSpace(words) == "" || strings.HasPrefix(words, "#"):
		default:
			return at
		}
		i = end
	}
	return at
}

func onlyComments(src string) bool {
	for line := range strings.Lines(src) {
		if l := strings.TrimSpace(strings.TrimPrefix(line, "\ufeff")); l != "" && !strings.HasPrefix(l, "#") {
			return false
		}
	}
	return true
}
