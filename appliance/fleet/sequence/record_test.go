package sequence

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEntry_decodesWhatWasEncoded(t *testing.T) {
	for _, e := range []entry{{digest: 1, before: 2, operations: []byte("rows")}, {digest: 3, parts: 4,
		operations: []byte{}}} {
		decoded, err := decodeEntry([]byte(e.encode()))
		require.NoError(t, err)
		require.Equal(t, e, decoded)
	}
	h := head{Position: Position{Number: 1, Digest: 2}, size: 3}
	decoded, err := decodeHead([]byte(h.encode()))
	require.NoError(t, err)
	require.Equal(t, h, decoded)
}

func TestEntry_damagedValueIsRefused(t *testing.T) {
	good := entry{digest: 1, operations: []byte("rows")}.encode()
	for name, value := range map[string]string{
		"empty":                "",
		"part of the header":   good[:entryHeader-1],
		"another version":      "\x02" + good[1:],
		"parts and operations": entry{parts: 1, operations: []byte("rows")}.encode(),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decodeEntry([]byte(value))
			require.Error(t, err)
		})
	}
	_, err := decodeHead([]byte("short"))
	require.ErrorAs(t, err, new(*DamagedError))
}

func TestLease_countsFromTheSending(t *testing.T) {
	began := time.Now()
	at := instant{began, began}
	l := lease{now: func() instant { return at }}
	require.False(t, l.valid())
	sent := at
	at = sent.add(2 * time.Second) // the answer took so long
	l.renewed(sent, 3*time.Second)
	require.Equal(t, 700*time.Millisecond, l.remaining())
	at = sent.add(time.Minute) // the process was stopped
	require.False(t, l.valid())
	l.renewed(sent.add(time.Second), 3*time.Second) // an answer from before the stop
	require.False(t, l.valid())
}

func TestLease_countsByBothClocks(t *testing.T) {
	began := time.Now()
	at := instant{began, began}
	l := lease{now: func() instant { return at }}
	l.renewed(at, 3*time.Second)
	at.wall = began.Add(-time.Hour) // it was set back
	require.True(t, l.valid())
	at.wall = began.Add(time.Hour) // the machine was suspended
	require.False(t, l.valid())
	at = instant{began.Add(time.Hour), began} // the clock was set back meanwhile
	require.False(t, l.valid())
}
