package migrate

import "testing"

// What is said about the relay and nothing else goes, as a paragraph and as an item.
func TestSentencesThatGo(t *testing.T) {
	for _, s := range []string{
		"If s3-communicator is missing, respawn it.",
		"If `s3-communicator` is missing or dead, then respawn it at once.",
		"When the s3-communicator agent does not answer, restart it.",
		"Respawn s3-communicator if it is missing.",
		"Spawn s3-communicator at session start and keep it running.",
		"At session start, spawn **s3-communicator** in the background.",
		"Keep s3-communicator alive for the whole session.",
		"Ensure that s3-communicator is running.",
		"s3-communicator must stay alive.",
		"The s3-communicator relays messages to Google Chat.",
		"The `s3-communicator` relays messages, questions, and heartbeats to Google Chat and polls for replies.",
		"The s3-communicator relays all messages between you and the user.",
		"s3-communicator is a persistent Haiku agent.",
		"s3-communicator costs ~$0.20-$0.50/day.",
		"The cost of s3-communicator is ~$0.20-$0.50/day.",
		"Works alongside its sibling s3-communicator.",
		"Works alongside its sibling s3-communicator, which relays to Google Chat.",
		"s3-heartbeat works alongside its sibling `s3-communicator` (GChat relay).",
		"Its sibling is s3-communicator.",
		"If s3-communicator is missing,\nrespawn it. s3-communicator costs\n~$0.20-$0.50/day!",
	} {
		if got, look := migrated("a\n\n" + s + "\n\nb\n"); got != "a\n\nb\n" || look != "" {
			t.Errorf("%q becomes %q, listed %q", s, got, look)
		}
		if got, look := migrated("1. a\n2. " + s + "\n3. b\n"); got != "1. a\n2. b\n" || look != "" {
			t.Errorf("item %q becomes %q, listed %q", s, got, look)
		}
	}
}

// What orders to tell the user something by the relay goes on ordering it.
func TestSentencesThatSwap(t *testing.T) {
	for s, want := range map[string]string{
		"When the user needs to be told, message s3-communicator.":        "When the user needs to be told, use `gchat-send`.",
		"Message the `s3-communicator` when the user is to know.":         "Use `gchat-send` when the user is to know.",
		"When blocked, tell **s3-communicator** at once.":                 "When blocked, tell the user with `gchat-send` at once.",
		"Tell s3-communicator about each epic.":                           "Tell the user with `gchat-send` about each epic.",
		"Use s3-communicator for outbound messages.":                      "Use `gchat-send` for outbound messages.",
		"Send progress updates to s3-communicator.":                       "Send progress updates via `gchat-send`.",
		"Run the tests, then send the result through s3-communicator.":    "Run the tests, then send the result via `gchat-send`.",
		"Messages go to the user through s3-communicator only.":           "Messages go to the user via `gchat-send` only.",
		"s3-communicator costs ~$0.20/day. Notify s3-communicator first.": "Notify the user with `gchat-send` first.",
		"Notify s3-communicator first. s3-communicator costs ~$0.20/day.": "Notify the user with `gchat-send` first.",
	} {
		if got, look := migrated("a\n\n" + s + "\n"); got != "a\n\n"+want+"\n" || look != "" {
			t.Errorf("%q becomes %q, listed %q", s, got, look)
		}
		if got, look := migrated("- " + s + "\n- b\n"); got != "- "+want+"\n- b\n" || look != "" {
			t.Errorf("item %q becomes %q, listed %q", s, got, look)
		}
	}
}

