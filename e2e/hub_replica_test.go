package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"
	"google.golang.org/api/pubsub/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	hubs "gchat-hooks/e2e/team"
	"gchat-hooks/gchat"
)

// A replica is a hub in a process of its own, at an address that it keeps.
type replica struct {
	t       testing.TB
	address string
	args    []string
	env     []string
	cmd     *exec.Cmd
}

// startReplicas starts hubs before a Google.
func startReplicas(t testing.TB, g *fakeGoogle, n int, args ...string) (all []*replica) {
	t.Helper()
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	kit.NoError(t, os.WriteFile(key, []byte(hubKey), 0o600))
	for range n {
		ln := kit.Listen(t)
		at := ln.Addr().String()
		ln.Close()
		r := &replica{
			t:       t,
			address: at,
			args: append([]string{
				"hub", "--listen", at, "--subscription", appSubscription, "--topic", machineTopic,
				"--domain", "example.com", "--key-file", key,
			}, args...),
		}
		r.env = []string{
			"HOME=" + dir, "GCHAT_API_ENDPOINT=" + g.URL, "GCHAT_PUBSUB_ENDPOINT=" + g.URL,
			"PATH=" + os.Getenv("PATH"),
		}
		r.start()
		t.Cleanup(r.kill)
		all = append(all, r)
	}
	return all
}

func (r *replica) start() {
	r.cmd = exec.Command(builtProgram(r.t), r.args...)
	r.cmd.Env = r.env
	kit.NoError(r.t, r.cmd.Start())
	bound.Until(r.t, "the hub answers", func() bool {
		resp, err := http.Get("http://" + r.address + "/healthz")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	})
}

func (r *replica) kill() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

// killSome kills one hub after another, which starts again, until ctx ends.
func killSome(ctx context.Context, hubs []*replica) (kills int) {
	for ; ctx.Err() == nil; kills++ {
		time.Sleep(time.Duration(10+rand.IntN(100)) * time.Millisecond)
		r := hubs[rand.IntN(len(hubs))]
		r.kill()
		r.start()
	}
	return kills
}

// A joinedMachine is a client of hubs, and no hooks.
type joinedMachine struct {
	gchat.JoinResponse
	hubs []*replica
	n    int
}

var hubClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4000}}

// ask asks one hub after the other; 0 where the one that was asked is dead.
func (m *joinedMachine) ask(ctx context.Context, method, path string, body, into any) int {
	m.n++
	b, _ := json.Marshal(body)
	r, _ := http.NewRequestWithContext(ctx, method, "http://"+m.hubs[m.n%len(m.hubs)].address+path,
		bytes.NewReader(b))
	r.Header.Set("Authorization", "Bearer "+m.Token)
	resp, err := hubClient.Do(r)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	b, err = io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode == http.StatusOK && into != nil &&
		json.Unmarshal(b, into) != nil {
		return 0
	}
	return resp.StatusCode
}

