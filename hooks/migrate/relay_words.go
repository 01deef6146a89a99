package migrate

import (
	"regexp"
	"strings"
)

// fate is what becomes of a sentence.
type fate int

const (
	stays  fate = iota
	goes        // it is about the relay and nothing else
	swaps       // it orders to tell the user something by the relay: gchat-send does that now
	silent      // it does not name the relay
)

// In the patterns below @ is the relay, with what it is called: "the s3-communicator agent", "its sibling s3-communicator".
// They say what a sentence may be, so that one that is also about something else is none of them.
const (
	spawning = `(?:re-?)?(?:spawn|launch|start|create)|wake|revive|shut down|stop|kill|terminate|ping`
	living   = `(?:is |still |stays |remains |was |be )*(?:alive|running|up|active|healthy|responding|spawned|started|present|there|in the team)`
	relaying = `(?:relays|forwards|sends|posts|delivers|polls|bridges|passes|brings|carries|routes|listens|reports|notifies|reads|returns)`
)

var (
	calledRelay = lazy(`(?i)(?:(?:the|our|your|its|a|an) )?(?:sibling(?: agent)?,? |teammate |agent )?s3[-_ ]?communicator(?: (?:agent|teammate|relay)\b)?(?: \((?:(?:the|a|our|google|chat|gchat|haiku|relay|persistent|agent|sibling|model|messages?)[ ,]*)+\))?`)
	aboutSpawn  = alternatives(
		`(?:please )?(?:`+spawning+`) @`,
		`(?:keep|leave) @ (?:alive|running|up|active|going|in the team)`,
		`(?:check|verify|ensure|confirm|make sure)(?: that| whether| if)? @ `+living,
		`check on @`,
		`wait for @(?: to (?:start|come up|be ready|be up))?`,
		`@ (?:must|should|has to|needs to|will)(?: always)? (?:run|stay|`+living+`|be kept)`,
		`@ (?:is|gets) (?:re-?)?(?:spawned|started|launched|kept)`,
	)
	spawnIf = alternatives(
		`(?:if|when|whenever|once|should|in case) @ [^,;]{1,60},(?: then)? (?:` + spawning + `) (?:it|@)`,
	)
	tellsOfIt = alternatives(
		`@ (?:also )?`+relaying,
		`@ (?:runs|works|lives) (?:on|as|in|for|at)\b`,
		`@ (?:is|acts as|serves as|works as) (?:a|an|the|your|our|its|one of|responsible for)\b.*(?:google chat|gchat|relay|message|persistent|sibling|haiku|teammate|agent)`,
		`@(?:'s)? (?:costs?|cost is|uses|consumes|burns)\b.*(?:\$\d|token)`,
		`(?:the )?costs? (?:of|for) @ (?:is|are)\b.*(?:\$\d|token)`,
		`(?:it |this (?:agent|skill) |s3-[a-z]+ )?(?:works|runs|lives|operates|sits) (?:alongside|beside|next to|together with|with|in parallel with) @`,
		`(?:its|your|the) siblings? (?:is|are) @`,
	)
	swapPlaces = []func() *regexp.Regexp{
		alternatives(`(?:.*(?:, |: |\bthen |\band ))?(?:message|notify|inform|alert|tell) @(?: (?:that|about|how|what|when|whenever|at once|immediately|with|as soon as|before|after|if|of|directly|instead|first)\b|$)`),
		alternatives(`(?:.*(?:, |: |\bthen |\band ))?(?:send|route|pass|forward|report|post|push|direct)(?: [\w'-]+){0,6} (?:to|via|through|using|with|by) @`),
		alternatives(`(?:(?:all|any|every|outbound|outgoing|gchat|google chat|status|progress) )*(?:messages?|updates?|notifications?|reports?|alerts?)\b[\w ]* (?:via|through|using|by) @`),
		alternatives(`(?:.*(?:, |: |\bthen |\band ))?use @ (?:for|to|when|whenever|as|if|at)\b.*\b(?:outbound|outgoing|messages?|notif\w+|tell|inform|updates?|user|send|sending|report\w*|gchat|google chat|alerts?)\b`),
	}
	// inbound is what gchat-send cannot do, and what only the relay itself can be told.
	inbound = lazy(`(?i)\b(?:repl(?:y|ies)|poll\w*|reads?|receiv\w+|inbound|incoming|answers?|respon\w+|listen\w*|shut|stops?|restart|wait)\b`)
	// noMore are words that a sentence about the relay has only when it asks for more than the relay.
	noMore = lazy(`(?i)[;:!?]|\.\s|\b(?:you|must|should|only|unless|until|but|while|because|ask|see|read|use|do|run|deploy|not|cannot|without|then)\b`)
	forYou = lazy(`(?i)\b(?:to|for|from|with|between) you\b`)
	// part separates what goes on, and partOfIt is what may: more of what the relay does, and more of what it carries.
	part     = lazy(`(?i),? and |,? or |, ?`)
	partOfIt = lazy(`(?i)^(?:(?:which |who |that |also )*(?:is |was |` + relaying + `)|(?:(?:its|the|their|your|all|any|user|new|inbound|outbound|incoming|outgoing|session|task|status) )*(?:messages?|questions?|answers?|replies|updates?|notifications?|alerts?|reports?|heartbeats?|progress|blockers?|completions?|errors?|events?|responses?|google chat|gchat|back)\b|(?:the user|system 3)$|keeps? it (?:alive|running|up)|(?:re-?)?(?:spawn|start|launch) it\b)`)
	toDo     = lazy(`(?i)\bto (\w+)`)
	mayDo    = lazy(`(?i)^(?:the|you|your|a|google|gchat|it|user|users|relay|forward|send|post|deliver|handle|talk|notify|reach|bridge|be|start|come|keep|and)$`)
)

