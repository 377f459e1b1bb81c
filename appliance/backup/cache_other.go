//go:build !linux

package backup

import "os"

// dropCache does nothing on this system.
func dropCache(*os.File) {}
