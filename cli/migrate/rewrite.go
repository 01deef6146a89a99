package migrate

import (
	_ "embed"
	"path"
	"regexp"
	"strings"
)

// rules are what a harness's text is searched for. They are compiled for a migration only: a hook of this program starts without.
type rules struct {
	mention, instruct, history, block, row, call, argument, literal, order *regexp.Regexp

	// for an output style
	name, other, listed, count, heading, item, statement, invoked, sentence, empty *regexp.Regexp
}

func newRules() *rules {
	const (
		escaped = `\\[\\"'nt/]` // what Python, JavaScript and JSON all know
		quoted  = `(?:"""(?:"{0,2}(?:[^"\\]|` + escaped + `))*"""|'''(?:'{0,2}(?:[^'\\]|` + escaped + `))*'''` +
			`|"(?:[^"\\\n]|` + escaped + `)*"|'(?:[^'\\\n]|` + escaped + `)*')`
		argument = `["']?(recipient|to|content|message|summary)["']?\s*[=:]\s*(` + quoted + `(?:\s+` + quoted + `)*)` +
			`|["']?type["']?\s*[=:]\s*["']message["']`
		aRelay = "[`*]*s3-communicator[`*]*(\\s*\\([^()|]*\\))?\\s*"
		name   = `\bs3[-_ ]?communicator\b`
		short  = `\b(?:s3[-_ ]?)?communicator\b` // beside the other agents' names it is no English word
		other  = `\b(?:s3-)?(?:heartbeat|validator)\b`
		inside = `[.!?](?:\S|\s+[a-z])` // a full stop that ends no sentence, as in "e.g. this"
		and    = "[`*]*" + `(?:\s*,\s*(?:and\s+)?|\s*[+/&]\s*|\s+and\s+)` + "[`*]*"
		fence  = "|^[ \t>]*(?:[-*+] |\\d+[.)] )?MARK.*?^[ \t>]*MARK[ \t]*$"
	)
	re, fenced := regexp.MustCompile, func(mark string) string { return strings.ReplaceAll(fence, "MARK", mark) }
	return &rules{
		mention:  re(`(?i)\bs3[-_ ]?communicator\b|\bcommunicator(_checker)?\b|\b(3|three) persistent agents\b`),
		instruct: re(`^\.claude/(agents|commands|output-styles|rules|skills)/.*\.md$|(^|/)(AGENTS|CLAUDE)\.md$`),
		history:  re(`(?i)changelog|archive|\d{4}-\d{2}-\d{2}`),
		block:    re(`(?ms)\A---$.*?^---$` + fenced("````") + fenced("```") + fenced("~~~")),
		row:      re(`(?i)^\s*\|\s*(\d+\s*\|\s*)?([\w ]+\()?` + aRelay + `\)?\s*\|`),
		call:     re(`\bSendMessage\(\s*\{?\s*(?:` + argument + `)(?:\s*,\s*(?:` + argument + `))*\s*,?\s*\}?\s*\)`),
		argument: re(argument),
		literal:  re(quoted),
		// What told the relay to do something: gchat-send cannot do it.
		order: re(`(?i)^\s*(please )?(poll|check|read|fetch|watch|stop|shut ?down|exit|resume|pause|restart|forward|relay)\b`),

		name:      re(`(?i)` + name),
		other:     re(`(?i)` + other),
		listed:    re(`(?i)` + short + and + `(` + other + `)|(` + other + `)` + and + short),
		count:     re(`\b(3|[Tt]hree)( persistent)? agents\b`),
		heading:   re(`^(##+) `), // never a title: all of the text is its section
		item:      re("^\\s*([-*+] |\\d+[.)] |\\||```|~~~)"),
		statement: re(`^\s*(#|//|[\w.]+\(.*\)\s*$)`),
		invoked:   re(`^\s*(?:\w+\s*=\s*)?[\w.]*[({]`),
		sentence:  re(`(?:[^.!?]|` + inside + `)*(?i:` + name + `)(?:[^.!?]|` + inside + `)*[.!?]*`),
		empty:     re("(?m)^[ \t]*```\\w*\n\\s*```[ \t]*\n+"),
	}
}

// rewrite gives a file's new text. It changes what instructs Claude.
func (r *rules) rewrite(p, text string) string {
	if !r.instruct.MatchString(p) || r.history.MatchString(p) || !r.mention.MatchString(text) {
		return text
	}
	text = r.replaceCalls(r.drop(text))
	if path.Dir(p) != ".claude/output-styles" {
		return text
	}
	if text = r.retire(text); !strings.Contains(text, "GCHAT_RESPONSE") {
		text = strings.TrimRight(text, "\n") + "\n\n" + styleText
	}
	return text
}

// prose gives the text's lines, empty where they are in a code block or above a skill's text.
func (r *rules) prose(text string) []string {
	plain := r.block.ReplaceAllStringFunc(text, func(b string) string { return strings.Repeat("\n", strings.Count(b, "\n")) })
	return strings.SplitAfter(plain, "\n")
}

// drop takes the table rows away whose first cell is the relay's name, unless they name another agent.
func (r *rules) drop(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range r.prose(text) {
		if r.row.MatchString(line) && !strings.Contains(strings.ReplaceAll(strings.ToLower(line), relay, ""), "s3-") {
			lines[i] = ""
		}
	}
	return strings.Join(lines, "")
}

