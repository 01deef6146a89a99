package doctor

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/state/config"
)

// refuseWith has the space answer requests of a method with an error of Google's.
func refuseWith(method string, code int, status, message string) func(p *doctorHome) {
	return func(p *doctorHome) {
		p.pretendGoogle()
		p.answerInstead = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != method {
				return false
			}
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(map[string]any{
				"error": map[string]any{"code": code, "status": status, "message": message},
			})
			return true
		}
	}
}

// startGoogle puts TLS before the space, so that it is read with credentials, which
// answer gives a token for, or none.
func startGoogle(p *doctorHome, answer func(w http.ResponseWriter)) *httptest.Server {
	chat := strict.CheckRequests(p, p, strict.Embedded)
	server := kit.NewTLSServer(p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			answer(w)
			return
		}
		chat.ServeHTTP(w, r)
	}))
	ca := filepath.Join(p.binDir, "ca.pem")
	p.writeFile(ca, string(pem.EncodeToMemory(&pem.Block{
		Type: "CERTIFICATE", Bytes: server.Certificate().Raw,
	})), 0o644)
	p.env["SSL_CERT_FILE"] = ca
	p.config["webhook_url"] = p.space.WebhookURL(server.URL)
	p.config["api_endpoint"] = p.space.APIEndpoint(server.URL)
	return server
}

func writeToken(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"access_token": "scope:chat.messages.readonly,ya29.planted-access",` +
		` "token_type": "Bearer", "expires_in": 3600}`))
}

// writeLogin writes a login as gchat-hooks login leaves it.
func (p *doctorHome) writeLogin(server *httptest.Server, change func(*config.Login)) {
	l := &config.Login{
		ClientID: "id", ClientSecret: plantedClient, RefreshToken: plantedRefresh,
		TokenURI: server.URL + "/token", User: "users/1",
	}
	change(l)
	p.check(l.Save(filepath.Join(p.userState(), "login.json")))
}

// writeCredentials writes a credentials file of the person's own, and configures it.
func (p *doctorHome) writeCredentials(server *httptest.Server) string {
	path := filepath.Join(p.home, "own.json")
	p.writeJSON(path, map[string]any{
		"type": "authorized_user", "client_id": "id", "client_secret": plantedClient,
		"refresh_token": plantedRefresh, "token_uri": server.URL + "/token",
	})
	p.config["credentials_file"] = path
	return path
}

// refuseToken says that a login ended at Google.
func refuseToken(w http.ResponseWriter) {
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write([]byte(`{"error": "invalid_grant", "error_description": "Token has been ` +
		`expired or revoked."}`))
}

// setWebhook configures the webhook of a space of Google's with this key and token.
func (p *doctorHome) setWebhook(key, token string) {
	messages := p.space.APIEndpoint(p.server.URL) + "v1/" + googleSpace + "/messages"
	p.config["webhook_url"] = messages + "?key=" + key + "&token=" + token
}

// shiftClock has Chat's clock be ahead of this machine's.
func shiftClock(ahead time.Duration) func(p *doctorHome) {
	return func(p *doctorHome) {
		p.answerInstead = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
			return false
		}
	}
}

