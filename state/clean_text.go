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

// A TextPlace is where text that other people, programs and models wrote is to be shown
// or used.
type TextPlace int

const (
	ForChat TextPlace = iota // a message in Google Chat
	// text that a model reads: a person's reply, an agent's wake message
	ForAgent
	ForTyping   // what is typed or pasted into a terminal
	ForTerminal // what a command prints
	ForJSON     // JSON that a command prints
	ForReview   // what Claude asks to run, shown to the person who may allow it
	ForPlan     // a plan, shown to the person who may approve it
)

// treatments says what each place does with each kind of character. A kind that a row
// does not name is kept.
var treatments = [...]placeRow{
	ForChat: {
		sequence: dropped, control: dropped, lineBreak: newline,
		invisible: dropped, joinerRune: dropped, invalid: replaced,
	},
	ForAgent: {
		sequence: dropped, control: dropped, lineBreak: newline,
		invisible: dropped, joinerRune: dropped, invalid: replaced,
	},
	ForTyping: {
		sequence: dropped, control: dropped, lineBreak: newline, tab: blank,
		invisible: dropped, joinerRune: dropped, invalid: dropped,
	},
	ForTerminal: {
		control: replaced, lineBreak: replaced,
		invisible: replaced, joinerRune: replaced, unknown: replaced, invalid: replaced,
	},
	ForJSON: {
		control: escaped, lineBreak: escaped,
		invisible: escaped, joinerRune: escaped, unknown: escaped, invalid: replaced,
	},
	ForReview: {
		control: spelledOut, lineBreak: spelledOut,
		invisible: spelledOut, joinerRune: spelledOut, rightToLeft: spelledOut,
		otherBlank: spelledOut, unknown: spelledOut, invalid: spelledOut, lookalike: spelledOut,
	},
	ForPlan: {
		control: spelledOut, lineBreak: spelledOut,
		invisible: spelledOut, joinerRune: spelledOut, unknown: spelledOut, invalid: spelledOut,
	},
}

// LoneSurrogates is where text holds a surrogate that has no partner: as LoneSurrogates
// plus the surrogate, a code point of Unicode's last private plane. A JavaScript program
// that cuts a text within a character leaves such a half. JSON can write it (\ud83d), and
// UTF-8 cannot.
const LoneSurrogates = 0x100000

type placeRow [runeKindCount]treatment

type treatment int

const (
	kept       treatment = iota
	dropped              // except for the Braille pattern without dots, which becomes a blank
	blank                // " "
	newline              // "\n"
	replaced             // U+FFFD
	spelledOut           // ‹U+202E›, a byte ‹0xFF›
	escaped              // \u202e
)

type runeKind int

const (
	// a whole escape sequence; where it is kept, each of its characters is treated by its
	// own kind
	sequence  runeKind = iota
	control            // a control character other than "\n", which is always kept
	lineBreak          // "\r", "\r\n", U+2028 and U+2029
	tab
	// shows nothing itself, but reorders other text or hides words that no person sees
	invisible
	// a joiner or a variation selector that has no effect where it stands
	joinerRune
	rightToLeft // a right-to-left character: a screen reorders the text around it
	otherBlank  // looks like a blank and is another character
	unknown     // private use or unassigned: a font may show nothing
	invalid     // a byte that is not UTF-8
	// a character that a reader may take for ASCII punctuation, or that changes how such
	// a sign looks
	lookalike
	runeKindCount
	visible = runeKindCount
)

const (
	zeroWidthNonJoiner = '\u200c' // used in Persian and Indic scripts
	zeroWidthJoiner    = '\u200d' // used in emoji as well
	textSelector       = '\ufe0e'
	emojiSelector      = '\ufe0f'
	blankBraille       = '\u2800'
	headlessNote       = '\U0001d159' // a musical note without a head shows nothing
)

// invisibleRanges are the characters of Unicode that show nothing.
var invisibleRanges = []*unicode.RangeTable{
	unicode.Cf, unicode.Variation_Selector,
	unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point,
}

// rightToLeftBlocks are the blocks that Unicode reserves for right-to-left scripts, with
// their digits and signs.
var rightToLeftBlocks = &unicode.RangeTable{
	R16: []unicode.Range16{{0x590, 0x8ff, 1}, {0xfb1d, 0xfdff, 1}, {0xfe70, 0xfeff, 1}},
	R32: []unicode.Range32{{0x10800, 0x10fff, 1}, {0x1e800, 0x1efff, 1}},
}

