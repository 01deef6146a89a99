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

// readNeverRemote reads never_remote, whose patterns may hold commas.
func (c *Config) readNeverRemote(value json.RawMessage) error {
	patterns := []string{}
	err := json.Unmarshal(value, &patterns)
	if c.NeverRemote == nil {
		c.NeverRemote = patterns
	}
	return err
}

// isNeverRemote says whether never_remote names a call: then only the terminal allows it.
// texts are what the call is made with: a file also by the name that links lead to, and a
// folder that is searched with a slash at its end.
//
// A pattern is a tool, or a tool with what it is called with, as in "Bash(git push*)";
// "*" stands for any characters. Tools that do the same are named together. A shell's
// command is named where the pattern fits it from any of its words on, whatever folder
// the program is called in: "cd x && sudo /bin/git push" is a "git push*", and so is what
// only mentions it. In doubt a pattern names more, not less: case does not count, and a
// search may read all that is below its folder.
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
		if host, isHost := strings.CutPrefix(glob, "domain:"); isHost { // as in Claude Code's rules
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

// skillTool asks only for a skill that allows tools itself, and then runs its own
// commands (2.1.197 and 2.1.332). Which these are stands in no call of it, so each
// pattern may name them.
const skillTool = "Skill"

// matchesTool says whether a pattern's tool, in which "*" stands for any characters, may
// be this one, or one that does the same. As in Claude Code's rules, mcp__SERVER names
// all tools of that server.
func matchesTool(name, tool string) bool {
	name = strings.ToLower(name)
	return tool == skillTool ||
		slices.ContainsFunc(state.EquivalentTools(tool), func(tool string) bool {
			tool = strings.ToLower(tool)
			matches, err := path.Match(name, tool)
			return matches || err != nil || strings.HasPrefix(tool, name+"__")
		})
}

// HasNeverRemote says whether never_remote may name any call of a tool.
func (c *Config) HasNeverRemote(tool string) bool {
	return slices.ContainsFunc(c.NeverRemote, func(pattern string) bool {
		name, _, _ := strings.Cut(strings.TrimSpace(pattern), "(")
		return matchesTool(name, tool)
	})
}

// callSpellings are the texts of a call, and what a shell or a browser makes of them.
func callSpellings(tool string, texts []string) []string {
	if state.IsShellTool(tool) {
		for _, command := range texts {
			command = strings.NewReplacer("\\\n", "", "\n", ";").Replace(command)
			command = shellBlankPattern().ReplaceAllString(command, " ")
			// "git" p\ush is git push
			bare := strings.NewReplacer(`"`, "", "'", "", `\`, "").Replace(command)
			texts = append(texts, collapseSpaces(command), collapseSpaces(bare))
		}
	}
	for _, text := range texts {
		texts = append(texts, normalizeHosts(text))
	}
	return texts
}

// shellBlankPattern matches the variable that a shell takes for a blank.
var shellBlankPattern = state.LazyPattern(`\$(?:\{IFS[^}]*\}|IFS\b)`)

func collapseSpaces(text string) string { return strings.Join(strings.Fields(text), " ") }

// globExpression is the regular expression of what a pattern names.
func globExpression(glob string, isShell bool) string {
	start, end := "^", "$"
	if isShell {
		start = "(?:^|[\\s;&|(){}`'\"$=/])"
		end = "\\s*(?:$|[;&|)`'\"]|[0-9]?[<>])"
		glob = programFolderPattern().ReplaceAllString(collapseSpaces(glob), "$1")
	}
	alternatives := regexp.QuoteMeta(glob) + "|" + regexp.QuoteMeta(normalizeHosts(glob))
	if isShell {
		// Between two words of the pattern the call may have options: git -C . push.
		alternatives = anyArgumentsPattern().ReplaceAllString(alternatives, `(?:[\s:]\*)?$1`)
		alternatives = strings.ReplaceAll(alternatives, " ", ` (?:-[^;&|]* )?`)
	}
	return "(?is)" + start + "(?:" + strings.ReplaceAll(alternatives, `\*`, ".*") + ")" + end
}

var (
	// programFolderPattern matches the path that a pattern begins with, and the name that
	// it leads to.
	programFolderPattern = state.LazyPattern(`^[^\s*]*/([^\s*/])`)
	// homeOrRootPattern matches what begins a path from the home folder, or the root, in
	// Claude Code's rules.
	homeOrRootPattern = state.LazyPattern(`^[~/]/`)
	// anyArgumentsPattern matches, in an expression, a pattern's end that Claude Code's
	// rules have for no arguments, too.
	anyArgumentsPattern = state.LazyPattern(`[ :]\\\*(\||$)`)
)

// normalizeHosts writes hosts as they are looked up: percent-decoded, with ASCII full
// stops, in Punycode. It removes a user name and password, the scheme's default port, and
// slashes that a browser ignores. It writes https for http, as WebFetch does.
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

// maxHostLength is more than a host can have, in bytes. To write a word of 200 kB as
// Punycode would take minutes.
const maxHostLength = 1000

// HostAsASCII is a host as it is looked up, in Punycode. What can be no host stays as it
// is.
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

// hostPattern matches what begins an address, and any other word that its spelling may
// hide.
var hostPattern = state.LazyPattern(
	"(?i)\\bhttps?:[/\\\\]*(?:[^\\s/\\\\?#\"']*@)?([^" + hostEndRunes + "]+)(?::(?:80|443)?\\b)?" +
		"|([^" + hostEndRunes + "]*[^\\x00-$&-\\x7f][^" + hostEndRunes + "]*)",
)

// hostEndRunes are the characters that end a host.
const hostEndRunes = "\\s/\\\\?#\"'`@:*()=&|;<>"

// mayContain says whether a text is a folder, and what is below it may be what a pattern
// names. What does not begin at the root may be anywhere.
func mayContain(folder, glob string) bool {
	prefix, _, _ := strings.Cut(strings.ToLower(glob), "*")
	folder = strings.ToLower(folder)
	isBelow := strings.HasPrefix(folder, prefix) || strings.HasPrefix(prefix, folder)
	return strings.HasSuffix(folder, "/") && (isBelow || !strings.HasPrefix(prefix, "/"))
}
