package space

import (
	"errors"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"gchat-hooks/gchat/space/webpush"
)

// addPushRoutes adds what the page and its service worker need for calls on a device.
func (s *Space) addPushRoutes(mux *http.ServeMux) {
	serveAs := func(file, contentType string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", contentType)
			r.SetPathValue("file", file)
			servePageFile(w, r)
		}
	}
	// A service worker controls the pages at its own path and below.
	mux.HandleFunc("GET /sw.js", serveAs("sw.js", "text/javascript; charset=utf-8"))
	mux.HandleFunc("GET /manifest.webmanifest",
		serveAs("manifest.webmanifest", "application/manifest+json"))

	handle := func(pattern string, call func(*pusher, *http.Request) (any, error)) {
		mux.HandleFunc(pattern, s.requirePageKey(jsonHandler(func(r *http.Request) (any, error) {
			if s.pushes == nil {
				return nil, notFound("This page is not stored on disk, so it notifies no device.")
			}
			return call(s.pushes, r)
		})))
	}
	handle("GET /page/push", (*pusher).serveKey)
	handle("POST /page/push/devices", (*pusher).addDevice)
	handle("PUT /page/push/devices/{device}", (*pusher).renewDevice)
	handle("DELETE /page/push/devices/{device}", (*pusher).removeDevice)
	handle("POST /page/push/visible", (*pusher).keepVisible)
	handle("POST /page/push/taps", (*pusher).tap)
}

// serveKey serves the public key with which a browser subscribes.
func (p *pusher) serveKey(*http.Request) (any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	keys, err := webpush.LoadKeys(filepath.Join(p.dataDir, pushKeysFile))
	if err != nil {
		return nil, err
	}
	return map[string]string{"publicKey": keys.Public}, nil
}

// pageDevice is a device as the page knows it.
type pageDevice struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// subscribeRequest is what a page says of its browser.
type subscribeRequest struct {
	Name         string               `json:"name"`
	Subscription webpush.Subscription `json:"subscription"`
}

// addDevice adds the browser that asks.
func (p *pusher) addDevice(r *http.Request) (any, error) {
	var request subscribeRequest
	if err := decodePageBody(r, &request); err != nil {
		return nil, err
	}
	if err := request.Subscription.Check(p.loadSettings().AllowedHosts); err != nil {
		return nil, invalidArgument(err.Error())
	}
	p.space.mu.Lock()
	rowCount := len(p.space.rows)
	p.space.mu.Unlock()
	added, err := addDevice(p.dataDir, Device{
		ID:           randomID(),
		Name:         deviceName(request.Name, r.UserAgent()),
		AddedAt:      p.space.now().UTC(),
		Origin:       secureOrigin(r),
		Subscription: request.Subscription,
	})
	if errors.Is(err, errTooManyDevices) {
		return nil, &apiError{http.StatusConflict, err.Error(), "RESOURCE_EXHAUSTED"}
	}
	if err != nil {
		return nil, err
	}
	p.addWorker(added.ID, rowCount)
	return pageDevice{added.ID, added.Name}, nil
}

// secureOrigin returns the origin of the page that makes a request if it is https.
func secureOrigin(r *http.Request) string {
	origin := r.Header.Get("Origin")
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "https" || u.Host == "" || len(origin) > 300 {
		return ""
	}
	return origin
}

// renewDevice keeps a device's subscription, which its browser may have changed. It adds
// no device: one that a person removed stays removed. A refusal is kept, too: the browser
// has no other subscription, so the person has to learn of it. A browser that could get
// none sends an empty one.
func (p *pusher) renewDevice(r *http.Request) (any, error) {
	var request subscribeRequest
	if err := decodePageBody(r, &request); err != nil {
		return nil, err
	}
	id := r.PathValue("device")
	stored, err := p.findDevice(id)
	if err != nil {
		return nil, err
	}
	refusal := request.Subscription.Check(p.loadSettings().AllowedHosts)
	if request.Subscription.Endpoint == "" {
		refusal = errors.New("the browser got no subscription from its push service")
	}
	if refusal == nil && stored.Refusal == "" && stored.Subscription == request.Subscription {
		return pageDevice{stored.ID, stored.Name}, nil
	}
	err = changeDevice(p.dataDir, id, func(d *Device) {
		if refusal != nil {
			d.Refusal = refusal.Error()
			return
		}
		d.Subscription, d.Origin, d.Refusal = request.Subscription, secureOrigin(r), ""
		d.LastFailure, d.FailedAt = "", time.Time{}
	})
	if errors.Is(err, errUnknownDevice) {
		return nil, notFound("This device was removed.")
	}
	if err == nil && refusal != nil {
		err = invalidArgument(refusal.Error())
	}
	p.wakeWorkers()
	return pageDevice{stored.ID, stored.Name}, err
}

