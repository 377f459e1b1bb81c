package storage

import (
	"maps"
	"slices"
	"time"
)

const (
	// sampleInterval is the time between two samples, and span the time that they cover.
	sampleInterval = time.Hour
	span           = 7 * 24 * time.Hour
	// leastSpan is the shortest time from which a growth is computed. An installation fills
	// gigabytes within an hour and then nothing.
	leastSpan = 6 * time.Hour
	// farAway is the time from which on a full disk is not predicted.
	farAway = 365 * 24 * time.Hour
)

// sample is the size of each part of the data directory at a time.
type sample struct {
	at    time.Time
	parts map[string]int64
}

func (s sample) total() (total int64) {
	for _, bytes := range s.parts {
		total += bytes
	}
	return total
}

// predict adds a sample if it is due, and sets the prediction in the last measurement: the disk is
// full when the data directory has grown by the free space, at its mean rate in the samples. The
// samples begin with the process.
func (u *Usage) predict(now time.Time) {
	parts := make(map[string]int64, len(u.last.Parts))
	for _, part := range u.last.Parts {
		parts[part.Name] = part.Bytes
	}
	current := sample{now, parts}
	u.samples = slices.DeleteFunc(u.samples, func(s sample) bool {
		return now.Sub(s.at) > span || s.at.After(now) // the clock was set back
	})
	if len(u.samples) == 0 || now.Sub(u.samples[len(u.samples)-1].at) >= sampleInterval {
		u.samples = append(u.samples, current)
	}
	first := u.samples[0]
	elapsed, grown := now.Sub(first.at), current.total()-first.total()
	if elapsed < leastSpan || grown <= 0 || u.last.Total == 0 {
		return
	}
	left := float64(u.last.Free) / float64(grown) * elapsed.Seconds()
	if left > farAway.Seconds() {
		return
	}
	u.last.FullIn = max(1, int64(left))
	u.last.Growing = slices.MaxFunc(slices.Collect(maps.Keys(parts)), func(a, b string) int {
		return int((parts[a] - first.parts[a]) - (parts[b] - first.parts[b]))
	})
}
