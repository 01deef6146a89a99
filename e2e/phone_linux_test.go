package e2e

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"golang.org/x/sys/unix"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/state"
)

// elsewhere is an address of this machine that is not loopback's, as a phone knows it:
// the namespace's own.
const elsewhere = "10.77.0.1"

// A new user without Google: install, setup, and the page whose link `gchat-hooks space`
// prints. The question is answered with a tap on the page, on this machine and at the
// address that a phone would open.
func TestANewUserAnswersOnThePage(t *testing.T) {
	t.Parallel()
	for name, phone := range map[string]bool{"here": false, "phone": true} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, testedVersions, func(t *testing.T, c claude) {
				requireIsolation(t)
				program, installer := builtProgram(t), absPath(t, "../install.sh")
				address, args := "127.0.0.1:"+freePort(t), []string{"--space"}
				served := []string{"space", "--listen", address}
				if phone {
					addAddress(t)
					address = "0.0.0.0:" + freePort(t)
					args, served = append(args, "--phone", "--address", address), []string{"space", "--phone", "--listen", address}
				} else {
					args = append(args, "--address", address)
				}
				var page string
				s := startSession(t, c, config{Script: []turn{{questionCall(deployQuestion)}, thanksTurn}, Prepare: func(home, project string) {
					env := []string{"HOME=" + home, "PATH=" + filepath.Dir(c.Argv[len(c.Argv)-1]) + ":/usr/bin:/bin", "TMPDIR=" + os.TempDir()}
					for _, command := range [][]string{
						{"sh", installer, "--binary", program},
						append([]string{filepath.Join(home, "bin", "gchat-hooks"), "setup"}, args...),
					} {
						cmd := bound.Command(t, command[0], command[1:]...)
						cmd.Dir, cmd.Env = project, env
						if out, err := cmd.CombinedOutput(); err != nil {
							t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
						}
					}
					page = serveSpace(t, env, filepath.Join(home, "bin", "gchat-hooks"), served)
				}})
				if phone != strings.Contains(page, elsewhere) {
					t.Fatalf("the page is at %s", page)
				}
				tap := phoneBrowser(t)
				tap(chromedp.Navigate(page))
				s.Prompt("go ahead")
				s.WaitScreen(firstOption)
				tap(chromedp.Click(chromedp.CSS(`[data-thread][data-state="open"]`), chromedp.NodeVisible))
				tap(chromedp.Click(chromedp.CSS(`[data-option="3"]`), chromedp.NodeVisible))
				(&hookedSession{session: s}).awaitResult(1, "Canary")
				tap(chromedp.WaitVisible(chromedp.CSS(`#thread-state[data-state="answered"]`)))
				tap(chromedp.Evaluate[chromedp.Void](`(async () => {
					const { request } = await import('/page/key.js');
					const { week } = await (await request('/page/week')).json();
					if (!/^since .*questions 1, .*answered in chat 1, .*lost 0/.test(week)) throw new Error(week);
				})()`, chromedp.EvalAwaitPromise))
			})
		})
	}
}

// serveSpace runs the space until the test ends, and returns its page's address.
func serveSpace(t *testing.T, env []string, program string, args []string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stderr = env, os.Stderr
	out, err := cmd.StdoutPipe()
	kit.NoError(t, err)
	kit.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		bound.Wait(t, cmd)
	})
	page := regexp.MustCompile(`http://\S+`)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if found := page.FindString(lines.Text()); found != "" {
			t.Cleanup(strict.CheckSocket(t, spaceSocket(t, env, args[len(args)-1])))
			go func() {
				for lines.Scan() {
				}
			}()
			return found
		}
	}
	t.Fatal("the space printed no address")
	return ""
}

// spaceSocket is the unix socket of the space that listens at an address.
func spaceSocket(t *testing.T, env []string, address string) string {
	t.Helper()
	_, port, _ := net.SplitHostPort(address)
	at, _ := strconv.Atoi(port)
	home, _ := strings.CutPrefix(env[0], "HOME=")
	socket, err := state.ReadSpaceSocket(func(name string) string { return map[string]string{"HOME": home}[name] }, at)
	if err != nil || socket == "" {
		t.Fatalf("the space's socket is %q: %v", socket, err)
	}
	return socket
}

// addAddress gives the namespace's loopback interface a second address.
func addAddress(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	kit.NoError(t, err)
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo:1")
	kit.NoError(t, err)
	kit.NoError(t, req.SetInet4Addr(net.ParseIP(elsewhere).To4()))
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, req); err != nil {
		t.Fatalf("add %s: %v", elsewhere, err)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	kit.NoError(t, err)
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}

func absPath(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	kit.NoError(t, err)
	return path
}