func TestChatChecks_FindFaults(t *testing.T) {
	checkFaults(t, []plantedFault{
		{
			"no webhook", "chat.post", Fail, "no webhook", "gchat-hooks setup",
			func(p *doctorHome) { delete(p.config, "webhook_url") },
		},
		{
			"a webhook URL that is none", "chat.post", Fail,
			"not a Chat webhook URL", "the webhook URL is cut off or wrong",
			configure("webhook_url", "https://example.com/x?token="+plantedKey),
		},
		{
			"a webhook command that hangs", "chat.post", Fail,
			"webhook_url_command", "within 4 seconds",
			func(p *doctorHome) {
				p.config = map[string]any{
					"webhook_url_command": "sleep 60",
					"allowed_users":       p.config["allowed_users"],
				}
			},
		},
		{
			"a key that was cut off", "chat.post", Fail,
			"chat answered 400", "the webhook URL is cut off or wrong",
			func(p *doctorHome) { p.setWebhook("k", p.secrets[1]) },
		},
		{
			"a wrong token", "chat.post", Fail,
			"chat answered 403", "token is missing or wrong",
			func(p *doctorHome) { p.setWebhook(p.secrets[0], "wrong") },
		},
		{
			"another embedded space", "chat.post", Fail,
			"chat answered 400", "gchat-hooks setup --space --listen 127.0.0.1:",
			func(p *doctorHome) {
				p.config["webhook_url"] = strings.Replace(fmt.Sprint(p.config["webhook_url"]),
					p.secrets[0], "other", 1)
			},
		},
		{
			"a webhook that was deleted", "chat.post", Fail, "chat answered 404", "was deleted",
			refuseWith("POST", 404, "NOT_FOUND", "gone"),
		},
		{
			"no embedded space", "chat.post chat.read", Fail,
			"connection refused", "gchat-hooks space --listen 127.0.0.1:",
			func(p *doctorHome) { p.server.Close() },
		},
		{
			"a server that says nothing", "chat.post chat.read", Fail,
			"deadline exceeded", "check the network",
			func(p *doctorHome) {
				p.pretendGoogle()
				p.answerInstead = func(_ http.ResponseWriter, r *http.Request) bool {
					// else the server does not see that the client went away
					_, _ = io.Copy(io.Discard, r.Body)
					<-r.Context().Done()
					return true
				}
			},
		},
		{
			"an answer that quotes the webhook", "chat.post", Fail,
			"bad token [secret] in", "token is missing or wrong",
			func(p *doctorHome) {
				refuseWith("POST", 403, "PERMISSION_DENIED",
					"bad token "+p.secrets[1]+" in "+fmt.Sprint(p.config["webhook_url"]))(p)
			},
		},
		{
			"an overloaded Chat", "chat.post", Warn, "503", "run it again later",
			refuseWith("POST", 503, "UNAVAILABLE", "later"),
		},
		{
			"another space", "chat.post", Warn, "spaces/BBBB", "remove space_id",
			configure("space_id", "spaces/BBBB"),
		},
		{
			"an API endpoint that is none", "chat.post", Fail,
			"neither https nor", "set api_endpoint (GCHAT_API_ENDPOINT)",
			configure("api_endpoint", "http://ann:"+plantedKey+"@example.com/"+plantedKey),
		},
		{
			"no member of the space", "chat.read", Fail,
			"chat answered 403", "not a member of the space",
			refuseWith("GET", 403, "PERMISSION_DENIED", "The caller does not have permission"),
		},
		{
			"a scope that is missing", "chat.read", Fail,
			"insufficient authentication scopes", "gchat-hooks login",
			refuseWith("GET", 403, "PERMISSION_DENIED",
				"Request had insufficient authentication scopes."),
		},
		{
			"an API that is not enabled", "chat.read", Fail,
			"has not been used", "enable the Google Chat API",
			refuseWith("GET", 403, "PERMISSION_DENIED",
				"Google Chat API has not been used in project 1"),
		},
		{
			"no credentials", "chat.read", Fail,
			"no usable Google credentials", "gchat-hooks login",
			func(p *doctorHome) { startGoogle(p, writeToken) },
		},
		{
			"a login that ended at Google", "chat.read", Fail,
			"invalid_grant", "gchat-hooks login",
			func(p *doctorHome) {
				p.writeLogin(startGoogle(p, refuseToken), func(*config.Login) {})
			},
		},
		{
			"a token that Google does not take", "chat.read", Fail,
			"chat answered 401", "gchat-hooks login",
			func(p *doctorHome) {
				p.writeLogin(startGoogle(p, writeToken), func(*config.Login) {})
				refuseWith("GET", 401, "UNAUTHENTICATED",
					"Request had invalid authentication credentials.")(p)
			},
		},
		{
			"a credentials file whose login ended at Google", "chat.read", Fail,
			"invalid_grant",
			"(gchat-hooks login); if it ends every 7 days, the OAuth client is in Testing: " +
				"make its consent screen Internal or publish it; a login is used only where " +
				"the webhook is your own",
			func(p *doctorHome) {
				p.writeCredentials(startGoogle(p, refuseToken))
			},
		},
		{
			"a credentials file of somebody who is no member", "chat.read", Fail,
			"chat answered 403", "no credentials_file",
			func(p *doctorHome) {
				p.writeCredentials(startGoogle(p, writeToken))
				refuseWith("GET", 403, "PERMISSION_DENIED",
					"The caller does not have permission")(p)
			},
		},
		{
			"a person who may not answer", "chat.allowed", Warn,
			"who is not on allowed_users and may not answer", "allowed_users",
			func(p *doctorHome) {
				p.writeLogin(startGoogle(p, writeToken), func(l *config.Login) { l.User = "" })
				p.answerInstead = func(w http.ResponseWriter, r *http.Request) bool {
					if !strings.HasSuffix(r.URL.Path, ":search") {
						return false
					}
					w.Header().Set("Content-Type", "application/json")
					_ = json.NewEncoder(w).Encode(map[string]any{"results": []any{map[string]any{
						"message": map[string]any{
							"sender": map[string]any{"name": "users/99", "type": "HUMAN"},
						},
					}}})
					return true
				}
			},
		},
		{
			"nobody may answer", "chat.allowed", Fail,
			"allowed_users is empty", "allowed_users in ~/.config",
			func(p *doctorHome) { delete(p.config, "allowed_users") },
		},
		{
			"a name on the list", "chat.allowed", Warn, `"Ann"`, "users/ID",
			configure("allowed_users", []string{"users/1", "Ann"}),
		},
		{
			"a person by name on the list", "chat.allowed", Warn, `"users/Bob"`, "users/ID",
			configure("allowed_users", []string{
				"users/local-human", "ann@example.com", "users/ann@example.com", "users/Bob",
			}),
		},
		{
			"a clock that is behind", "chat.post", Warn,
			"clock and Chat's differ by", "set-ntp",
			shiftClock(2 * time.Minute),
		},
		{
			"a clock that is far ahead", "chat.post", Warn,
			"clock and Chat's differ by", "set-ntp",
			shiftClock(-time.Hour),
		},
	})
}

// If a space accepts any message, even doctor's empty one, the webhook reaches it.
func TestChatChecks_AnyAnswerIsFine(t *testing.T) {
	p := newDoctorHome(t)
	p.answerInstead = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			_ = json.NewEncoder(w).Encode(chat.Message{Name: "spaces/local/messages/m"})
		}
		return r.Method == http.MethodPost
	}
	p.writeDefaults()
	r := p.runJSON()
	r.wantWell(t)
	r.wantFinding(t, "chat.post", OK, "", "")
}
