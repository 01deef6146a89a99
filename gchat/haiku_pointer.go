package gchat

import (
	"strings"
	"unicode"

	"gchat-hooks/state"
)

// A model that was talked into it could send the reader to another place: an address that the question has not, or a
// person.

// addedPointer is an address or a mention in a shown wording that stands nowhere in the questions; "" if there is none.
// It must stand there in full: half of an address is another one.
func addedPointer(prompts []state.Prompt, shown string) string {
	var known map[string]bool
	for word := range strings.FieldsSeq(shown) {
		if !isPointer(word) {
			continue
		}
		if known == nil {
			known = wordsOf(prompts)
		}
		if !known[bare(word)] {
			return word
		}
	}
	return ""
}

func wordsOf(prompts []state.Prompt) map[string]bool {
	words := map[string]bool{}
	add := func(text string) {
		for word := range strings.FieldsSeq(noFence(inert(visible(text)))) {
			words[bare(word)] = true
			for _, part := range strings.FieldsFunc(word, isBracket) {
				words[bare(part)] = true
			}
		}
	}
	for _, p := range prompts {
		add(p.Header)
		add(p.Question)
		for _, o := range p.Options {
			add(o.Label)
			add(o.Description)
		}
	}
	return words
}

// isPointer is true for what Chat could make a link of, and for what looks like a mention.
func isPointer(word string) bool {
	plain := plainDigits(word)
	return host().MatchString(plain) || strings.Contains(strings.ToLower(plain), "users/") ||
		strings.HasPrefix(bare(plain), "@")
}

// bare is a word without what stands around it.
func bare(word string) string {
	return strings.TrimFunc(word, func(r rune) bool { return r != '@' && !isWordRune(r) })
}

func isBracket(r rune) bool { return strings.ContainsRune("()[]{}<>‹›|\"'`,;", r) }

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }
