package state

import (
	"bytes"
	"context"
	"io"
	"os"
)

// checkLog looks whether the log, which people send to each other, holds the secrets that are configured.
func checkLog(ctx context.Context, env Getenv) []Finding {
	cfg := LoadConfig(env, ProjectDir(env))
	var r Redactor
	r.HideConfigured(env, cfg)
	for _, path := range []string{LogPath(env), LogPath(env) + ".1"} {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		b, _ := io.ReadAll(io.LimitReader(f, maxLog+secretMax))
		f.Close()
		if ctx.Err() == nil && r.finds(b) {
			return []Finding{{Level: LevelFail, What: "the log holds a secret: " + path, Means: "whoever gets the log can post as you; please report it as a bug",
				Mend: "rm " + quoted(path) + ", and make a new webhook or key"}}
		}
	}
	return Fine("the log holds no secret")
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
