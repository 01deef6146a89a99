package space

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/renameio/v2"

	"gchat-hooks/gchat/space/webpush"
)

// PushSettings are what a person set about the calls on their devices.
type PushSettings struct {
	// ShowsText also shows a question's text in the notification.
	ShowsText bool
	// AllowedHosts are push services beyond those of the browsers' makers: HOST or
	// HOST:PORT.
	AllowedHosts []string
	// QuietUntil is when the quiet hours end; the zero time if there are none now.
	QuietUntil time.Time
}

const (
	pushesFile   = "pushes.jsonl"
	pushKeysFile = "push-keys.json"

	// followPause is how long a new message waits until a device is called for it.
	followPause = 50 * time.Millisecond
	// visibleClaim is how long a page counts as visible that has said so.
	visibleClaim = 30 * time.Second
	// takeBackTTL is how long a push service keeps the end of a call.
	takeBackTTL = 10 * time.Minute
	// maxPendingCalls is how many calls may wait for one device. The oldest are left out.
	maxPendingCalls = 50
	// firstRetryPause and maxRetryPause are the pauses after a failed call, if the push
	// service asks for none.
	firstRetryPause = 5 * time.Second
	maxRetryPause   = 5 * time.Minute
	// recordInterval is how often the time of a device's last call is written.
	recordInterval = time.Minute
	// maxPushLines is how long pushes.jsonl may become before what is over leaves it.
	maxPushLines = 2000
)

// The steps of a call, as pushes.jsonl has them. Each is written before the next thing is
// done, so a process that is killed goes on where it was.
const (
	stepCalling = "calling" // it is being sent; after a kill, nobody knows whether it was
	stepFailed  = "failed"  // the push service did not take it; it is tried again
	stepCalled  = "called"  // the push service took it
	stepSkipped = "skipped" // this device is not called
	stepEnding  = "ending"  // it is being taken back
	stepEnded   = "ended"   // it was taken back, or its notification was tapped
)

// pushLine is a line of pushes.jsonl: a step of a message's call on a device, or the
// option that was tapped in a notification.
type pushLine struct {
	Message string `json:"message"`
	Device  string `json:"device,omitempty"`
	Step    string `json:"step,omitempty"`
	Tapped  string `json:"tapped,omitempty"`
}

// callKey identifies the call of one device for one message.
type callKey struct{ message, device string }

// pusher calls the person's devices when something waits for them, and takes the call
// back when it is over. What it owes follows from the space's messages and from
// pushes.jsonl, so nothing else has to be kept.
type pusher struct {
	space    *Space
	dataDir  string
	load     func() PushSettings
	settings atomic.Pointer[PushSettings] // as last loaded
	// tests trust their own certificates, and do not wait as long
	roots      *tls.Config
	retryPause time.Duration // after the first failure; it doubles

	ctx    context.Context // ends with the space
	cancel context.CancelFunc
	group  sync.WaitGroup
	tapMu  sync.Mutex // held while the tap in a notification is decided

	mu           sync.Mutex
	isClosed     bool
	isRunning    bool // follow runs
	client       *webpush.Client
	waiting      waitingList
	steps        map[callKey]string    // of the calls that are not over
	takeBackTill map[callKey]time.Time // when it is too late to take a call back
	tapped       map[string]string     // message → the option that was tapped in a notification
	visibleTill  map[string]time.Time  // device → how long its page counts as visible
	// workers has the wake channel of each device's worker; nil if it does not run yet
	workers   map[string]chan struct{}
	journal   journal
	lineCount int
}

