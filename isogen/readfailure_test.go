package isogen

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/isogen/skeleton"
)

// A read of the base that fails for a while is not the end of its minimal image.
func TestMinimal_afterFailedRead(t *testing.T) {
	for name, beside := range map[string]bool{"table in the base": false, "table next to the base": true} {
		t.Run(name, func(t *testing.T) {
			var iso bytes.Buffer
			require.NoError(t, skeleton.Write(&iso, skeleton.ISO{RootFSSize: 1000}))
			path := filepath.Join(t.TempDir(), "live.iso")
			require.NoError(t, os.WriteFile(path, iso.Bytes(), 0o600))
			b, err := Open(path)
			require.NoError(t, err)
			require.NoError(t, b.MakeTable(t.Context()))
			if !beside {
				table, err := os.ReadFile(TablePath(path))
				require.NoError(t, err)
				at := b.volume.Find(tablePath).Offset
				require.NoError(t, b.Close())
				copy(iso.Bytes()[at:], table)
				require.NoError(t, os.WriteFile(path, iso.Bytes(), 0o600))
				require.NoError(t, os.Remove(TablePath(path)))
				b, err = Open(path)
				require.NoError(t, err)
			}
			b.minimal.done = false
			if beside { // the table can't be read at all
				table := TablePath(path)
				require.NoError(t, os.Rename(table, table+".kept"))
				require.NoError(t, os.Mkdir(table, 0o700))
				_, err = b.minimalISO()
				require.ErrorAs(t, err, new(*NoMinimalError))
				require.NoError(t, os.Remove(table))
				require.NoError(t, os.Rename(table+".kept", table))
				_, err = b.minimalISO()
				require.ErrorAs(t, err, new(*NoMinimalError), "lists do not read the disk again at once")
				b.minimal.again = time.Time{}
				_, err = b.minimalISO()
				require.NoError(t, err)
				b.minimal.done = false
			}
			file := b.file
			b.file, err = os.Open(path)
			require.NoError(t, err)
			require.NoError(t, b.file.Close()) // every read fails
			_, err = b.minimalISO()
			require.ErrorAs(t, err, new(*BaseError))
			require.NotEmpty(t, b.cannotMinimal())
			b.file = file
			b.minimal.again = time.Time{}
			_, err = b.minimalISO()
			require.NoError(t, err)
			require.NoError(t, b.Close())
		})
	}
}
