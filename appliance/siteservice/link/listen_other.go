//go:build !linux

package link

import "errors"

func bindToLink(uintptr, string) error {
	return errors.New("services on single network interfaces require Linux")
}

func holderOf(Network, uint16) string { return "" }
