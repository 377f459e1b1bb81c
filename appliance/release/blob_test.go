package release

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/mirror"
)

// slowRegistry answers with all bytes of a blob, whatever range is asked for. A third of the limit
// for silence passes before each piece.
type slowRegistry struct {
	clock   *clockwork.FakeClock
	content []byte
}

const pieceOfSlowRegistry = 1000

// RoundTrip implements http.RoundTripper.
func (s slowRegistry) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Request: r,
		Body: io.NopCloser(&slowBody{r.Context(), s.clock, bytes.NewReader(s.content)})}, nil
}

type slowBody struct {
	ctx   context.Context
	clock *clockwork.FakeClock
	rest  *bytes.Reader
}

// Read implements io.Reader.
func (b *slowBody) Read(p []byte) (int, error) {
	b.clock.Advance(stallLimit / 3)
	if b.ctx.Err() != nil {
		return 0, b.ctx.Err()
	}
	return b.rest.Read(p[:min(len(p), pieceOfSlowRegistry)])
}

// A registry without ranges sends what the download has already. That may take longer than the
// limit for a registry that sends nothing.
func TestDownload_skipsForLong(t *testing.T) {
	content := []byte(noise(50 * pieceOfSlowRegistry))
	clock := clockwork.NewFakeClock()
	ref, err := name.NewRepository("mirror.example.com/release")
	require.NoError(t, err)
	blob, size, err := v1.SHA256(bytes.NewReader(content))
	require.NoError(t, err)
	d := &blobDownload{client: &http.Client{Transport: slowRegistry{clock, content}},
		served: mirror.Endpoint{Ref: ref.Digest(blob.String())}, blob: v1.Descriptor{Digest: blob, Size: size},
		progress: func(int64) {}}
	have := int64(40 * pieceOfSlowRegistry)

	file, err := os.Create(filepath.Join(t.TempDir(), "blob"))
	require.NoError(t, err)
	defer file.Close()
	got, err := d.attempt(t.Context(), clock, file, sha256.New(), have)
	require.NoError(t, err)
	require.Equal(t, size, got)

	stream := &blobStream{ctx: t.Context(), download: d, clock: clock, sum: sha256.New(), have: have}
	_, err = stream.sum.Write(content[:have])
	require.NoError(t, err)
	rest, err := io.ReadAll(stream)
	require.NoError(t, err)
	require.Equal(t, content[have:], rest)
	require.NoError(t, stream.close())
}
