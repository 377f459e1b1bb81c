package isogen_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/isogen"
	"landfall/isogen/skeleton"
)

func TestFull_sameInputsGiveSameImage(t *testing.T) {
	path := write(t, skeleton.ISO{})
	one, two := full(t, open(t, path), "config"), full(t, open(t, path), "config")
	require.Equal(t, one.ETag(), two.ETag())
	require.Equal(t, contents(t, one), contents(t, two))
	require.Regexp(t, `^"[0-9a-f]{32}"$`, one.ETag(), "a strong tag")

	require.NotEqual(t, one.ETag(), full(t, open(t, path), "other").ETag(), "another payload")
	require.NotEqual(t, one.ETag(), full(t, open(t, write(t, skeleton.ISO{VolumeID: "rhcos-1"})), "config").ETag(),
		"another base")
}

func TestFull_orderOfFilesIsIrrelevant(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{}))
	one, err := base.Full(payload)
	require.NoError(t, err)
	turned := payload
	turned.Files = []isogen.File{payload.Files[2], payload.Files[1], payload.Files[0]}
	two, err := base.Full(turned)
	require.NoError(t, err)
	require.Equal(t, one.ETag(), two.ETag())
}

func TestFull_replacesPreviousPayload(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{}))
	noise := make([]byte, areaSize/2)
	_, err := rand.NewChaCha8([32]byte{}).Read(noise)
	require.NoError(t, err)
	first := contents(t, full(t, base, string(noise)))
	second := contents(t, full(t, open(t, writeBytes(t, first)), "short"))
	require.True(t, bytes.Equal(contents(t, full(t, base, "short")), second))
}