// widthVariants are the wide and narrow forms of ASCII signs, and modifier letters that
// stand alone.
var widthVariants = &unicode.RangeTable{R16: []unicode.Range16{
	{0x2c2, 0x2df, 1}, {0xa789, 0xa78a, 1}, {0xff01, 0xff0f, 1}, {0xff1a, 0xff20, 1},
	{0xff3b, 0xff40, 1}, {0xff5b, 0xff65, 1}, {0xffe0, 0xffee, 1},
}}

// clickLetters are letters that look like | and !, and one that looks like a full stop.
var clickLetters = &unicode.RangeTable{R16: []unicode.Range16{
	{0x1c0, 0x1c0, 1}, {0x1c3, 0x1c3, 1}, {0xa4f8, 0xa4f8, 1},
}}

// IsASCIILookalike reports whether r is no ASCII character but looks like one or more of
// them.
func IsASCIILookalike(r rune) bool { return unicode.Is(asciiLookalikes, r) }

// reviewMarkEscaper and planMarkEscaper spell out characters that we ourselves use as
// marks in text for a person who decides. A plan keeps its bullets.
var (
	reviewMarkEscaper = strings.NewReplacer(
		"‹", "‹U+2039›",
		"›", "‹U+203A›",
		"•", "‹U+2022›",
		"⋯", "‹U+22EF›",
	)
	planMarkEscaper = strings.NewReplacer("‹", "‹U+2039›", "›", "‹U+203A›")
)

// isPunctuationLookalike reports whether r could pass for a sign that matters in a shell
// command or a path: any punctuation outside ASCII counts. The characters with which
// we mark what was changed do not count here: reviewMarkEscaper handles them.
func isPunctuationLookalike(r rune) bool {
	isLetter := unicode.In(r, unicode.L, unicode.N) && !unicode.In(r, unicode.Lm, clickLetters)
	isSign := unicode.IsPunct(r) || unicode.Is(widthVariants, r) || !isLetter && IsASCIILookalike(r)
	return isSign && !strings.ContainsRune("‹›•⋯", r)
}

// CleanForReview returns foreign text for a person who is asked to allow it; place is
// ForReview or ForPlan. The person sees every character, API keys of known formats are
// masked, and nothing in the text can pass for a mark of ours.
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
		// Arabic signs around numbers are visible, although Unicode counts them as format
		// characters (Cf)
		return rightToLeft
	case unicode.In(r, invisibleRanges...), r == blankBraille, r == headlessNote:
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

// EscapeSequencePattern matches a whole escape sequence (ECMA-48; what xterm and tmux
// read): a CSI sequence; an OSC or similar string with its terminator; or a short
// sequence. Of a string without a terminator only the introducer matches: a terminal
// would swallow the rest of the text, and the person would miss it.
var EscapeSequencePattern = LazyPattern(`(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]?` +
	`|(?:\x1b[\]PX^_]|[\x{90}\x{98}\x{9d}\x{9e}\x{9f}])(?:[^\a\x1b\x{9c}\r\n]*(?:\a|\x{9c}|\x1b\\))?` +
	`|\x1b[NO][ -~]?|\x1b[ -/]*[0-~]?`)

