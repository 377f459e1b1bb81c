package isogen

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"github.com/stretchr/testify/require"
)

// tableOf is a table for a minimal ISO of four sectors: its own first and last sector, and sectors
// 2 and 7 of the live ISO between them.
func tableOf(t testing.TB) *table {
	t.Helper()
	return &table{
		maker:   "test",
		ranges:  []tableRange{{2048, 2 * 2048, 2048}, {2 * 2048, 7 * 2048, 100}},
		between: append(bytes.Repeat([]byte{1}, 2048), bytes.Repeat([]byte{2}, 2*2048-100)...),
		size:    4 * 2048,
		sum:     sha256.Sum256([]byte("minimal")),
	}
}

const liveSize = 8 * 2048

func TestTable_roundTrip(t *testing.T) {
	want := tableOf(t)
	b, err := want.encode()
	require.NoError(t, err)
	got, err := parseTable(append(b, make([]byte, 500)...), liveSize)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, []extent{
		{start: 0, length: 2048, data: want.between[:2048:2048]},
		{start: 2048, length: 2048, base: true, from: 2 * 2048},
		{start: 2 * 2048, length: 100, base: true, from: 7 * 2048},
		{start: 2*2048 + 100, length: 2*2048 - 100, data: want.between[2048:]},
	}, got.layout())
}

func TestTable_numbersOfAllWidths(t *testing.T) {
	for _, n := range []uint64{0, 1, 250, 251, 0xffff, 0x10000, 0xffffffff, 0x100000000, 1<<64 - 1} {
		d := tableDecoder{appendNumber(nil, n)}
		got, err := d.number()
		require.NoError(t, err)
		require.Equal(t, n, got)
		require.Empty(t, d.rest)
	}
}

func TestTable_damagedAndHostile(t *testing.T) {
	good, err := tableOf(t).encode()
	require.NoError(t, err)
	edit := func(f func(*table)) []byte {
		t.Helper()
		table := tableOf(t)
		f(table)
		b, err := table.encode()
		require.NoError(t, err)
		return b
	}
	head := func(b ...byte) []byte { return append([]byte(tableMark), b...) }
	packed := bytes.Index(good, []byte("\xfd7zXZ"))
	require.EqualValues(t, len(good)-packed, good[packed-1], "the length is one byte")
	with := func(packedData []byte) []byte {
		return append(appendNumber(bytes.Clone(good[:packed-1]), uint64(len(packedData))), packedData...)
	}
	for name, c := range map[string]struct {
		table []byte
		want  string
	}{
		"nothing":                {nil, "the mark at the start of the table is missing"},
		"zeros":                  {make([]byte, 16384), "the mark at the start of the table is missing"},
		"another version":        {head(2), "version 2 of the format"},
		"unsupported number":     {head(255), "starts with the unsupported byte 255"},
		"long name of the maker": {head(1, 253, 255, 255, 255, 255, 255, 255, 255, 255), "truncated"},
		"more ranges than bytes": {head(1, 0, 253, 255, 255, 255, 255, 255, 255, 255, 127, 0), "truncated"},
		"too large":              {make([]byte, maxTable+1), "the limit is 1048576"},
		"a range after the live ISO": {edit(func(t *table) { t.ranges[1].full = liveSize }),
			"is outside of the live ISO"},
		"a range that overflows": {edit(func(t *table) { t.ranges[1].full = 1 << 62 }),
			"is outside of the live ISO"},
		"a range across the end": {edit(func(t *table) { t.ranges[1].length = 2049 }),
			"is outside of the live ISO"},
		"an empty range":     {edit(func(t *table) { t.ranges[1].length = 0 }), "is outside of the live ISO"},
		"overlapping ranges": {edit(func(t *table) { t.ranges[0].length = 2049 }), "overlap at sector 2"},
		"ranges out of order": {edit(func(t *table) { t.ranges[0], t.ranges[1] = t.ranges[1], t.ranges[0] }),
			"out of order"},
		"gaps without bytes": {edit(func(t *table) { t.between = t.between[:2047] }), "leave gaps of at least 2048"},
		"half a sector at the end": {edit(func(t *table) { t.between = t.between[:len(t.between)-1] }),
			"whole number of sectors"},
		"an xz bomb":   {with(xzBomb(good[packed:])), "unpacks to more than 16777216 bytes"},
		"no xz stream": {with(make([]byte, 400)), "cannot be unpacked"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseTable(c.table, liveSize)
			require.ErrorContains(t, err, c.want)
		})
	}
	for n := range good {
		_, err := parseTable(good[:n], liveSize)
		require.Error(t, err, "cut after %d bytes", n)
	}
}

// xzBomb is a stream whose chunks claim an uncompressed size of 18 MiB. It starts like another
// stream of one block.
func xzBomb(stream []byte) []byte {
	bomb := bytes.Clone(stream[:12+12]) // the headers of the stream and of its block
	for range 9 {
		bomb = append(bomb, 0xFF, 0xFF, 0xFF, 0, 0, 0x5D, 0) // 2 MiB out of one byte
	}
	bomb = append(bomb, 0)
	for len(bomb)%4 != 0 {
		bomb = append(bomb, 0)
	}
	index := []byte{0, 0, 0, 0, 0, 0, 0, 0}
	return append(append(bomb, 0, 0, 0, 0), append(index, make([]byte, 12)...)...)
}

// FuzzTable parses arbitrary bytes: an accepted table describes a minimal ISO without gaps, within
// the live ISO, and is the same after it was encoded again.
func FuzzTable(f *testing.F) {
	good, err := tableOf(f).encode()
	require.NoError(f, err)
	f.Add(good)
	f.Add(good[:len(good)-5])
	f.Add([]byte(tableMark))
	f.Fuzz(func(t *testing.T, b []byte) {
		table, err := parseTable(b, liveSize)
		if err != nil {
			return
		}
		at := int64(0)
		for _, e := range table.layout() {
			require.Equal(t, at, e.start)
			require.Positive(t, e.length)
			if e.base {
				require.LessOrEqual(t, e.from+e.length, int64(liveSize))
			} else {
				require.Len(t, e.data, int(e.length))
			}
			at = e.end()
		}
		require.Equal(t, table.size, at)
		again, err := table.encode()
		require.NoError(t, err)
		same, err := parseTable(again, liveSize)
		require.NoError(t, err)
		require.Equal(t, table, same)
	})
}
