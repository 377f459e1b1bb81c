//go:build !linux

package doctor

import (
	"errors"
	"net/netip"
)

func neighbourNow(netip.Addr) (mac string, known bool, err error) {
	return "", false, errors.New("the neighbour table of this system can't be read")
}
