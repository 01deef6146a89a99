package space

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/pushservice"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/space/webpush"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// formQuestion is what an MCP server asks.
func formQuestion() state.Question {
	q := askDecision(state.KindForm, state.LabelAccept, state.LabelDecline)
	q.SubQuestions[0].Header = "secret-server"
	return q
}

func TestPush_CallsForWhatWaits(t *testing.T) {
	d := newPushDesk(t)
	phone, _ := d.addBrowser("phone")
	one := databaseQuestion
	d.ask(askQuestions(one))
	d.ask(askQuestions(one, mergesQuestion))
	d.ask(bashPermission())
	d.ask(planQuestion())
	d.ask(formQuestion())
	d.ask(nextQuestion())
	d.postReport("", "blocked_alert", "deploys", "[BLOCKED] rm -rf / failed")
	d.postReport("", "permission", "tests", "Permission: curl evil.org")
	d.postReport("", "turn_done", "deploys", "Done.")
	d.postReport("", "heartbeat", "tests", "Still there.")
	d.service.WaitFor(phone, 8)
	d.set(func(s *PushSettings) { s.ShowsText = true })
	last := d.ask(askQuestions(one))

	got := d.service.WaitFor(phone, 9)
	var lines []string
	for _, m := range got {
		c := m.Content
		lines = append(lines, fmt.Sprintf("%s | %s | %d %s %v %v",
			c.Title, c.Body, (m.TTL+5)/60, m.Urgency, c.Buttons, m.Subject))
	}
	const contact = "https://chat.example.org"
	options := "[{1 PostgreSQL} {2 Redis}]"
	kit.Equal(t, strings.Join(lines[:8], "\n"), strings.Join([]string{
		"web-shop | Question: Database | 1440 high " + options + " " + contact,
		"web-shop | Question: Q1. Database · Q2. Checks | 1440 high [] " + contact,
		"web-shop | Permission | 10 high [] " + contact,
		"web-shop | Plan | 1440 high [] " + contact,
		"web-shop | Form | 1440 high [] " + contact,
		"web-shop | Waiting for you | 1440 normal [] " + contact,
		"deploys | Blocked | 60 high [] " + contact,
		"tests | Permission: only the terminal can answer | 10 high [] " + contact,
	}, "\n"))
	withText := got[8].Content
	kit.Equal(t, withText.Body, "Question: Database\nWhere should sessions be stored?")
	kit.Equal(t, withText.Thread, last)
	kit.Equal(t, len(withText.Tag) == 22 && withText.Tag == got[8].Topic, true)
	for _, m := range got {
		for _, secret := range []string{
			"rm -rf", "build", "curl", "cart/total", "secret-server", "May it",
		} {
			kit.True(t, !strings.Contains(m.Text, secret), "a call has %q: %s", secret, m.Text)
		}
	}
}

// A question that many options answer shows two, and says that there are more.
func TestPush_ButtonsOfLongQuestion(t *testing.T) {
	d := newPushDesk(t)
	phone, _ := d.addBrowser("phone")
	q := databaseQuestion
	q.Options = append(q.Options[:2:2], newOption("SQLite", ""), newOption("<None> & nothing", ""))
	d.ask(askQuestions(q))
	d.ask(askQuestions(mergesQuestion))
	got := d.service.WaitFor(phone, 2)
	kit.Equal(t, got[0].Content.Body, "Question: Database\n2 more to choose from")
	kit.Equal(t, fmt.Sprint(got[0].Content.Buttons), "[{1 PostgreSQL} {2 Redis}]")
	kit.Equal(t, fmt.Sprint(got[1].Content.Buttons), "[]")
}

