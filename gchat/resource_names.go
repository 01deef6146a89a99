package gchat

import (
	"net"
	"net/url"
	"strings"
)

// This file puts together and takes apart the names that Google gives its resources:
// spaces/S, spaces/S/messages/M and spaces/S/threads/T.

// MessageName returns spaces/S/messages/ID, the name of the message with an id in a
// space. The id may be the one that its sender gave it (client-…).
func MessageName(space, id string) string { return space + "/messages/" + id }

// SpaceOf returns the space that a thread or message is in: spaces/S.
func SpaceOf(name string) (space string) {
	space, _, _ = strings.Cut(name, "/threads/")
	space, _, _ = strings.Cut(space, "/messages/")
	return space
}

// Space returns the space that the message is in: spaces/S.
func (m Message) Space() string { return SpaceOf(m.Name) }

// ThreadID returns T of spaces/S/threads/T, or "" if the thread is not in the space S.
func ThreadID(space, thread string) string {
	id, isInSpace := strings.CutPrefix(thread, space+"/threads/")
	if !isInSpace {
		return ""
	}
	return id
}

// FirstMessageName returns the name of the first message of a thread. For
// spaces/S/threads/T it is spaces/S/messages/T.T, as observed at Google. It is "" if that
// is no thread's name.
func FirstMessageName(thread string) string {
	space, id, isThread := strings.Cut(thread, "/threads/")
	if !isThread {
		return ""
	}
	return MessageName(space, id+"."+id)
}

// ParentMessage returns the name of the message that m quotes, or else of the first
// message in m's thread. It is "" if m begins a thread.
func (m Message) ParentMessage() string {
	if m.QuotedMessage != "" || !m.IsReply {
		return m.QuotedMessage
	}
	return FirstMessageName(m.ThreadName)
}

// ThreadLink returns the address that opens a thread in a browser, or "" if none is
// known. chat is host/spaces/S. For Google Chat, the link has the form that Chat's own
// page gives out, which Google does not document. For the embedded space on this machine,
// the link leads to the space's page and has no token, since status must not show it. The
// page asks for the token.
func ThreadLink(chat, thread string) string {
	host, space, _ := strings.Cut(chat, "/")
	id := ThreadID(space, thread)
	name, _, err := net.SplitHostPort(host)
	switch {
	case id == "" || url.PathEscape(id) != id:
		return ""
	case host == googleHost:
		return "https://chat.google.com/room/" + strings.TrimPrefix(space, "spaces/") + "/" + id
	case err == nil && space == embeddedSpaceName && isLoopback(name):
		return "http://" + host + "/#" + id
	}
	return ""
}
