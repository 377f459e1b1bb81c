package bmc

import (
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExplain_unreachableAddress(t *testing.T) {
	s := &session{name: "n1", address: Address{URL: "https://192.0.2.7"}}
	failed := func(op string, cause syscall.Errno) error {
		return &url.Error{Op: "Get", URL: "https://192.0.2.7/redfish/v1/", Err: &net.OpError{Op: op, Net: "tcp",
			Err: os.NewSyscallError("connect", cause)}}
	}
	for _, cause := range []syscall.Errno{syscall.EHOSTUNREACH, syscall.ENETUNREACH} {
		require.EqualError(t, s.explain(RegistrationError, "log in", failed("dial", cause)),
			"The BMC of n1 at https://192.0.2.7 can't be reached ("+cause.Error()+"), so we can't log in; check its "+
				"address, that it has power, and the network between.")
	}
	require.ErrorContains(t, s.explain(RegistrationError, "log in", failed("read", syscall.ECONNRESET)),
		"closed the connection during the request to log in")
}
