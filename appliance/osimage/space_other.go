//go:build !linux

package osimage

import (
	"errors"
	"math"
	"os"
)

// allocate is not supported on this operating system.
func allocate(*os.File, int64, int64) error { return errors.ErrUnsupported }

// freeSpace is unknown on this operating system, so a full disk is detected only by a failed write.
func freeSpace(string) (int64, error) { return math.MaxInt64, nil }
