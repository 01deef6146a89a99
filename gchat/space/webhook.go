package space

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/api/chat/v1"
)

// maxBody is how much of a request body is read, in bytes.
const maxBody = 1 << 20

// createMessage is the webhook: spaces.messages.create, authorised by the URL.
func (s *Space) createMessage(r *http.Request) (any, error) {
	content, thread, err := readMessage(r.Body)
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	d := draft{
		content:    content,
		sender:     &chat.User{Name: webhookSender, Type: "BOT", DisplayName: "gchat-hooks"},
		messageID:  query.Get("messageId"),
		threadName: thread.Name,
		threadKey:  thread.ThreadKey,
		reply:      query.Get("messageReplyOption"),
	}
	if d.reply == "MESSAGE_REPLY_OPTION_UNSPECIFIED" {
		d.reply = ""
	}
	if d.threadKey == "" {
		d.threadKey = query.Get("threadKey") // deprecated, and still in use
	}
	if len([]rune(d.threadKey)) > 4000 {
		return nil, invalid("The thread key is longer than 4000 characters")
	}
	if id := query.Get("requestId"); id != "" {
		d.requestID = "webhook:" + id
	}
	if d.messageID != "" && !clientForm().MatchString(d.messageID) {
		return nil, invalid("The request contains an invalid message id")
	}
	posted, err := s.post(d)
	if err != nil {
		return nil, err
	}
	return webhookAnswer(posted), nil
}

// webhookAnswer is all that Google tells a webhook: name and thread.name, and what the request itself said. No createTime,
// no sender: code that needs them has to fail here too.
func webhookAnswer(r *row) *chat.Message {
	m := clone(r.Message)
	m.Thread.ThreadKey = r.ThreadKey
	m.Space, m.Sender = nil, nil
	m.CreateTime, m.ArgumentText, m.FormattedText, m.ClientAssignedMessageId = "", "", "", ""
	m.ThreadReply = false
	return m
}

// readMessage is a request body, checked; its thread apart, since what a request
// says about it counts only with a reply option.
func readMessage(body io.Reader) (*chat.Message, chat.Thread, error) {
	var thread chat.Thread
	b, err := io.ReadAll(body)
	if err != nil {
		return nil, thread, err
	}
	v, err := decode(b)
	if err != nil {
		return nil, thread, invalid("Invalid JSON payload received. " + err.Error())
	}
	if bad := google().check("message", &schema{Ref: "Message"}, v); len(bad) > 0 {
		return nil, thread, invalid(bad[0])
	}
	fields, _ := v.(map[string]any)
	for name, field := range google().Schemas["Message"].Properties {
		if field.ReadOnly { // as Google does: not refused, not used
			delete(fields, name)
		}
	}
	if b, err = json.Marshal(fields); err != nil {
		return nil, thread, fmt.Errorf("read message: %w", err)
	}
	m := new(chat.Message)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, thread, invalid("Invalid JSON payload received. " + err.Error())
	}
	if len(m.CardsV2) > 0 || len(m.Cards) > 0 {
		cards, err := json.Marshal([]any{m.CardsV2, m.Cards})
		if err != nil {
			return nil, thread, fmt.Errorf("read message: %w", err)
		}
		if len(cards) > maxMessage {
			return nil, thread, invalid("Message content is too long")
		}
	}
	if m.Thread != nil {
		thread = *m.Thread
	}
	m.Thread = nil
	return m, thread, nil
}

// decode reads one JSON value and nothing after it, keeping numbers as written.
func decode(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is more after the JSON value")
	}
	return v, nil
}
