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

// maxMessageBytes is Google's limit for the content of a message, in bytes.
const maxMessageBytes = 32000

// A messageRow is a message as it is kept, with what a list never shows.
type messageRow struct {
	Message *chat.Message `json:"message,omitempty"`
	// "webhook:…", "app:…" or "page:…": one per caller
	RequestID string `json:"requestId,omitempty"`
	ThreadKey string `json:"threadKey,omitempty"`
	IsPatch   bool   `json:"patch,omitempty"` // the message as it is from now on
	Kind      string `json:"kind,omitempty"`  // what an app said that it is about
	Session   string `json:"session,omitempty"`
}

// A draft is a message on its way in.
type draft struct {
	*chat.Message // its content, its sender and its id; and the thread that it asks for
	requestID     string
	replyOption   string     // messageReplyOption
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

// postDraft puts a message into the space. It is on disk when post returns. A request
// id that was seen before gives the message it made then.
func (s *Space) postDraft(draftMessage draft) (*messageRow, error) {
	message, wanted := draftMessage.Message, draftMessage.Thread
	if err := checkContent(message); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if newRow := s.byRequest[draftMessage.requestID]; newRow != nil {
		return newRow, nil
	}
	if message.ClientAssignedMessageId != "" &&
		s.byName[Name+"/messages/"+message.ClientAssignedMessageId] != nil {
		return nil, &apiError{
			http.StatusConflict,
			"Requested entity already exists",
			"ALREADY_EXISTS",
		}
	}
	thread, err := s.findThread(wanted, draftMessage.replyOption)
	if err != nil {
		return nil, err
	}
	id := randomID()
	message.ThreadReply = thread != ""
	if message.ThreadReply {
		message.Name = Name + "/messages/" + strings.TrimPrefix(thread, Name+"/threads/") + "." + id
	} else {
		thread = Name + "/threads/" + id
		message.Name = Name + "/messages/" + id + "." + id
	}
	message.Thread = &chat.Thread{Name: thread}
	message.Space = &chat.Space{Name: Name}
	message.ArgumentText, message.FormattedText = message.Text, message.Text
	message.CreateTime = s.nextCreateTime().Format("2006-01-02T15:04:05.000000Z")

	newRow := &messageRow{
		Message:   message,
		RequestID: draftMessage.requestID,
		Kind:      draftMessage.about.Get("kind"),
		Session:   draftMessage.about.Get("session"),
	}
	if draftMessage.replyOption != "" {
		newRow.ThreadKey = wanted.ThreadKey
	}
	if err := s.addRow(newRow); err != nil {
		return nil, err
	}
	if message.Sender.Type == "HUMAN" {
		s.enqueueMessageEvent(message)
	}
	return newRow, nil
}

// addRow keeps a row, and makes it visible. The caller holds the lock.
func (s *Space) addRow(r *messageRow) error {
	if s.isClosed {
		return ErrClosed
	}
	if s.store != nil {
		if err := s.store.messages.appendLine(r); err != nil {
			return fmt.Errorf("keep message: %w", err)
		}
	}
	s.indexRow(r)
	s.wakeWaiters()
	return nil
}

// wakeWaiters has those look who wait for something new. The caller holds the lock.
func (s *Space) wakeWaiters() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// findThread is the thread that a message belongs to, "" for a new one. Without a reply
// option Google ignores what the request says about threads, and so do we.
func (s *Space) findThread(wanted *chat.Thread, replyOption string) (string, error) {
	switch {
	case replyOption == "":
		return "", nil
	case wanted.Name == "":
		return s.threadByKey[wanted.ThreadKey], nil
	case !strings.HasPrefix(wanted.Name, Name+"/threads/"):
		return "", invalidArgument("The request contains an invalid thread resource name")
	case s.threads[wanted.Name]:
		return wanted.Name, nil
	case replyOption == replyOrFail:
		return "", notFound("Thread " + wanted.Name + " not found")
	}
	return "", nil
}

// nextCreateTime is the next createTime: now, but always later than the one before, since
// readers page with "createTime > the last one I saw".
func (s *Space) nextCreateTime() time.Time {
	t := s.now().UTC().Truncate(time.Microsecond)
	if !t.After(s.lastTime) {
		t = s.lastTime.Add(time.Microsecond)
	}
	return t
}

// indexRow makes a row that is on disk visible.
func (s *Space) indexRow(r *messageRow) {
	if r.RequestID != "" {
		s.byRequest[r.RequestID] = r
	}
	m := r.Message
	if m.ArgumentText == m.Text && m.FormattedText == m.Text { // as read from disk they are three
		m.ArgumentText, m.FormattedText = m.Text, m.Text
	}
	s.hasApp = s.hasApp || m.Sender != nil && m.Sender.Name == AppName
	s.rows = append(s.rows, r)
	if t, err := time.Parse(time.RFC3339Nano, m.CreateTime); err == nil && t.After(s.lastTime) {
		s.lastTime = t
	}
	s.byName[m.Name] = r
	if m.ClientAssignedMessageId != "" {
		s.byName[Name+"/messages/"+m.ClientAssignedMessageId] = r
	}
	s.threads[m.Thread.Name] = true
	if r.ThreadKey != "" && s.threadByKey[r.ThreadKey] == "" {
		s.threadByKey[r.ThreadKey] = m.Thread.Name
	}
}

// PostAs posts a text the way a person (or a bot) in the space would. A nil sender
// is the person at the page; an empty threadName starts a thread.
func (s *Space) PostAs(sender *chat.User, threadName, text string) (*chat.Message, error) {
	return s.postAs(sender, threadName, text, "")
}

func (s *Space) postAs(
	sender *chat.User,
	threadName, text, requestID string,
) (*chat.Message, error) {
	author := *cmp.Or(sender, Person())
	author.Type = cmp.Or(author.Type, "HUMAN")
	m := &chat.Message{Text: text, Sender: &author, Thread: &chat.Thread{Name: threadName}}
	d := draft{Message: m, requestID: requestID}
	if threadName != "" {
		d.replyOption = replyOrFail
	}
	r, err := s.postDraft(d)
	if err != nil {
		return nil, fmt.Errorf("say in space: %w", err)
	}
	return r.Message, nil
}

// randomID has the length and look of the ids in Google's resource names.
func randomID() string {
	return strings.NewReplacer("-", "a", "_", "b").Replace(randomText(8))
}

// maxBodyBytes is how much of a request body is read, in bytes.
const maxBodyBytes = 1 << 20

// createMessage is spaces.messages.create: of a webhook, which its URL authorises, or of
// the space's Chat app, with cards, and an answer that tells all.
func (s *Space) createMessage(r *http.Request) (any, error) {
	message, err := readMessage(r)
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	newDraft := draft{
		Message:     message,
		requestID:   query.Get("requestId"),
		replyOption: query.Get("messageReplyOption"),
	}
	message.Sender = &chat.User{Name: webhookName, Type: "BOT", DisplayName: "gchat-hooks"}
	message.ClientAssignedMessageId = query.Get("messageId")
	if message.ClientAssignedMessageId != "" && !isClientID(message.ClientAssignedMessageId) {
		return nil, invalidArgument("The request contains an invalid message id")
	}
	isApp, caller := !query.Has("key"), "webhook:"
	if isApp {
		caller, message.Sender.Name = "app:", AppName
		newDraft.about, _ = url.ParseQuery(r.Header.Get(aboutHeader))
	}
	if newDraft.requestID != "" {
		newDraft.requestID = caller + newDraft.requestID
	}
	if isApp && message.Thread.ThreadKey != "" {
		// by the same key a webhook has a thread of its own
		message.Thread.ThreadKey = caller + message.Thread.ThreadKey
	}
	posted, err := s.postDraft(newDraft)
	if err != nil {
		return nil, err
	}
	if isApp {
		return posted.Message, nil
	}
	return webhookResponse(posted), nil
}

// webhookResponse is all that Google tells a webhook: name and thread.name, and what the
// request itself said. No createTime, no sender: code that needs them has to fail here
// too.
func webhookResponse(r *messageRow) *chat.Message {
	return &chat.Message{
		Name: r.Message.Name, Text: r.Message.Text, Thread: &chat.Thread{Name: r.Message.Thread.Name, ThreadKey: r.ThreadKey},
	}
}

// readMessage is the content of a request body and the thread that it asks for; what else
// Google takes is not kept.
func readMessage(r *http.Request) (*chat.Message, error) {
	var m chat.Message
	err := decodeBody(r, &m)
	return &chat.Message{
		Text: m.Text, FallbackText: m.FallbackText, CardsV2: m.CardsV2, PrivateMessageViewer: m.PrivateMessageViewer,
		Thread: cmp.Or(m.Thread, &chat.Thread{}),
	}, err
}
