package state

import "golang.org/x/sys/unix"

// machine is what tells this machine from others, whatever its name and its network.
func machine() string {
	id, _ := unix.Sysctl("kern.uuid")
	return id
}
