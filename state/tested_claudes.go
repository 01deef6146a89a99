package state

// The end-to-end tests run on these two versions of Claude Code. No other file says which
// they are: .ci/install-claude reads them here. CONTRIBUTING.md says how to move the newest.
const (
	NewestClaude = "2.1.332"
	OlderClaude  = "2.1.197"
)

// testedClaudes are the versions of Claude Code with which this version of the program
// was checked, and the contracts that do not hold with them.
var testedClaudes = map[string][]string{
	OlderClaude: nil, "2.1.207": nil, "2.1.217": nil, "2.1.227": nil, "2.1.237": nil,
	"2.1.247": nil, "2.1.257": nil, "2.1.267": nil, "2.1.277": nil, "2.1.287": nil,
	"2.1.299": nil, "2.1.309": nil, "2.1.319": nil, NewestClaude: nil,
}
