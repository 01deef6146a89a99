package state

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// A TextPlace is where text goes that other people, programs and models wrote.
type TextPlace int

const (
	ForChat TextPlace = iota // a message in Google Chat
	// words that a model reads: a person's reply, an agent's wake message
	ForAgent
	ForTyping   // what is typed or pasted into a terminal
	ForTerminal // what a command prints
	ForJSON     // JSON that a command prints
	ForReview   // what may run, shown to the person who is asked to allow it
	ForPlan     // a plan, shown to the person who is asked to approve it
)

// treatments is what each place does with each kind of character. All else is kept.
var treatments = [...]placeRow{
	//            sequence control   lineBreak tab    hidden    joiner    rightToLeft otherBlank unknown invalid alike
	ForChat: {
		dropped,
		dropped,
		newline,
		kept,
		dropped,
		dropped,
		kept,
		kept,
		kept,
		replaced,
		kept,
	},
	ForAgent: {
		dropped,
		dropped,
		newline,
		kept,
		dropped,
		dropped,
		kept,
		kept,
		kept,
		replaced,
		kept,
	},
	ForTyping: {
		dropped,
		dropped,
		newline,
		blank,
		dropped,
		dropped,
		kept,
		kept,
		kept,
		dropped,
		kept,
	},
	ForTerminal: {
		kept,
		replaced,
		replaced,
		kept,
		replaced,
		replaced,
		kept,
		kept,
		replaced,
		replaced,
		kept,
	},
	ForJSON: {
		kept,
		escaped,
		escaped,
		kept,
		escaped,
		escaped,
		kept,
		kept,
		escaped,
		replaced,
		kept,
	},
	ForReview: {
		kept,
		spelledOut,
		spelledOut,
		kept,
		spelledOut,
		spelledOut,
		spelledOut,
		spelledOut,
		spelledOut,
		spelledOut,
		spelledOut,
	},
	ForPlan: {
		kept,
		spelledOut,
		spelledOut,
		kept,
		spelledOut,
		spelledOut,
		kept,
		kept,
		spelledOut,
		spelledOut,
		kept,
	},
}

// LoneSurrogates is where in Unicode's last private plane a surrogate stands that has no
// other: half of a character, where a program of JavaScript cut a text. JSON has it as
// \ud83d, and UTF-8 cannot hold it.
const LoneSurrogates = 0x100000

type placeRow [runeKindCount]treatment

type treatment int

const (
	kept       treatment = iota
	dropped              // Braille without a dot becomes a blank
	blank                // " "
	newline              // "\n"
	replaced             // U+FFFD
	spelledOut           // ‹U+202E›, a byte ‹0xFF›
	escaped              // \u202e
)

type runeKind int

const (
	// an escape sequence; where it is kept, each of its characters is taken by itself
	sequence  runeKind = iota
	control            // without "\n", which is kept
	lineBreak          // "\r", "\r\n", and U+2028 and U+2029
	tab                //
	// shows nothing, and turns the rest or carries words that no person sees
	invisible
	// a joiner or a variation selector that does nothing where it stands
	joinerRune
	rightToLeft // on a screen it reorders what stands around it
	otherBlank  // looks like a blank, and is none
	unknown     // private, or not assigned: a font may show nothing
	invalid     // a byte that is not UTF-8
	// punctuation that is not ASCII's, or looks like a sign of ASCII, or changes how one
	// looks
	lookalike
	runeKindCount
	visible = runeKindCount
)

const (
	zeroWidthNonJoiner = '\u200c' // of Persian and Indic scripts
	zeroWidthJoiner    = '\u200d' // of emoji, too
	textSelector       = '\ufe0e'
	emojiSelector      = '\ufe0f'
	blankBraille       = '\u2800'
)