// openPusher returns the pusher of a space with a data folder. It fails for nothing: a
// space whose pushes.jsonl is damaged forgets whom it called.
func openPusher(s *Space, options Options) *pusher {
	p := &pusher{
		space:        s,
		dataDir:      s.store.dir,
		load:         options.PushSettings,
		roots:        options.pushRoots,
		retryPause:   cmp.Or(options.pushRetryPause, firstRetryPause),
		waiting:      newWaitingList(),
		steps:        map[callKey]string{},
		takeBackTill: map[callKey]time.Time{},
		tapped:       map[string]string{},
		visibleTill:  map[string]time.Time{},
		workers:      map[string]chan struct{}{},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.settings.Store(&PushSettings{})
	lines := p.openJournal()
	for _, line := range lines {
		p.apply(*line)
	}
	p.lineCount = len(lines)
	devices, _ := Devices(p.dataDir)
	for _, d := range devices {
		p.workers[d.ID] = nil
	}
	maps.DeleteFunc(p.steps, func(key callKey, _ string) bool {
		_, isKnown := p.workers[key.device]
		return !isKnown
	})
	if len(devices) > 0 {
		p.start(0)
	}
	return p
}

func (p *pusher) openJournal() []*pushLine {
	path := filepath.Join(p.dataDir, pushesFile)
	isComplete := func(l *pushLine) bool { return l.Message != "" }
	lines, err := loadJournal(&p.journal, path, isComplete)
	if err == nil {
		return lines
	}
	if p.journal.file != nil {
		p.journal.file.Close()
	}
	_ = os.Rename(path, path+".damaged")
	p.journal = journal{}
	lines, _ = loadJournal(&p.journal, path, isComplete)
	return lines
}

// addWorker has a new device called, for rows after the first n.
func (p *pusher) addWorker(id string, n int) {
	p.mu.Lock()
	_, isKnown := p.workers[id]
	if !isKnown {
		p.workers[id] = nil
	}
	p.mu.Unlock()
	p.start(n)
	if isKnown { // its subscription may have been refused until now
		p.wakeWorkers()
	}
}

// start follows the space's rows after the first n, and calls the devices. It does
// nothing if that was done before.
func (p *pusher) start(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isRunning || p.isClosed {
		return
	}
	p.isRunning = true
	p.group.Go(func() { p.follow(n) })
}

// close ends all goroutines of the pusher. A call under way breaks off; the next process
// repeats it with the same tag, so that no device shows it twice.
func (p *pusher) close() {
	p.mu.Lock()
	p.isClosed = true
	p.mu.Unlock()
	p.cancel()
	p.group.Wait()
	if p.journal.file != nil {
		p.journal.file.Close()
	}
}

// follow keeps the list of what waits, and wakes the devices' workers. It runs beside the
// space, so that no post waits for it.
func (p *pusher) follow(n int) {
	for {
		rows, from, changed := p.space.rowsAfter(n)
		n = from + len(rows)
		if len(rows) > 0 {
			p.mu.Lock()
			for _, r := range rows {
				p.waiting.add(r)
			}
			p.mu.Unlock()
			p.wakeWorkers()
		}
		select {
		case <-changed:
		case <-p.ctx.Done():
			return
		}
		// Posts that follow each other are read together, and none of them has to wake
		// this goroutine.
		select {
		case <-time.After(followPause):
		case <-p.ctx.Done():
			return
		}
	}
}

// wakeWorkers wakes the worker of each device, and starts those that do not run. It reads
// no file: that would slow down the posts.
func (p *pusher) wakeWorkers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isClosed {
		return
	}
	for id, wake := range p.workers {
		if wake == nil {
			wake = make(chan struct{}, 1)
			p.workers[id] = wake
			p.group.Go(func() { p.serveDevice(id, wake) })
		}
		select {
		case wake <- struct{}{}:
		default: // it is awake
		}
	}
}

// serveDevice makes one device's calls, one after the other, until the device is removed.
// A push service that hangs holds up no other device.
func (p *pusher) serveDevice(id string, wake <-chan struct{}) {
	failures := 0
	for {
		device, err := findDevice(p.dataDir, id)
		if errors.Is(err, errUnknownDevice) {
			p.forgetDevice(id)
			return
		}
		if err != nil { // the file may be readable again
			if !p.wait(nil, p.space.now().Add(p.retryPause)) {
				return
			}
			continue
		}
		if device.Refusal != "" {
			if !p.wait(wake, time.Time{}) {
				return
			}
			continue
		}
		settings := p.loadSettings()
		next, lookAgainAt := p.nextPush(device, settings)
		if next == nil {
			if !p.wait(wake, lookAgainAt) {
				return
			}
			continue
		}
		err = p.push(device, next, settings)
		pause := time.Duration(0)
		if later := new(webpush.LaterError); errors.As(err, &later) {
			failures++
			backoff := p.retryPause << min(failures-1, 10)
			pause = max(min(backoff, maxRetryPause), later.After)
		} else {
			failures = 0
		}
		if pause > 0 && !p.wait(nil, p.space.now().Add(pause)) {
			return
		}
	}
}

// forgetDevice forgets the calls of a device that was removed.
func (p *pusher) forgetDevice(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.steps, func(key callKey, _ string) bool { return key.device == id })
	delete(p.visibleTill, id)
	delete(p.workers, id)
}

