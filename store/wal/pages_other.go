//go:build !linux

package wal

// releasePages does nothing on this system.
func (db *DB) releasePages() error { return nil }
