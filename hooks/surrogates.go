package hooks

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"gchat-hooks/state"
)

var (
	// surrogatePattern are an escaped backslash, a pair that is one character, or half of
	// one.
	surrogatePattern = state.LazyPattern(
		`\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}`,
	)
	keptSurrogatePattern = state.LazyPattern(`[\x{10d800}-\x{10dfff}]`)
)

// keepSurrogates is a tool's input or response in which each surrogate without another
// stands as a character that Go keeps. Claude Code takes an answer only where its key is
// the question's text, with such halves.
func keepSurrogates(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(`\ud`)) && !bytes.Contains(raw, []byte(`\uD`)) { // mostly
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

// restoreSurrogates is JSON of ours with the surrogates of an event as they came.
func restoreSurrogates(b []byte) []byte {
	return keptSurrogatePattern().ReplaceAllFunc(b, func(found []byte) []byte {
		r, _ := utf8.DecodeRune(found)
		return fmt.Appendf(nil, `\u%04x`, r-state.LoneSurrogates)
	})
}
