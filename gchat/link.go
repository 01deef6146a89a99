package gchat

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// longestLink bounds a link's URL and its label, in bytes: a link is never cut in two.
const longestLink = 2048

// link gives a link in Chat's syntax, "<url|label>", whose URL ends at the first "|" and whose label at the first ">".
// It does so only for the web, and only where the label does not claim that the link leads elsewhere; other links are
// shown as text, with their target.
func link(label, destination string) string {
	label = strings.Join(strings.Fields(label), " ")
	target := strings.TrimSpace(literal([]byte(destination)))
	u, ok := webURL(target)
	if !ok {
		return labelled(label, strings.TrimPrefix(target, "mailto:"))
	}
	target = u.String()
	switch {
	case label == "", names(label, u):
		return target
	case u.User != nil, lies(label, u), len(target) > longestLink, len(label) > longestLink:
		return labelled(label, target)
	}
	return string(linkOpen) + target + "|" + labelMarks.Replace(label) + string(linkClose)
}

// labelMarks end a label, for some readers of Chat's syntax.
var labelMarks = strings.NewReplacer("<", "‹", ">", "›", "|", "¦")

// image gives an image as its description and its address: a message's text has no images.
func image(alt, destination string) string {
	target := strings.TrimSpace(literal([]byte(destination)))
	if u, ok := webURL(target); ok {
		target = u.String()
	}
	return labelled(strings.Join(strings.Fields(alt), " "), target)
}

func labelled(label, target string) string {
	switch {
	case label == target, target == "":
		return label
	case label == "":
		return target
	}
	return label + " (" + target + ")"
}

// webURL reads an absolute http or https URL. What Chat's syntax or a browser would take for something else is
// percent-encoded.
func webURL(s string) (*url.URL, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c := s[i]; c <= ' ' || c == 0x7F || strings.IndexByte("|<>\"'`\\^{}", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	s = b.String()
	if strings.ContainsFunc(s, unicode.IsSpace) { // beyond ASCII
		return nil, false
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "" {
		return nil, false
	}
	return u, true
}

// names says that the label is the URL itself, in full or without its scheme.
func names(label string, u *url.URL) bool {
	bare := func(s string) string {
		s = strings.TrimPrefix(strings.TrimPrefix(s, "https://"), "http://")
		return strings.TrimSuffix(strings.TrimPrefix(s, "www."), "/")
	}
	return u.User == nil && bare(label) == bare(u.String())
}

// host finds what looks like a URL, a domain, an e-mail address or an IP address.
var host = lazy(`(?:[\p{L}\p{N}+.-]+:/*)?//[^/?#\s]+|(?:[\p{L}\p{N}\p{M}_-]+\.)+\p{L}[\p{L}\p{N}\p{M}-]+|\d+(?:\.\d+){3}`)

// Files are often labels of links to them. Those whose ending is a top-level domain too must be in the URL's path.
const (
	fileEndings = " go js mjs ts tsx jsx json jsonl yaml yml toml txt css scss html htm log csv tsv xml lock mod sum png " +
		"jpg jpeg gif svg pdf sql proto java kt swift rb c h cpp hpp php ini cfg conf env tmpl patch diff "
	domainEndings = " md py rs sh cc pl so zip ps "
)

// lies says that the label names another host than the link leads to.
func lies(label string, u *url.URL) bool {
	label = strings.Map(func(r rune) rune {
		switch {
		case r >= '！' && r <= '～':
			return r - '！' + '!'
		case r == '。', r == '｡', r == '․', r == '·':
			return '.'
		case r == '∕', r == '⁄':
			return '/'
		case r == nonJoiner, r == joiner, isSelector(r):
			return -1
		}
		return r
	}, label)
	for _, named := range host().FindAllString(label, -1) {
		if _, after, ok := strings.Cut(named, "//"); ok {
			named = after
		}
		named = strings.TrimRight(named, ".:,;!)]'\"")
		if at, _, ok := strings.Cut(named, ":"); ok {
			named = at
		}
		ending := " " + strings.ToLower(named[strings.LastIndexByte(named, '.')+1:]) + " "
		switch {
		case sameHost(named, u.Hostname()):
		case strings.Contains(fileEndings, ending):
		case strings.Contains(domainEndings, ending) && slices.Contains(strings.Split(u.Path, "/"), named):
		default:
			return true
		}
	}
	return false
}

func sameHost(a, b string) bool {
	bare := func(s string) string { return strings.TrimPrefix(strings.ToLower(s), "www.") }
	return bare(a) == bare(b)
}
