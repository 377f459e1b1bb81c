package courier

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDirectory_partSizeChanges(t *testing.T) {
	const digest = "sha256:ab"
	for name, c := range map[string]struct{ before, after int64 }{
		"smaller": {before: 1000, after: 300}, "larger": {before: 300, after: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			dir, content := t.TempDir(), strings.Repeat("0123456789", 250)
			for i, run := range []struct {
				part int64
				data string
			}{{c.before, content[:700]}, {c.after, content[700:]}} {
				f, err := openDirectory(dir, run.part)
				require.NoError(t, err)
				w, err := f.append(digest)
				require.NoError(t, err, i)
				_, err = w.Write([]byte(run.data))
				require.NoError(t, err)
				require.NoError(t, w.Close())
			}
			f, err := openDirectory(dir, c.after)
			require.NoError(t, err)
			require.NoError(t, f.complete(digest))
			count, _, err := f.parts(digest, true)
			require.NoError(t, err)
			for n := range count {
				info, err := os.Stat(f.path(digest, n, true))
				require.NoError(t, err)
				require.LessOrEqual(t, info.Size(), max(c.before, c.after))
			}
			in, err := f.open(digest, true)
			require.NoError(t, err)
			data, err := io.ReadAll(in)
			require.NoError(t, err)
			require.NoError(t, in.Close())
			require.Equal(t, content, string(data))
		})
	}
}
