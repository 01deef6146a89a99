package config

import (
	"encoding/json"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/idna"

	"gchat-hooks/state"
)

// readNeverRemote reads never_remote. It is read as a list, not as a text that commas
// separate: a pattern may contain commas.
func (c *Config) readNeverRemote(value json.RawMessage) error {
	patterns := []string{}
	err := json.Unmarshal(value, &patterns)
	if c.NeverRemote == nil {
		c.NeverRemote = patterns
	}
	return err
}

// isNeverRemote reports whether never_remote matches a call. Then only the terminal can
// allow it. texts are the call's arguments. A file is among them twice if its path has
// links, once with the links resolved; a folder that is searched ends in a slash.
//
// A pattern is a tool, or a tool with its argument, as in "Bash(git push*)"; "*" stands
// for any characters. A pattern for one tool also matches tools that do the same. A
// pattern for a shell command matches from any word of the command on, whatever folder
// the program is in: "cd x && sudo /bin/git push" matches "git push*", and so does a
// command that only mentions it. In doubt a pattern matches: case does not count, and a
// search may read everything below its folder.
func (c *Config) isNeverRemote(tool string, texts ...string) bool {
	return slices.ContainsFunc(c.NeverRemote, func(pattern string) bool {
		name, glob, hasArguments := strings.Cut(strings.TrimSpace(pattern), "(")
		if !matchesTool(name, tool) {
			return false
		}
		glob, isClosed := strings.CutSuffix(glob, ")")
		if !hasArguments || !isClosed || tool == skillTool {
			return true
		}
		// WebFetch(domain:HOST) is a form of Claude Code's rules.
		if host, isHost := strings.CutPrefix(glob, "domain:"); isHost {
			glob = "https://" + host + "*"
		}
		if !state.IsShellTool(tool) {
			glob = homeOrRootPattern().ReplaceAllString(glob, "*/")
		}
		expression, err := regexp.Compile(globExpression(glob, state.IsShellTool(tool)))
		readsFiles := slices.Contains(state.EquivalentTools(tool), "Read")
		return err != nil ||
			slices.ContainsFunc(callSpellings(tool, texts), func(text string) bool {
				return expression.MatchString(text) || readsFiles && mayContain(text, glob)
			})
	})
}

// skillTool needs a permission only for a skill that pre-approves tools. Such a skill
// then runs its own commands (Claude Code 2.1.197 and 2.1.332). The call does not contain
// them, so every pattern matches it.
const skillTool = "Skill"

// matchesTool reports whether a pattern's tool matches this tool, or one that does the
// same; "*" stands for any characters. As in Claude Code's rules, mcp__SERVER matches all
// tools of that server.
func matchesTool(name, tool string) bool {
	name = strings.ToLower(name)
	return tool == skillTool ||
		slices.ContainsFunc(state.EquivalentTools(tool), func(equivalent string) bool {
			equivalent = strings.ToLower(equivalent)
			matches, err := path.Match(name, equivalent)
			return matches || err != nil || strings.HasPrefix(equivalent, name+"__")
		})
}

// HasNeverRemote reports whether never_remote may match any call of a tool.
func (c *Config) HasNeverRemote(tool string) bool {
	return slices.ContainsFunc(c.NeverRemote, func(pattern string) bool {
		name, _, _ := strings.Cut(strings.TrimSpace(pattern), "(")
		return matchesTool(name, tool)
	})
}