func TestPush_TakenBackWhenOver(t *testing.T) {
	d := newPushDesk(t)
	phone, _ := d.addBrowser("phone")
	laptop, _ := d.addBrowser("laptop")
	d.service.SwitchOff(laptop)
	question := d.ask(askQuestions(databaseQuestion))
	permission := d.ask(bashPermission())
	blocked := d.postReport("", "blocked_alert", "deploys", "[BLOCKED]")
	d.service.WaitFor(phone, 3)

	d.keepPartial(question, map[int]state.Answer{0: {Text: "hm"}})
	d.end(question, answerWith())
	d.end(permission, func(q *state.Question) { q.Status = state.Cancelled })
	d.postReport(blocked, "note sent", "deploys", "Sent.")
	d.postReport("", "turn_done", "deploys", "A helper is done.")
	d.postReport("", "plain", "deploys", "It goes on.")
	over := d.service.WaitFor(phone, 6)[3:]
	for _, m := range over {
		kit.Equal(t, m.Content.Type, "over")
		kit.Equal(t, m.Content.Tag, m.Topic)
		kit.True(t, m.TTL <= 600 && m.Urgency == "normal", "%d %s", m.TTL, m.Urgency)
	}
	shown, calls := d.service.Shown(phone)
	kit.Equal(t, [2]int{shown, calls}, [2]int{0, 3})

	// the laptop was off, and gets nothing about what is over
	d.ask(askQuestions(databaseQuestion))
	d.service.WaitFor(phone, 7)
	waitForStep(t, d, "called", 2) // the last question, on both
	d.service.SwitchOn(laptop, time.Hour)
	shown, calls = d.service.Shown(laptop)
	kit.Equal(t, [2]int{shown, calls}, [2]int{1, 1})
}

// waitForStep waits until that many lines of pushes.jsonl about what waits have a step.
func waitForStep(t *testing.T, d *pushDesk, step string, want int) {
	t.Helper()
	bound.Until(t, fmt.Sprintf("%d calls are %s", want, step), func() bool {
		d.s.pushes.mu.Lock()
		defer d.s.pushes.mu.Unlock()
		n := 0
		for key, have := range d.s.pushes.steps {
			if have == step && d.s.pushes.waiting.all[key.message] != nil {
				n++
			}
		}
		return n == want
	})
}

// What a killed process has left on disk, up to any byte, is enough: nobody is called
// twice, and nobody for what is over.
func TestPush_GoesOnAfterKill(t *testing.T) {
	d := newPushDesk(t)
	phone, _ := d.addBrowser("phone")
	thread := d.ask(askQuestions(databaseQuestion))
	d.service.WaitFor(phone, 1)
	waitForStep(t, d, "called", 1)
	read := func(name string) string { return kit.ReadFile(t, filepath.Join(d.dir, name)) }
	open := read(messagesFile)
	d.end(thread, answerWith())
	d.service.WaitFor(phone, 2)
	kit.NoError(t, d.s.Close())
	over, pushes := read(messagesFile), read(pushesFile)
	if n := strings.Count(pushes, "\n"); n < 3 {
		t.Fatalf("pushes.jsonl has %d lines: %s", n, pushes)
	}

	for _, cut := range cutsOfLines(pushes) {
		isCalled := strings.Contains(pushes[:cut], "\n")
		for what, messages := range map[string]string{"open": open, "over": over} {
			kit.WriteFile(t, filepath.Join(d.dir, pushesFile), pushes[:cut], 0o600)
			kit.WriteFile(t, filepath.Join(d.dir, messagesFile), messages, 0o600)
			before := len(d.service.Received(phone))
			d.open(t)
			sentinel := d.ask(askQuestions(databaseQuestion))
			var mine []pushservice.Message
			for n := before + 1; ; n++ {
				got := d.service.WaitFor(phone, n)
				if last := got[n-1]; last.Content.Thread == sentinel {
					mine = got[before : n-1]
					break
				}
			}
			kit.NoError(t, d.s.Close())
			for _, m := range mine {
				isOver := m.Content.Type == "over"
				kit.True(t, isOver == (what == "over"), "cut at %d, %s: %s", cut, what, m.Text)
			}
			isDone := strings.Contains(pushes[:cut], `"ended"}`+"\n") ||
				what == "open" && strings.Contains(pushes[:cut], `"called"}`+"\n")
			isOwed := !isDone && (isCalled || what == "open")
			kit.True(t, isOwed == (len(mine) == 1) && len(mine) <= 1,
				"cut at %d, %s: told %d times: %s", cut, what, len(mine), pushes[:cut])
		}
	}
}

