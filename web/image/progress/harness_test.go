package progress

import (
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/isogen"
)

const mib = 1 << 20

var start = time.Date(2026, 5, 23, 12, 0, 0, 0, time.UTC)

// full is an image of 100 MiB with the parts of a CoreOS image.
var full = Image{InfraEnvID: "env", Kind: "full", Revision: `"a"`, Size: 100 * mib, Segments: []isogen.Segment{
	{Name: "boot loader", Start: 0, End: 4 * mib}, {Name: "kernel", Start: 4 * mib, End: 14 * mib},
	{Name: "initrd", Start: 14 * mib, End: 39 * mib}, {Name: "config", Start: 39 * mib, End: 40 * mib},
	{Name: "rootfs", Start: 40 * mib, End: 100 * mib},
}}

func newRecorder() (*Recorder, *clockwork.FakeClock) {
	clock := clockwork.NewFakeClockAt(start)
	return NewRecorder(clock), clock
}

// sweep reads a range in pieces. Each piece takes the same time.
func sweep(t *Recorder, clock *clockwork.FakeClock, client, agent string, image Image, from, to, piece int64,
	each time.Duration) {
	for at := from; at < to; at += piece {
		read, _ := t.Request(client, agent, image, false)
		clock.Advance(each)
		read.Sent(at, min(piece, to-at))
		read.Done("")
	}
}

func only(t *testing.T, reports []Report) Report {
	t.Helper()
	require.Len(t, reports, 1)
	return reports[0]
}
