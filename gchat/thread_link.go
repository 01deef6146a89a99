package gchat

import (
	"net"
	"regexp"
	"strings"
	"sync"
)

var threadParts = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^spaces/([A-Za-z0-9_-]+)/threads/([A-Za-z0-9_-]+)$`)
})

// ThreadLink is the address that opens a thread in a browser; "" where none is known. Chat is host/spaces/S. Of Google Chat
// it is the form of the links that its own page gives out, which Google does not document; of the embedded space on this
// machine it is its page, which may ask for the token that status must not show.
func ThreadLink(chat, thread string) string {
	m := threadParts().FindStringSubmatch(thread)
	host, space, _ := strings.Cut(chat, "/")
	if m == nil || space != "spaces/"+m[1] {
		return ""
	}
	if host == googleHost {
		return "https://chat.google.com/room/" + m[1] + "/" + m[2]
	}
	name, _, err := net.SplitHostPort(host)
	if ip := net.ParseIP(name); err == nil && m[1] == embeddedSpace && (name == "localhost" || ip != nil && ip.IsLoopback()) {
		return "http://" + host + "/#" + m[2]
	}
	return ""
}

// embeddedSpace is the one space of the embedded server.
const embeddedSpace = "local"