// A space that is killed while a push service has its call calls once all the same, and
// takes the call back once it is over.
func TestPush_KilledWhileItCalls(t *testing.T) {
	for name, c := range map[string]struct {
		killOn string // the message at whose arrival the process is killed
		status int    // the push service's answer to that, which nobody gets
	}{
		"the call arrived":          {"call", 201},
		"the call was refused":      {"call", 503},
		"the end arrived":           {"over", 201},
		"the end was refused":       {"over", 503},
		"it is killed between them": {"", 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pushProcess{pushDesk: &pushDesk{service: pushservice.New(t), dir: t.TempDir()}}
			phone := p.service.Subscribe("phone")
			device := Device{ID: "phone", Name: "phone", AddedAt: time.Now()}
			device.Subscription = subscriptionOf(t, phone)
			_, err := addDevice(p.dir, device)
			kit.NoError(t, err)
			p.start(t)
			defer func() { p.kill() }()
			killed := make(chan struct{})
			var once sync.Once
			p.service.Answer = func(_ http.Header, m pushservice.Message) int {
				status := 201
				if m.Content.Type == c.killOn {
					once.Do(func() {
						_ = p.cmd.Process.Kill()
						close(killed)
						status = c.status
					})
				}
				return status
			}
			restart := func() { p.kill(); p.start(t) }

			thread := p.ask(askQuestions(databaseQuestion))
			if c.killOn == "call" {
				<-killed
				restart()
			}
			p.service.WaitFor(phone, 1)
			p.waitForJournal(stepCalled)
			if c.killOn == "" {
				restart()
			}
			shown, calls := p.service.Shown(phone)
			kit.Equal(t, [2]int{shown, calls}, [2]int{1, 1})

			p.end(thread, answerWith())
			if c.killOn == "over" {
				<-killed
				restart()
			}
			p.waitForJournal(stepEnded)
			restart()
			p.ask(planQuestion()) // what came before it is done
			bound.Until(t, "the next call comes", func() bool {
				got := p.service.Received(phone)
				return got[len(got)-1].Content.Body == "Plan"
			})
			shown, calls = p.service.Shown(phone)
			kit.Equal(t, [2]int{shown, calls}, [2]int{1, 2})
		})
	}
}

// waitForJournal waits until pushes.jsonl ends with a step.
func (p *pushProcess) waitForJournal(step string) {
	p.t.Helper()
	bound.Until(p.t, "the step is "+step, func() bool {
		b, err := os.ReadFile(filepath.Join(p.dir, pushesFile))
		return err == nil && strings.HasSuffix(string(b), `"step":"`+step+"\"}\n")
	})
}

// cutsOfLines returns how much of a file is there after each line, and in each of them.
func cutsOfLines(text string) (cuts []int) {
	end := 0
	for line := range strings.Lines(text) {
		cuts = append(cuts, end, end+len(line)/2)
		end += len(line)
	}
	return append(cuts, end)
}