// wait waits until it is woken, or until a time; the zero time is never. It returns false
// if the space is closed.
func (p *pusher) wait(wake <-chan struct{}, until time.Time) bool {
	var timeout <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(max(until.Sub(p.space.now()), 0))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-wake:
	case <-timeout:
	case <-p.ctx.Done():
	}
	return p.ctx.Err() == nil
}

func (p *pusher) loadSettings() PushSettings {
	settings := PushSettings{}
	if p.load != nil {
		settings = p.load()
	}
	p.settings.Store(&settings)
	return settings
}

// push is one thing to tell a device.
type push struct {
	key     callKey
	message *waitingMessage // nil: the call is over, and is taken back
	until   time.Time       // later it is not told
}

// nextPush returns what a device is told next; nil if there is nothing. It writes the
// step that begins. lookAgainAt is when a call may be due that is held now.
func (p *pusher) nextPush(d *Device, settings PushSettings) (next *push, lookAgainAt time.Time) {
	now := p.space.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if over := p.nextTakeBack(d.ID, now); over != nil {
		p.write(pushLine{Message: over.key.message, Device: d.ID, Step: stepEnding})
		return over, time.Time{}
	}
	due := p.dueCalls(d, now)
	for i, w := range due {
		key := callKey{w.row.Message.Name, d.ID}
		isVisible := now.Before(p.visibleTill[d.ID]) && p.steps[key] == ""
		if isVisible || len(due)-i > maxPendingCalls {
			p.write(pushLine{Message: key.message, Device: d.ID, Step: stepSkipped})
			continue
		}
		if w.traits.waitsInQuietHours && now.Before(settings.QuietUntil) {
			lookAgainAt = settings.QuietUntil
			continue
		}
		p.write(pushLine{Message: key.message, Device: d.ID, Step: stepCalling})
		return &push{key, w, w.expiresAt()}, time.Time{}
	}
	return nil, lookAgainAt
}

// nextTakeBack returns a call of the device that is over but may still be shown. The
// caller holds the lock.
func (p *pusher) nextTakeBack(device string, now time.Time) *push {
	for key, step := range p.steps {
		if key.device != device || p.waiting.all[key.message] != nil {
			continue
		}
		if !mayBeShown(step) {
			delete(p.steps, key)
			continue
		}
		if p.takeBackTill[key].IsZero() {
			p.takeBackTill[key] = now.Add(takeBackTTL)
		}
		if now.Before(p.takeBackTill[key]) {
			return &push{key: key, until: p.takeBackTill[key]}
		}
		p.write(pushLine{Message: key.message, Device: device, Step: stepEnded})
	}
	return nil
}

// mayBeShown reports whether a device may show the notification of a call.
func mayBeShown(step string) bool {
	return step == stepCalling || step == stepCalled || step == stepEnding
}

// dueCalls returns what waits and was not called on the device, the oldest first. What
// was there before the device was added is not called. The caller holds the lock.
func (p *pusher) dueCalls(d *Device, now time.Time) (due []*waitingMessage) {
	for name, w := range p.waiting.all {
		step := p.steps[callKey{name, d.ID}]
		isOpen := step == "" || step == stepCalling || step == stepFailed
		if isOpen && w.createdAt.After(d.AddedAt) && now.Before(w.expiresAt()) {
			due = append(due, w)
		}
	}
	slices.SortFunc(due, func(a, b *waitingMessage) int {
		return cmp.Or(
			a.createdAt.Compare(b.createdAt),
			cmp.Compare(a.row.Message.Name, b.row.Message.Name),
		)
	})
	return due
}

