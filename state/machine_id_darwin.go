package state

import (
	"encoding/hex"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// machineID is what tells this machine from others, whatever its name and its network:
// gethostuuid(2), else its boot. kern.uuid would be that of the kernel's build (XNU,
// kernel_uuid_string), equal on every Mac that has it.
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
