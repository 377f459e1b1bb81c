package overlay

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fill is the content of an upload that fills the disk. Others write to the disk too.
type fill struct {
	*fleet
	io.Reader
	others int64 // bytes for each read
}

func (f *fill) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	f.disk -= int64(n) + f.others
	return n, err
}

// The database lies on the same disk and must be able to grow.
func TestAppend_leavesRoomOnTheDisk(t *testing.T) {
	const reserve = 2 << 30
	f := newFleet(t)
	f.disk = reserve + 3
	o := f.open(t, t.TempDir(), true, 0)
	o.push(t, "abc")
	id, err := o.Start()
	require.NoError(t, err)
	size, err := o.Append(id, 0, strings.NewReader("small"))
	require.ErrorIs(t, err, ErrFull)
	require.ErrorContains(t, err, "2 GiB must stay free")
	require.Zero(t, size)
	require.EqualValues(t, 3, o.Used())

	content := strings.Repeat("x", 80<<20)
	f.disk = reserve + 64<<20
	body := &fill{fleet: f, Reader: strings.NewReader(content), others: 256 << 10}
	size, err = o.Append(id, 0, body)
	require.ErrorIs(t, err, ErrFull)
	require.EqualValues(t, 3+size, o.Used())
	require.InDelta(t, 32<<20, size, 1<<20, "the other half went elsewhere")

	f.disk = reserve + 64<<20
	_, err = o.Append(id, size, strings.NewReader(content[size:]))
	require.NoError(t, err, "the upload continues when there is room")
	sum := sha256.Sum256([]byte(content))
	require.NoError(t, o.Finish(t.Context(), id, "sha256:"+hex.EncodeToString(sum[:])))
}

// A blob whose bytes or name may not be on the disk is sent again.
func TestFinish_failedSync(t *testing.T) {
	failed := errors.New("input/output error")
	for name, fail := range map[string]func(o *Overlay){
		"of the file":      func(o *Overlay) { o.syncFile = func(*os.File) error { return failed } },
		"of the directory": func(o *Overlay) { o.syncDir = func(string) error { return failed } },
	} {
		t.Run(name, func(t *testing.T) {
			o := newFleet(t).open(t, t.TempDir(), true, 0)
			fail(o.Overlay)
			id, err := o.Start()
			require.NoError(t, err)
			_, err = o.Append(id, 0, strings.NewReader("content"))
			require.NoError(t, err)
			sum := sha256.Sum256([]byte("content"))
			digest := "sha256:" + hex.EncodeToString(sum[:])
			require.ErrorIs(t, o.Finish(t.Context(), id, digest), failed)
			require.ErrorIs(t, o.Finish(t.Context(), id, digest), ErrUploadUnknown)
			_, err = o.Stat(digest)
			require.ErrorIs(t, err, ErrUnknown)
			require.Zero(t, o.Used())
		})
	}
}

// A client may push a damaged blob again while the damaged file is read.
func TestDiscard_keepsBlobPushedMeanwhile(t *testing.T) {
	o := newFleet(t).open(t, t.TempDir(), true, 0)
	digest := o.push(t, "content")
	damaged, err := os.Stat(o.path(digest))
	require.NoError(t, err)
	o.push(t, "content")
	require.NoError(t, o.Discard(digest, damaged))
	require.Equal(t, "content", o.read(t, digest))
	o.discard(t, digest)
	require.NoFileExists(t, o.path(digest))
	require.Zero(t, o.Used())
	require.NoError(t, o.Discard(digest, damaged), "it is removed already")
}
