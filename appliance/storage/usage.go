// Package storage measures the disk of the data directory, predicts when it will be full, and
// removes what is old.
package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

// usageInterval is the time for which a measured disk usage is returned again. It takes longer to
// measure than the rest of the overview.
const usageInterval = time.Minute

// Disk is the use of the file system with the data directory.
type Disk struct {
	Path  string `json:"path"`
	Free  int64  `json:"free_bytes"`  // that the appliance can still write
	Total int64  `json:"total_bytes"` // 0 if it is unknown
	// Parts are the entries of the data directory, the largest first.
	Parts []Part `json:"parts"`
	// FullIn is the number of seconds until the disk is full if the data directory continues to
	// grow as in the last days; 0 if it does not grow, or if it is not known yet.
	FullIn int64 `json:"full_in_seconds,omitempty"`
	// Growing is the part that grew most in that time, or "" if FullIn is 0.
	Growing string `json:"growing,omitempty"`
}

// Part is an entry of the data directory. The files of the directory itself are one part, "".
type Part struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Usage measures the disk usage of a data directory.
type Usage struct {
	dir   string
	clock clockwork.Clock

	mu      sync.Mutex
	at      time.Time
	last    Disk
	samples []sample // the oldest first
}

// NewUsage returns the usage of a data directory.
func NewUsage(dir string, clock clockwork.Clock) *Usage { return &Usage{dir: dir, clock: clock} }

// Read returns the disk usage, which was measured at most usageInterval ago.
func (u *Usage) Read() (Disk, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now := u.clock.Now(); u.at.IsZero() || now.Sub(u.at) >= usageInterval {
		measured, err := measure(u.dir)
		if err != nil {
			return Disk{}, fmt.Errorf("measure the disk usage of %s: %w", u.dir, err)
		}
		u.last, u.at = measured, now
		u.predict(now)
	}
	return u.last, nil
}

func measure(dir string) (Disk, error) {
	disk := Disk{Path: dir, Parts: []Part{}}
	var err error
	if disk.Free, disk.Total, err = space(dir); err != nil {
		return disk, err
	}
	sizes := map[string]int64{}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				name, _, nested := strings.Cut(strings.TrimPrefix(path, dir+string(os.PathSeparator)), "/")
				if !nested {
					name = ""
				}
				sizes[name] += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil // deleted meanwhile, or the directory of a sandbox
		}
		return err
	})
	for name, bytes := range sizes {
		disk.Parts = append(disk.Parts, Part{name, bytes})
	}
	slices.SortFunc(disk.Parts, func(a, b Part) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name))
	})
	return disk, err
}