// rightToLeftBlocks are what Unicode keeps for scripts that are written from right to
// left, with their digits and signs.
var rightToLeftBlocks = &unicode.RangeTable{
	R16: []unicode.Range16{{0x590, 0x8ff, 1}, {0xfb1d, 0xfdff, 1}, {0xfe70, 0xfeff, 1}},
	R32: []unicode.Range32{{0x10800, 0x10fff, 1}, {0x1e800, 0x1efff, 1}},
}

// widthVariants are the wide and narrow forms of signs, and modifiers that stand alone.
var widthVariants = &unicode.RangeTable{R16: []unicode.Range16{
	{0x2c2, 0x2df, 1}, {0xa789, 0xa78a, 1}, {0xff01, 0xff0f, 1}, {0xff1a, 0xff20, 1},
	{0xff3b, 0xff40, 1}, {0xff5b, 0xff65, 1}, {0xffe0, 0xffee, 1},
}}

// clickLetters are letters that look like | and !, and one like a full stop.
var clickLetters = &unicode.RangeTable{R16: []unicode.Range16{
	{0x1c0, 0x1c0, 1}, {0x1c3, 0x1c3, 1}, {0xa4f8, 0xa4f8, 1},
}}

// IsASCIILookalike reports whether a character that is not ASCII's looks like one, or
// like several.
func IsASCIILookalike(r rune) bool { return unicode.Is(asciiLookalikes, r) }

// reviewMarkEscaper and planMarkEscaper write out the signs of the marks that we put into
// text for a person who decides. A plan's lists have bullets.
var (
	reviewMarkEscaper = strings.NewReplacer(
		"‹",
		"‹U+2039›",
		"›",
		"‹U+203A›",
		"•",
		"‹U+2022›",
		"⋯",
		"‹U+22EF›",
	)
	planMarkEscaper = strings.NewReplacer("‹", "‹U+2039›", "›", "‹U+203A›")
)

// isPunctuationLookalike reports whether a character could pass for a sign that a shell
// or a path has: all punctuation that is not ASCII's. Signs of our own marks are for
// Review.
func isPunctuationLookalike(r rune) bool {
	isLetter := unicode.In(r, unicode.L, unicode.N) && !unicode.In(r, unicode.Lm, clickLetters)
	isSign := unicode.IsPunct(r) || unicode.Is(widthVariants, r) || !isLetter && IsASCIILookalike(r)
	return isSign && !strings.ContainsRune("‹›•⋯", r)
}

// CleanForReview is foreign text for a person who is asked to allow it, at ForReview or
// ForPlan: all of it is seen, keys of known makers are masked, and no sign in it passes
// for a mark of ours.
func CleanForReview(place TextPlace, text string) string {
	marks := reviewMarkEscaper
	if place == ForPlan {
		marks = planMarkEscaper
	}
	return Clean(place, MaskKeys(marks.Replace(text)))
}

func runeKindOf(r rune) runeKind {
	switch {
	case r >= ' ' && r <= '~', r == '\n':
		return visible
	case r == '\t':
		return tab
	case r == '\r', r == '\u2028', r == '\u2029':
		return lineBreak
	case unicode.IsControl(r):
		return control
	case r >= LoneSurrogates+0xd800 && r <= LoneSurrogates+0xdfff:
		return invalid
	case r == zeroWidthNonJoiner, r == zeroWidthJoiner, r == textSelector, r == emojiSelector:
		return joinerRune
	case unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		// Arabic signs around numbers are seen, although they are Cf
		return rightToLeft
	case unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point,
		// a note without a head
		unicode.Noncharacter_Code_Point),
		r == blankBraille,
		r == '\U0001d159':
		return invisible
	case unicode.Is(rightToLeftBlocks, r):
		return rightToLeft
	case unicode.Is(unicode.Zs, r):
		return otherBlank
	case !unicode.IsGraphic(r):
		return unknown
	case isPunctuationLookalike(r):
		return lookalike
	}
	return visible
}

