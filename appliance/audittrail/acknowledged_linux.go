package audittrail

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// established is the state of a TCP connection that neither side has closed (TCP_ESTABLISHED in
// include/net/tcp_states.h of Linux).
const established = 1

// unacknowledged returns the number of bytes that were written to a connection, and that the other
// machine has not acknowledged. It returns errLost if the connection has ended.
func unacknowledged(conn *net.TCPConn) (left int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failure error
	err = raw.Control(func(descriptor uintptr) {
		left, failure = unix.IoctlGetInt(int(descriptor), unix.SIOCOUTQ)
		if failure != nil {
			return
		}
		// The state is read after the number: the end of a connection makes the number 0.
		var info *unix.TCPInfo
		if info, failure = unix.GetsockoptTCPInfo(int(descriptor), unix.IPPROTO_TCP, unix.TCP_INFO); failure == nil &&
			info.State != established {
			failure = errLost
		}
	})
	if err := errors.Join(err, failure); err != nil {
		return 0, fmt.Errorf("ask for the state of the connection: %w", err)
	}
	return left, nil
}
