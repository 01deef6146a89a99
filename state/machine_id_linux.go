package state

import (
	"os"
	"strings"
	"sync"
)

// machineID returns what distinguishes this machine from others, whatever its name and
// network: the id that systemd or D-Bus stored, else the id of its boot.
var machineID = sync.OnceValue(func() string {
	for _, file := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id", "/proc/sys/kernel/random/boot_id"} {
		b, _ := os.ReadFile(file)
		if id := strings.TrimSpace(string(b)); id != "" && id != "uninitialized" {
			// systemd writes "uninitialized" at the first boot
			return id
		}
	}
	return ""
})
