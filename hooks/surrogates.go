package hooks

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"gchat-hooks/state"
)

var (
	// surrogatePattern matches an escaped backslash, a pair of surrogates that is one
	// character, or a surrogate alone.
	surrogatePattern = state.LazyPattern(
		`\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}`,
	)
	keptSurrogatePattern = state.LazyPattern(`[\x{10d800}-\x{10dfff}]`)
)

// keepSurrogates returns a tool's input or response with each lone surrogate replaced by
// a character that Go keeps. Claude Code accepts an answer only under the exact text of
// its question, lone surrogates included.
func keepSurrogates(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(`\ud`)) && !bytes.Contains(raw, []byte(`\uD`)) {
		// the usual case
		return raw
	}
	return surrogatePattern().ReplaceAllFunc(raw, func(found []byte) []byte {
		if len(found) != len(`\ud83d`) {
			return found
		}
		half, _ := strconv.ParseUint(string(found[2:]), 16, 32)
		return utf8.AppendRune(nil, state.LoneSurrogates+rune(half))
	})
}

// restoreSurrogates returns JSON of ours with the lone surrogates of an event restored.
func restoreSurrogates(b []byte) []byte {
	return keptSurrogatePattern().ReplaceAllFunc(b, func(found []byte) []byte {
		r, _ := utf8.DecodeRune(found)
		return fmt.Appendf(nil, `\u%04x`, r-state.LoneSurrogates)
	})
}