// alternatives matches the beginning of a sentence that is one of them.
func alternatives(sentences ...string) func() *regexp.Regexp {
	return lazy(`(?i)^(?:` + strings.Join(sentences, "|") + `)`)
}

// fateOf says what becomes of a sentence.
func fateOf(s string) fate {
	if !names(s) {
		return silent
	}
	for _, at := range relayName().FindAllStringIndex(s, -1) {
		if longerName().MatchString(s[at[1]:]) || at[0] > 0 && strings.IndexByte("/-.", s[at[0]-1]) >= 0 {
			return stays // another's name, or a path
		}
	}
	s = strings.NewReplacer("`", "", "*", "", "__", "", `"`, "").Replace(strings.Join(strings.Fields(s), " "))
	if settled().MatchString(s) || sendName().MatchString(s) || spawnName().MatchString(s) || strings.HasSuffix(s, ":") || strings.HasSuffix(s, "?") {
		return stays
	}
	s = strings.TrimRight(calledRelay().ReplaceAllString(s, "@"), ".! ")
	if len(mentions(s)) > 0 {
		return stays
	}
	if goesWith(s) {
		return goes
	}
	if otherAgents(s) || strings.Count(s, "@") != 1 || inbound().MatchString(s) {
		return stays
	}
	for _, place := range swapPlaces {
		if place().MatchString(s) {
			return swaps
		}
	}
	return stays
}

// goesWith says whether a sentence is about the relay and nothing else.
func goesWith(s string) bool {
	if at := spawnIf().FindStringIndex(s); at != nil {
		return noMoreIn(s[at[1]:]) && !otherAgents(s)
	}
	s = opener().ReplaceAllString(s, "")
	if at := aboutSpawn().FindStringIndex(s); at != nil {
		return noMoreIn(s[at[1]:]) && !otherAgents(s)
	}
	at := tellsOfIt().FindStringIndex(s)
	return at != nil && noMoreIn(s[strings.Index(s, "@")+1:]) && !otherAgents(s[strings.Index(s, "@"):])
}

// noMoreIn says whether the rest of a sentence about the relay asks for nothing else.
func noMoreIn(rest string) bool {
	rest = forYou().ReplaceAllString(rest, "")
	if len(rest) > 160 || noMore().MatchString(rest) {
		return false
	}
	for _, m := range toDo().FindAllStringSubmatch(rest, -1) {
		if !mayDo().MatchString(m[1]) {
			return false
		}
	}
	for i, p := range part().Split(rest, -1) {
		if i > 0 && !partOfIt().MatchString(p) {
			return false
		}
	}
	return true
}
