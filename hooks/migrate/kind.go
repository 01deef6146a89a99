package migrate

import "path"

// kind is what the rules take a file for, by its name.
type kind int

const (
	another kind = iota
	ours
	paper // tells what was, or was planned: it stays as it is
	instructions
	program // or settings
)

var (
	history = lazy(`(?i)(?:^|[/_-])(?:changelog|history|release[-_]?notes|prds?|sd|adrs?|rfc|solution[-_]designs?|designs?|proposals?|plans?|archive|_archived|retro|retrospectives?|postmortems?|reports?|research|evidence)(?:[/_.-]|$)|\d{4}-?\d{2}-?\d{2}`)
	// live are the folders whose papers Claude Code reads as instructions, whatever their names say; putAway are those that
	// are papers of their time there too.
	live    = lazy(`^\.claude/(?:commands|skills|agents|output-styles)/`)
	putAway = lazy(`CHANGELOG|archive|\d{4}-?\d{2}-?\d{2}`)
)

func kindOf(p string) kind {
	if path.Base(p) == "gchat-hooks.json" {
		return ours
	}
	switch path.Ext(p) {
	case ".md", ".mdc", ".markdown":
		if history().MatchString(p) && (!live().MatchString(p) || putAway().MatchString(p)) {
			return paper
		}
		return instructions
	case ".py", ".sh", ".json", ".toml", ".yaml", ".yml":
		return program
	}
	return another
}
