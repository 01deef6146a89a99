package cli

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
)

// ptyDialog is a person's terminal with a program in it: what they see, and what they
// type.
type ptyDialog struct {
	testing.TB
	pty        *os.File
	cmd        *exec.Cmd
	mu         sync.Mutex
	output     strings.Builder // all of it
	expectFrom int             // what expect has not passed yet
}

// startDialog starts a program on a terminal of its own.
func (h *home) startDialog(name string, args ...string) *ptyDialog {
	h.Helper()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		h.Skip("no terminals to be had: ", err)
	}
	n, err := unix.IoctlGetInt(int(pty.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(pty.Fd()), unix.TIOCSPTLCK, 0)
	}
	kit.NoError(h, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		h.Skip("no terminals to be had: ", err)
	}
	defer tty.Close()
	dialog := &ptyDialog{TB: h, pty: pty, cmd: exec.Command(name, args...)}
	dialog.cmd.Stdin, dialog.cmd.Stdout, dialog.cmd.Stderr = tty, tty, tty
	dialog.cmd.Env = append([]string{"TERM=dumb"}, h.env...)
	dialog.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	kit.NoError(h, dialog.cmd.Start())
	readDone := make(chan struct{})
	go func() {
		defer close(readDone)
		buf := make([]byte, 4096)
		for {
			n, err := pty.Read(buf)
			dialog.mu.Lock()
			dialog.output.Write(buf[:n])
			dialog.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	h.Cleanup(func() {
		_ = dialog.cmd.Process.Kill()
		_ = dialog.cmd.Wait()
		pty.Close()
		<-readDone
	})
	return dialog
}

func (dialog *ptyDialog) screen() string {
	dialog.mu.Lock()
	defer dialog.mu.Unlock()
	return strings.ReplaceAll(dialog.output.String(), "\r\n", "\n")
}

// expect waits until something that matches each pattern shows, one below the other and
// all below what the last call found. It returns what the last one matches.
func (dialog *ptyDialog) expect(patterns ...string) (found string) {
	dialog.Helper()
	for _, pattern := range patterns {
		re := regexp.MustCompile(pattern)
		var screen string
		var match []int
		isShown := bound.WaitFor(bound.Patience, func() bool {
			screen = dialog.screen()
			match = re.FindStringIndex(screen[dialog.expectFrom:])
			return match != nil
		})
		if !isShown {
			passed := screen[max(0, dialog.expectFrom-60):dialog.expectFrom]
			dump := dialog.killAndDump()
			dialog.Fatalf("%q does not show below %q:\n%s\n%s", pattern, passed, screen, dump)
		}
		found = screen[dialog.expectFrom+match[0] : dialog.expectFrom+match[1]]
		dialog.expectFrom += match[1]
	}
	return found
}

// killAndDump ends the program, and returns what it did and, from its terminal, its
// goroutines.
func (dialog *ptyDialog) killAndDump() string {
	before := len(dialog.screen())
	report := bound.Kill(dialog.cmd.Process.Pid)
	return report + dialog.screen()[before:]
}

func (dialog *ptyDialog) typeText(text string) {
	dialog.Helper()
	_, err := dialog.pty.WriteString(text)
	kit.NoError(dialog, err)
}

// answerPrompt types a line when the question shows.
func (dialog *ptyDialog) answerPrompt(question, line string) {
	dialog.Helper()
	dialog.expect(question)
	dialog.typeText(line + "\n")
}

// awaitEcho waits until the terminal shows what is typed, or hides it.
func (dialog *ptyDialog) awaitEcho(want bool) {
	dialog.Helper()
	bound.Until(dialog, fmt.Sprint("echo is ", want), func() bool {
		termios, err := unix.IoctlGetTermios(int(dialog.pty.Fd()), unix.TCGETS)
		kit.NoError(dialog, err)
		return termios.Lflag&unix.ECHO != 0 == want
	})
}

// wantExit waits for the program, and fails the test if it ends with another code.
func (dialog *ptyDialog) wantExit(want int) {
	dialog.Helper()
	done := make(chan error, 1)
	go func() { done <- dialog.cmd.Wait() }()
	select {
	case <-done:
		if code := dialog.cmd.ProcessState.ExitCode(); code != want {
			dialog.Errorf("exit code %d, want %d:\n%s", code, want, dialog.screen())
		}
	case <-time.After(30 * time.Second):
		dialog.Fatalf("it does not end:\n%s\n%s", dialog.screen(), dialog.killAndDump())
	}
}

// wantHidden fails the test if one of these texts is on the screen.
func (dialog *ptyDialog) wantHidden(secrets ...string) {
	dialog.Helper()
	for _, secret := range secrets {
		if strings.Contains(dialog.screen(), secret) {
			dialog.Errorf("%s is on the screen:\n%s", secret, dialog.screen())
		}
	}
}

// setupHome is a person who has nothing yet but a space.
type setupHome struct {
	*home
	space                 *space.Space
	webhookURL, serverURL string
}

func newSetupHome(t *testing.T) *setupHome {
	t.Helper()
	s := &setupHome{home: newHome(t)}
	var server *httptest.Server
	s.space, server = serveSpace(t, space.Options{}, nil)
	s.webhookURL, s.serverURL = s.space.WebhookURL(server.URL), server.URL
	return s
}

// runSetup runs setup in a terminal.
func (h *home) runSetup(args ...string) *ptyDialog {
	h.Helper()
	return h.startDialog(h.program, append([]string{"setup"}, args...)...)
}

// reply has somebody reply in the thread of the last message.
func (s *setupHome) reply(user *chat.User, text string) {
	s.Helper()
	messages := s.space.Messages()
	_, err := s.space.PostAs(user, messages[len(messages)-1].Thread.Name, text)
	kit.NoError(s, err)
}

// webhookSecret is what nobody may see of the webhook's URL.
func (s *setupHome) webhookSecret() string {
	_, secret, _ := strings.Cut(s.webhookURL, "token=")
	return secret
}

// fakeGoogle is a home whose Google has an OAuth login before its space.
type fakeGoogle struct {
	*setupHome
	server      *httptest.Server
	accessToken atomic.Pointer[string] // the token that is good now
	refused     atomic.Int64
}

func newFakeGoogle(t *testing.T) *fakeGoogle {
	t.Helper()
	g := &fakeGoogle{setupHome: newSetupHome(t)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /auth", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		answer := url.Values{
			"code": {"4/0Acode"}, "state": {q.Get("state")}, "scope": {q.Get("scope")},
		}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+answer.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		token := "scope:chat.messages.readonly,chat.spaces.readonly,ya29.access"
		g.accessToken.Store(&token)
		w.Header().Set("Content-Type", "application/json")
		const scope = "https://www.googleapis.com/auth/chat.messages.readonly" +
			" https://www.googleapis.com/auth/chat.spaces.readonly"
		fmt.Fprintf(w, `{"access_token":%q,"refresh_token":"1//0refresh","expires_in":3599,`+
			`"token_type":"Bearer","id_token":"e30.%s.s",`+
			`"scope":%q}`, token, base64.RawURLEncoding.EncodeToString(
			[]byte(`{"aud":"1.apps.googleusercontent.com","sub":"7"}`)), scope)
	})
	chatHandler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := g.accessToken.Load()
		if token == nil || r.Header.Get("Authorization") != "Bearer "+*token {
			g.refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w,
				`{"error":{"code":401,"status":"UNAUTHENTICATED","message":"no such token"}}`)
			return
		}
		r.Host = strings.TrimPrefix(g.serverURL, "http://")
		if r.Method == http.MethodGet { // the space has a token where Google has a login
			r.URL.Path = strings.TrimSuffix(g.space.APIEndpoint(""), "/") + r.URL.Path
		}
		g.space.Handler().ServeHTTP(w, r)
	})
	mux.Handle("/v1/", strict.CheckRequests(t, chatHandler))
	g.server = kit.NewTLSServer(t, mux)
	cert := filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: g.server.Certificate().Raw}
	kit.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(block), 0o600))
	g.env = append(g.env, "SSL_CERT_FILE="+cert, "GCHAT_API_ENDPOINT="+g.server.URL)
	return g
}

// writeClientFile is what the console offers for download.
func (g *fakeGoogle) writeClientFile() string {
	path := filepath.Join(g.TempDir(), "client_secret.json")
	file := fmt.Sprintf(`{"installed":{"client_id":"1.apps.googleusercontent.com","auth_uri":%q,`+
		`"token_uri":%q,"client_secret":"GOCSPX-s","redirect_uris":["http://localhost"]}}`,
		g.server.URL+"/auth", g.server.URL+"/token")
	kit.NoError(g, os.WriteFile(path, []byte(file), 0o600))
	return path
}

// agreeToLogin opens the address that is shown, as the person's browser does, and says
// yes.
func (g *fakeGoogle) agreeToLogin(dialog *ptyDialog) {
	g.Helper()
	resp, err := g.server.Client().Get(dialog.expect(`https://127\.0\.0\.1:\d+/auth\?\S+`))
	kit.NoError(g, err)
	defer resp.Body.Close()
	page, _ := io.ReadAll(resp.Body)
	kit.Containsf(g, string(page), "You are logged in", "the browser ends on %s:", resp.Status)
}
