//go:build !linux

package doctor

import (
	"errors"
	"net/netip"
)

func openPath(netip.Addr) (Path, error) {
	return nil, errors.New("the check of the path MTU requires Linux")
}
