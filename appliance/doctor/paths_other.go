//go:build !linux

package doctor

import (
	"errors"
	"net/netip"
)

func openPath(netip.Addr) (Path, error) {
	return nil, errors.New("packets that must not be cut are only sent from Linux")
}
