package space

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/api/chat/v1"
)

// maxMessage is Google's limit for the content of a message, in bytes.
const maxMessage = 32000

// A row is a message as it is kept, with what a list never shows.
type row struct {
	Message *chat.Message `json:"message,omitempty"`
	// "webhook:…", "app:…" or "page:…": one per caller
	RequestID string `json:"requestId,omitempty"`
	ThreadKey string `json:"threadKey,omitempty"`
	Patch     bool   `json:"patch,omitempty"` // the message as it is from now on
	Kind      string `json:"kind,omitempty"`  // what an app said that it is about
	Session   string `json:"session,omitempty"`
}

// A draft is a message on its way in.
type draft struct {
	*chat.Message // its content, its sender and its id; and the thread that it asks for
	requestID     string
	reply         string     // messageReplyOption
	about         url.Values // see aboutHeader
}

// aboutHeader is where the app says what a message is about that has no card; see
// gchat.About.
const aboutHeader = "Gchat-Hooks-About"

const replyOrFail = "REPLY_MESSAGE_OR_FAIL"

// isClientID says whether Google takes it for the id of a message.
func isClientID(id string) bool {
	rest, ok := strings.CutPrefix(id, "client-")
	return ok && rest != "" && len(rest) <= 56 &&
		strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// post puts a message into the space. It is on disk when post returns. A request
// id that was seen before gives the message it made then.
func (s *Space) post(d draft) (*row, error) {
	m, wanted := d.Message, d.Thread
	if err := checkContent(m); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.byRequest[d.requestID]; r != nil {
		return r, nil
	}
	if m.ClientAssignedMessageId != "" &&
		s.byName[Name+"/messages/"+m.ClientAssignedMessageId] != nil {
		return nil, &apiError{
			http.StatusConflict,
			"Requested entity already exists",
			"ALREADY_EXISTS",
		}
	}
	thread, err := s.threadFor(wanted, d.reply)
	if err != nil {
		return nil, err
	}
	id := randomID()
	m.ThreadReply = thread != ""
	if m.ThreadReply {
		m.Name = Name + "/messages/" + strings.TrimPrefix(thread, Name+"/threads/") + "." + id
	} else {
		thread = Name + "/threads/" + id
		m.Name = Name + "/messages/" + id + "." + id
	}
	m.Thread = &chat.Thread{Name: thread}
	m.Space = &chat.Space{Name: Name}
	m.ArgumentText, m.FormattedText = m.Text, m.Text
	m.CreateTime = s.tick().Format("2006-01-02T15:04:05.000000Z")

	r := &row{
		Message:   m,
		RequestID: d.requestID,
		Kind:      d.about.Get("kind"),
		Session:   d.about.Get("session"),
	}
	if d.reply != "" {
		r.ThreadKey = wanted.ThreadKey
	}
	if err := s.add(r); err != nil {
		return nil, err
	}
	if m.Sender.Type == "HUMAN" {
		s.tellApp(m)
	}
	return r, nil
}

// add keeps a row, and makes it visible. The caller holds the lock.
func (s *Space) add(r *row) error {
	if s.closed {
		return ErrClosed
	}
	if s.store != nil {
		if err := s.store.messages.append(r); err != nil {
			return fmt.Errorf("keep message: %w", err)
		}
	}
	s.index(r)
	s.wake()
	return nil
}

// wake has those look who wait for something new. The caller holds the lock.
func (s *Space) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// threadFor is the thread that a message belongs to, "" for a new one. Without a reply
// option Google ignores what the request says about threads, and so do we.
func (s *Space) threadFor(wanted *chat.Thread, reply string) (string, error) {
	switch {
	case reply == "":
		return "", nil
	case wanted.Name == "":
		return s.byKey[wanted.ThreadKey], nil
	case !strings.HasPrefix(wanted.Name, Name+"/threads/"):
		return "", invalid("The request contains an invalid thread resource name")
	case s.threads[wanted.Name]:
		return wanted.Name, nil
	case reply == replyOrFail:
		return "", notFound("Thread " + wanted.Name + " not found")
	}
	return "", nil
}

// tick is the next createTime: now, but always later than the one before, since
// readers page with "createTime > the last one I saw".
func (s *Space) tick() time.Time {
	t := s.now().UTC().Truncate(time.Microsecond)
	if !t.After(s.last) {
		t = s.last.Add(time.Microsecond)
	}
	return t
}

// index makes a row that is on disk visible.
func (s *Space) index(r *row) {
	if r.RequestID != "" {
		s.byRequest[r.RequestID] = r
	}
	m := r.Message
	if m.ArgumentText == m.Text && m.FormattedText == m.Text { // as read from disk they are three
		m.ArgumentText, m.FormattedText = m.Text, m.Text
	}
	s.hasApp = s.hasApp || m.Sender != nil && m.Sender.Name == App
	s.rows = append(s.rows, r)
	if t, err := time.Parse(time.RFC3339Nano, m.CreateTime); err == nil && t.After(s.last) {
		s.last = t
	}
	s.byName[m.Name] = r
	if m.ClientAssignedMessageId != "" {
		s.byName[Name+"/messages/"+m.ClientAssignedMessageId] = r
	}
	s.threads[m.Thread.Name] = true
	if r.ThreadKey != "" && s.byKey[r.ThreadKey] == "" {
		s.byKey[r.ThreadKey] = m.Thread.Name
	}
}

// Say posts a text the way a person (or a bot) in the space would. A nil sender
// is the person at the page; an empty threadName starts a thread.
func (s *Space) Say(sender *chat.User, threadName, text string) (*chat.Message, error) {
	return s.say(sender, threadName, text, "")
}

func (s *Space) say(sender *chat.User, threadName, text, requestID string) (*chat.Message, error) {
	from := *cmp.Or(sender, Person())
	from.Type = cmp.Or(from.Type, "HUMAN")
	m := &chat.Message{Text: text, Sender: &from, Thread: &chat.Thread{Name: threadName}}
	d := draft{Message: m, requestID: requestID}
	if threadName != "" {
		d.reply = replyOrFail
	}
	r, err := s.post(d)
	if err != nil {
		return nil, fmt.Errorf("say in space: %w", err)
	}
	return r.Message, nil
}

// randomID has the length and look of the ids in Google's resource names.
func randomID() string {
	return strings.NewReplacer("-", "a", "_", "b").Replace(randomText(8))
}

// maxBody is how much of a request body is read, in bytes.
const maxBody = 1 << 20

// createMessage is spaces.messages.create: of a webhook, which its URL authorises, or of
// the space's Chat app, with cards, and an answer that tells all.
func (s *Space) createMessage(r *http.Request) (any, error) {
	m, err := readMessage(r)
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	d := draft{
		Message:   m,
		requestID: query.Get("requestId"),
		reply:     query.Get("messageReplyOption"),
	}
	m.Sender = &chat.User{Name: webhookSender, Type: "BOT", DisplayName: "gchat-hooks"}
	m.ClientAssignedMessageId = query.Get("messageId")
	if m.ClientAssignedMessageId != "" && !isClientID(m.ClientAssignedMessageId) {
		return nil, invalid("The request contains an invalid message id")
	}
	asApp, caller := !query.Has("key"), "webhook:"
	if asApp {
		caller, m.Sender.Name = "app:", App
		d.about, _ = url.ParseQuery(r.Header.Get(aboutHeader))
	}
	if d.requestID != "" {
		d.requestID = caller + d.requestID
	}
	if asApp && m.Thread.ThreadKey != "" {
		// by the same key a webhook has a thread of its own
		m.Thread.ThreadKey = caller + m.Thread.ThreadKey
	}
	posted, err := s.post(d)
	if err != nil {
		return nil, err
	}
	if asApp {
		return posted.Message, nil
	}
	return webhookAnswer(posted), nil
}

// webhookAnswer is all that Google tells a webhook: name and thread.name, and what the
// request itself said. No createTime, no sender: code that needs them has to fail here
// too.
func webhookAnswer(r *row) *chat.Message {
	return &chat.Message{
		Name: r.Message.Name, Text: r.Message.Text, Thread: &chat.Thread{Name: r.Message.Thread.Name, ThreadKey: r.ThreadKey},
	}
}

// readMessage is the content of a request body and the thread that it asks for; what else
// Google takes is not kept.
func readMessage(r *http.Request) (*chat.Message, error) {
	var m chat.Message
	err := decode(r, &m)
	return &chat.Message{
		Text: m.Text, FallbackText: m.FallbackText, CardsV2: m.CardsV2, PrivateMessageViewer: m.PrivateMessageViewer,
		Thread: cmp.Or(m.Thread, &chat.Thread{}),
	}, err
}
