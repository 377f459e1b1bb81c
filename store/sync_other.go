//go:build !linux

package store

import "os"

// datasync waits until what was written to the file is on the disk.
func datasync(file *os.File) error { return file.Sync() }