// EscapeSequencePattern is an escape sequence as a whole (ECMA-48; what xterm and tmux
// read): CSI; OSC and its like up to their end, without which only the introducer goes,
// for a terminal would swallow the rest and a person would miss it; the others.
var EscapeSequencePattern = LazyPattern(`(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]?` +
	`|(?:\x1b[\]PX^_]|[\x{90}\x{98}\x{9d}\x{9e}\x{9f}])(?:[^\a\x1b\x{9c}\r\n]*(?:\a|\x{9c}|\x1b\\))?` +
	`|\x1b[NO][ -~]?|\x1b[ -/]*[0-~]?`)

// Clean is text as its place takes it: UTF-8, of which Clean changes nothing more.
func Clean(place TextPlace, text string) string {
	treats := &treatments[place]
	mayChange := func(r rune) bool { return (r < ' ' || r > '~') && r != '\n' && (r != '\t' || treats[tab] != kept) }
	if !strings.ContainsFunc(text, mayChange) { // mostly
		return text
	}
	if treats[sequence] == dropped &&
		strings.ContainsAny(text, "\x1b\u0090\u0098\u009b\u009d\u009e\u009f") {
		text = EscapeSequencePattern().ReplaceAllString(text, "")
	}
	var b strings.Builder
	b.Grow(len(text))
	var before rune // what the text so far ends in; 0 where that stands for something else
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		char, rest := text[:size], text[size:]
		k := treats.kindInContext(before, r, rest)
		if r == utf8.RuneError && size == 1 {
			k, r = invalid, rune(char[0])
		}
		if treats.keeps(k) {
			b.WriteString(char)
			before = r
		} else if replacement := treats[k].replacement(k, r, rest); replacement != "" {
			b.WriteString(replacement)
			before = 0
		}
		text = rest
	}
	return b.String()
}

// kindInContext is the kind of a character where it stands. A joiner that does something
// there is seen. A mark on what is no letter may look like a sign of ASCII.
func (p *placeRow) kindInContext(before, r rune, rest string) runeKind {
	k := runeKindOf(r)
	switch {
	case k == joinerRune && joinerActs(before, r, p.firstKept(rest)):
		return visible
	case k == visible && before <= '~' && unicode.IsMark(r) && !unicode.IsLetter(before):
		return lookalike
	}
	return k
}

func (p *placeRow) keeps(k runeKind) bool { return k == visible || p[k] == kept }

// firstKept is the character that text begins with; 0 where the place does not keep it.
func (p *placeRow) firstKept(text string) rune {
	r, size := utf8.DecodeRuneInString(text)
	if r == utf8.RuneError && size < 2 || !p.keeps(runeKindOf(r)) {
		return 0
	}
	return r
}

// joinerActs says whether a joiner or a selector does something between these two.
func joinerActs(before, r, after rune) bool {
	if r == zeroWidthNonJoiner || r == zeroWidthJoiner {
		return isJoinable(before) && isJoinable(after)
	}
	hasVariants := before > '~' && unicode.Is(unicode.S, before) ||
		strings.ContainsRune("‼⁉〰ℹ", before)
	// a keycap
	return hasVariants || after == '\u20e3' && strings.ContainsRune("0123456789#*", before)
}

