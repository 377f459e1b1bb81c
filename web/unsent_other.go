//go:build !linux

package web

import "net"

// unsentBytes returns 1: the kernel does not say.
func unsentBytes(*net.TCPConn) int { return 1 }
