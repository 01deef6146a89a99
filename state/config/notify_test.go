package config

import (
	"fmt"
	"testing"

	"gchat-hooks/e2e/kit"
)

// A token goes only where it is not read on the way, and only a topic or a command calls.
func TestNotify_Read(t *testing.T) {
	for value, isValid := range map[string]bool{
		`{"url": "https://ntfy.sh/x"}`:                             true,
		`{"url": "https://ntfy.example:8443/x", "token": "tk"}`:    true,
		`{"url": "http://127.0.0.1:2586/x", "token": "tk"}`:        true,
		`{"url": "http://ntfy.lan/x"}`:                             true,
		`{"url": "http://ntfy.lan/x", "token": "tk"}`:              false,
		`{"url": "https://ntfy.sh"}`:                               false,
		`{"url": "https://ann:secret@ntfy.sh/x"}`:                  false,
		`{"url": "file:///etc/passwd"}`:                            false,
		`{"command": ["notify-send", "gchat"]}`:                    true,
		`{"command": "notify-send"}`:                               false,
		`{"url": "https://ntfy.sh/x", "command": ["notify-send"]}`: false,
		`{}`: false, `true`: false, `"https://ntfy.sh/x"`: false,
	} {
		c := &Config{}
		err := c.readNotify([]byte(value))
		kit.True(t, (err == nil) == isValid && (c.Notify != nil) == isValid, "%s: %v", value, err)
	}
}

// A person copies the page's address from the browser or from the terminal, with the key.
func TestNotify_PageHasNoSecret(t *testing.T) {
	const file = `{"url": "https://ntfy.sh/x", "page": %q}`
	for page, want := range map[string]string{
		"https://box.example/#key=SECRET":       "https://box.example/",
		"https://box.example/?token=SECRET":     "https://box.example/",
		"https://ann:SECRET@box.example/#mine":  "https://box.example/#mine",
		"http://192.168.1.5:8765/#T&key=SECRET": "http://192.168.1.5:8765/",
		"http://192.168.1.5:8765/":              "http://192.168.1.5:8765/",
		"https://box.example/%zz#key=SECRET":    "",
	} {
		c := &Config{}
		kit.NoError(t, c.readNotify(fmt.Appendf(nil, file, page)))
		kit.Equal(t, c.Notify.Page, want)
	}
}