// Clean returns text made safe for its place. The result is UTF-8, and Clean of it
// changes nothing.
func Clean(place TextPlace, text string) string {
	treats := &treatments[place]
	mayChange := func(r rune) bool {
		isPlain := r >= ' ' && r <= '~' || r == '\n' || r == '\t' && treats[tab] == kept
		return !isPlain
	}
	if !strings.ContainsFunc(text, mayChange) { // mostly
		return text
	}
	if treats[sequence] == dropped &&
		strings.ContainsAny(text, "\x1b\u0090\u0098\u009b\u009d\u009e\u009f") {
		text = EscapeSequencePattern().ReplaceAllString(text, "")
	}
	var b strings.Builder
	b.Grow(len(text))
	var before rune // the last character kept so far; 0 after a replacement
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

// kindInContext returns the kind of a character where it stands. A joiner that has an
// effect there counts as visible. A combining mark on anything but a letter may look like
// an ASCII sign.
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

// firstKept returns the first character of text; 0 where the place does not keep it.
func (p *placeRow) firstKept(text string) rune {
	r, size := utf8.DecodeRuneInString(text)
	if r == utf8.RuneError && size < 2 || !p.keeps(runeKindOf(r)) {
		return 0
	}
	return r
}

// joinerActs reports whether the joiner or selector r has an effect between these two
// characters.
func joinerActs(before, r, after rune) bool {
	if r == zeroWidthNonJoiner || r == zeroWidthJoiner {
		return isJoinable(before) && isJoinable(after)
	}
	hasVariants := before > '~' && unicode.Is(unicode.S, before) ||
		strings.ContainsRune("‼⁉〰ℹ", before)
	// after a digit, # or *, U+20E3 makes a keycap
	return hasVariants || after == '\u20e3' && strings.ContainsRune("0123456789#*", before)
}

// isJoinable reports whether joiners have an effect on r: it is a symbol, a mark, or a
// letter of a script that has neither cases nor ideographs.
func isJoinable(r rune) bool {
	return r > 0xff && unicode.In(r, unicode.Lo, unicode.M, unicode.S) &&
		!unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

// replacement returns what takes the place of a character that is not kept. rest is the
// text after it.
func (t treatment) replacement(k runeKind, r rune, rest string) (s string) {
	switch {
	case t == dropped && r != blankBraille,
		t == newline && r == '\r' && strings.HasPrefix(rest, "\n"): // the "\n" makes the break
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

// OneLine returns text for a terminal, on one line.
func OneLine(text string) string {
	return strings.Join(strings.Fields(Clean(ForTerminal, text)), " ")
}

const maskText = "•••"

// keyPattern matches API keys of known formats: a prefix, which is shown, and the rest,
// which is masked. The rest has only characters that mean nothing to a shell. A text is
// never masked for the name or option before it: it may be what runs. The longest length
// of a key is not part of the expression: counted there, it cost each waiting hook 6 MB
// and 7 ms.
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
	// keyPrefix matches the part of a key that says whose key it is and holds no secret.
	keyPrefix = LazyPattern(
		`^(?:hooks\.slack\.com/services/T[A-Z0-9]+/B[A-Z0-9]+/|discord(?:app)?\.com/api/webhooks/[0-9]+/|` +
			`sk-(?:ant-[a-z]+[0-9]+|proj|svcacct|admin|or-v1)-|github_pat_|AGE-SECRET-KEY-1|dckr_pat_|lin_api_|` +
			`(?:sk|rk|pk)_(?:live|test)_|do[opr]_v1_|[0-9]{8,10}:|[A-Za-z0-9]{2,6}[_.-]|A[A-Z]{3}|AIza|1//0|SK|eyJ)`,
	)
	// privateKeyPattern matches a private key as PEM, with real line breaks or those of
	// JSON text. pemLinePattern matches a line of its body.
	privateKeyPattern = LazyPattern(
		`-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----(?:[A-Za-z0-9+/=\r\n]|\\n|\\r)+` +
			`-----END (?:[A-Z0-9]+ )*PRIVATE KEY-----`,
	)
	pemLinePattern = LazyPattern(`((?:^|[\r\n]|\\n|\\r))([A-Za-z0-9+/]+={0,2})([A-Za-z0-9+/=]*)`)
)

// keyMarks are texts of which every key in keyPattern has one. Most commands have none,
// and the expression costs a waiting hook 0.4 MB.
var keyMarks = []string{
	"AKIA", "ASIA", "ABIA", "ACCA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_",
	"glpat-", "glptt-", "gldt-", "glrt-", "glcbt-", "gloas-", "xox", "xapp-", "hooks.slack.com/", "/api/webhooks/",
	"sk-", "sk_", "rk_", "pk_", "whsec_", "AIza", "ya29.", "GOCSPX-", "1//0", "npm_", "pypi-", "hf_", "SG.", "SK", "_v1_",
	"shpat_", "shpca_", "shppa_", "shpss_", "hvs.", "hvb.", "hvr.", "AGE-SECRET-KEY-1", ":AA", "key-", "glsa_", "dckr_pat_",
	"lin_api_", "eyJ",
}

// How many characters of a key are masked at most. A JWT, a token in three parts, may be
// longer than a key.
const (
	maxKeyLength   = 255
	maxTokenLength = 3000
)

// minKeyLine is the shortest length of a full line in a private key. A line of that
// length without a slash, which is no path, is masked even where this program cannot read
// the key.
const minKeyLine = 40

// MaskKeys masks API keys of known formats and private keys in text that people are
// shown, and nothing else: of a command, the person sees what runs. It masks only
// characters of A-Z, a-z, 0-9 and _+/=.~- and no more of each key than its format allows.
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

// isPrivateKey reports whether a PEM block holds exactly one private key and nothing
// else.
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