// findDevice returns a device for a page, which forgets its own one after notFound.
func (p *pusher) findDevice(id string) (*Device, error) {
	d, err := findDevice(p.dataDir, id)
	if errors.Is(err, errUnknownDevice) {
		return nil, notFound("This device was removed.")
	}
	return d, err
}

func (p *pusher) removeDevice(r *http.Request) (any, error) {
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return nil, permissionDenied("Only the page itself may do this.")
	}
	return struct{}{}, removeDeviceWithID(p.dataDir, r.PathValue("device"))
}

// keepVisible notes whether a device's page is open and visible: then it is not called.
func (p *pusher) keepVisible(r *http.Request) (any, error) {
	var request struct {
		Device  string `json:"device"`
		Visible bool   `json:"visible"`
	}
	if err := decodePageBody(r, &request); err != nil {
		return nil, err
	}
	if _, err := p.findDevice(request.Device); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.visibleTill, request.Device)
	if request.Visible {
		p.visibleTill[request.Device] = p.space.now().Add(visibleClaim)
	}
	return struct{}{}, nil
}

// errTooLate answers a tap in a notification whose question is over.
var errTooLate = &apiError{
	http.StatusConflict, "Too late: already answered.", "FAILED_PRECONDITION",
}

// tap does what a person tapped in a notification: an option of a question. The first
// tap counts, on whichever device. The same tap may come again.
func (p *pusher) tap(r *http.Request) (any, error) {
	var request struct {
		Device  string `json:"device"`
		Message string `json:"message"`
		Choice  string `json:"choice"`
	}
	if err := decodePageBody(r, &request); err != nil {
		return nil, err
	}
	err := p.tapOption(request.Message, request.Choice)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	key := callKey{request.Message, request.Device}
	if p.steps[key] != "" { // its notification is gone: it need not be taken back
		p.write(pushLine{Message: key.message, Device: key.device, Step: stepEnded})
	}
	p.mu.Unlock()
	go p.space.onActivity(false)
	return struct{}{}, nil
}

// tapOption enqueues the tap and writes it down after that. A process that is killed in
// between finds the tap in the queue.
func (p *pusher) tapOption(message, choice string) error {
	requestID := "tap:push-" + p.space.pushTag(message)
	p.tapMu.Lock()
	defer p.tapMu.Unlock()
	p.mu.Lock()
	earlier := p.tapped[message]
	p.mu.Unlock()
	isNew, err := p.space.checkOptionTap(message, choice, requestID, earlier)
	if err != nil || !isNew {
		return err
	}
	err = p.space.Tap(nil, message, "", choice, nil, requestID)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(pushLine{Message: message, Tapped: choice})
	return nil
}

// checkOptionTap returns an error if an option of a card must not be chosen by a tap in a
// notification: only a question's options may, while it is open and nobody else tapped.
// The tap is not new if it is the earlier one again; requestID is its id.
func (s *Space) checkOptionTap(
	message, choice, requestID, earlierChoice string,
) (isNew bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.byName[message]
	if found == nil {
		return false, notFound("There is no such message.")
	}
	for _, q := range s.queue {
		tappedMessage, tappedChoice := q.tap()
		switch {
		case tappedMessage != message:
		case q.ID == requestID:
			earlierChoice = tappedChoice
		default:
			return false, errTooLate
		}
	}
	kind, state := cardState(found.Message)
	switch {
	case kind != kindQuestion:
		return false, permissionDenied("Open the page to answer this.")
	case earlierChoice == choice:
		return false, nil
	case earlierChoice != "" || state != "open":
		return false, errTooLate
	}
	isOption := func(b pushButton) bool { return b.Choice == choice }
	if !slices.ContainsFunc(optionButtons(found.Message.CardsV2[0].Card), isOption) {
		return false, invalidArgument("The card does not have that option.")
	}
	return true, nil
}
