package quota

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTake_writersShareTheRoom lets two writers look at the disk before each writes more than half
// of the room.
func TestTake_writersShareTheRoom(t *testing.T) {
	const room, part = 40 << 20, 1 << 20
	free := int64(reserve + room)
	q := New("/data", 0, func(string) (int64, error) { return free, nil })
	for range 2 {
		found, _, err := q.Room()
		require.NoError(t, err)
		require.EqualValues(t, room, found)
	}
	written := func() (n int) {
		for n < 2*room && q.Take(part) {
			free -= part
			n += part
		}
		return n
	}
	require.Equal(t, room, written())
	require.EqualValues(t, reserve, free, "the rest of the appliance has what it needs")
	free += 3 * part // something was removed
	require.Equal(t, 3*part, written())
}

// TestTake_looksRarely takes many small parts of a large disk, and then one from a disk that fails.
func TestTake_looksRarely(t *testing.T) {
	looks, broken := 0, error(nil)
	q := New("/data", 0, func(string) (int64, error) {
		looks++
		return reserve + 100, broken
	})
	for range 100 {
		require.True(t, q.Take(1))
	}
	require.Equal(t, 1, looks)
	broken = errors.New("no disk")
	require.False(t, q.Take(1))
}

func TestTake_limit(t *testing.T) {
	q := New("/data", 10, func(string) (int64, error) { return 1 << 40, nil })
	q.Count(4)
	require.True(t, q.Take(6))
	require.False(t, q.Take(1))
	q.Release(1)
	require.True(t, q.Take(1))
}