func TestPush_WhatPushServiceAnswers(t *testing.T) {
	d := newPushDesk(t)
	gone, _ := d.addBrowser("gone")
	hanging, _ := d.addBrowser("hanging")
	busy, _ := d.addBrowser("busy")
	small, _ := d.addBrowser("small")
	refusing, _ := d.addBrowser("refusing")
	good, _ := d.addBrowser("good")
	release, tries := make(chan struct{}), 0
	defer close(release)
	d.service.Answer = func(h http.Header, m pushservice.Message) int {
		switch m.Browser {
		case gone.Name:
			return 410
		case hanging.Name:
			<-release
		case busy.Name:
			if tries++; tries < 4 {
				return []int{429, 500, 503}[tries-1]
			}
		case small.Name:
			if m.Size > 2048 {
				return 413
			}
		case refusing.Name:
			return 403
		}
		return 201
	}
	d.set(func(s *PushSettings) { s.ShowsText = true })
	d.ask(askQuestions(databaseQuestion))
	for _, b := range []*pushservice.Browser{busy, small, good} {
		got := d.service.WaitFor(b, 1)
		kit.Equal(t, got[0].Content.Title, "web-shop")
	}
	d.ask(askQuestions(mergesQuestion)) // the others go on
	d.service.WaitFor(good, 2)
	bound.Until(t, "the devices say how it went", func() bool {
		devices, err := Devices(d.dir)
		kit.NoError(t, err)
		return len(devices) == 5 && strings.Contains(devices[3].LastFailure, "403") &&
			!devices[4].CalledAt.IsZero()
	})
	kit.Equal(t, len(d.service.Received(hanging)), 0)
}

// A browser whose new subscription is refused is not called, also when its push service
// forgot the earlier one. With a good one it is called for what waits.
func TestPush_RefusedRenewalIsKept(t *testing.T) {
	d := newPushDesk(t)
	earlier, id := d.addBrowser("earlier")
	device := "/page/push/devices/" + id
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	d.service.Answer = func(_ http.Header, m pushservice.Message) int {
		if m.Browser != earlier.Name {
			return 201
		}
		arrived <- struct{}{}
		<-release
		return 410
	}
	d.ask(askQuestions(databaseQuestion))
	<-arrived
	d.wantStatus(400, "PUT", device, `{"subscription":{}}`)
	close(release)
	refused := func() Device {
		devices, err := Devices(d.dir)
		kit.NoError(t, err)
		kit.Must(t, len(devices) == 1, "%+v", devices)
		return devices[0]
	}
	kit.Contains(t, refused().Refusal, "got no subscription")
	elsewhere := strings.Replace(earlier.JSON(), d.service.Host(), "10.0.0.1", 1)
	d.wantStatus(400, "PUT", device, `{"subscription":`+elsewhere+`}`)
	kit.Contains(t, refused().Refusal, "push_hosts")
	d.wantStatus(400, "PUT", device, `{"subscription":`) // it was cut, and says nothing
	d.ask(askQuestions(mergesQuestion))

	renewed := d.service.Subscribe("renewed")
	d.wantStatus(200, "PUT", device, `{"subscription":`+renewed.JSON()+`}`)
	d.service.WaitFor(renewed, 2)
	kit.Equal(t, refused().Refusal, "")
	kit.Equalf(t, len(arrived), 0, "more calls to the earlier subscription")
}

// A browser may replace its subscription while a call to the earlier one is under way.
func TestPush_SubscriptionReplacedDuringCall(t *testing.T) {
	d := newPushDesk(t)
	earlier, id := d.addBrowser("earlier")
	replaced := d.service.Subscribe("replaced")
	arrived, release := make(chan struct{}), make(chan struct{})
	d.service.Answer = func(_ http.Header, m pushservice.Message) int {
		if m.Browser == earlier.Name {
			close(arrived)
			<-release
			return 410
		}
		return 201
	}
	d.ask(askQuestions(databaseQuestion))
	<-arrived
	d.wantStatus(200, "PUT", "/page/push/devices/"+id, `{"subscription":`+replaced.JSON()+`}`)
	close(release)
	d.service.WaitFor(replaced, 1)
	devices, err := Devices(d.dir)
	kit.NoError(t, err)
	kit.Must(t, len(devices) == 1, "the device was removed")
	kit.Equal(t, devices[0].LastFailure, "")
}