// What is also about something else, or understood by half, stays and is listed.
func TestSentencesThatStay(t *testing.T) {
	for _, s := range []string{
		"If s3-communicator is missing, respawn it and run the migration.",
		"If s3-communicator is missing, page the on-call.",
		"If s3-communicator is missing, respawn it, then tell s3-validator.",
		"If s3-communicator is missing, respawn it; deploy on Mondays.",
		"Spawn s3-communicator, run the migration.",
		"First run the migration, then spawn s3-communicator.",
		"Run the migration, then respawn s3-communicator.",
		"s3-communicator relays messages, deploy on Mondays.",
		"s3-communicator relays messages and you must never deploy on Fridays.",
		"s3-communicator relays messages to Google Chat. Never deploy on Fridays.",
		"s3-communicator relays messages and the user deploys.",
		"s3-communicator is the owner of the deploy key.",
		"s3-communicator is the only agent that may deploy.",
		"Ensure that s3-communicator has the release notes.",
		"Wait for s3-communicator to confirm the deployment.",
		"Works alongside s3-validator and its sibling s3-communicator.",
		"Works alongside its sibling s3-communicator; never deploys.",
		"Ask s3-communicator for the latest replies.",
		"Use s3-communicator to read replies.",
		"Use s3-communicator for the deployment.",
		"Tell s3-communicator to shut down.",
		"Never message s3-communicator.",
		"Message s3-communicator-v2 about it.",
		"Spawn s3-communicator (after the migration has run).",
		"Why does s3-communicator cost $5?",
		"The costs of s3-communicator and billing are $5.",
	} {
		if got, look := migrated("a\n\n" + s + "\n\nb\n"); got != "a\n\n"+s+"\n\nb\n" || look != "3" {
			t.Errorf("%q becomes %q, listed %q", s, got, look)
		}
	}
}

func TestSentencesInParagraphs(t *testing.T) {
	for name, tt := range map[string]struct{ src, want, look string }{
		"a line of its own":     {"Lead.\nIf s3-communicator is missing, respawn it.\nPlan.\n", "Lead.\nPlan.\n", ""},
		"two lines":             {"Lead.\nIf s3-communicator is\nmissing, respawn it.\nPlan.", "Lead.\nPlan.", ""},
		"the last, no ending":   {"Lead.\ns3-communicator costs $1/day.", "Lead.", ""},
		"within a line":         {"Lead. If s3-communicator is missing, respawn it. Plan.\n", "Lead. If s3-communicator is missing, respawn it. Plan.\n", "1"},
		"half a line":           {"Lead. If s3-communicator is\nmissing, respawn it.\n", "Lead. If s3-communicator is\nmissing, respawn it.\n", "1"},
		"goes on on it":         {"If s3-communicator is missing, respawn it.\nIt needs the key of the deployment.\n", "If s3-communicator is missing, respawn it.\nIt needs the key of the deployment.\n", "1"},
		"e.g. in it":            {"Lead, e.g. if s3-communicator is missing, respawn it.\n", "Lead, e.g. if s3-communicator is missing, respawn it.\n", "1"},
		"quoted":                {"> s3-communicator costs $1/day.\n", "> s3-communicator costs $1/day.\n", "1"},
		"in a code block":       {"```\ns3-communicator costs $1/day.\n```\n", "```\ns3-communicator costs $1/day.\n```\n", "2"},
		"in front matter":       {"---\ndescription: x\ns3-communicator costs $1/day.\n---\n", "---\ndescription: x\ns3-communicator costs $1/day.\n---\n", "3"},
		"below an item":         {"- a\n\n  s3-communicator costs $1/day.\n\n- b\n", "- a\n\n- b\n", ""},
		"a total below":         {"s3-communicator costs $1/day.\n\nIn total we pay $3/day.\n", "In total we pay $3/day.\n", "3"},
		"an item with more":     {"- s3-communicator costs $1/day.\n  - Deploy on Mondays with s3-validator.\n", "- s3-communicator costs $1/day.\n  - Deploy on Mondays with s3-validator.\n", "1"},
		"carriage returns":      {"Lead.\r\ns3-communicator costs $1/day.\r\nTell s3-communicator at once.\r\n", "Lead.\r\nTell the user with `gchat-send` at once.\r\n", ""},
		"all but half in a row": {"Lead. Tell s3-communicator at once.\n", "Lead. Tell s3-communicator at once.\n", "1"},
	} {
		if got, look := migrated(tt.src); got != tt.want || look != tt.look {
			t.Errorf("%s: %q becomes\n%q\nwant\n%q\nlisted %q, want %q", name, tt.src, got, tt.want, look, tt.look)
		}
	}
}
