package migrate

import (
	"regexp"
	"slices"
	"strings"
)

var (
	// relayName is the relay however it is spelled.
	relayName = lazy(`(?i)s3[-_ ]?communicator`)
	// anyMention is the relay's name, or the short one that tables and lists of agents have. What has moved already is none.
	anyMention = lazy(`(?i)(?:_archived/)?\bs3[-_ ]?communicator\b|\bcommunicator(?:_checker)?\b`)
	// agentName is any agent of the team by its full name.
	agentName = lazy(`(?i)\bs3-[a-z]+(?:-[a-z]+)*`)
	// subjectLabel is a label before what an item is about: "**Sibling**: ".
	subjectLabel = lazy(`^[\w /-]{1,30}:\s+`)
	// subjectVerb is what an instruction about one agent begins with. "Never" and the like are not among them.
	subjectVerb = lazy(`(?i)^(?:re-?)?(?:spawn|launch|start|create|check|verify|ensure|confirm|shut down|stop|wait for|ping|add|register|the|that|a|an|for|if|whether|agent|teammate|persistent|first|then)\b:?\s*`)
	// longerName goes on with another's name, or with a path.
	longerName = lazy(`^[-_/.]\S`)
	// gloss is a short remark behind the name, and goesOn what leads from the relay to something else. aboutIt is a clause
	// that leads back.
	gloss   = lazy(`^\s*(?:[(:.!?–—-].{0,60})?$`)
	goesOn  = lazy(`(?i)[,;.!?&+/]\s+\S|\b(?:and|or|then|but|while)\b`)
	aboutIt = lazy(`(?i)[,;.!?]\s+(?:(?:re-?)?(?:spawn|start|launch|create)\s+)?it\b`)
	// settled is what somebody wrote who knew already that the relay goes.
	settled = lazy(`(?i)gchat-send|deprecated|replaced|archived|no longer|removed|obsolete|do not|don't|never`)
)

// otherAgents says whether s names an agent of the team that is not the relay.
func otherAgents(s string) bool {
	return slices.ContainsFunc(agentName().FindAllString(s, -1), func(name string) bool {
		name = strings.ToLower(name)
		return !strings.HasPrefix(name, relay) && name != "s3-live"
	})
}

// aboutRelay says whether a heading or a cell has the relay for its subject and nothing else: "3. **Spawn `s3-communicator`**
// (GChat)", not "Tell the user why s3-communicator is silent", and not "s3-communicator and deployment rules".
func aboutRelay(s string) bool {
	rest, ok := behindRelay(s)
	return ok && gloss().MatchString(rest) && !goesOn().MatchString(rest)
}

// itemAboutRelay says so of an item, which is a sentence: "Verify that `s3-communicator` is running; respawn it if not."
func itemAboutRelay(s string) bool {
	rest, ok := behindRelay(s)
	return ok && len(rest) <= 160 && !goesOn().MatchString(aboutIt().ReplaceAllString(rest, ""))
}

// behindRelay gives what stands behind the relay's name where s begins with it, or with what is to be done with it.
func behindRelay(s string) (rest string, ok bool) {
	if settled().MatchString(s) {
		return "", false
	}
	s = strings.NewReplacer("`", "", "*", "", "__", "", `"`, "").Replace(s)
	s = strings.TrimSpace(leadingNumber().ReplaceAllString(strings.TrimSpace(s), ""))
	for range 8 {
		if at := relayName().FindStringIndex(s); at != nil && at[0] == 0 {
			return s[at[1]:], !longerName().MatchString(s[at[1]:])
		}
		switch {
		case subjectVerb().MatchString(s):
			s = subjectVerb().ReplaceAllString(s, "")
		case subjectLabel().MatchString(s):
			s = subjectLabel().ReplaceAllString(s, "")
		default:
			return "", false
		}
	}
	return "", false
}

var leadingNumber = lazy(`^(?i)(?:step\s+|agent\s+|phase\s+)?\d+(?:\.\d+)*\s*[.:)–—-]\s*`)

// names says whether s has the relay's full name.
func names(s string) bool { return relayName().MatchString(s) }

// mentions gives the places of all mentions that are not of the archived skill.
func mentions(src string) [][]int {
	return slices.DeleteFunc(anyMention().FindAllStringIndex(src, -1), func(at []int) bool {
		name := strings.ToLower(src[at[0]:at[1]])
		return strings.HasPrefix(name, "_archived/") || name == oldModule // a module may keep its name
	})
}

// numbered is a line's number in an order: of a list, a heading or a table's first column.
func numbered(re *regexp.Regexp, s string) (at []int, ok bool) {
	m := re.FindStringSubmatchIndex(s)
	if m == nil || m[2] < 0 {
		return nil, false
	}
	return m[2:4], true
}
