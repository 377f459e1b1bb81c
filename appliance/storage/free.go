package storage

import "math"

// Free returns the bytes that this user can still write to the file system of a directory. On
// operating systems that do not say it, a full disk is found by a failed write only.
func Free(dir string) (int64, error) {
	free, total, err := space(dir)
	if err == nil && total == 0 {
		return math.MaxInt64, nil
	}
	return free, err
}
