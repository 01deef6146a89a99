package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// The test's binary is also another user's program: init, so that it is nothing else
// then.
func init() {
	if os.Getenv("GCHAT_TEST_STRANGER") == "" {
		return
	}
	switch os.Args[1] {
	case "tries":
		requestAsStranger(os.Args[2], os.Args[3])
	case "squats":
		squatAsStranger(os.Args[2], os.Args[3])
	}
	os.Exit(0)
}

// requestAsStranger does with a space that runs what a person without the token may try.
func requestAsStranger(address, socket string) {
	for _, path := range []string{
		"/events", "/page/session", "/page/week", "/v1/spaces/local/messages",
	} {
		resp, err := http.Get("http://" + address + path)
		if err != nil {
			fmt.Println(path, err)
			continue
		}
		fmt.Println("GET", path, resp.StatusCode)
	}
	body := strings.NewReader(`{"text":"yes","clientId":"c1"}`)
	resp, err := http.Post("http://"+address+"/page/messages", "application/json", body)
	if err == nil {
		fmt.Println("POST /page/messages", resp.StatusCode)
	}
	_, err = net.Dial("unix", socket)
	fmt.Println("socket:", err)
	err = os.WriteFile(socket, nil, 0o600)
	fmt.Println("write:", err)
}

// squatAsStranger has the port of a space, says who comes, and answers every request with
// a person's "2" in a thread.
func squatAsStranger(address, thread string) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ready")
	server := &http.Server{
		ConnState: func(_ net.Conn, now http.ConnState) {
			if now == http.StateNew {
				fmt.Println("connected")
			}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Println("got", r.Method, r.URL)
			at := time.Now().UTC().Format(time.RFC3339Nano)
			fmt.Fprintf(w,
				`{"name":"spaces/local/messages/a.a","thread":{"name":%q},`+
					`"messages":[{"name":"spaces/local/messages/b.b",`+
					`"thread":{"name":%q},"text":"2","createTime":%q,`+
					`"sender":{"name":"users/local-human","type":"HUMAN"}}]}`, thread, thread, at)
		}),
	}
	fmt.Println(server.Serve(ln))
}

// strangerCommand is a process that is not the person's: another user's, or where that is
// not to be had, one that has no token.
func (p *spaceHome) strangerCommand(anotherUser bool, args ...string) *exec.Cmd {
	p.Helper()
	cmd := exec.CommandContext(p.Context(), os.Args[0], args...)
	if anotherUser {
		dir, err := os.MkdirTemp("/tmp", "stranger-") // the test's own folder is closed to others
		kit.NoError(p, err)
		p.Cleanup(func() { os.RemoveAll(dir) })
		program := filepath.Join(dir, "stranger")
		from, err := os.Open(os.Args[0])
		kit.NoError(p, err)
		defer from.Close()
		to, err := os.OpenFile(program, os.O_WRONLY|os.O_CREATE, 0o755)
		if err == nil {
			_, err = io.Copy(to, from)
		}
		kit.NoError(p, errors.Join(err, to.Close(), os.Chmod(dir, 0o755)))
		args = append([]string{"--reuid=65534", "--regid=65534", "--clear-groups", program},
			args...)
		cmd = exec.CommandContext(p.Context(), "setpriv", args...)
	}
	cmd.Env, cmd.Dir, cmd.Stderr = []string{"GCHAT_TEST_STRANGER=1"}, "/", os.Stderr
	return cmd
}

// Another user of the machine decides nothing. While the space runs, that user lacks the
// token. While it is down, that user's program may have the port, and nothing is sent to
// it. The question goes on when the space is back.
func TestStranger_ReachesNoSpace(t *testing.T) {
	canChangeUser := os.Getuid() == 0 &&
		exec.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
			"true").Run() == nil
	for name, anotherUser := range map[string]bool{"no token": false, "another user": true} {
		t.Run(name, func(t *testing.T) {
			if anotherUser && !canChangeUser {
				t.Skip("needs root and setpriv")
			}
			p := newSpaceHome(t)
			page, end := p.runSpace()
			kit.Containsf(t, page, "/#key=", "the page is at")
			thread, answer := p.ask("one")

			socket := p.path(".local/state/gchat-hooks/space/socket")
			wants := []string{
				"GET /events 401", "GET /page/session 401", "GET /page/week 401",
				"GET /v1/spaces/local/messages 401", "POST /page/messages 401",
			}
			if anotherUser {
				wants = append(wants, "socket: dial unix "+socket+": connect: permission denied",
					"write: open "+socket+": permission denied")
			}
			tried, err := p.strangerCommand(anotherUser, "tries", p.address, socket).Output()
			kit.NoError(t, err)
			for _, want := range wants {
				kit.Containsf(t, string(tried), want+"\n", "without the token it")
			}

			// else the poller starts the space before the squatter is there
			address := p.path(".local/state/gchat-hooks/space/address")
			kit.NoError(t, os.Rename(address, address+".away"))
			end()
			squatter := p.strangerCommand(anotherUser, "squats", p.address, thread)
			out, err := squatter.StdoutPipe()
			kit.NoError(t, err)
			kit.NoError(t, squatter.Start())
			said := bufio.NewReader(out)
			if line, err := said.ReadString('\n'); line != "ready\n" {
				t.Fatalf("the squatter says %q, %v", line, err)
			}
			kit.NoError(t, os.Rename(address+".away", address))
			bound.Until(t, "the poller finds the space down", func() bool {
				for line := range strings.Lines(p.readFile(".claude/logs/gchat-hooks.log")) {
					if strings.Contains(line, "cannot be read") &&
						strings.Contains(line, "the page's server does not run") {
						return true
					}
				}
				return false
			})
			p.wantRun(2, "→ nothing answers on this machine: gchat-hooks space --listen "+p.address,
				"doctor", "--live")
			squatter.Process.Kill()
			if rest, _ := io.ReadAll(said); len(rest) > 0 {
				t.Errorf("the squatter was reached:\n%s", rest)
			}
			_ = squatter.Wait()

			page, end = p.runSpace()
			defer end()
			p.replyOnPage(page, thread, "1")
			kit.Containsf(t, answer(), `"Which DB in one?":"SQLite"`, "the person answered 1")
		})
	}
}
