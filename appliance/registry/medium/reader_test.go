package medium

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// connection is a plain connection to which the kernel copies files. It fails at the second copy.
type connection struct {
	bytes.Buffer
	copies int
	fails  error
}

// ReadFrom implements io.ReaderFrom.
func (c *connection) ReadFrom(src io.Reader) (int64, error) {
	if c.copies++; c.copies == 2 && c.fails != nil {
		return 0, &os.SyscallError{Syscall: "sendfile", Err: c.fails}
	}
	return c.Buffer.ReadFrom(src)
}

// A medium that fails while the kernel copies from it is an error of the medium, with the number of
// bytes that were sent. A client that leaves is not.
func TestReader_kernelCopyFails(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	path := filepath.Join(t.TempDir(), "archive.tar")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	blob := Blob{{Offset: 16, Size: int64(len(content)) - 16}}
	for name, c := range map[string]struct {
		fails  error
		medium bool
	}{"nothing": {nil, false}, "the medium": {syscall.EIO, true}, "the client": {syscall.EPIPE, false}} {
		t.Run(name, func(t *testing.T) {
			reader, err := NewReader(ReaderOptions{Location: Location{Path: path, Container: Tar}, Open: OpenFile,
				Index: &Index{Files: []string{""}}})
			require.NoError(t, err)
			to := &connection{fails: c.fails}
			n, err := reader.Copy(context.Background(), to, blob, 5, blob.Size()-5)
			require.EqualValues(t, to.Len(), n)
			require.Equal(t, content[21:21+n], to.Bytes())
			broken, isMedium := errors.AsType[*ReadError](err)
			require.Equal(t, c.medium, isMedium, err)
			if isMedium {
				require.False(t, broken.Hangs)
			}
			require.Equal(t, c.fails == nil, err == nil)
			require.Equal(t, c.fails == nil, n == blob.Size()-5)
			require.Greater(t, n, int64(directSize))
			require.NoError(t, reader.Close())
		})
	}
}
