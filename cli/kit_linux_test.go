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

// ptyDialog is a person's ptyDialog with a program in it: what they see, and what they
// type.
type ptyDialog struct {
	t          *testing.T
	pty        *os.File
	cmd        *exec.Cmd
	mu         sync.Mutex
	output     strings.Builder // all of it
	expectFrom int             // what expect has not passed yet
}

// startInTerminal starts a program on a ptyDialog of its own.
func startInTerminal(t *testing.T, env []string, name string, args ...string) *ptyDialog {
	t.Helper()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals to be had: ", err)
	}
	n, err := unix.IoctlGetInt(int(pty.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(pty.Fd()), unix.TIOCSPTLCK, 0)
	}
	kit.NoError(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals to be had: ", err)
	}
	defer tty.Close()
	dialog := &ptyDialog{t: t, pty: pty, cmd: exec.Command(name, args...)}
	dialog.cmd.Stdin, dialog.cmd.Stdout, dialog.cmd.Stderr, dialog.cmd.Env = tty, tty, tty, env
	dialog.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	kit.NoError(t, dialog.cmd.Start())
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
	t.Cleanup(func() {
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

// expect waits until something that matches shows, below what the last one found.
func (dialog *ptyDialog) expect(pattern string) string {
	dialog.t.Helper()
	re := regexp.MustCompile(pattern)
	var screen string
	var match []int
	isShown := bound.WaitFor(bound.Patience, func() bool {
		screen = dialog.screen()
		match = re.FindStringIndex(screen[dialog.expectFrom:])
		return match != nil
	})
	if !isShown {
		dialog.t.Fatalf("%q does not show below %q:\n%s\n%s", pattern, screen[max(0, dialog.expectFrom-60):dialog.expectFrom], screen, dialog.killAndDump())
	}
	found := screen[dialog.expectFrom+match[0] : dialog.expectFrom+match[1]]
	dialog.expectFrom += match[1]
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
	dialog.t.Helper()
	if _, err := dialog.pty.WriteString(text); err != nil {
		dialog.t.Fatal(err)
	}
}

// answerPrompt types a line when the question shows.
func (dialog *ptyDialog) answerPrompt(question, line string) {
	dialog.t.Helper()
	dialog.expect(question)
	dialog.typeText(line + "\n")
}

// waitExit waits for the program, and returns its exit code.
func (dialog *ptyDialog) waitExit() int {
	dialog.t.Helper()
	done := make(chan error, 1)
	go func() { done <- dialog.cmd.Wait() }()
	select {
	case <-done:
		return dialog.cmd.ProcessState.ExitCode()
	case <-time.After(30 * time.Second):
		dialog.t.Fatalf("it does not end:\n%s\n%s", dialog.screen(), dialog.killAndDump())
		return -1
	}
}

// setupHome is a person who has nothing yet but a space.
type setupHome struct {
	t          *testing.T
	home       string
	program    string
	space      *space.Space
	webhookURL string // the webhook's
	serverURL  string
}

func newSetupHome(t *testing.T) *setupHome {
	dir, err := builtProgram()
	kit.NoError(t, err)
	sp, err := space.Open(space.Options{})
	kit.NoError(t, err)
	server := httptest.NewServer(strict.CheckRequests(t, sp.Handler(), strict.Embedded))
	t.Cleanup(func() { server.Close(); sp.Close() })
	home := t.TempDir()
	t.Cleanup(func() {
		// before the folder goes: a space that setup started lives on, and starts pollers
		endSpace(getenvOf([]string{"HOME=" + home}))
		endPollersIn(home)
	})
	return &setupHome{t: t, home: home, program: filepath.Join(dir, "gchat-hooks"), space: sp, webhookURL: sp.WebhookURL(server.URL), serverURL: server.URL}
}

func (s *setupHome) runSetup(args ...string) *ptyDialog {
	return startInTerminal(s.t, []string{"HOME=" + s.home, "PATH=/usr/bin:/bin", "TERM=dumb"}, s.program, append([]string{"setup"}, args...)...)
}

func (s *setupHome) readConfig() string {
	b, _ := os.ReadFile(filepath.Join(s.home, ".config/gchat-hooks/config.json"))
	return string(b)
}

// reply has somebody reply in the thread of the last message.
func (s *setupHome) reply(user *chat.User, text string) {
	s.t.Helper()
	ms := s.space.Messages()
	if _, err := s.space.PostAs(user, ms[len(ms)-1].Thread.Name, text); err != nil {
		s.t.Fatal(err)
	}
}

// fakeGoogle is a Google in front of a settler's space: it logs people in, and shows the
// space to nobody who is not.
type fakeGoogle struct {
	*setupHome
	server      *httptest.Server
	env         []string
	accessToken atomic.Pointer[string] // the token that is good now
	refused     atomic.Int64
}

func newFakeGoogle(t *testing.T) *fakeGoogle {
	g := &fakeGoogle{setupHome: newSetupHome(t)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /auth", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {"4/0Acode"}, "state": {q.Get("state")}, "scope": {q.Get("scope")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		token := "scope:chat.messages.readonly,chat.spaces.readonly,ya29.access"
		g.accessToken.Store(&token)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":%q,"refresh_token":"1//0refresh","expires_in":3599,"token_type":"Bearer","id_token":"e30.%s.s",
			"scope":"https://www.googleapis.com/auth/chat.messages.readonly https://www.googleapis.com/auth/chat.spaces.readonly"}`,
			token, base64.RawURLEncoding.EncodeToString([]byte(`{"aud":"1.apps.googleusercontent.com","sub":"7"}`)))
	})
	space := g.space.Handler()
	mux.Handle("/v1/", strict.CheckRequests(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := g.accessToken.Load(); token == nil || r.Header.Get("Authorization") != "Bearer "+*token {
			g.refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, `{"error":{"code":401,"status":"UNAUTHENTICATED","message":"no such token"}}`)
			return
		}
		r.Host = strings.TrimPrefix(g.setupHome.serverURL, "http://")
		if r.Method == http.MethodGet { // the space has a token where Google has a login
			r.URL.Path = strings.TrimSuffix(g.space.APIEndpoint(""), "/") + r.URL.Path
		}
		space.ServeHTTP(w, r)
	})))
	g.server = httptest.NewTLSServer(mux)
	t.Cleanup(g.server.Close)
	cert := filepath.Join(t.TempDir(), "ca.pem")
	kit.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.server.Certificate().Raw}), 0o600))
	g.env = []string{"HOME=" + g.home, "PATH=/usr/bin:/bin", "TERM=dumb", "SSL_CERT_FILE=" + cert, "GCHAT_API_ENDPOINT=" + g.server.URL}
	return g
}

func (g *fakeGoogle) runSetup(args ...string) *ptyDialog {
	return startInTerminal(g.t, g.env, g.program, append([]string{"setup", "--no-browser", "--service=false"}, args...)...)
}

// writeClientFile is what the console offers for download.
func (g *fakeGoogle) writeClientFile() string {
	path := filepath.Join(g.t.TempDir(), "client_secret.json")
	file := fmt.Sprintf(`{"installed":{"client_id":"1.apps.googleusercontent.com","auth_uri":%q,"token_uri":%q,"client_secret":"GOCSPX-s","redirect_uris":["http://localhost"]}}`,
		g.server.URL+"/auth", g.server.URL+"/token")
	kit.NoError(g.t, os.WriteFile(path, []byte(file), 0o600))
	return path
}

// agreeToLogin opens the address that is shown, as the person's browser does, and says
// yes.
func (g *fakeGoogle) agreeToLogin(dialog *ptyDialog) {
	g.t.Helper()
	address := dialog.expect(`https://127\.0\.0\.1:\d+/auth\?\S+`)
	resp, err := g.server.Client().Get(address)
	kit.NoError(g.t, err)
	defer resp.Body.Close()
	if page, _ := io.ReadAll(resp.Body); !strings.Contains(string(page), "You are logged in") {
		g.t.Fatalf("the browser ends on %s: %s", resp.Status, page)
	}
}

// awaitEcho waits until the terminal shows what is typed, or does not.
func (dialog *ptyDialog) awaitEcho(want bool) {
	dialog.t.Helper()
	hasChanged := bound.WaitFor(bound.Patience, func() bool {
		termios, err := unix.IoctlGetTermios(int(dialog.pty.Fd()), unix.TCGETS)
		kit.NoError(dialog.t, err)
		return termios.Lflag&unix.ECHO != 0 == want
	})
	if !hasChanged {
		dialog.t.Fatalf("echo does not become %v:\n%s", want, dialog.screen())
	}
}
