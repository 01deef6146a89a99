package state

import (
	"os"
	"strings"
	"sync"
)

// machineID is what tells this machine from others, whatever its name and its network:
// what systemd or dbus wrote down for it, else its boot.
var machineID = sync.OnceValue(func() string {
	for _, file := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id", "/proc/sys/kernel/random/boot_id"} {
		b, _ := os.ReadFile(file)
		if id := strings.TrimSpace(string(b)); id != "" && id != "uninitialized" {
			// systemd's word, at the first start
			return id
		}
	}
	return ""
})
