//go:build !linux

package store

// ReleasePages does nothing here.
func (db *DB) ReleasePages() error { return nil }
