package state

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
)

// checkLog looks whether the log, which people send to each other, holds the secrets that are configured.
func checkLog(ctx context.Context, env Getenv) []Finding {
	cfg := LoadConfig(env, ProjectDir(env))
	var r Redactor
	r.HideConfigured(env, cfg)
	r.hideCredentials(cfg.CredentialsFile)
	for _, path := range []string{LogPath(env), LogPath(env) + ".1"} {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		b, _ := io.ReadAll(io.LimitReader(f, maxLog+secretMax))
		f.Close()
		if ctx.Err() == nil && r.finds(b) {
			return []Finding{{Level: LevelFail, What: "the log holds a secret: " + path, Means: "whoever gets the log can post as you; please report it as a bug",
				Mend: "rm " + ShellQuoted(path) + ", and make a new webhook or key"}}
		}
	}
	return Fine("the log holds no secret")
}

// hideCredentials makes the secrets of a credentials file unreadable. Of a private key each line is one: in a log its ends
// of lines are escaped in some way or another.
func (r *Redactor) hideCredentials(path string) {
	b, err := os.ReadFile(path)
	if err != nil {
		return
	}
	var file struct {
		Refresh string `json:"refresh_token"`
		Client  string `json:"client_secret"`
		Key     string `json:"private_key"`
	}
	_ = json.Unmarshal(b, &file)
	r.Hide(file.Refresh)
	r.Hide(file.Client)
	for line := range strings.Lines(file.Key) {
		if !strings.Contains(line, "-----") {
			r.Hide(strings.TrimSpace(line))
		}
	}
}

// finds says whether a text holds one of the secrets.
func (r *Redactor) finds(b []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.secrets {
		if bytes.Contains(b, []byte(s)) {
			return true
		}
	}
	return false
}