// pulls pulls until ctx ends, and hands over each event that it was not given yet, before
// it is acknowledged.
func (m joinedMachine) pulls(ctx context.Context, heard func(id string, e *chat.DeprecatedEvent)) {
	seen := map[string]bool{}
	for ctx.Err() == nil {
		var got pubsub.PullResponse
		if m.ask(ctx, "POST", "/v1/"+m.Subscription+":pull", &pubsub.PullRequest{MaxMessages: 100},
			&got) != http.StatusOK {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		ack := &pubsub.AcknowledgeRequest{}
		for _, one := range got.ReceivedMessages {
			ack.AckIds = append(ack.AckIds, one.AckId)
			data, _ := base64.StdEncoding.DecodeString(one.Message.Data)
			e := &chat.DeprecatedEvent{}
			if id := one.Message.MessageId; !seen[id] && json.Unmarshal(data, e) == nil {
				seen[id] = true
				heard(id, e)
			}
		}
		if len(ack.AckIds) > 0 {
			m.ask(ctx, "POST", "/v1/"+m.Subscription+":acknowledge", ack, nil)
		}
	}
}

// joinThrough has a person's new machine join through replicas that live.
func joinThrough(t testing.TB, g *fakeGoogle, hubs []*replica, u *chat.User) *joinedMachine {
	t.Helper()
	m := &joinedMachine{hubs: hubs}
	_, code := g.joinLine(u, "")
	bound.Until(t, "joined", func() bool {
		return m.ask(t.Context(), "POST", "/hub/join", joinRequest{Code: code, Nonce: "n"},
			&m.JoinResponse) == http.StatusOK
	})
	return m
}

// Two replicas are killed at any moment, again and again. No event is lost, each has one
// id, and each message stands once in Chat, although its poster often does not learn what
// became of it. GCHAT_E2E_KILLS=all sends 5,000 events.
func TestHubReplica_KilledLosesNothing(t *testing.T) {
	t.Parallel()
	events := 300
	if os.Getenv("GCHAT_E2E_KILLS") == "all" {
		events = 5000
	}
	g := newFakeGoogle(t)
	hubs := startReplicas(t, g, 2)
	people := []*chat.User{
		person(1, "ann@example.com"), person(1, "ann@example.com"), person(2, "bob@example.com"),
	}
	var machines []*joinedMachine
	for _, u := range people {
		machines = append(machines, joinThrough(t, g, hubs, u))
	}
	ctx, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var mu sync.Mutex
	heard := make([]map[string][]string, len(machines)) // by text the ids
	for i, m := range machines {
		heard[i] = map[string][]string{}
		all.Go(func() {
			m.pulls(ctx, func(id string, e *chat.DeprecatedEvent) {
				mu.Lock()
				defer mu.Unlock()
				heard[i][e.Message.Text] = append(heard[i][e.Message.Text], id)
			})
		})
	}
	kills := 0
	all.Go(func() { kills = killSome(ctx, hubs) })
	posts, unknown := 0, 0
	all.Go(func() { // one machine posts on, each message until it is known to be there
		m := *machines[2]
		for ; ctx.Err() == nil && posts < 50; posts++ {
			id := fmt.Sprintf("client-%s-%d", m.Machine, posts)
			for {
				path := "/v1/" + m.Space + "/messages?messageId=" + id + "&requestId=" + id
				code := m.ask(ctx, "POST", path, &chat.Message{Text: "post " + id}, nil)
				if code == http.StatusOK || code == http.StatusConflict || ctx.Err() != nil {
					break
				}
				unknown++
				time.Sleep(20 * time.Millisecond)
			}
			time.Sleep(200 * time.Millisecond)
		}
	})
	for n := range events {
		u := people[1+n%2]
		g.Say(u, "spaces/dm"+strings.TrimPrefix(u.Name, "users/"), nil, fmt.Sprintf("event %d", n))
		if n%10 == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
	bound.Until(t, "all events", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(heard[0]) >= events/2+events%2 && len(heard[1]) >= events/2 &&
			len(heard[2]) >= events/2 || ctx.Err() != nil
	})
	bound.Until(t, "all posts", func() bool { return posts >= 50 })
	end()
	all.Wait()
	for i := range machines {
		for text, ids := range heard[i] {
			kit.Equalf(t, len(ids), 1, "ids of %q at machine %d", text, i)
		}
	}
	texts := map[string]int{}
	for _, m := range g.Messages(machines[2].Space) {
		texts[m.Text]++
	}
	for n := range posts {
		kit.Equalf(t, texts[fmt.Sprintf("post client-%s-%d", machines[2].Machine, n)], 1,
			"post %d stands", n)
	}
	t.Logf("%d events, %d posts, %d of unknown fate at first, %d kills", events, posts, unknown,
		kills)
}

// BenchmarkHub is 1,000 machines with ten open cards each and 25 taps a second; a tap has
// its machine change the card. The stand-in of Google, the machines and the hub share
// this computer. GCHAT_HUB_SECONDS says how long, 20 by default.
func BenchmarkHub(b *testing.B) {
	const machines, cards, perSecond = 1000, 10, 25
	seconds := 20
	_, _ = fmt.Sscan(os.Getenv("GCHAT_HUB_SECONDS"), &seconds)
	g := newFakeGoogle(b)
	hubs := startReplicas(b, g, 1)
	ctx, end := context.WithCancel(b.Context())
	defer end()
	var mu sync.Mutex
	tapped := map[string]time.Time{} // by message
	var durations []time.Duration
	open := make([][]*chat.Message, machines)
	people := make([]*chat.User, machines)
	var all sync.WaitGroup
	for i := range machines {
		people[i] = person(i+1, "x@example.com")
		m := joinThrough(b, g, hubs, people[i])
		for n := range cards {
			id := fmt.Sprintf("client-%s-%d", m.Machine, n)
			var made chat.Message
			code := m.ask(ctx, "POST", "/v1/"+m.Space+"/messages?messageId="+id,
				&chat.Message{CardsV2: tapCard(id)}, &made)
			if code != http.StatusOK {
				b.Fatalf("post: %d", code)
			}
			open[i] = append(open[i], &made)
		}
		for range 2 { // as a poller has two under way
			all.Go(func() {
				m.pulls(ctx, func(_ string, e *chat.DeprecatedEvent) {
					now := time.Now()
					mu.Lock()
					at := tapped[e.Message.Name]
					delete(tapped, e.Message.Name)
					mu.Unlock()
					if at.IsZero() {
						return // the other pull of this machine had it
					}
					path := "/v1/" + m.Space + "/messages/" + e.Message.ClientAssignedMessageId +
						"?updateMask=text,cardsV2"
					code := (&joinedMachine{JoinResponse: m.JoinResponse, hubs: hubs}).ask(ctx,
						"PATCH", path, &chat.Message{Text: "done", CardsV2: tapCard("x")}, nil)
					mu.Lock()
					defer mu.Unlock()
					if durations = append(durations, now.Sub(at)); code != http.StatusOK {
						b.Errorf("patch: %d", code)
					}
				})
			})
		}
	}
	pid := hubs[0].cmd.Process.Pid
	cpu := processorTime(b, pid)
	for n := range seconds * perSecond {
		i := rand.IntN(machines)
		m := open[i][n%cards]
		mu.Lock()
		tapped[m.Name] = time.Now()
		mu.Unlock()
		if !g.Tap(people[i], m, "send", nil) {
			mu.Lock()
			delete(tapped, m.Name) // it was tapped before
			mu.Unlock()
		}
		time.Sleep(time.Second / perSecond)
	}
	bound.Until(b, "all taps",
		func() bool { mu.Lock(); defer mu.Unlock(); return len(tapped) == 0 })
	used := processorTime(b, pid) - cpu
	end()
	slices.Sort(durations)
	b.ReportMetric(float64(durations[len(durations)/2].Milliseconds()), "p50-ms")
	b.ReportMetric(float64(durations[len(durations)*95/100].Milliseconds()), "p95-ms")
	b.ReportMetric(float64(peakMemory(b, pid))/1024, "MB-peak")
	b.ReportMetric(100*used.Seconds()/float64(seconds), "%-processor")
	b.ReportMetric(float64(len(durations)), "taps")
	all.Wait()
}

func tapCard(id string) []*chat.CardWithId {
	return []*chat.CardWithId{{
		CardId: "c",
		Card: &chat.GoogleAppsCardV1Card{Sections: []*chat.GoogleAppsCardV1Section{{
			Widgets: []*chat.GoogleAppsCardV1Widget{{ButtonList: &chat.GoogleAppsCardV1ButtonList{
				Buttons: []*chat.GoogleAppsCardV1Button{{
					Text: "Tap",
					OnClick: &chat.GoogleAppsCardV1OnClick{Action: &chat.GoogleAppsCardV1Action{
						Function: "gchat-hooks",
						Parameters: []*chat.GoogleAppsCardV1ActionParameter{
							{Key: "question", Value: id}, {Key: "choice", Value: "send"},
						},
					}},
				}},
			}}},
		}}},
	}}
}

// processorTime is what a process has used so far.
func processorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	b := kit.ReadFile(t, fmt.Sprintf("/proc/%d/stat", pid))
	f := strings.Fields(b[strings.LastIndexByte(b, ')')+2:])
	var user, system int
	_, _ = fmt.Sscan(f[11], &user)
	_, _ = fmt.Sscan(f[12], &system)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// peakMemory is the most that a process had, in kB.
func peakMemory(t testing.TB, pid int) (kb int) {
	t.Helper()
	_, rest, _ := strings.Cut(kit.ReadFile(t, fmt.Sprintf("/proc/%d/status", pid)), "VmHWM:")
	_, _ = fmt.Sscan(rest, &kb)
	return kb
}

// A replica that is asked to end does so at once, also while a machine's pull is under
// way, and with 0.
func TestHubReplica_EndsAtOnce(t *testing.T) {
	g := newFakeGoogle(t)
	hubs := startReplicas(t, g, 1)
	m := joinThrough(t, g, hubs, person(1, "ann@example.com"))
	pulled := make(chan int)
	go func() {
		pulled <- m.ask(t.Context(), "POST", "/v1/"+m.Subscription+":pull",
			&pubsub.PullRequest{MaxMessages: 1}, nil)
	}()
	bound.Until(t, "the pull is under way", func() bool { return g.isWaiting(m.Subscription) })
	kit.NoError(t, hubs[0].cmd.Process.Signal(syscall.SIGTERM))
	kit.Equalf(t, <-pulled, http.StatusOK, "the pull")
	kit.NoError(t, hubs[0].cmd.Wait())
	kit.Equalf(t, g.wasHeldToEnd(m.Subscription), false, "the hub waited for the end of the pull")
}

// A machine and a hub that are one commit apart keep to what the poller relies on of each
// transport, both ways: a team updates its hub before its machines, or after them.
func TestHubReplica_OneCommitApart(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the commit before")
	}
	t.Parallel()
	before, this := commitBefore(t), ".."
	for name, c := range map[string]struct{ machine, hub string }{
		"the hub is newer":     {machine: before, hub: this},
		"the machine is newer": {machine: this, hub: before},
	} {
		t.Run(name, func(t *testing.T) {
			takes, _ := os.ReadFile(filepath.Join(c.machine, "e2e/team/team.go"))
			if !bytes.Contains(takes, []byte(hubs.OtherHubVariable)) {
				t.Skip("the tests of that commit take no other hub")
			}
			hub := filepath.Join(t.TempDir(), "gchat-hooks")
			runGo(t, c.hub, "", "build", "-o", hub, ".")
			output := runGo(t, c.machine, hub, "test", "-vet=off", "-count=1", "-v", "./poller",
				"-run", "^TestTransport/^app_behind_a_hub$") // of each commit by its name there
			passed := regexp.MustCompile(`--- PASS: \w+/app_behind_a_hub/`).FindAllString(output, -1)
			kit.True(t, len(passed) >= 10, "%d promises were looked at:\n%s", len(passed), output)
		})
	}
}