// callSpellings returns the texts of a call, and the forms in which a shell or a browser
// would read them.
func callSpellings(tool string, texts []string) []string {
	if state.IsShellTool(tool) {
		for _, command := range texts {
			command = strings.NewReplacer("\\\n", "", "\n", ";").Replace(command)
			command = shellBlankPattern().ReplaceAllString(command, " ")
			// a shell reads "git" p\ush as git push
			unquoted := strings.NewReplacer(`"`, "", "'", "", `\`, "").Replace(command)
			texts = append(texts, collapseSpaces(command), collapseSpaces(unquoted))
		}
	}
	for _, text := range texts {
		texts = append(texts, normalizeHosts(text))
	}
	return texts
}

// shellBlankPattern matches the variable IFS, which a shell expands to a blank.
var shellBlankPattern = state.LazyPattern(`\$(?:\{IFS[^}]*\}|IFS\b)`)

func collapseSpaces(text string) string { return strings.Join(strings.Fields(text), " ") }

// globExpression returns the regular expression for a pattern.
func globExpression(glob string, isShell bool) string {
	start, end := "^", "$"
	if isShell {
		start = "(?:^|[\\s;&|(){}`'\"$=/])"
		end = "\\s*(?:$|[;&|)`'\"]|[0-9]?[<>])"
		glob = programFolderPattern().ReplaceAllString(collapseSpaces(glob), "$1")
	}
	alternatives := regexp.QuoteMeta(glob) + "|" + regexp.QuoteMeta(normalizeHosts(glob))
	if isShell {
		// The call may have options between two words of the pattern: git -C . push.
		alternatives = anyArgumentsPattern().ReplaceAllString(alternatives, `(?:[\s:]\*)?$1`)
		alternatives = strings.ReplaceAll(alternatives, " ", ` (?:-[^;&|]* )?`)
	}
	return "(?is)" + start + "(?:" + strings.ReplaceAll(alternatives, `\*`, ".*") + ")" + end
}

var (
	// programFolderPattern matches the folder of the program with which a pattern begins,
	// and the first letter of the program's name.
	programFolderPattern = state.LazyPattern(`^[^\s*]*/([^\s*/])`)
	// homeOrRootPattern matches the "~/" or "//" that begins a path from the home folder
	// or the root in Claude Code's rules.
	homeOrRootPattern = state.LazyPattern(`^[~/]/`)
	// anyArgumentsPattern matches, in an expression, the " *" or ":*" at a pattern's end.
	// In Claude Code's rules that end also matches a command without arguments.
	anyArgumentsPattern = state.LazyPattern(`[ :]\\\*(\||$)`)
)

// normalizeHosts writes the hosts in a text in the form in which they are looked up:
// percent-decoded, with ASCII full stops, in Punycode. It removes a user name and
// password, the scheme's default port, and slashes that a browser ignores. It replaces
// http by https, as WebFetch does.
func normalizeHosts(text string) string {
	return hostPattern().ReplaceAllStringFunc(text, func(match string) string {
		parts := hostPattern().FindStringSubmatch(match)
		word, scheme := parts[2], ""
		if parts[1] != "" {
			word, scheme = strings.TrimRight(parts[1], ".。"), "https://"
		}
		if host, err := url.PathUnescape(word); err == nil && !strings.Contains(host, "*") {
			word = host
		}
		return scheme + HostAsASCII(word)
	})
}

// maxHostLength is the length in bytes up to which a word may be a host; it is more than
// any host has. The conversion of a word of 200 kB to Punycode would take minutes.
const maxHostLength = 1000

// HostAsASCII returns a host in Punycode, as it is looked up. It returns a text that
// cannot be a host as it is.
func HostAsASCII(host string) string {
	if len(host) > maxHostLength {
		return host
	}
	ascii, err := idna.Lookup.ToASCII(host)
	if err != nil {
		return host
	}
	return ascii
}

// hostPattern matches the beginning of a URL up to its host, which is group 1. It also
// matches any other word with a "%" or a character that is not ASCII, as group 2: it may
// be a host in another spelling.
var hostPattern = state.LazyPattern(
	"(?i)\\bhttps?:[/\\\\]*(?:[^\\s/\\\\?#\"']*@)?([^" + hostEndRunes + "]+)(?::(?:80|443)?\\b)?" +
		"|([^" + hostEndRunes + "]*[^\\x00-$&-\\x7f][^" + hostEndRunes + "]*)",
)

// hostEndRunes are the characters that end a host, for use in a character class.
const hostEndRunes = "\\s/\\\\?#\"'`@:*()=&|;<>"

// mayContain reports whether a text is a folder, with a slash at its end, and a file
// below it may match the pattern. A pattern that does not begin at the root may match
// anywhere.
func mayContain(folder, glob string) bool {
	prefix, _, _ := strings.Cut(strings.ToLower(glob), "*")
	folder = strings.ToLower(folder)
	isBelow := strings.HasPrefix(folder, prefix) || strings.HasPrefix(prefix, folder)
	return strings.HasSuffix(folder, "/") && (isBelow || !strings.HasPrefix(prefix, "/"))
}