func TestPush_NotWhileVisibleOrQuiet(t *testing.T) {
	d := newPushDesk(t)
	phone, id := d.addBrowser("phone")
	laptop, _ := d.addBrowser("laptop")
	visible := func(is bool) {
		d.wantStatus(200, "POST", "/page/push/visible",
			jsonText(map[string]any{"device": id, "visible": is}))
	}
	visible(true)
	d.ask(askQuestions(databaseQuestion))
	d.service.WaitFor(laptop, 1)
	waitForStep(t, d, "skipped", 1)
	visible(false)
	d.ask(askQuestions(mergesQuestion))
	got := d.service.WaitFor(phone, 1)
	kit.Equal(t, got[0].Content.Body, "Question: Checks")

	d.set(func(s *PushSettings) { s.QuietUntil = time.Now().Add(time.Hour) })
	d.ask(planQuestion())
	held := d.ask(planQuestion())
	d.end(held, cancelQuestion)
	d.ask(bashPermission())
	d.postReport("", "blocked_alert", "deploys", "[BLOCKED]")
	got = d.service.WaitFor(phone, 3)
	kit.Equal(t, got[1].Content.Body+", "+got[2].Content.Body, "Permission, Blocked")
	d.set(func(s *PushSettings) { s.QuietUntil = time.Time{} })
	d.ask(askQuestions(databaseQuestion)) // it looks again
	got = d.service.WaitFor(phone, 5)
	kit.Equal(t, got[3].Content.Body+", "+got[4].Content.Body, "Plan, Question: Database")

	tablet, _ := d.addBrowser("tablet") // is not called for what was there before
	d.ask(askQuestions(mergesQuestion))
	got = d.service.WaitFor(tablet, 1)
	kit.Equal(t, got[0].Content.Body, "Question: Checks")
}

func TestPush_TapCountsOnce(t *testing.T) {
	d := newPushDesk(t)
	phone, id := d.addBrowser("phone")
	laptop, otherID := d.addBrowser("laptop")
	thread := d.ask(askQuestions(databaseQuestion))
	message := d.service.WaitFor(phone, 1)[0].Content.Message
	d.service.WaitFor(laptop, 1)
	waitForStep(t, d, "called", 2)
	taps := "/page/push/taps"

	d.wantStatus(400, "POST", taps, tapBody(id, message, "7"))
	d.wantStatus(400, "POST", taps, tapBody(id, message, "send"))
	d.wantStatus(404, "POST", taps, tapBody(id, "spaces/local/messages/x", "1"))
	d.wantStatus(200, "POST", taps, tapBody(id, message, "2"))
	d.wantStatus(200, "POST", taps, tapBody(id, message, "2")) // its answer was lost
	d.wantStatus(409, "POST", taps, tapBody(otherID, message, "1"))

	kit.NoError(t, d.s.Close()) // a new process knows of it, too
	d.open(t)
	d.wantStatus(200, "POST", taps, tapBody(id, message, "2"))
	d.wantStatus(409, "POST", taps, tapBody(otherID, message, "1"))
	d.wantTap("2")
	d.wantStatus(200, "POST", taps, tapBody(id, message, "2"))
	d.end(thread, answerWith("Redis"))
	d.wantStatus(409, "POST", taps, tapBody(otherID, message, "1"))
	pullNothing(t, d)

	// only the other device has a notification to take back
	d.service.WaitFor(laptop, 2)
	d.ask(askQuestions(mergesQuestion))
	got := d.service.WaitFor(phone, 2)
	kit.Equal(t, got[1].Content.Type, "call")

	permission := d.ask(bashPermission())
	d.wantStatus(403, "POST", taps, tapBody(id, d.asked[permission].name, "allow"))
	tapped := d.ask(askQuestions(databaseQuestion)) // on the page, by somebody faster
	kit.NoError(t, d.s.Tap(nil, d.asked[tapped].name, "", "1", nil, "tap:page"))
	d.wantStatus(409, "POST", taps, tapBody(id, d.asked[tapped].name, "2"))
}

// pullNothing fails the test if an event waits for the app.
func pullNothing(t *testing.T, d *pushDesk) {
	t.Helper()
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	kit.Equalf(t, len(d.s.queue), 0, "events that wait")
}

