package archive

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
)

func unpack(t *testing.T, limits Limits, content io.Reader) (int64, error) {
	t.Helper()
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, err := io.Copy(zip, content)
	require.NoError(t, err)
	require.NoError(t, zip.Close())
	guard := NewGuard(limits)
	in, err := gzip.NewReader(guard.Packed(&packed))
	require.NoError(t, err)
	return io.Copy(io.Discard, guard.Unpacked(in))
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestGuard_limits(t *testing.T) {
	limits := Limits{Bytes: 64 << 20, Entries: 3, Time: time.Minute}
	n, err := unpack(t, limits, strings.NewReader(strings.Repeat("quay.io/team = mirror/team\n", 100_000)))
	require.NoError(t, err)
	require.Equal(t, int64(2_700_000), n)
	n, err = unpack(t, limits, io.LimitReader(zeros{}, 32<<20))
	require.ErrorContains(t, err, "is packed more than 200 times smaller than its content")
	require.LessOrEqual(t, n, int64(freeBytes+1<<20))
	_, err = unpack(t, Limits{Bytes: 1 << 20, Time: time.Minute}, io.LimitReader(zeros{}, 2<<20))
	require.EqualError(t, err, "has more than 1 MiB when it is unpacked")
	guard := NewGuard(limits)
	for range 3 {
		require.NoError(t, guard.Entry())
	}
	require.EqualError(t, guard.Entry(), "has more than 3 entries")
}

// The work on an archive has a limit of time. Waiting for its sender has none.
func TestGuard_limitsTimeOfWork(t *testing.T) {
	clock := clockwork.NewFakeClock()
	guard := newGuard(Limits{Bytes: 1 << 20, Time: time.Minute}, clock)
	slow := func(in io.Reader) io.Reader {
		return readerFunc(func(p []byte) (int, error) {
			clock.Advance(time.Hour)
			return in.Read(p)
		})
	}
	_, err := io.Copy(io.Discard, guard.Unpacked(guard.Packed(slow(strings.NewReader("a")))))
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, guard.Unpacked(slow(guard.Packed(strings.NewReader("a")))))
	require.EqualError(t, err, "takes more than 1m0s to read")
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
