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

var history = lazy(`(?i)(?:^|[/_-])(?:changelog|history|release[-_]?notes|prds?|sd|adrs?|rfc|solution[-_]designs?|designs?|proposals?|plans?|archive|_archived|retro|retrospectives?|postmortems?|reports?|research|evidence)(?:[/_.-]|$)|\d{4}-?\d{2}-?\d{2}`)

func kindOf(p string) kind {
	if path.Base(p) == "gchat-hooks.json" {
		return ours
	}
	switch path.Ext(p) {
	case ".md", ".mdc", ".markdown":
		if history().MatchString(p) {
			return paper
		}
		return instructions
	case ".py", ".sh", ".json", ".toml", ".yaml", ".yml":
		return program
	}
	return another
}