func TestDevices_AddedRenewedRemoved(t *testing.T) {
	d := newPushDesk(t)
	const devices = "/page/push/devices"
	phone := d.service.Subscribe("phone")
	body := func(b *pushservice.Browser, name string) string {
		return `{"name":` + jsonText(name) + `,"subscription":` + b.JSON() + `}`
	}
	for what, answer := range map[string]int{
		"no key": callHandler(d.s, "POST", devices, body(phone, "x"),
			"Host: chat.example.org", "Content-Type: application/json").Code,
		"other origin": d.call("POST", devices, body(phone, "x"), "Sec-Fetch-Site: cross-site").Code,
		"not JSON":     d.call("POST", devices, body(phone, "x"), "Content-Type: text/plain").Code,
		"other host": d.call("POST", devices,
			strings.Replace(body(phone, "x"), d.service.Host(), "127.0.0.1:22", 1)).Code,
	} {
		kit.True(t, answer >= 400 && answer < 500, "%s: %d", what, answer)
	}

	id := d.addDevice(phone)
	kit.Equal(t, d.addDevice(phone), id) // a second tap on the button
	named := d.service.Subscribe("named")
	d.wantStatus(200, "POST", devices,
		body(named, " Ann's \u202e\x1b[31mphone\n "+strings.Repeat("x", 99)))
	unnamed := d.service.Subscribe("unnamed")
	kit.Equal(t, d.call("POST", devices, body(unnamed, "\u200b"),
		"User-Agent: Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) "+
			"Chrome/140.0.0.0 Mobile Safari/537.36").Code, 200)
	again := d.service.Subscribe("again")
	d.wantStatus(200, "POST", devices, body(again, "PHONE"))
	stored, err := Devices(d.dir)
	kit.NoError(t, err)
	var names []string
	for _, s := range stored {
		names = append(names, s.Name)
	}
	kit.Equal(t, names, []string{
		"phone", "Ann's [31mphone " + strings.Repeat("x", 24), "Chrome on Android", "PHONE 2",
	})

	renewed := d.service.Subscribe("renewed")
	d.wantStatus(200, "PUT", devices+"/"+id, body(renewed, ""))
	d.ask(askQuestions(databaseQuestion))
	d.service.WaitFor(renewed, 1)
	kit.Equal(t, len(d.service.Received(phone)), 0)
	kit.NoError(t, RemoveDevice(d.dir, "Phone"))
	d.wantStatus(404, "PUT", devices+"/"+id, body(renewed, ""))
	d.wantStatus(404, "POST", "/page/push/visible", `{"device":"`+id+`","visible":true}`)
	kit.True(t, RemoveDevice(d.dir, "Phone") != nil, "a device is removed twice")
	d.ask(askQuestions(mergesQuestion))
	d.service.WaitFor(again, 2)
	kit.Equal(t, len(d.service.Received(renewed)), 1)

	for i := len(stored); i <= maxDevices; i++ {
		d.addDevice(d.service.Subscribe(fmt.Sprint("b", i)))
	}
	d.wantStatus(409, "POST", devices, body(d.service.Subscribe("more"), ""))
	info, err := os.Stat(filepath.Join(d.dir, devicesFile))
	kit.NoError(t, err)
	kit.Equal(t, info.Mode().Perm(), 0o600)
}

// While the devices' file cannot be read, no page is told that its device was removed:
// it would end its subscription. The device is called once the file can be read.
func TestDevices_FileUnreadableForAWhile(t *testing.T) {
	d := newPushDesk(t)
	phone, id := d.addBrowser("phone")
	file := filepath.Join(d.dir, devicesFile)
	kit.NoError(t, os.Rename(file, file+".away"))
	kit.NoError(t, os.Mkdir(file, 0o700))
	d.wantStatus(503, "PUT", "/page/push/devices/"+id, `{"subscription":`+phone.JSON()+`}`)
	d.wantStatus(503, "POST", "/page/push/visible", `{"device":"`+id+`","visible":false}`)
	d.s.pushes.cancel() // so that its worker ends after one look
	d.s.pushes.serveDevice(id, nil)
	d.s.pushes.mu.Lock()
	defer d.s.pushes.mu.Unlock()
	_, isCalled := d.s.pushes.workers[id]
	kit.True(t, isCalled, "the device is called no more")
}

