package integrity

import (
	"context"
	"time"
)

// Once looks once whether a scrub is due.
func (s *Scrubber) Once(ctx context.Context) error { return s.scrub(ctx) }

// SetPause replaces the pauses of a scrub.
func (s *Scrubber) SetPause(pause func(time.Duration) error) { s.paused = pause }