// isJoinable says whether r is of what joiners join: symbols, and letters of scripts that
// have no case and are not ideographs.
func isJoinable(r rune) bool {
	return r > 0xff && unicode.In(r, unicode.Lo, unicode.M, unicode.S) &&
		!unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

// replacement is what stands in the place of a character that is not kept, before the
// rest.
func (t treatment) replacement(k runeKind, r rune, rest string) (s string) {
	switch {
	case t == dropped && r != blankBraille,
		t == newline && r == '\r' && strings.HasPrefix(rest, "\n"): // one line break
		return ""
	case t == newline:
		return "\n"
	case t == replaced:
		return string(utf8.RuneError)
	case t == spelledOut && k == invalid:
		return fmt.Sprintf("‹0x%02X›", r)
	case t == spelledOut:
		return fmt.Sprintf("‹U+%04X›", r)
	case t == escaped:
		for _, unit := range utf16.AppendRune(nil, r) {
			s += fmt.Sprintf(`\u%04x`, unit)
		}
		return s
	}
	return " "
}

// OneLine is text for a terminal in one line.
func OneLine(
	text string,
) string {
	return strings.Join(strings.Fields(Clean(ForTerminal, text)), " ")
}

const maskText = "•••"

// keyPattern are the keys of makers as they look: how they begin, which stays, and the
// rest, which is hidden. The rest has only characters that no shell acts upon. What
// follows a name or an option is never hidden by that: it may be what runs. How long a
// key is at most stands apart: counted by the expression, it took each hook that waits 6
// MB and 7 ms.
var keyPattern = LazyPattern(`(\b(?:` + strings.Join([]string{
	`A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}`,
	`gh[pousr]_[A-Za-z0-9]{20,}`, `github_pat_[A-Za-z0-9_]{20,}`, `gl(?:pat|ptt|dt|rt|cbt|oas)-[A-Za-z0-9_-]{16,}`,
	`xox[a-z]-[0-9A-Za-z-]{10,}`, `xapp-[0-9]-[A-Za-z0-9-]{10,}`,
	`hooks\.slack\.com/services/T[A-Z0-9]+/B[A-Z0-9]+/[A-Za-z0-9]{20,}`,
	`discord(?:app)?\.com/api/webhooks/[0-9]+/[A-Za-z0-9_-]{20,}`,
	`sk-(?:ant-[a-z]+[0-9]+|proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{20,}`, `sk-[A-Za-z0-9]{32,64}`,
	`(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}`, `whsec_[A-Za-z0-9+/=]{16,}`,
	`AIza[A-Za-z0-9_-]{30,}`, `ya29\.[A-Za-z0-9_.-]{10,}`, `GOCSPX-[A-Za-z0-9_-]{10,}`, `1//0[A-Za-z0-9_-]{20,}`,
	`npm_[A-Za-z0-9]{30,}`, `pypi-[A-Za-z0-9_-]{60,}`, `hf_[A-Za-z0-9]{30,}`,
	`SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`, `SK[0-9a-f]{32}`, `do[opr]_v1_[0-9a-f]{32,}`,
	`shp(?:at|ca|pa|ss)_[0-9a-fA-F]{24,}`, `hv[sbr]\.[A-Za-z0-9_-]{20,}`, `AGE-SECRET-KEY-1[A-Z0-9]{40,}`,
	`[0-9]{8,10}:AA[A-Za-z0-9_-]{30,}`, `key-[0-9a-f]{32}`, `glsa_[A-Za-z0-9_]{30,}`,
	`dckr_pat_[A-Za-z0-9_-]{20,}`, `lin_api_[A-Za-z0-9]{30,}`,
	`eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`,
}, `|`) + `))`)

var (
	// keyPrefix is how the shapes begin: up to here a key tells what it is, and no
	// secret.
	keyPrefix = LazyPattern(
		`^(?:hooks\.slack\.com/services/T[A-Z0-9]+/B[A-Z0-9]+/|discord(?:app)?\.com/api/webhooks/[0-9]+/|` +
			`sk-(?:ant-[a-z]+[0-9]+|proj|svcacct|admin|or-v1)-|github_pat_|AGE-SECRET-KEY-1|dckr_pat_|lin_api_|` +
			`(?:sk|rk|pk)_(?:live|test)_|do[opr]_v1_|[0-9]{8,10}:|[A-Za-z0-9]{2,6}[_.-]|A[A-Z]{3}|AIza|1//0|SK|eyJ)`,
	)
	// privateKeyPattern is a private key as PEM, with its line breaks, or with those of a
	// JSON text. pemLinePattern is a line of its body.
	privateKeyPattern = LazyPattern(
		`-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----(?:[A-Za-z0-9+/=\r\n]|\\n|\\r)+` +
			`-----END (?:[A-Z0-9]+ )*PRIVATE KEY-----`,
	)
	pemLinePattern = LazyPattern(`((?:^|[\r\n]|\\n|\\r))([A-Za-z0-9+/]+={0,2})([A-Za-z0-9+/=]*)`)
)

// keyMarks stand in what the shapes find, one in each: most commands have none, and the
// expression takes a waiting hook 0.4 MB.
var keyMarks = []string{
	"AKIA", "ASIA", "ABIA", "ACCA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_",
	"glpat-", "glptt-", "gldt-", "glrt-", "glcbt-", "gloas-", "xox", "xapp-", "hooks.slack.com/", "/api/webhooks/",
	"sk-", "sk_", "rk_", "pk_", "whsec_", "AIza", "ya29.", "GOCSPX-", "1//0", "npm_", "pypi-", "hf_", "SG.", "SK", "_v1_",
	"shpat_", "shpca_", "shppa_", "shpss_", "hvs.", "hvb.", "hvr.", "AGE-SECRET-KEY-1", ":AA", "key-", "glsa_", "dckr_pat_",
	"lin_api_", "eyJ",
}

// A key, and one that is a token in three parts, hides at most so many characters.
const (
	maxKeyLength   = 255
	maxTokenLength = 3000
)

// minKeyLine is how long a line of a key is at least. One without a slash is hidden, also
// of a key that this program cannot read: it is no path.
const minKeyLine = 40

// MaskKeys hides the keys of known makers in text that people are shown, and nothing
// else: of a command, what runs is shown. It hides characters of A-Z, a-z, 0-9 and
// _+/=.~- alone, and of each key no more than its maker's keys have.
func MaskKeys(s string) string {
	if slices.ContainsFunc(keyMarks, func(mark string) bool { return strings.Contains(s, mark) }) {
		s = keyPattern().ReplaceAllStringFunc(s, func(key string) string {
			head, limit := keyPrefix().FindString(key), maxKeyLength
			if head == "eyJ" {
				limit = maxTokenLength
			}
			return head + maskText + key[min(len(key), len(head)+limit):]
		})
	}
	if !strings.Contains(s, "-----BEGIN ") {
		return s
	}
	return privateKeyPattern().ReplaceAllStringFunc(s, func(block string) string {
		head, rest, _ := strings.Cut(block, "KEY-----")
		body, end, _ := strings.Cut(rest, "-----END")
		isKey := isPrivateKey(block)
		body = pemLinePattern().ReplaceAllStringFunc(body, func(line string) string {
			parts := pemLinePattern().FindStringSubmatch(line)
			if parts[3] == "" &&
				(isKey || len(parts[2]) >= minKeyLine && !strings.Contains(parts[2], "/")) {
				return parts[1] + maskText
			}
			return line
		})
		return head + "KEY-----" + body + "-----END" + end
	})
}

// isPrivateKey says whether a block of PEM is a private key, and holds nothing else.
func isPrivateKey(block string) bool {
	p, _ := pem.Decode([]byte(strings.NewReplacer(`\n`, "\n", `\r`, "").Replace(block)))
	if p == nil {
		return false
	}
	var encoded []byte
	if key, err := x509.ParsePKCS8PrivateKey(p.Bytes); err == nil {
		encoded, _ = x509.MarshalPKCS8PrivateKey(key)
	} else if key, err := x509.ParsePKCS1PrivateKey(p.Bytes); err == nil {
		encoded = x509.MarshalPKCS1PrivateKey(key)
	} else if key, err := x509.ParseECPrivateKey(p.Bytes); err == nil {
		encoded, _ = x509.MarshalECPrivateKey(key)
	}
	return bytes.Equal(encoded, p.Bytes)
}
