package space

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/api/chat/v1"
)

// maxMessage is Google's limit for the content of a message, in bytes.
const maxMessage = 32000

// A row is a message as it is kept, with what a list never shows.
type row struct {
	Message   *chat.Message `json:"message,omitempty"`
	RequestID string        `json:"requestId,omitempty"` // "webhook:…", "app:…" or "page:…": one per caller
	ThreadKey string        `json:"threadKey,omitempty"`
	Patch     bool          `json:"patch,omitempty"` // the message as it is from now on
}

// A draft is a message on its way in.
type draft struct {
	content    *chat.Message
	sender     *chat.User
	messageID  string
	requestID  string
	threadName string
	threadKey  string
	reply      string // messageReplyOption
}

const replyOrFail = "REPLY_MESSAGE_OR_FAIL"

// isClientID says whether Google takes it for the id of a message.
func isClientID(id string) bool {
	rest, ok := strings.CutPrefix(id, "client-")
	return ok && rest != "" && len(rest) <= 56 && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// post puts a message into the space. It is on disk when post returns. A request
// id that was seen before gives the message it made then.
func (s *Space) post(d draft) (*row, error) {
	if err := checkContent(d.content); err != nil {
		return nil, err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.byRequest[d.requestID]; r != nil {
		return r, nil
	}
	if d.messageID != "" && s.byName[Name+"/messages/"+d.messageID] != nil {
		return nil, &apiError{http.StatusConflict, "Requested entity already exists", "ALREADY_EXISTS"}
	}
	thread, err := s.threadFor(d)
	if err != nil {
		return nil, err
	}

	m := d.content
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
	m.Sender = d.sender
	m.ClientAssignedMessageId = d.messageID
	m.ArgumentText, m.FormattedText = m.Text, m.Text
	m.CreateTime = s.tick().Format("2006-01-02T15:04:05.000000Z")

	r := &row{Message: m, RequestID: d.requestID}
	if d.reply != "" {
		r.ThreadKey = d.threadKey
	}
	if err := s.add(r); err != nil {
		return nil, err
	}
	if d.sender.Type == "HUMAN" {
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
		if err := s.store.append(r); err != nil {
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

// threadFor is the thread a draft belongs to, "" for a new one. Without a reply
// option Google ignores what the request says about threads, and so do we.
func (s *Space) threadFor(d draft) (string, error) {
	if d.reply == "" {
		return "", nil
	}
	if d.threadName == "" {
		return s.byKey[d.threadKey], nil
	}
	if !strings.HasPrefix(d.threadName, Name+"/threads/") {
		return "", invalid("The request contains an invalid thread resource name")
	}
	switch {
	case s.threads[d.threadName]:
		return d.threadName, nil
	case d.reply == replyOrFail:
		return "", notFound("Thread " + d.threadName + " not found")
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
	d := draft{content: &chat.Message{Text: text}, sender: &from, requestID: requestID, threadName: threadName}
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

// createMessage is spaces.messages.create: of a webhook, which its URL authorises, or of the space's Chat app, with cards, and an
// answer that tells all.
func (s *Space) createMessage(r *http.Request) (any, error) {
	content, thread, err := readMessage(r)
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	d := draft{
		content:    content,
		sender:     &chat.User{Name: webhookSender, Type: "BOT", DisplayName: "gchat-hooks"},
		messageID:  query.Get("messageId"),
		requestID:  query.Get("requestId"),
		threadName: thread.Name,
		threadKey:  thread.ThreadKey,
		reply:      query.Get("messageReplyOption"),
	}
	if d.messageID != "" && !isClientID(d.messageID) {
		return nil, invalid("The request contains an invalid message id")
	}
	asApp, caller := !query.Has("key"), "webhook:"
	if asApp {
		caller, d.sender.Name = "app:", App
	}
	if d.requestID != "" {
		d.requestID = caller + d.requestID
	}
	if asApp && d.threadKey != "" {
		d.threadKey = caller + d.threadKey // by the same key a webhook has a thread of its own
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

// webhookAnswer is all that Google tells a webhook: name and thread.name, and what the request itself said. No createTime,
// no sender: code that needs them has to fail here too.
func webhookAnswer(r *row) *chat.Message {
	return &chat.Message{
		Name: r.Message.Name, Text: r.Message.Text, Thread: &chat.Thread{Name: r.Message.Thread.Name, ThreadKey: r.ThreadKey},
	}
}

// readMessage is the text of a request body and its thread; what else Google takes is not kept. The thread is apart, since what a
// request says about it counts only with a reply option.
func readMessage(r *http.Request) (*chat.Message, chat.Thread, error) {
	m := chat.Message{Thread: &chat.Thread{}}
	if err := decode(r, &m); err != nil {
		return nil, chat.Thread{}, err
	}
	if m.Thread == nil { // null
		m.Thread = &chat.Thread{}
	}
	return &chat.Message{
		Text: m.Text, FallbackText: m.FallbackText, CardsV2: m.CardsV2, PrivateMessageViewer: m.PrivateMessageViewer,
	}, *m.Thread, nil
}
