// Package archive limits the reading of archives that a person or a machine sends: unpacked bytes,
// their ratio to the packed bytes, entries, and time. A small archive can otherwise take gigabytes
// of memory or minutes of a processor.
package archive

import (
	"fmt"
	"io"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/fault"
)

// Limits are the limits of one archive.
type Limits struct {
	Bytes   int64         // unpacked
	Entries int           // files, directories and other members
	Time    time.Duration // for the work on the archive; waiting for the sender does not count
}

// ratio is the largest ratio of unpacked to packed bytes. Texts with many repetitions reach some
// 100; the largest possible ratio of gzip is some 1,000. The first freeBytes have no ratio.
const (
	ratio     = 200
	freeBytes = 16 << 20
)

// LimitError reports that an archive exceeds a limit.
type LimitError struct{ Reason string }

// Error returns a clause, such as "has more than 100000 entries".
func (e *LimitError) Error() string { return e.Reason }

// FaultKind implements fault.Classified.
func (*LimitError) FaultKind() fault.Kind { return fault.TooLarge }

// Guard watches the reading of one archive. It is used by one goroutine.
type Guard struct {
	limits           Limits
	clock            clockwork.Clock
	packed, unpacked int64
	entries          int
	start            time.Time
	waited           time.Duration // for packed bytes
}

// NewGuard returns a guard for one archive.
func NewGuard(limits Limits) *Guard { return newGuard(limits, clockwork.NewRealClock()) }

func newGuard(limits Limits, clock clockwork.Clock) *Guard {
	return &Guard{limits: limits, clock: clock, start: clock.Now()}
}

// Packed returns a reader of the archive's packed bytes, which are the input of a decompressor.
func (g *Guard) Packed(in io.Reader) io.Reader { return &packedReader{g, in} }

// Unpacked returns a reader of the output of the decompressor. It fails with a *[LimitError] at a
// limit.
func (g *Guard) Unpacked(in io.Reader) io.Reader { return &unpackedReader{g, in} }

// Entry counts an entry of the archive.
func (g *Guard) Entry() error {
	if g.entries++; g.entries > g.limits.Entries {
		return &LimitError{fmt.Sprintf("has more than %d entries", g.limits.Entries)}
	}
	return g.checkTime()
}

func (g *Guard) checkTime() error {
	if g.clock.Since(g.start)-g.waited > g.limits.Time {
		return &LimitError{fmt.Sprintf("takes more than %s to read", g.limits.Time)}
	}
	return nil
}

type packedReader struct {
	guard *Guard
	in    io.Reader
}

// Read implements io.Reader.
func (r *packedReader) Read(p []byte) (int, error) {
	began := r.guard.clock.Now()
	n, err := r.in.Read(p)
	r.guard.waited += r.guard.clock.Since(began)
	r.guard.packed += int64(n)
	return n, err
}

type unpackedReader struct {
	guard *Guard
	in    io.Reader
}

// Read implements io.Reader.
func (r *unpackedReader) Read(p []byte) (int, error) {
	g := r.guard
	n, err := r.in.Read(p)
	g.unpacked += int64(n)
	switch {
	case g.unpacked > g.limits.Bytes:
		return 0, &LimitError{fmt.Sprintf("has more than %d MiB when it is unpacked", g.limits.Bytes>>20)}
	case g.unpacked > freeBytes && g.unpacked/ratio > g.packed:
		return 0, &LimitError{fmt.Sprintf("is packed more than %d times smaller than its content, as no real "+
			"archive is", ratio)}
	}
	if failure := g.checkTime(); failure != nil {
		return 0, failure
	}
	return n, err
}
