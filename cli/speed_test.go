package cli

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
)

// BenchmarkSpeed_SendBesideBash runs gchat-send and the bash script of the first design in
// turn, each as a process, and takes off what the server needed for itself.
func BenchmarkSpeed_SendBesideBash(b *testing.B) {
	for _, tool := range []string{"bash", "jq", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			b.Skip("needs ", tool)
		}
	}
	m := newMachine(b, 60000)
	m.nextFault = func(*rand.Rand) fault { return noFault }
	m.env = append(m.env, "CLAUDE_SESSION_ID=bench")
	var ours, bash []time.Duration
	for i := 0; b.Loop(); i++ {
		ours = append(ours, m.timeRun(m.program, "--type", "task_completion", "ours "+strconv.Itoa(i)))
		bash = append(bash, m.timeRun("../e2e/bench/send.sh", "--type", "task_completion", "bash "+strconv.Itoa(i)))
	}
	oursMedian, bashMedian := median(ours), median(bash)
	b.ReportMetric(float64(oursMedian)/1e6, "gchat-send-ms(median)")
	b.ReportMetric(float64(bashMedian)/1e6, "bash-ms(median)")
	b.ReportMetric(float64(bashMedian)/float64(oursMedian), "bash/ours")
	b.ReportMetric(0, "ns/op")
}

// timeRun is how long a program took, without the server's part.
func (m *machine) timeRun(program string, args ...string) time.Duration {
	m.Helper()
	m.serverTime.Store(0)
	cmd := exec.Command(program, args...)
	cmd.Env = m.env
	start := time.Now()
	if err := cmd.Run(); err != nil { // no pipes: reading them would be in the time
		m.Fatalf("%s: %v", program, err)
	}
	return time.Since(start) - time.Duration(m.serverTime.Load())
}

func median(durations []time.Duration) time.Duration {
	slices.Sort(durations)
	return durations[len(durations)/2]
}

// How long a tap and a reply on the page take until the waiting hook has printed its
// answer and is gone. It is asked for by the number of each, and only prints.
func TestSpeed_Page(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("GCHAT_PAGE_SPEED"))
	if n == 0 {
		t.Skip("GCHAT_PAGE_SPEED=100 measures it")
	}
	p := newSpaceHome(t)
	page, end := p.runSpace()
	defer end()
	took := map[string][]time.Duration{}
	for i := range 2 * n {
		how := []string{"tap", "reply"}[i%2]
		thread, answer := p.ask(fmt.Sprint("s", i))
		message := strings.Replace(thread, "/threads/", "/messages/", 1) + "." + filepath.Base(thread)
		began := time.Now()
		if how == "tap" {
			p.postToPage(page, map[string]string{"message": message, "choice": "2", "clientId": fmt.Sprint("tap", i)})
		} else {
			p.reply(page, thread, "2")
		}
		if said := answer(); !strings.Contains(said, `"Postgres"`) {
			t.Fatalf("the hook says %q", said)
		}
		took[how] = append(took[how], time.Since(began))
	}
	for how, all := range took {
		slices.Sort(all)
		t.Logf("%s: p50 %v, p95 %v, most %v", how, all[n/2], all[n*95/100], all[n-1])
	}
}

// BenchmarkSpeed_Tap is the time from a tap on the embedded space to the end of the hook that
// printed the answer, with forty questions open: real hooks, one poller.
func BenchmarkSpeed_Tap(b *testing.B) {
	dir, err := builtProgram()
	kit.NoError(b, err)
	sp, err := space.Open(space.Options{IsDirect: true})
	kit.NoError(b, err)
	defer sp.Close()
	server := httptest.NewServer(strict.CheckRequests(b, sp.Handler(), strict.Embedded))
	defer server.Close()
	home, err := os.MkdirTemp("", "gchat-tap-")
	kit.NoError(b, err)
	defer func() {
		endPollers(func(name string) string { return map[string]string{"HOME": home}[name] })
		_ = removeUntilGone(home)
	}()
	env := []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "CLAUDE_PROJECT_DIR=" + filepath.Join(home, "p"), "GOOGLE_CHAT_SPACE_ID=" + space.Name,
		"GCHAT_PUBSUB_SUBSCRIPTION=" + space.Subscription, "GCHAT_API_ENDPOINT=" + sp.APIEndpoint(server.URL), "GCHAT_WRITES_PER_MINUTE=60000",
		"GCHAT_PUBSUB_ENDPOINT=" + sp.APIEndpoint(server.URL), "GCHAT_ALLOWED_USERS=" + space.PersonName,
	}
	n := 0
	ask := func() (end chan time.Time, card *chat.Message) {
		n++
		text := fmt.Sprintf("Which way, %d?", n)
		hook := func(event string) *exec.Cmd {
			cmd := exec.Command(filepath.Join(dir, "gchat-hooks"), "hook", "gchat-ask-user-forward")
			cmd.Env = env
			cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"session_id":"s%d","cwd":%q,"hook_event_name":%q,"tool_name":"AskUserQuestion",
				"tool_input":{"questions":[{"question":%q,"header":"Way","options":[{"label":"Left"},{"label":"Right"}]}]}}`, n, home, event, text))
			return cmd
		}
		if out, err := hook("PreToolUse").CombinedOutput(); err != nil {
			b.Fatal(err, string(out))
		}
		waits := hook("PermissionRequest")
		kit.NoError(b, waits.Start())
		end = make(chan time.Time, 1)
		go func() { _ = waits.Wait(); end <- time.Now() }()
		bound.Until(b, "a card that asks "+text, func() bool {
			for _, m := range sp.Messages() {
				if strings.Contains(m.FallbackText, text) {
					card = m
				}
			}
			return card != nil
		})
		return end, card
	}
	var ends []chan time.Time
	var cards []*chat.Message
	for range 40 {
		end, card := ask()
		ends, cards = append(ends, end), append(cards, card)
	}
	var took []time.Duration
	for b.Loop() {
		end, card := ask() // beside forty others
		began := time.Now()
		kit.NoError(b, sp.Tap(nil, card.Name, "", "2", nil, ""))
		took = append(took, (<-end).Sub(began))
	}
	for i, end := range ends {
		_ = sp.Tap(nil, cards[i].Name, "", "1", nil, "")
		<-end
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "ms/p50")
	b.ReportMetric(float64(took[len(took)*95/100].Milliseconds()), "ms/p95")
}
