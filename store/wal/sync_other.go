//go:build !linux

package wal

import "os"

// datasync returns when the data of the file is on the disk.
func datasync(file *os.File) error { return file.Sync() }
