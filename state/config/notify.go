package config

import (
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

// Notify is how a person who is away is called: by an ntfy topic or by a command.
type Notify struct {
	URL     string   `json:"url"`     // the topic's address: https://ntfy.sh/TOPIC
	Token   string   `json:"token"`   // ntfy's access token, for a protected topic; a secret
	Command []string `json:"command"` // run without a shell
	Page    string   `json:"page"`    // the embedded space's page, at its address for a phone
}

// defaultNotifyAfter is how long something waits before the person is called.
const defaultNotifyAfter = 10 * time.Second

// readNotify reads {"url": …, "token": …} or {"command": […]}. The first place that has
// the setting counts.
func (c *Config) readNotify(value json.RawMessage) error {
	if c.Notify != nil {
		return nil
	}
	notify := &Notify{}
	if err := json.Unmarshal(value, notify); err != nil {
		return errors.New("it takes an object with url or command")
	}
	if (notify.URL == "") == (len(notify.Command) == 0) {
		return errors.New("it takes either url or command")
	}
	if notify.URL != "" && !IsTopicURL(notify.URL, notify.Token != "") {
		return ErrNotTopic
	}
	notify.Page = withoutSecret(notify.Page)
	c.Notify = notify
	return nil
}

// withoutSecret returns the page's address without the key or the token that the page's
// link has, since an ntfy server reads the link of a call. A device that was paired needs
// neither.
func withoutSecret(page string) string {
	u, err := url.Parse(page)
	if err != nil {
		return ""
	}
	if strings.Contains(u.Fragment, "key=") {
		u.Fragment, u.RawFragment = "", ""
	}
	u.RawQuery, u.User = "", nil
	return u.String()
}

// Place names where calls go, without the topic, which is a secret.
func (n *Notify) Place() string {
	if len(n.Command) > 0 {
		return "the command " + filepath.Base(n.Command[0])
	}
	u, err := url.Parse(n.URL)
	if err != nil {
		return "ntfy"
	}
	return u.Host
}

// ErrNotTopic means that calls cannot be posted to an address.
var ErrNotTopic = errors.New(
	"url is the https address of an ntfy topic, such as https://ntfy.sh/TOPIC",
)

// IsTopicURL reports whether a call may be posted to an address. A token crosses the
// network only encrypted.
func IsTopicURL(address string, hasToken bool) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || len(u.Path) < 2 || u.User != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	isThisMachine := u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
	return u.Scheme == "https" || u.Scheme == "http" && (isThisMachine || !hasToken)
}
