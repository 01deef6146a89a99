package state

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"strings"
)

// masked stands in place of a secret.
const masked = "•••"

// keyShapes are the keys of makers as they look: how they begin, which stays, and the rest, which is hidden. The rest has only
// characters that no shell acts upon. What follows a name or an option is never hidden by that: it may be what runs.
var keyShapes = Pattern(`(\b(?:` + strings.Join([]string{
	`A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}`,
	`gh[pousr]_[A-Za-z0-9]{20,255}`, `github_pat_[A-Za-z0-9_]{20,255}`, `gl(?:pat|ptt|dt|rt|cbt|oas)-[A-Za-z0-9_-]{16,255}`,
	`xox[a-z]-[0-9A-Za-z-]{10,255}`, `xapp-[0-9]-[A-Za-z0-9-]{10,255}`,
	`hooks\.slack\.com/services/T[A-Z0-9]+/B[A-Z0-9]+/[A-Za-z0-9]{20,255}`,
	`discord(?:app)?\.com/api/webhooks/[0-9]+/[A-Za-z0-9_-]{20,255}`,
	`sk-(?:ant-[a-z]+[0-9]+|proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{20,255}`, `sk-[A-Za-z0-9]{32,64}`,
	`(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,255}`, `whsec_[A-Za-z0-9+/=]{16,255}`,
	`AIza[A-Za-z0-9_-]{30,255}`, `ya29\.[A-Za-z0-9_.-]{10,255}`, `GOCSPX-[A-Za-z0-9_-]{10,255}`, `1//0[A-Za-z0-9_-]{20,255}`,
	`npm_[A-Za-z0-9]{30,255}`, `pypi-[A-Za-z0-9_-]{60,255}`, `hf_[A-Za-z0-9]{30,255}`,
	`SG\.[A-Za-z0-9_-]{16,255}\.[A-Za-z0-9_-]{16,255}`, `SK[0-9a-f]{32}`, `do[opr]_v1_[0-9a-f]{32,255}`,
	`shp(?:at|ca|pa|ss)_[0-9a-fA-F]{24,255}`, `hv[sbr]\.[A-Za-z0-9_-]{20,255}`, `AGE-SECRET-KEY-1[A-Z0-9]{40,255}`,
	`[0-9]{8,10}:AA[A-Za-z0-9_-]{30,255}`, `key-[0-9a-f]{32}`, `glsa_[A-Za-z0-9_]{30,255}`,
	`dckr_pat_[A-Za-z0-9_-]{20,255}`, `lin_api_[A-Za-z0-9]{30,255}`,
	`eyJ[A-Za-z0-9_-]{8,1000}\.eyJ[A-Za-z0-9_-]{8,1000}\.[A-Za-z0-9_-]{0,1000}`,
}, `|`) + `))`)

var (
	// keyStart is how the shapes begin: up to here a key tells what it is, and no secret.
	keyStart = Pattern(`^(?:hooks\.slack\.com/services/T[A-Z0-9]+/B[A-Z0-9]+/|discord(?:app)?\.com/api/webhooks/[0-9]+/|` +
		`sk-(?:ant-[a-z]+[0-9]+|proj|svcacct|admin|or-v1)-|github_pat_|AGE-SECRET-KEY-1|dckr_pat_|lin_api_|` +
		`(?:sk|rk|pk)_(?:live|test)_|do[opr]_v1_|[0-9]{8,10}:|[A-Za-z0-9]{2,6}[_.-]|A[A-Z]{3}|AIza|1//0|SK|eyJ)`)
	// privateKey is a private key as PEM, with its line breaks, or with those of a JSON text. pemLine is a line of its body.
	privateKey = Pattern(`-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----(?:[A-Za-z0-9+/=\r\n]|\\n|\\r)+` +
		`-----END (?:[A-Z0-9]+ )*PRIVATE KEY-----`)
	pemLine = Pattern(`((?:^|[\r\n]|\\n|\\r))([A-Za-z0-9+/]+={0,2})([A-Za-z0-9+/=]*)`)
)

// keyLine is how long a line of a key is at least. One without a slash is hidden, also of a key that this program cannot read: it
// is no path.
const keyLine = 40

// MaskKeys hides the keys of known makers in text that people are shown, and nothing else: of a command, what runs is shown. It
// hides characters of A-Z, a-z, 0-9 and _+/=.~- alone, and of each key no more than its maker's keys have.
func MaskKeys(s string) string {
	s = keyShapes().ReplaceAllStringFunc(s, func(key string) string { return keyStart().FindString(key) + masked })
	return privateKey().ReplaceAllStringFunc(s, func(block string) string {
		head, rest, _ := strings.Cut(block, "KEY-----")
		body, end, _ := strings.Cut(rest, "-----END")
		real := isPrivateKey(block)
		body = pemLine().ReplaceAllStringFunc(body, func(line string) string {
			parts := pemLine().FindStringSubmatch(line)
			if parts[3] == "" && (real || len(parts[2]) >= keyLine && !strings.Contains(parts[2], "/")) {
				return parts[1] + masked
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
	var again []byte
	if key, err := x509.ParsePKCS8PrivateKey(p.Bytes); err == nil {
		again, _ = x509.MarshalPKCS8PrivateKey(key)
	} else if key, err := x509.ParsePKCS1PrivateKey(p.Bytes); err == nil {
		again = x509.MarshalPKCS1PrivateKey(key)
	} else if key, err := x509.ParseECPrivateKey(p.Bytes); err == nil {
		again, _ = x509.MarshalECPrivateKey(key)
	}
	return bytes.Equal(again, p.Bytes)
}
