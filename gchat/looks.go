package gchat

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// lookalikes are words of a plain character followed by what is drawn like it: Cyrillic, Greek, Armenian, small
// capitals, other digits and brackets. Upper case stands where the upper case is alike.
const lookalikes = `aаАαΑɑᴀᎪⲀ bВвΒβʙЬьᏴ cсСϲϹᴄⅽⅭҫⲤ dԁԀᴅⅾⅮɗժᎠ eеЕεΕєЄҽᴇℯℰⲈ fϝғꜰℱ gɡցԍɢℊԌ hһнНΗᴴʜℎℋℌⲎ ` +
	`iіІιΙıɪ|ℐℑⅰⅠӀǀ∣│ⲒlІ1ӏʟⅼⅬℒℓ jјЈϳᴊ kкКκΚᴋⲔ mмМΜᴍⅿⅯℳⲘ nпΝηոɴпⲚ oоОοΟσօ0ᴏℴΘθөⲞ pрРρΡᴘⲢ qԛգ rгᴦʀᖇℛℜ ` +
	`sѕЅꜱՏ tтТτΤᴛⲦ uυսᴜ vνѵᴠⅴⅤ wԝѡᴡԜω xхХχΧⅹⅩⲬ yуУγΥүʏҮⲨ zΖᴢⲌ ` +
	`[［⁅〔【〚⟦⟬❲⦋⦍⦏﹝⎡⌈⌊「｢『〖〘⸢⸤⁽ ]］⁆〕】〛⟧⟭❳⦌⦎⦐﹞⎤⌉⌋」｣』〗〙⸣⸥⁾ :：﹕︓꞉∶ː˸ꓽ։׃`

var plainLook = sync.OnceValue(func() map[rune]rune {
	m := map[rune]rune{}
	for _, word := range strings.Fields(lookalikes) {
		plain, size := utf8.DecodeRuneInString(word)
		for _, r := range word[size:] {
			m[r] = plain
		}
	}
	return m
})

// looksLike gives the small ASCII letter, bracket or colon that a rune can be taken for, or the rune itself.
func looksLike(r rune) rune {
	if r >= '！' && r <= '～' { // full width
		r = r - '！' + '!'
	}
	switch {
	case r >= 'A' && r <= 'Z':
		return r - 'A' + 'a'
	case r > ' ' && r <= '~' && r != '0' && r != '1' && r != '|':
		return r
	case r >= 0x1D400 && r <= 0x1D6A3: // mathematical alphabets, 26 capitals and 26 small letters each
		return 'a' + (r-0x1D400)%26
	case r >= 'Ⓐ' && r <= 'ⓩ': // in circles
		return 'a' + (r-'Ⓐ')%26
	case r >= 0x1F110 && r <= 0x1F189: // in parentheses, squares, dark circles and dark squares
		if n := (r - 0x1F110) % 32; n < 26 {
			return 'a' + n
		}
	}
	if plain, ok := plainLook()[r]; ok {
		return plain
	}
	return r
}
