//go:build !linux

package backup

import "os"

// DropCache does nothing on this system.
func DropCache(*os.File) {}