// pushes.jsonl keeps what is open, and nothing else.
func TestPush_JournalStaysSmall(t *testing.T) {
	d := newPushDesk(t)
	phone, _ := d.addBrowser("phone")
	d.ask(askQuestions(mergesQuestion))
	over := d.ask(askQuestions(databaseQuestion))
	d.service.WaitFor(phone, 2)
	d.end(over, answerWith())
	d.service.WaitFor(phone, 3)
	p := d.s.pushes
	bound.Until(t, "what is over is forgotten", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.steps) == 1
	})
	p.mu.Lock()
	p.compact()
	p.write(pushLine{Message: "m", Tapped: "1"})
	p.mu.Unlock()
	kit.NoError(t, d.s.Close())
	journal := filepath.Join(d.dir, pushesFile)
	written := kit.ReadFile(t, journal)
	kit.Equalf(t, strings.Count(written, "\n"), 2, "%s", written)

	kit.WriteFile(t, journal, "not JSON\n"+written, 0o600)
	d.open(t) // a damaged file keeps nobody from asking
	d.ask(askQuestions(databaseQuestion))
	d.service.WaitFor(phone, 4)
}

// BenchmarkPost_BesideStallingPush posts 1,000 questions, each to a space whose device's
// push service hangs, and to one without a device. A post waits for no push service.
func BenchmarkPost_BesideStallingPush(b *testing.B) {
	for b.Loop() {
		service, release := pushservice.New(b), make(chan struct{})
		service.Answer = func(http.Header, pushservice.Message) int { <-release; return 201 }
		var spaces [2]*Space
		var addresses [2]string
		for i := range spaces {
			s, err := Open(Options{
				DataDir: b.TempDir(), IsDirect: true, pushRoots: service.Roots(),
				PushSettings: func() PushSettings {
					return PushSettings{AllowedHosts: []string{service.Host()}}
				},
			})
			kit.NoError(b, err)
			spaces[i] = s
			srv := serveWith(b, s, s.Handler().ServeHTTP)
			addresses[i] = srv.URL + "/t/" + s.secrets.APIToken + "/v1/spaces/local/messages"
		}
		phone := Device{ID: "phone", Name: "phone", AddedAt: time.Now()}
		phone.Subscription = subscriptionOf(b, service.Subscribe("phone"))
		_, err := addDevice(spaces[1].store.dir, phone)
		kit.NoError(b, err)
		spaces[1].pushes.addWorker(phone.ID, 0)

		var took [2][]time.Duration
		body := jsonText(map[string]any{"cardsV2": []any{cardOfQuestion()}})
		for n := range 1000 {
			for i := range spaces {
				which := (n + i) % 2
				start := time.Now()
				mustPost(b, addresses[which], body)
				took[which] = append(took[which], time.Since(start))
			}
		}
		close(release)
		var p50, p95 [2]time.Duration
		for i := range spaces {
			slices.Sort(took[i])
			p50[i], p95[i] = took[i][500], took[i][950]
			kit.NoError(b, spaces[i].Close())
		}
		b.ReportMetric(float64(p50[1])/float64(p50[0]), "p50-ratio")
		b.ReportMetric(float64(p95[1])/float64(p95[0]), "p95-ratio")
		b.ReportMetric(float64(p95[0].Microseconds()), "p95-µs")
	}
}

func subscriptionOf(t testing.TB, b *pushservice.Browser) (s webpush.Subscription) {
	kit.NoError(t, json.Unmarshal([]byte(b.JSON()), &s))
	return s
}

func cardOfQuestion() json.RawMessage {
	q := askQuestions(databaseQuestion)
	q.SessionName = "web-shop"
	_, card := wording.CardTexts(&q, deskID, gchat.CardSize)
	return gchat.StoredCard(card)
}