// push tells the device one thing, and writes what came of it.
func (p *pusher) push(d *Device, next *push, settings PushSettings) error {
	client, err := p.pushClient()
	if err == nil {
		err = client.Send(p.ctx, d.Subscription, pushContact(d), p.message(next, settings))
	}
	if p.ctx.Err() != nil {
		return err // the step stays as it is: the next process goes on
	}
	if errors.Is(err, webpush.ErrGone) {
		// If the file cannot be changed, the next call tries it again.
		if wasReplaced, _ := removeGoneDevice(p.dataDir, d); wasReplaced {
			return err // the step stays as it is: the same is told to the new subscription
		}
	}
	p.recordResult(d, next, err)

	step := stepCalled
	later := new(webpush.LaterError)
	isLater := errors.As(err, &later)
	isTakeBack := next.message == nil
	switch {
	case isTakeBack && isLater:
		return err
	case isTakeBack:
		step = stepEnded
	case isLater && later.MayHaveArrived:
		return err
	case isLater:
		step = stepFailed
	case err != nil:
		step = stepSkipped
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.steps[next.key] == stepEnded || !isTakeBack && p.steps[next.key] != stepCalling {
		return err // its notification was tapped meanwhile
	}
	p.write(pushLine{Message: next.key.message, Device: d.ID, Step: step})
	return err
}

// pushContact returns an address for the operator of a push service (RFC 8292, section
// 2.1): the page itself. Apple refuses one that names localhost.
func pushContact(d *Device) string { return cmp.Or(d.Origin, "gchat-hooks@localhost") }

// message returns what is sent for a push.
func (p *pusher) message(next *push, settings PushSettings) webpush.Message {
	tag := p.space.pushTag(next.key.message)
	content := pushContent{Type: "over", Tag: tag}
	m := webpush.Message{
		Topic:   tag,
		TTL:     next.until.Sub(p.space.now()),
		Urgency: webpush.UrgencyNormal,
	}
	if next.message != nil {
		content = p.space.callContent(next.message, settings.ShowsText)
		if next.message.traits.isUrgent {
			m.Urgency = webpush.UrgencyHigh
		}
	}
	m.TTL = max(m.TTL, time.Second)
	m.Payload, m.ShortPayload = content.encode(false), content.encode(true)
	return m
}

// pushClient returns the client, with keys that are made at the first need.
func (p *pusher) pushClient() (*webpush.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != nil {
		return p.client, nil
	}
	keys, err := webpush.LoadKeys(filepath.Join(p.dataDir, pushKeysFile))
	if err != nil {
		return nil, err
	}
	allowedHosts := func() []string { return p.settings.Load().AllowedHosts }
	p.client = webpush.NewClient(keys, allowedHosts, p.roots)
	return p.client, nil
}

// recordResult writes into the devices' file how a call went, so that a person can see
// it: a failure at once, a success now and then.
func (p *pusher) recordResult(d *Device, next *push, err error) {
	now := p.space.now().UTC()
	isRecent := now.Sub(d.CalledAt) < recordInterval && d.LastFailure == ""
	isTakeBack := next.message == nil
	if err == nil && (isTakeBack || isRecent) {
		return
	}
	// A device that was removed meanwhile has nothing to record.
	_ = changeDevice(p.dataDir, d.ID, func(stored *Device) {
		if err != nil {
			stored.LastFailure, stored.FailedAt = err.Error(), now
			return
		}
		stored.CalledAt, stored.LastFailure, stored.FailedAt = now, "", time.Time{}
	})
}

// write appends a line to pushes.jsonl, and applies it. If it cannot be written, the
// space may call a device again after a restart, with the same tag. The caller holds the
// lock.
func (p *pusher) write(line pushLine) {
	if p.isClosed {
		return
	}
	if p.journal.file != nil {
		_ = p.journal.appendLine(line)
	}
	p.apply(line)
	p.lineCount++
	if p.lineCount > maxPushLines && p.isRunning {
		p.compact()
	}
}

// apply keeps what a line says.
func (p *pusher) apply(line pushLine) {
	if line.Tapped != "" {
		p.tapped[line.Message] = line.Tapped
		return
	}
	p.steps[callKey{line.Message, line.Device}] = line.Step
}

// forgetEnded removes the steps of calls for what is over, except of those that have to
// be taken back. The caller holds the lock.
func (p *pusher) forgetEnded() {
	maps.DeleteFunc(p.steps, func(key callKey, step string) bool {
		return p.waiting.all[key.message] == nil && !mayBeShown(step)
	})
	maps.DeleteFunc(p.takeBackTill, func(key callKey, _ time.Time) bool {
		return p.steps[key] == ""
	})
	maps.DeleteFunc(p.tapped, func(message, _ string) bool {
		return p.waiting.all[message] == nil
	})
}

// compact rewrites pushes.jsonl without the calls for what is over. If it fails, it is
// tried again after maxPushLines more lines, or with the next line where the old file is
// no longer the journal. The caller holds the lock.
func (p *pusher) compact() {
	p.forgetEnded()
	var compacted journalText
	for key, step := range p.steps {
		compacted.add(pushLine{Message: key.message, Device: key.device, Step: step})
	}
	for message, choice := range p.tapped {
		compacted.add(pushLine{Message: message, Tapped: choice})
	}
	path := filepath.Join(p.dataDir, pushesFile)
	if renameio.WriteFile(path, compacted.Bytes(), 0o600) != nil {
		p.lineCount = 0
		return
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		return
	}
	p.lineCount = 0
	p.journal.file.Close()
	p.journal = journal{file: file, size: int64(compacted.Len())}
}
