package journal

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/sitekey"
)

func write(t testing.TB, key *sitekey.Key) []byte {
	t.Helper()
	var out bytes.Buffer
	logs := []Log{{"appliance.log", func(w io.Writer) error { _, err := io.WriteString(w, "a line\n"); return err }}}
	_, err := Write(&out, record(t), logs, []string{"A note."}, "1.0", key)
	require.NoError(t, err)
	return out.Bytes()
}

func TestJournal_readBack(t *testing.T) {
	key := siteKey(t)
	archive, err := Read(bytes.NewReader(write(t, key)))
	require.NoError(t, err)
	require.Equal(t, key.Public(), archive.Manifest.Key)
	require.Equal(t, []string{"A note."}, archive.Manifest.Notes)
	require.Equal(t, 2, archive.Manifest.Steps)
	want := record(t)
	require.JSONEq(t, string(version(t, want)), string(version(t, archive.Recording)))
	replayer, err := NewReplayer(&archive.Recording)
	require.NoError(t, err)
	require.NoError(t, replayer.Finish())
}

// part is a member of the tar file in a journal.
type part struct {
	name string
	data []byte
}

func unpack(t testing.TB, packed []byte) (parts []part) {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	archive := tar.NewReader(unzipped)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return parts
		}
		require.NoError(t, err)
		data, err := io.ReadAll(archive)
		require.NoError(t, err)
		parts = append(parts, part{header.Name, data})
	}
}

func pack(t testing.TB, parts []part) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for _, p := range parts {
		require.NoError(t, archive.WriteHeader(header(p.name, int64(len(p.data)), noon)))
		require.NoError(t, writeAll(archive, p.data))
	}
	require.NoError(t, archive.Close())
	require.NoError(t, zipped.Close())
	return out.Bytes()
}

func TestJournal_alteredIsRefused(t *testing.T) {
	key := siteKey(t)
	sign := func(parts []part) {
		signature, err := key.Sign(Purpose, parts[0].data)
		require.NoError(t, err)
		parts[1].data = signature
	}
	replace := func(data []byte, from, to string) []byte {
		require.Contains(t, string(data), from)
		return bytes.Replace(data, []byte(from), []byte(to), 1)
	}
	for name, c := range map[string]struct {
		alter func(parts []part) []part
		kind  error
	}{
		"changed word in a step": {func(p []part) []part {
			p[3].data = replace(p[3].data, `"known"`,
				`"ready"`)
			return p
		},
			ErrTampered},
		"changed line in a log": {func(p []part) []part {
			p[4].data = replace(p[4].data, "a line",
				"a lime")
			return p
		},
			ErrTampered},
		"changed hash of the state": {func(p []part) []part {
			p[0].data = replace(p[0].data, `"state_sha256": "`, `"state_sha256": "0`)
			return p
		}, ErrTampered},
		"replaced key without a new signature": {func(p []part) []part {
			p[0].data = replace(p[0].data, key.Public().String(), siteKey(t).Public().String())
			return p
		}, ErrTampered},
		"missing key": {func(p []part) []part {
			p[0].data = replace(p[0].data,
				key.Public().String(), "")
			return p
		}, ErrTampered},
		"signature for another purpose": {func(p []part) []part {
			p[1].data,
				_ = key.Sign("courier", p[0].data)
			return p
		}, ErrTampered},
		"truncated signature": {func(p []part) []part { p[1].data = p[1].data[:10]; return p },
			ErrTampered},
		"additional member": {func(p []part) []part { return append(p, part{"logs/more.log", nil}) },
			ErrTampered},
		"members in another order": {func(p []part) []part { p[2], p[3] = p[3], p[2]; return p }, ErrTampered},
		"missing member":           {func(p []part) []part { return p[:4] }, ErrTruncated},
		"newer format": {func(p []part) []part {
			p[0].data = replace(p[0].data, `"version": 1`, `"version": 2`)
			sign(p)
			return p
		}, ErrNewer},
		"newer format with unknown signature": {func(p []part) []part {
			p[0].data = replace(p[0].data, `"version": 1`, `"version": 7`)
			return p
		}, ErrNewer},
		"signed without its last step": {func(p []part) []part {
			p[0].data = replace(p[0].data, `"steps": 2`, `"steps": 3`)
			sign(p)
			return p
		}, ErrTampered},
		"another format": {func(p []part) []part {
			p[0].data = replace(p[0].data, format,
				"courier file")
			sign(p)
			return p
		}, ErrForeign},
		"invalid manifest": {func(p []part) []part { p[0].data = []byte("x"); return p }, ErrForeign},
		"no manifest":      {func(p []part) []part { return p[1:] }, ErrForeign},
		"manifest that expands too far": {func(p []part) []part {
			p[0].data = bytes.Repeat([]byte(" "),
				manifestLimit+1)
			return p
		}, ErrForeign},
		"nothing": {func([]part) []part { return nil }, ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(bytes.NewReader(pack(t, c.alter(unpack(t, write(t, key))))))
			require.ErrorIs(t, err, c.kind)
		})
	}
}

func TestJournal_truncatedIsRefused(t *testing.T) {
	whole := write(t, siteKey(t))
	for length := range len(whole) {
		_, err := Read(bytes.NewReader(whole[:length]))
		require.ErrorIs(t, err, ErrTruncated, length)
	}
}

func TestJournal_flippedByteIsRefusedOrHarmless(t *testing.T) {
	whole := write(t, siteKey(t))
	want, err := Read(bytes.NewReader(whole))
	require.NoError(t, err)
	for at := 10; at < len(whole); at += 3 { // after the gzip header, in which changed fields have no effect
		damaged := bytes.Clone(whole)
		damaged[at] ^= 0x20
		if archive, err := Read(bytes.NewReader(damaged)); err == nil { // a padding bit
			require.Equal(t, want, archive, at)
		}
	}
}

func TestJournal_foreignFileIsRefused(t *testing.T) {
	for name, data := range map[string][]byte{
		"text":        []byte("Cluster demo"),
		"gzip of one": pack(t, []part{{"readme", []byte("hello")}}),
	} {
		_, err := Read(bytes.NewReader(data))
		require.ErrorIs(t, err, ErrForeign, name)
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	require.NoError(t, writeAll(w, []byte(strings.Repeat("no tar ", 200))))
	require.NoError(t, w.Close())
	_, err := Read(&zipped)
	require.ErrorIs(t, err, ErrForeign)
}

func TestJournal_writeError(t *testing.T) {
	broken := errors.New("the disk is full")
	_, err := Write(io.Discard, record(t), []Log{{"x", func(io.Writer) error { return broken }}}, nil, "1.0",
		siteKey(t))
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "logs/x")
}

func FuzzRead(f *testing.F) {
	f.Add(write(f, siteKey(f)))
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, data []byte) {
		archive, err := Read(bytes.NewReader(data))
		if (err == nil) == (archive == nil) {
			t.Fatal("Read must return either an archive or an error")
		}
		if err != nil {
			return
		}
		if _, err := json.Marshal(archive.Manifest); err != nil {
			t.Fatal(err)
		}
	})
}
