package state

import (
	"encoding/hex"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// machineID returns what distinguishes this machine from others, whatever its name and
// network: gethostuuid(2), else the id of its boot. kern.uuid would not do: it is the id
// of the kernel's build (XNU, kernel_uuid_string), equal on every Mac that runs that
// build.
var machineID = sync.OnceValue(func() string {
	var id [16]byte
	wait := syscall.Timespec{Sec: 1}
	_, _, failed := syscall.Syscall(
		syscall.SYS_GETHOSTUUID,
		uintptr(unsafe.Pointer(&id)),
		uintptr(unsafe.Pointer(&wait)),
		0,
	)
	if failed == 0 && id != [16]byte{} {
		return hex.EncodeToString(id[:])
	}
	boot, _ := unix.Sysctl("kern.bootsessionuuid")
	return boot
})
