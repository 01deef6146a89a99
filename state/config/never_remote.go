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

// readNever reads never_remote, whose patterns may hold commas.
func (c *Config) readNever(value json.RawMessage) error {
	patterns := []string{}
	err := json.Unmarshal(value, &patterns)
	if c.NeverRemote == nil {
		c.NeverRemote = patterns
	}
	return err
}

// neverRemotely says whether never_remote names a call: then only the terminal allows it.
// texts are what the call is made with: a file also by the name that links lead to, and a
// folder that is searched with a slash at its end.
//
// A pattern is a tool, or a tool with what it is called with, as in "Bash(git push*)"; "*"
// stands for any characters. Tools that do the same are named together. A shell's command
// is named where the pattern fits it from any of its words on, whatever folder the program
// is called in: "cd x && sudo /bin/git push" is a "git push*", and so is what only mentions
// it. In doubt a pattern names more, not less: case does not count, and a search may read
// all that is below its folder.
func (c *Config) neverRemotely(tool string, texts ...string) bool {
	return slices.ContainsFunc(c.NeverRemote, func(pattern string) bool {
		name, glob, called := strings.Cut(strings.TrimSpace(pattern), "(")
		if !namesTool(name, tool) {
			return false
		}
		glob, whole := strings.CutSuffix(glob, ")")
		if !called || !whole || tool == skillTool {
			return true
		}
		if host, isHost := strings.CutPrefix(glob, "domain:"); isHost { // as in Claude Code's rules
			glob = "https://" + host + "*"
		}
		if !state.Shell(tool) {
			glob = anyFolder().ReplaceAllString(glob, "*/")
		}
		fits, err := regexp.Compile(expressionOf(glob, state.Shell(tool)))
		searches := slices.Contains(state.NamedAs(tool), "Read")
		return err != nil || slices.ContainsFunc(spellings(tool, texts), func(text string) bool {
			return fits.MatchString(text) || searches && mayHold(text, glob)
		})
	})
}

// skillTool asks only for a skill that allows tools itself, and then runs its own commands (2.1.197 and 2.1.332). Which these are
// stands in no call of it, so each pattern may name them.
const skillTool = "Skill"

// namesTool says whether a pattern's tool, in which "*" stands for any characters, may be
// this one, or one that does the same. As in Claude Code's rules, mcp__SERVER names all
// tools of that server.
func namesTool(name, tool string) bool {
	name = strings.ToLower(name)
	return tool == skillTool || slices.ContainsFunc(state.NamedAs(tool), func(tool string) bool {
		tool = strings.ToLower(tool)
		fits, err := path.Match(name, tool)
		return fits || err != nil || strings.HasPrefix(tool, name+"__")
	})
}

// NeverNames says whether never_remote may name any call of a tool.
func (c *Config) NeverNames(tool string) bool {
	return slices.ContainsFunc(c.NeverRemote, func(pattern string) bool {
		name, _, _ := strings.Cut(strings.TrimSpace(pattern), "(")
		return namesTool(name, tool)
	})
}

// spellings are the texts of a call, and what a shell or a browser makes of them.
func spellings(tool string, texts []string) []string {
	if state.Shell(tool) {
		for _, command := range texts {
			command = strings.NewReplacer("\\\n", "", "\n", ";").Replace(command)
			command = fieldSeparator().ReplaceAllString(command, " ")
			bare := strings.NewReplacer(`"`, "", "'", "", `\`, "").Replace(command) // "git" p\ush is git push
			texts = append(texts, singleSpaced(command), singleSpaced(bare))
		}
	}
	for _, text := range texts {
		texts = append(texts, resolveHosts(text))
	}
	return texts
}

// fieldSeparator matches the variable that a shell takes for a blank.
var fieldSeparator = state.Pattern(`\$(?:\{IFS[^}]*\}|IFS\b)`)

func singleSpaced(text string) string { return strings.Join(strings.Fields(text), " ") }

// expressionOf is the regular expression of what a pattern names.
func expressionOf(glob string, isShell bool) string {
	begin, end := "^", "$"
	if isShell {
		begin = "(?:^|[\\s;&|(){}`'\"$=/])"
		end = "\\s*(?:$|[;&|)`'\"]|[0-9]?[<>])"
		glob = folderOfProgram().ReplaceAllString(singleSpaced(glob), "$1")
	}
	alternatives := regexp.QuoteMeta(glob) + "|" + regexp.QuoteMeta(resolveHosts(glob))
	if isShell {
		// Between two words of the pattern the call may have options: git -C . push.
		alternatives = anyArguments().ReplaceAllString(alternatives, `(?:[\s:]\*)?$1`)
		alternatives = strings.ReplaceAll(alternatives, " ", ` (?:-[^;&|]* )?`)
	}
	return "(?is)" + begin + "(?:" + strings.ReplaceAll(alternatives, `\*`, ".*") + ")" + end
}

var (
	// folderOfProgram matches the path that a pattern begins with, and the name that it leads to.
	folderOfProgram = state.Pattern(`^[^\s*]*/([^\s*/])`)
	// anyFolder matches what begins a path from the home folder, or the root, in Claude Code's rules.
	anyFolder = state.Pattern(`^[~/]/`)
	// anyArguments matches, in an expression, a pattern's end that Claude Code's rules have for no arguments, too.
	anyArguments = state.Pattern(`[ :]\\\*(\||$)`)
)

// resolveHosts writes hosts as they are looked up: percent-decoded, with ASCII's full stops,
// in Punycode. Of an address go also a name and password, the port that goes without saying,
// and the slashes that a browser forgives. http is https: WebFetch makes it that.
func resolveHosts(text string) string {
	return hosts().ReplaceAllStringFunc(text, func(match string) string {
		parts := hosts().FindStringSubmatch(match)
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

// mostOfHost is more than a host can have, in bytes. To write a word of 200 kB as Punycode
// would take minutes.
const mostOfHost = 1000

// HostAsASCII is a host as it is looked up, in Punycode. What can be no host stays as it is.
func HostAsASCII(host string) string {
	if len(host) > mostOfHost {
		return host
	}
	ascii, err := idna.Lookup.ToASCII(host)
	if err != nil {
		return host
	}
	return ascii
}

// hosts matches what begins an address, and any other word that its spelling may hide.
var hosts = state.Pattern("(?i)\\bhttps?:[/\\\\]*(?:[^\\s/\\\\?#\"']*@)?([^" + betweenHosts + "]+)(?::(?:80|443)?\\b)?" +
	"|([^" + betweenHosts + "]*[^\\x00-$&-\\x7f][^" + betweenHosts + "]*)")

// betweenHosts are the characters that end a host.
const betweenHosts = "\\s/\\\\?#\"'`@:*()=&|;<>"

// mayHold says whether a text is a folder, and what is below it may be what a pattern names.
// What does not begin at the root may be anywhere.
func mayHold(folder, glob string) bool {
	begin, _, _ := strings.Cut(strings.ToLower(glob), "*")
	folder = strings.ToLower(folder)
	isBelow := strings.HasPrefix(folder, begin) || strings.HasPrefix(begin, folder)
	return strings.HasSuffix(folder, "/") && (isBelow || !strings.HasPrefix(begin, "/"))
}
