package web

import (
	"net"

	"golang.org/x/sys/unix"
)

// unsentBytes returns how many bytes of a connection the other side has not acknowledged. It
// returns 1 if the kernel does not say.
func unsentBytes(conn *net.TCPConn) int {
	unsent := 1
	raw, err := conn.SyscallConn()
	if err != nil {
		return unsent
	}
	_ = raw.Control(func(fd uintptr) { // of a closed connection it fails
		if n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
			unsent = n
		}
	})
	return unsent
}
