// Package e2e is the room for whole-house tests: a real Claude Code in a real
// tmux, with nothing pretended but the far ends.
//
// TestMain runs the tests in a network namespace that has only loopback, so a
// session, its hooks and every server they talk to cannot reach anything else.
// There, [anthropic] plays the model from a script, [start] opens a session
// with a HOME of its own, and [recorder] shows which hook events it fired.
//
// The real client is about 245 MB and is not fetched by the tests; where it is
// missing they skip and print the command that installs it. GCHAT_E2E_CLAUDE_DIR
// says where the versions are (default ~/.cache/gchat-hooks-e2e), and
// GCHAT_E2E_REQUIRED=1 turns every such skip into a failure, for machines that
// are meant to have them. See [findClaude] for the layout.
package e2e
