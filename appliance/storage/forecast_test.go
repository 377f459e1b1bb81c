package storage

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
)

// grow sets the size of a file in an entry of the data directory.
func grow(t *testing.T, dir, part string, bytes int64) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, part), 0o700))
	path := filepath.Join(dir, part, "file")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	require.NoError(t, file.Truncate(bytes)) // a sparse file
	require.NoError(t, file.Close())
}

func TestUsage_predictsFullDisk(t *testing.T) {
	dir, clock := t.TempDir(), clockwork.NewFakeClock()
	usage := NewUsage(dir, clock)
	read := func() Disk {
		t.Helper()
		disk, err := usage.Read()
		require.NoError(t, err)
		return disk
	}
	grow(t, dir, "blobs", 1<<20)
	grow(t, dir, "audit", 1<<20)
	first := read()
	require.Positive(t, first.Free)
	require.Zero(t, first.FullIn, "the growth is unknown")

	clock.Advance(5 * time.Hour)
	grow(t, dir, "blobs", 1<<20+first.Free/100)
	require.Zero(t, read().FullIn, "an installation fills the disk only for a while")

	clock.Advance(5 * time.Hour)
	disk := read()
	require.Equal(t, "blobs", disk.Growing)
	// A hundredth of the free space in 10 hours. The free space changes while the test runs.
	require.InEpsilon(t, 1000*time.Hour.Seconds(), disk.FullIn, 0.2)

	clock.Advance(span)
	read()
	clock.Advance(span)
	require.Zero(t, read().FullIn, "it has not grown for a week")
}

func TestUsage_doesNotPredictFarAway(t *testing.T) {
	dir, clock := t.TempDir(), clockwork.NewFakeClock()
	usage := NewUsage(dir, clock)
	_, err := usage.Read()
	require.NoError(t, err)
	clock.Advance(leastSpan)
	grow(t, dir, "audit", 1)
	disk, err := usage.Read()
	require.NoError(t, err)
	require.Zero(t, disk.FullIn)
}
