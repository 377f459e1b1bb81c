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

const (
	// usageInterval is the time for which a measured disk usage is returned again. It takes longer
	// to measure than the rest of the overview.
	usageInterval = time.Minute
	// patience is the time that a reader waits for a measurement, and oldest the age of the one
	// that it gets instead. A disk that hangs must not keep back everybody who asks for its usage.
	patience = 5 * time.Second
	oldest   = 10 * time.Minute
)

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
	dir     string
	clock   clockwork.Clock
	measure func(dir string) (Disk, error)

	mu      sync.Mutex
	at      time.Time
	last    Disk
	samples []sample // the oldest first
	active  *measurement
}

// measurement is a measurement that runs. disk and err are set before done is closed.
type measurement struct {
	done chan struct{}
	disk Disk
	err  error
}

// NewUsage returns the usage of a data directory.
func NewUsage(dir string, clock clockwork.Clock) *Usage {
	return &Usage{dir: dir, clock: clock, measure: measure}
}

// Read returns the disk usage, which was measured at most usageInterval ago. While the disk does
// not respond, it returns an older one, and then an error.
func (u *Usage) Read() (Disk, error) {
	if last, ok := u.measuredWithin(usageInterval); ok {
		return last, nil
	}
	active := u.start()
	limit := u.clock.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-active.done:
		return active.disk, active.err
	case <-limit.Chan():
	}
	if last, ok := u.measuredWithin(oldest); ok {
		return last, nil
	}
	return Disk{}, fmt.Errorf("measure the disk usage of %s: the disk has not responded for %s", u.dir, patience)
}

// measuredWithin returns the last measurement unless it is older than a time.
func (u *Usage) measuredWithin(age time.Duration) (Disk, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.last, !u.at.IsZero() && u.clock.Since(u.at) < age
}

// start starts a measurement, or returns the one that runs.
func (u *Usage) start() *measurement {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.active == nil {
		started := &measurement{done: make(chan struct{})}
		u.active = started
		go func() {
			defer close(started.done)
			measured, err := u.measure(u.dir)
			u.mu.Lock()
			defer u.mu.Unlock()
			u.active = nil
			if err != nil {
				started.err = fmt.Errorf("measure the disk usage of %s: %w", u.dir, err)
				return
			}
			u.last, u.at = measured, u.clock.Now()
			u.predict(u.at)
			started.disk = u.last
		}()
	}
	return u.active
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
