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

// messageRow is a row of the space: a message, with data that the API does not return.
type messageRow struct {
	Message *chat.Message `json:"message,omitempty"`
	// the caller's request id, after "webhook:", "app:" or "page:"
	RequestID string `json:"requestId,omitempty"`
	ThreadKey string `json:"threadKey,omitempty"`
	// the row is a change: it replaces an earlier row's message of the same name
	IsPatch bool   `json:"patch,omitempty"`
	Kind    string `json:"kind,omitempty"`    // from aboutHeader: what it is about
	Session string `json:"session,omitempty"` // from aboutHeader: its session's name
	// from aboutHeader: its session's own id
	SessionID string `json:"sessionId,omitempty"`
}

// draft is a message that is not in the space yet.
type draft struct {
	*chat.Message // its content, sender and id, and the thread that it is meant for
	requestID     string
	replyOption   string     // messageReplyOption
	about         url.Values // see aboutHeader
	files         []sentFile
}

// aboutHeader is the request header in which the app says what a message without a card
// is about; see gchat.About.
const aboutHeader = "Gchat-Hooks-About"

const replyOrFail = "REPLY_MESSAGE_OR_FAIL"

// isClientID reports whether Google accepts the text as a message's id.
func isClientID(id string) bool {
	rest, ok := strings.CutPrefix(id, "client-")
	return ok && rest != "" && len(rest) <= 56 &&
		strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// postDraft adds a message to the space. The message is in the file when postDraft
// returns. If a request with the same id came before, it returns that request's message.
func (s *Space) postDraft(d draft) (*messageRow, error) {
	message, wanted := d.Message, d.Thread
	isBlank := strings.TrimSpace(message.Text) == "" && len(message.CardsV2) == 0
	isFileAlone := isBlank && len(d.files) > 0 && len(message.Text) <= maxMessageBytes
	if err := checkContent(message); err != nil && !isFileAlone {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if earlier := s.byRequest[d.requestID]; earlier != nil {
		return earlier, nil
	}
	clientID := message.ClientAssignedMessageId
	if clientID != "" && s.byName[Name+"/messages/"+clientID] != nil {
		return nil, &apiError{409, "Requested entity already exists", "ALREADY_EXISTS"}
	}
	thread, err := s.findThread(wanted, d.replyOption)
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

	if err := s.attach(message, d.files); err != nil {
		return nil, err
	}
	row := &messageRow{
		Message:   message,
		RequestID: d.requestID,
		Kind:      d.about.Get("kind"),
		Session:   d.about.Get("session"),
		SessionID: d.about.Get("session_id"),
	}
	if d.replyOption != "" {
		row.ThreadKey = wanted.ThreadKey
	}
	if err := s.addRow(row); err != nil {
		return nil, err
	}
	if message.Sender.Type == "HUMAN" {
		s.enqueueMessageEvent(message)
	}
	return row, nil
}

// addRow appends a row to messages.jsonl and makes it visible. The caller holds the lock.
func (s *Space) addRow(r *messageRow) error {
	if s.isClosed {
		return ErrClosed
	}
	if s.store != nil {
		if err := s.store.messages.appendLine(r); err != nil {
			return fmt.Errorf("save message: %w", err)
		}
	}
	s.indexRow(r)
	s.wakeWaiters()
	return nil
}

// wakeWaiters wakes everybody who waits for a new row or event. The caller holds the
// lock.
func (s *Space) wakeWaiters() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// findThread returns the thread that a message belongs to, "" for a new one. Without a
// reply option, Google ignores the thread in the request, and so does the space.
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

// nextCreateTime returns the current time, or a time just after the last message's if the
// clock is not past that. No two messages have the same createTime, because a reader asks
// for those after the last createTime that it knows.
func (s *Space) nextCreateTime() time.Time {
	t := s.now().UTC().Truncate(time.Microsecond)
	if !t.After(s.lastTime) {
		t = s.lastTime.Add(time.Microsecond)
	}
	return t
}

// indexRow makes a row visible that is in messages.jsonl.
func (s *Space) indexRow(r *messageRow) {
	if r.RequestID != "" {
		s.byRequest[r.RequestID] = r
	}
	m := r.Message
	if m.ArgumentText == m.Text && m.FormattedText == m.Text {
		// One string in memory: the decoder made three of the same text.
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
	for _, attachment := range m.Attachment {
		if attachment != nil && attachment.AttachmentDataRef != nil {
			s.attached[attachment.AttachmentDataRef.ResourceName] = true
		}
	}
	if r.ThreadKey != "" && s.threadByKey[r.ThreadKey] == "" {
		s.threadByKey[r.ThreadKey] = m.Thread.Name
	}
}

// PostAs posts a text as a person or a bot in the space. A nil sender is the person at
// the page; an empty threadName starts a thread.
func (s *Space) PostAs(sender *chat.User, threadName, text string) (*chat.Message, error) {
	return s.postAs(sender, threadName, text, "")
}

func (s *Space) postAs(
	sender *chat.User,
	threadName, text, requestID string,
	files ...sentFile,
) (*chat.Message, error) {
	author := *cmp.Or(sender, Person())
	author.Type = cmp.Or(author.Type, "HUMAN")
	m := &chat.Message{Text: text, Sender: &author, Thread: &chat.Thread{Name: threadName}}
	d := draft{Message: m, requestID: requestID, files: files}
	if threadName != "" {
		d.replyOption = replyOrFail
	}
	r, err := s.postDraft(d)
	if err != nil {
		return nil, fmt.Errorf("post in space: %w", err)
	}
	return r.Message, nil
}

// randomID returns an id that looks like those in Google's resource names.
func randomID() string {
	return strings.NewReplacer("-", "a", "_", "b").Replace(randomText(8))
}

// maxBodyBytes is the limit for a request body, in bytes.
const maxBodyBytes = 1 << 20

// createMessage serves spaces.messages.create, for a webhook and for the space's Chat
// app. The app may send cards, and gets the whole message as the response.
func (s *Space) createMessage(r *http.Request) (any, error) {
	message, err := readMessage(r)
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	files, err := uploadedFiles(message.Attachment)
	if err != nil {
		return nil, err
	}
	message.Attachment = nil
	if len(files) > 0 && query.Has("key") {
		return nil, permissionDenied("A webhook cannot send attachments.")
	}
	newDraft := draft{
		Message:     message,
		files:       files,
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
		// The same key of a webhook names another thread.
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

// webhookResponse returns what Google returns to a webhook: the names of the message and
// its thread, and what was in the request. createTime and sender are missing there, so
// code that needs them has to fail here, too.
func webhookResponse(r *messageRow) *chat.Message {
	return &chat.Message{
		Name:   r.Message.Name,
		Text:   r.Message.Text,
		Thread: &chat.Thread{Name: r.Message.Thread.Name, ThreadKey: r.ThreadKey},
	}
}

// readMessage reads a message's content and its thread from a request body. It drops
// everything else that Google accepts.
func readMessage(r *http.Request) (*chat.Message, error) {
	var m chat.Message
	err := decodeBody(r, &m)
	return &chat.Message{
		Text:                 m.Text,
		FallbackText:         m.FallbackText,
		CardsV2:              m.CardsV2,
		PrivateMessageViewer: m.PrivateMessageViewer,
		Attachment:           m.Attachment,
		Thread:               cmp.Or(m.Thread, &chat.Thread{}),
	}, err
}
