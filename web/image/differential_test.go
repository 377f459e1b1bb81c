package image_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/discovery"
	"landfall/isogen"
	"landfall/isogen/plain"
	"landfall/isogen/skeleton"
)

// TestDownload_sameBytesAsIndependentBuilder downloads images of random recipes, whole and in
// random ranges of every form. It compares each byte with the image that package plain generates
// from the same base.
func TestDownload_sameBytesAsIndependentBuilder(t *testing.T) {
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 7))
		iso := skeleton.ISO{EmbedSize: 2048 * (1 + random.IntN(16)), RootFSSize: 1000 + random.IntN(100_000),
			Trailing: []int{0, 512}[random.IntN(2)]}
		iso.Architecture = []string{isogen.X86_64, isogen.AArch64, isogen.PPC64LE}[random.IntN(3)]
		t.Run(fmt.Sprintf("%d: %s", seed, iso.Architecture), func(t *testing.T) {
			var published bytes.Buffer
			require.NoError(t, skeleton.Write(&published, iso))
			path := filepath.Join(t.TempDir(), "live.iso")
			require.NoError(t, os.WriteFile(path, published.Bytes(), 0o600))
			base, err := isogen.Open(path)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, base.Close()) })

			// half of the configs are larger than the embed area
			config := make([]byte, 1+random.IntN(2*iso.EmbedSize))
			for i := range config {
				config[i] = byte(random.Uint32())
			}
			argument := fmt.Sprintf("key=%d", random.Uint64())
			full, err := base.Full(isogen.Payload{Ignition: config}, isogen.KernelArgument{Operation: isogen.Append,
				Value: argument})
			require.NoError(t, err)
			want, err := plain.Build(published.Bytes(), config, nil, base.Info().KernelArguments.Default+" "+argument)
			require.NoError(t, err)

			server := serve(t, &source{image: &discovery.Image{Image: full, InfraEnvID: infraEnv, Kind: discovery.Full,
				FileName: "x.iso", Modified: modified}})
			_, body := get(t, server, "/byid/"+infraEnv+"/4.19/x86_64/full.iso", "client", "")
			require.True(t, bytes.Equal(want, body))
			for range 8 {
				requireRanges(t, server, random, want)
			}
		})
	}
}

// requireRanges requests one to four random ranges in one request.
func requireRanges(t *testing.T, server *httptest.Server, random *rand.Rand, want []byte) {
	t.Helper()
	var specs []string
	var expected [][]byte
	for range 1 + random.IntN(4) {
		from := random.IntN(len(want))
		n := 1 + random.IntN(min(20_000, len(want)-from))
		switch random.IntN(4) {
		case 0:
			specs, expected = append(specs, fmt.Sprintf("-%d", n)), append(expected, want[len(want)-n:])
		case 1:
			from = len(want) - n
			specs, expected = append(specs, fmt.Sprintf("%d-", from)), append(expected, want[from:])
		default:
			specs, expected = append(specs, fmt.Sprintf("%d-%d", from, from+n-1)), append(expected, want[from:from+n])
		}
	}
	ranges := strings.Join(specs, ", ")
	response, body := get(t, server, "/byid/"+infraEnv+"/4.19/x86_64/full.iso", "client", ranges)
	require.Equal(t, http.StatusPartialContent, response.StatusCode, ranges)
	if len(expected) == 1 {
		require.True(t, bytes.Equal(expected[0], body), ranges)
		return
	}
	_, params, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	require.NoError(t, err)
	parts := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for _, want := range expected {
		part, err := parts.NextPart()
		require.NoError(t, err)
		got, err := io.ReadAll(part)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "%s of %s", part.Header.Get("Content-Range"), ranges)
	}
	_, err = parts.NextPart()
	require.Equal(t, io.EOF, err, ranges)
}