// commitBefore is a folder with the commit before this one. Where there is none, the test
// is skipped: a copy of the sources alone has no history.
func commitBefore(t *testing.T) (dir string) {
	t.Helper()
	commit, err := bound.Command(t, "git", "-C", "..", "rev-parse", "--verify", "HEAD^").Output()
	if err != nil {
		t.Skip("there is no commit before this one:", err)
	}
	dir = t.TempDir()
	for _, args := range [][]string{
		{"clone", "--quiet", "--shared", "--no-checkout", "..", dir},
		{"-C", dir, "checkout", "--quiet", "--detach", string(bytes.TrimSpace(commit))},
	} {
		if out, err := bound.Command(t, "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	return dir
}

// runGo is what the Go tool prints in a folder. The tests that it runs take that hub.
func runGo(t *testing.T, dir, hub string, args ...string) string {
	t.Helper()
	cmd := bound.Within(t, bound.BuildPatience, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), hubs.OtherHubVariable+"="+hub)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// What people do reaches the machines of that space and no others, once by its id, also
// where replicas hear it twice.
func TestHubEvents_ReachTheirMachines(t *testing.T) {
	x := newTestTeam(t)
	a, b := x.joinHub(ann, ""), x.joinHub(bob, "")
	for range 20 {
		x.Say(ann, a.Space, nil, "hello")
	}
	x.Say(bob, b.Space, nil, "hi")
	seen := map[string]bool{}
	bound.Until(t, "all events", func() bool {
		ack := &pubsub.AcknowledgeRequest{}
		for _, m := range x.pull(1, a) {
			kit.True(t, !seen[m.Message.MessageId] && len(m.Message.Attributes) == 0,
				"twice, or with attributes: %+v", m.Message)
			seen[m.Message.MessageId] = true
			ack.AckIds = append(ack.AckIds, m.AckId)
		}
		return x.request(0, a.Token, "POST /v1/"+a.Subscription+":acknowledge", ack,
			nil) == http.StatusOK && len(seen) == 20
	})
	kit.Equalf(t, len(x.pull(1, b)), 1, "events for Bob's machine")
}

// An event that was published and not acknowledged is published again, under the same id.
func TestHubEvents_RepublishedUnderOneID(t *testing.T) {
	x := newTestTeam(t)
	a := x.joinHub(ann, "")
	b := kit.JSON(t, map[string]any{
		"type":    "MESSAGE",
		"space":   map[string]string{"name": a.Space},
		"message": map[string]string{"text": "hello"},
	})
	m := &pubsub.PubsubMessage{
		Data:       base64.StdEncoding.EncodeToString(b),
		Attributes: map[string]string{"space": a.Space, "id": "77"},
	}
	for range 2 {
		publish := &pubsub.PublishRequest{Messages: []*pubsub.PubsubMessage{m}}
		_, err := x.hubs[0].PubSub.Projects.Topics.Publish(machineTopic, publish).Do()
		kit.NoError(t, err)
	}
	n := 0
	bound.Until(t, "both", func() bool {
		for _, m := range x.pull(0, a) {
			n++
			kit.Equalf(t, m.Message.MessageId, "77", "the id")
		}
		return n >= 2
	})
}

// Replicas are killed while people join, and Chat is slow: it posts what a replica does
// not live to hear of. Each person gets one code, which joins.
func TestHubReplica_KilledWhilePeopleJoin(t *testing.T) {
	t.Parallel()
	g := newFakeGoogle(t)
	hubs := startReplicas(t, g, 2)
	g.Refuse(func(*http.Request) int { time.Sleep(20 * time.Millisecond); return 0 })
	ctx, end := context.WithCancel(t.Context())
	var killing sync.WaitGroup
	killing.Go(func() { killSome(ctx, hubs) })
	people := make([]*chat.User, 40)
	for i := range people {
		people[i] = person(i+1, "x@example.com")
		g.Say(people[i], g.AddDirectMessage(people[i]), nil, "join")
	}
	for _, u := range people {
		g.Await(g.AddDirectMessage(u), codeIntro)
	}
	end()
	killing.Wait()
	for _, u := range people {
		other := func(m *chat.Message) bool { return !strings.Contains(m.Text, codeIntro) }
		codes := slices.DeleteFunc(g.Messages(g.AddDirectMessage(u)), other)
		code := codeIn(codes[0].Text)
		m := &joinedMachine{hubs: hubs}
		got := m.ask(t.Context(), "POST", "/hub/join", joinRequest{Code: code, Nonce: "n"},
			&m.JoinResponse)
		kit.True(t, got == http.StatusOK && len(codes) == 1, "%s: %d codes, joined %d", u.Name,
			len(codes), got)
	}
}
