package blob_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/store/blob"
	"landfall/store/seal"
)

func TestDir_putStoresOnlyTheNamedContent(t *testing.T) {
	sealing, err := seal.NewRing(seal.NewKey(1))
	require.NoError(t, err)
	for name, ring := range map[string]*seal.Ring{"sealed": sealing, "in clear": nil} {
		t.Run(name, func(t *testing.T) {
			from := blob.NewDir(t.TempDir(), ring)
			to := blob.NewDir(filepath.Join(t.TempDir(), "blobs"), ring)
			text := strings.Repeat("content", 100_000)
			sum, size, err := from.Write(strings.NewReader(text), time.Now())
			require.NoError(t, err)
			require.EqualValues(t, len(text), size)

			_, err = to.Put(strings.NewReader(text+"."), time.Now(), sum)
			require.ErrorIs(t, err, blob.ErrOther)
			_, err = to.Size(sum)
			require.ErrorIs(t, err, os.ErrNotExist)

			size, err = to.Put(strings.NewReader(text), time.Now(), sum)
			require.NoError(t, err)
			require.EqualValues(t, len(text), size)
			size, err = to.Size(sum)
			require.NoError(t, err)
			require.EqualValues(t, len(text), size)
			require.NoError(t, to.Verify(t.Context(), sum))
			content, err := to.Open(sum, size, func(err error) error { return err })
			require.NoError(t, err)
			got, err := io.ReadAll(content)
			require.NoError(t, err)
			require.Equal(t, text, string(got))
			require.NoError(t, content.Close())
		})
	}
}