// retire takes out of an output style what is about the relay alone: sections, list items, table rows, sentences, and statements
// in code. From a list of agents it takes the name. What names another agent, too, stays for a person to read.
func (r *rules) retire(text string) string {
	if !strings.Contains(strings.ToLower(text), "communicator") {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) { // the sum is that of the list beside it, or of persistent agents
		rest := r.listed.ReplaceAllString(line, "$1$2")
		if rest != line || strings.Contains(line, "persistent agents") {
			rest = r.count.ReplaceAllStringFunc(rest, strings.NewReplacer("3", "2", "three", "two", "Three", "Two").Replace)
		}
		b.WriteString(rest)
	}
	text = b.String()
	b.Reset()
	lines, prose := strings.SplitAfter(text, "\n"), r.prose(text)
	inCode := func(i int) bool { return prose[i] != lines[i] }
	taken, section := false, 0 // the unit before is taken out; the level of the heading whose section is
	for i := 0; i < len(lines); {
		begin := i
		for i++; i < len(lines) && inCode(i) == inCode(begin) && r.goesOn(lines[i-1], lines[i], inCode(i)); i++ {
		}
		unit := strings.Join(lines[begin:i], "")
		about := r.name.MatchString(unit) && !r.other.MatchString(unit)
		if m := r.heading.FindStringSubmatch(unit); m != nil && !inCode(begin) && (section == 0 || len(m[1]) <= section) {
			if section = 0; about {
				section = len(m[1])
			}
		}
		switch {
		case section > 0 || about && !inCode(begin) && strings.HasPrefix(strings.TrimSpace(unit), "|"):
			unit = ""
		case about && inCode(begin):
			unit = r.retireCode(unit)
		case about:
			unit = r.retireSentences(unit)
		case strings.TrimSpace(unit) == "" && taken && strings.HasSuffix(b.String(), "\n\n"):
			continue
		}
		taken = unit == ""
		b.WriteString(unit)
	}
	return r.empty.ReplaceAllString(b.String(), "")
}

// goesOn says whether a line belongs to the same paragraph, list item or statement as the line before it.
func (r *rules) goesOn(before, line string, inCode bool) bool {
	if strings.TrimSpace(line) == "" || strings.TrimSpace(before) == "" || r.item.MatchString(line) {
		return false
	}
	if inCode {
		return strings.ContainsAny(line[:1], " \t)}]") && !strings.HasPrefix(strings.TrimSpace(before), "```")
	}
	return !r.heading.MatchString(before) && !r.heading.MatchString(line)
}

// retireSentences takes the sentences about the relay out of a paragraph or a list item, and all of it where no other is in it.
func (r *rules) retireSentences(unit string) string {
	left := r.sentence.ReplaceAllString(unit, "")
	if strings.Trim(left, " \t\n-*+>.)0123456789`") == "" {
		return ""
	}
	return strings.TrimLeft(left, " \n")
}

// retireCode takes the lines about the relay out of a statement, or the whole statement where that is a call with such a line.
// What it does not know stays.
func (r *rules) retireCode(unit string) string {
	var left strings.Builder
	for line := range strings.Lines(unit) {
		switch about := r.name.MatchString(line); {
		case about && !r.statement.MatchString(line):
			count := func(s string) int { return strings.Count(unit, s) }
			ends := count("(") == count(")") && count("{") == count("}") && count(`"""`)%2 == 0 // what it begins
			if r.invoked.MatchString(unit) && ends {
				return ""
			}
			return unit
		case !about:
			left.WriteString(line)
		}
	}
	return left.String()
}

// replaceCalls turns messages to the relay into calls of gchat-send, where it is sure of the message and of its place.
func (r *rules) replaceCalls(text string) string {
	var b strings.Builder
	at, prose := 0, r.prose(text)
	for _, m := range r.call.FindAllStringIndex(text, -1) {
		before := text[strings.LastIndex(text[:m[0]], "\n")+1 : m[0]]
		inCode := prose[strings.Count(text[:m[0]], "\n")] == "\n"
		if words := r.sendCall(text[m[0]:m[1]]); words != "" && fits(words, before, inCode) {
			b.WriteString(text[at:m[0]] + words)
			at = m[1]
		}
	}
	return b.String() + text[at:]
}

// fits says whether words can stand behind what is before them on their line: no string, code span or table may end early.
func fits(words, before string, inCode bool) bool {
	if inCode {
		return strings.Trim(before, " \t#") == "" && !strings.Contains(words, `"""`) && !strings.Contains(words, "'''")
	}
	inSpan, inTable := strings.Count(before, "`")%2 == 1, strings.Contains(before, "|")
	return !(inSpan && strings.Contains(words, "`") || inTable && strings.Contains(words, "|"))
}

// sendCall gives the call of gchat-send for one of SendMessage; "" where that is no plain message to the relay.
func (r *rules) sendCall(call string) string {
	args := map[string]string{}
	for _, m := range r.argument.FindAllStringSubmatch(call, -1) {
		for _, s := range r.literal.FindAllString(m[2], -1) {
			quotes := 1
			if strings.HasPrefix(s, `"""`) || strings.HasPrefix(s, "'''") {
				quotes = 3
			}
			unescape := strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\'`, `'`, `\n`, "\n", `\t`, "\t", `\/`, "/")
			args[m[1]] += unescape.Replace(s[quotes : len(s)-quotes])
		}
	}
	to, content := args["recipient"]+args["to"], args["content"]+args["message"]
	if to != relay || content == "" || r.order.MatchString(content) || strings.HasPrefix(content, "-") { // "-…" would be a flag
		return ""
	}
	command := "gchat-send --type plain '" + strings.ReplaceAll(content, "'", `'\''`) + "'"
	return `Bash("` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(command) + `")`
}

// checkerText is put beside the stop gate's checker that looks for the relay. A person has to let the gate call it.
//
//go:embed checker.py
var checkerText string

// styleText tells the orchestrator ahead of time what a denied question's own reason says: no agent has to poll.
//
//go:embed style.md
var styleText string