func TestFull_badPayload(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{}))
	files := func(paths ...string) isogen.Payload {
		p := isogen.Payload{Ignition: []byte("x")}
		for _, path := range paths {
			p.Files = append(p.Files, isogen.File{Path: path})
		}
		return p
	}
	for name, c := range map[string]struct {
		payload isogen.Payload
		says    string
	}{
		"no config":                  {isogen.Payload{}, "the payload has no Ignition config"},
		"an absolute path":           {files("/etc/x"), `"/etc/x" needs a path relative to the root`},
		"a path out of the root":     {files("../x"), `"../x" needs a path relative`},
		"the same path twice":        {files("a", "a"), "two files a"},
		"the path of the config":     {files("config.ign"), "two files config.ign"},
		"a file that is a directory": {files("a", "a/b"), "a as a file and as the directory of a/b"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := base.Full(c.payload)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestReader_behavesLikeFile(t *testing.T) {
	little := skeleton.ISO{EmbedSize: 4096, RootFSSize: 5000,
		Replace: map[string][]byte{"isolinux/isolinux.bin": []byte("loader"),
			"images/pxeboot/vmlinuz": []byte("kernel"), "images/pxeboot/initrd.img": []byte("initrd"),
			"images/efiboot.img": nil, "coreos/miniso.dat": nil}}
	image := full(t, open(t, write(t, little)), "config")
	require.NoError(t, iotest.TestReader(image.NewReader(), contents(t, image)))
}

// TestReader_anyRange reads ranges by every method, including ranges that cross the borders of the
// embed area.
func TestReader_anyRange(t *testing.T) {
	image := full(t, open(t, write(t, skeleton.ISO{})), "config")
	whole := contents(t, image)
	random := rand.New(rand.NewPCG(1, 2))
	r := image.NewReader()
	defer func() { require.NoError(t, r.Close()) }()
	for range 60 {
		from := random.Int64N(image.Size())
		n := random.Int64N(image.Size() - from + 1)
		want := whole[from : from+n]

		got := make([]byte, n)
		_, err := r.ReadAt(got, from)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "ReadAt %d+%d", from, n)

		_, err = r.Seek(from, io.SeekStart)
		require.NoError(t, err)
		var b bytes.Buffer
		k, err := r.CopyN(&b, n)
		require.NoError(t, err)
		require.Equal(t, n, k)
		require.True(t, bytes.Equal(want, b.Bytes()), "CopyN %d+%d", from, n)
		at, err := r.Seek(0, io.SeekCurrent)
		require.NoError(t, err)
		require.Equal(t, from+n, at)
	}
	_, err := r.Seek(-5, io.SeekEnd)
	require.NoError(t, err)
	k, err := r.CopyN(io.Discard, 6)
	require.Equal(t, io.EOF, err)
	require.EqualValues(t, 5, k)
}

func TestReader_concurrentReaders(t *testing.T) {
	image := full(t, open(t, write(t, skeleton.ISO{})), "config")
	want := contents(t, image)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			var b bytes.Buffer
			r := image.NewReader()
			if _, err := r.WriteTo(&b); err != nil || !bytes.Equal(want, b.Bytes()) {
				t.Errorf("read %d bytes: %v", b.Len(), err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestSHA256_matchesBytes(t *testing.T) {
	base := open(t, write(t, skeleton.ISO{}))
	image := full(t, base, "config")
	want := sha256.Sum256(contents(t, image))
	for range 2 {
		got, err := image.SHA256(t.Context())
		require.NoError(t, err)
		require.Equal(t, hex.EncodeToString(want[:]), got)
	}
	original, err := os.ReadFile(base.Path())
	require.NoError(t, err)
	want = sha256.Sum256(original)
	got, err := base.SHA256(t.Context())
	require.NoError(t, err)
	require.Equal(t, hex.EncodeToString(want[:]), got)
}

func TestSHA256_contextEnds(t *testing.T) {
	image := full(t, open(t, write(t, skeleton.ISO{})), "config")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := image.SHA256(ctx)
	require.ErrorIs(t, err, context.Canceled)
	_, err = image.SHA256(t.Context())
	require.NoError(t, err, "the next call starts again")
}

func TestSHA256_concurrentCalls(t *testing.T) {
	image := full(t, open(t, write(t, skeleton.ISO{})), "config")
	var wg sync.WaitGroup
	sums := make([]string, 8)
	for i := range sums {
		wg.Go(func() {
			var err error
			if sums[i], err = image.SHA256(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, s := range sums {
		require.Equal(t, sums[0], s)
	}
}

func TestReader_baseReplacedByRename(t *testing.T) {
	path := write(t, skeleton.ISO{})
	image := full(t, open(t, path), "config")
	want := contents(t, image)
	require.NoError(t, os.Rename(write(t, skeleton.ISO{VolumeID: "rhcos-2"}), path))
	var b bytes.Buffer
	r := image.NewReader()
	_, err := r.WriteTo(&b)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.True(t, bytes.Equal(want, b.Bytes()))
}

func TestReader_baseChangedInPlace(t *testing.T) {
	path := write(t, skeleton.ISO{})
	image := full(t, open(t, path), "config")
	require.NoError(t, os.Chtimes(path, time.Unix(5, 0), time.Unix(5, 0)))
	r := image.NewReader()
	_, err := io.ReadAll(r)
	require.ErrorContains(t, err,
		path+" was changed after it was opened: the file was modified: download the image again")
	_, err = r.WriteTo(io.Discard)
	require.ErrorContains(t, err, "the file was modified")
	_, err = image.SHA256(t.Context())
	require.ErrorContains(t, err, "the file was modified")
}

func TestCopyN_baseTruncatedMeanwhile(t *testing.T) {
	path := write(t, skeleton.ISO{})
	r := full(t, open(t, path), "config").NewReader()
	require.NoError(t, os.Truncate(path, 50_000))
	_, err := r.WriteTo(io.Discard)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, path+" was changed after it was opened")
	require.NoError(t, r.Close())
}

// TestCopyN_baseOverwrittenMeanwhile changes the middle of the file, but not its size. The client
// must not receive all bytes, because it would use a mixture of two files.
func TestCopyN_baseOverwrittenMeanwhile(t *testing.T) {
	path := write(t, skeleton.ISO{})
	image := full(t, open(t, path), "config")
	overwrite := func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte("other bytes"), image.Size()-5000)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.NoError(t, os.Chtimes(path, time.Unix(5, 0), time.Unix(5, 0))) // clocks of file systems are coarse
	}
	r := image.NewReader()
	w := &onFirstWrite{do: overwrite}
	n, err := r.WriteTo(w)
	var changed *isogen.BaseError
	require.ErrorAs(t, err, &changed)
	require.Equal(t, path, changed.Path)
	require.Less(t, n, image.Size())
	require.NoError(t, r.Close())
	require.ErrorAs(t, image.Intact(), &changed)
}

type onFirstWrite struct{ do func() }

func (w *onFirstWrite) Write(p []byte) (int, error) {
	if w.do != nil {
		w.do()
		w.do = nil
	}
	return len(p), nil
}

func TestCopyN_removedBaseIsSent(t *testing.T) {
	path := write(t, skeleton.ISO{})
	image := full(t, open(t, path), "config")
	want := contents(t, image)
	r := image.NewReader()
	var b bytes.Buffer
	_, err := r.CopyN(&b, 100)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	_, err = r.WriteTo(&b)
	require.NoError(t, err, "the opened file is unchanged")
	require.NoError(t, r.Close())
	require.True(t, bytes.Equal(want, b.Bytes()))
}
