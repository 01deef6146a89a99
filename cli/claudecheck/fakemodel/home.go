package fakemodel

// Key opens nothing. Claude Code recognises a key that was approved by its end.
const Key = "fake-key-0000000000aa"

// Environment returns the variables with which Claude Code asks the model at a URL, and
// nobody else.
func Environment(url string) []string {
	return []string{
		"ANTHROPIC_API_KEY=" + Key, "ANTHROPIC_BASE_URL=" + url,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1",
		"DISABLE_AUTOUPDATER=1", "DISABLE_ERROR_REPORTING=1",
		"CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION=false", // a suggestion takes a turn of the script
		// It would be fetched with git when a session starts.
		"CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL=1",
		// To compile what is used for seconds costs more of a core than it gives, and so does
		// collecting garbage every second.
		"BUN_JSC_useDFGJIT=0", "BUN_GC_TIMER_DISABLE=1",
	}
}

// Settings returns the content of .claude/settings.json of a person without hooks.
func Settings() map[string]any {
	return map[string]any{
		// Newer versions start in auto mode unless they are told otherwise.
		"permissions": map[string]any{"defaultMode": "default"},
		// Otherwise each start makes Claude Code the program that opens its links.
		"disableDeepLinkRegistration": "disable",
	}
}

// PersonState returns the content of .claude.json in the home folder of a person who has
// been through onboarding, trusts the project and approved Key: a session starts at its
// prompt.
func PersonState(project string) map[string]any {
	return map[string]any{
		"hasCompletedOnboarding":  true,
		"theme":                   "dark",
		"numStartups":             3, // notices come at the first start and at the sixth
		"hasSeenAutoDefaultNudge": true,
		"customApiKeyResponses": map[string]any{
			"approved": []string{Key[len(Key)-20:]}, "rejected": []string{},
		},
		"projects": map[string]any{project: map[string]any{
			"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true,
			"allowedTools": []string{},
		}},
	}
}
