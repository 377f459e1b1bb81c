package web

import (
	"net"

	"golang.org/x/sys/unix"
)

// acknowledgedBytes returns how many bytes of a connection the other side has acknowledged, and
// whether these are all that were written. It returns false if the kernel does not say.
func acknowledgedBytes(conn *net.TCPConn) (count uint64, all bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, false
	}
	_ = raw.Control(func(fd uintptr) { // of a closed connection it fails
		info, errInfo := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		unsent, errUnsent := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		if errInfo == nil && errUnsent == nil {
			count, all = info.Bytes_acked, unsent == 0
		}
	})
	return count, all
}
