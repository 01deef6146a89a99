package state

import (
	"regexp"
	"strings"
	"sync"
)

// masked stands in place of a secret.
const masked = "•••"

// secretNames are the ends of names that secrets are given under, in a shell, in JSON, in YAML and as options.
const secretNames = `(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|apikey|access[_-]?key|private[_-]?key|` +
	`account[_-]?key|shared[_-]?access[_-]?key|auth[_-]?key|encryption[_-]?key|signing[_-]?key|` +
	`secret[_-]?key(?:[_-]?base)?|secret[_-]?access[_-]?key|` +
	`client[_-]?secret|refresh[_-]?token|session[_-]?key|credentials?|_auth|_authtoken)`

// maskShapes are secrets as they look, each with its first group kept. They are tried in order.
var maskShapes = sync.OnceValue(func() (all []*regexp.Regexp) {
	for _, shape := range []string{
		// blocks of keys: what a key is written in, line breaks also as \n, and no blanks in a line, so that no command is hidden
		`(-----BEGIN [A-Z0-9 ]*(?:PRIVATE KEY|PGP MESSAGE)[A-Z ]*-----)` +
			`(?:[\r\n]|\\n|\\r|[A-Za-z0-9+/=]{40,}|(?:Proc-Type|DEK-Info|Version|Comment): \S+)+` +
			`(?:[A-Za-z0-9+/=]*(?:[\r\n]|\\n|\\r)*-----END [A-Z0-9 ]*-----)?`,
		// what begins as the keys of a maker do
		`()\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b`,
		`()\bgh[pousr]_[A-Za-z0-9]{20,}`, `()\bgithub_pat_\w{20,}`, `()\bgl(?:pat|ptt|dt|rt|cbt|oas)-[\w-]{16,}`,
		`()\bxox[a-z]-[A-Za-z0-9-]{10,}`, `()\bxapp-[A-Za-z0-9-]{10,}`,
		`(hooks\.slack\.com/(?:services|workflows|triggers)/)[\w/+-]{10,}`,
		`(discord(?:app)?\.com/api/webhooks/\d+/)[\w-]{20,}`,
		`()\bsk-(?:ant-|proj-|svcacct-|or-)?[\w-]{20,}`, `()\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}`,
		`()\bwhsec_[\w+/=-]{16,}`, `()\bAIza[\w-]{30,}`, `()\bya29\.[\w.-]{10,}`, `()\bGOCSPX-[\w-]{10,}`, `()\b1//0[\w-]{20,}`,
		`()\bnpm_[A-Za-z0-9]{20,}`, `()\bpypi-[\w-]{20,}`, `()\bhf_[A-Za-z0-9]{20,}`, `()\bSG\.[\w-]{16,}\.[\w-]{16,}`,
		`()\bSK[0-9a-f]{32}\b`, `()\bdo[opr]_v1_[0-9a-f]{32,}`, `()\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{24,}`,
		`()\bhv[sbr]\.[\w-]{20,}`, `()\bAGE-SECRET-KEY-1[A-Z0-9]{40,}`, `()\b\d{8,10}:AA[\w-]{30,}`, `()\bkey-[0-9a-f]{32}\b`,
		`()\bglsa_[\w]{20,}`, `()\b(?:dckr_pat_|lin_api_|ntn_|secret_|figd_|pscale_(?:tkn|pw)_|sbp_|vercel_|fo1_|EAAC)[\w-]{20,}`,
		`()\beyJ[\w-]{8,}\.[\w-]{8,}\.?[\w-]*`,
		// what stands behind a name
		`((?i:authorization|proxy-authorization)["']?\s*[:=]\s*["']?(?i:basic|bearer|token|digest|bot)?\s*)[^\s"',;]{6,}`,
		`((?i:\bbearer)\s+)[\w.~+/=-]{12,}`,
		`((?i:\bx-[a-z-]*(?:key|token|secret))["']?\s*[:=]\s*["']?)[^\s"',;]{6,}`,
		`(\b[a-z][a-z0-9+.-]*://[^\s:/?#@"']*:)[^\s@"']+(?:@)`,
		`([?&;](?i:key|token|access_token|sig|signature|code|password|api_key|apikey|secret)=)[^\s&"'<>]+`,
		`((?:^|[\s"'])(?:-u ?|--user[ =]|--proxy-user[ =])["']?[^\s:"'$]+:)[^\s"'$]+`,
		`((?:^|[\s;&|(])(?:mysql|mysqldump|mariadb)\b[^\n;|&]*?\s-p)[^\s"'$-][^\s"']*`,
		`(\bsshpass\s+-p\s*)[^\s"'$]+`,
		`((?i:\bmachine)\s+\S+\s+(?i:login)\s+\S+\s+(?i:password)\s+)\S+`,
		`((?i)--?[a-z-]*` + secretNames + `(?:[ =]))(?:"[^"$][^"]*"|'[^']+'|[^\s"'$=-][^\s"']*)`,
		`((?i)(?:\b|_)(?:\w*[_.-])?` + secretNames + `["']?\s*(?:=|:=|:|=>)\s*)` +
			`(?:"[^"$][^"]*"|'[^'$][^']*'|[^\s"'$,;&|(){}<>][^\s"',;&|(){}]{3,})`,
	} {
		all = append(all, regexp.MustCompile(shape))
	}
	return all
})

// MaskSecrets hides secrets of common shapes in text that people are shown; what names them stays. A secret of no known shape is
// shown.
func MaskSecrets(s string) string {
	for _, shape := range maskShapes() {
		s = shape.ReplaceAllStringFunc(s, func(found string) string {
			kept := shape.FindStringSubmatch(found)
			value := found
			if len(kept) > 1 {
				value = found[len(kept[1]):]
			}
			switch {
			case harmless(value) || runs(value):
				return found
			case strings.HasSuffix(found, "@"):
				return found[:len(found)-len(value)] + masked + "@"
			}
			return found[:len(found)-len(value)] + quoteOf(value) + masked + quoteOf(value)
		})
	}
	return s
}

// runs says whether a shell would run a part of a value: that must not be hidden.
func runs(value string) bool {
	return strings.Contains(value, "$(") || strings.Contains(value, "`") || strings.Contains(value, "<(")
}

// quoteOf is the quotation mark around a value; "" for none.
func quoteOf(value string) string {
	if len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
		return value[:1]
	}
	return ""
}

// harmless says that what stands in a secret's place is none: a variable, a placeholder, a truth value, or masked already.
func harmless(value string) bool {
	bare := strings.Trim(value, "\"' \r\n")
	switch strings.ToLower(bare) {
	case "", "true", "false", "null", "none", "nil", "string", "undefined":
		return true
	}
	placeholder := strings.HasPrefix(bare, "$") || strings.HasPrefix(bare, "<") || strings.HasPrefix(bare, "{{")
	return placeholder || strings.Contains(bare, masked)
}
