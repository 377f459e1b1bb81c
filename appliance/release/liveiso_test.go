package release

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// liveISO returns a payload whose machine-os-images contains an ISO with the given content, other
// files, and unless sum is empty, the digest file of the ISO.
func (s *site) liveISO(content []byte, sum string) *Payload {
	entries := []tarEntry{dir("coreos/"), file("coreos/README", "not this"), file("coreos/coreos-x86_64.iso",
		string(content))}
	if sum != "" {
		entries = append(entries, file("coreos/coreos-x86_64.iso.sha256", sum))
	}
	p := s.installerPayload(layer(s.t, file("etc/os-release", "")), gzipped(s.t, entries...))
	p.Multi = false
	p.Images[TagMachineOSImages] = p.Images[TagInstaller]
	return p
}

func isoBytes(size int) []byte {
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i * i >> 7)
	}
	return content
}

func TestLiveISO(t *testing.T) {
	s := newSite(t)
	content := isoBytes(1 << 20)
	sum := sha256.Sum256(content)
	p := s.liveISO(content, hex.EncodeToString(sum[:])+"  coreos-x86_64.iso\n")
	var got bytes.Buffer
	var size int64
	said, err := s.library().LiveISO(t.Context(), p, nil, func(n int64) (io.Writer, error) {
		size = n
		return &got, nil
	})
	require.NoError(t, err)
	require.EqualValues(t, len(content), size)
	require.Equal(t, content, got.Bytes())
	require.Equal(t, hex.EncodeToString(sum[:]), said)
}

func TestLiveISO_newestOfOpenShift5(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		files   []string
		want    string
	}{
		"both": {"5.0.0", []string{"coreos/coreos-x86_64.iso", "coreos/coreos10-x86_64.iso"},
			"coreos/coreos10-x86_64.iso"},
		"only the older ISO": {"5.0.0", []string{"coreos/coreos-x86_64.iso"}, "coreos/coreos-x86_64.iso"},
		"an earlier OpenShift": {"4.22.0", []string{"coreos/coreos-x86_64.iso", "coreos/coreos10-x86_64.iso"},
			"coreos/coreos-x86_64.iso"},
		"no ISO for this architecture": {"5.0.0", []string{"coreos/coreos-aarch64.iso"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			var entries []tarEntry
			for _, path := range c.files {
				entries = append(entries, file(path, path))
			}
			p := s.installerPayload(layer(t, entries...))
			p.Multi, p.Version = false, c.version
			p.Images[TagMachineOSImages] = p.Images[TagInstaller]
			var got bytes.Buffer
			_, err := s.library().LiveISO(t.Context(), p, nil, func(int64) (io.Writer, error) { return &got, nil })
			if c.want == "" {
				require.ErrorContains(t, err,
					"has no coreos/coreos10-x86_64.iso and no coreos/coreos-x86_64.iso; the release 5.0.0 has no "+
						"live ISO for x86_64")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got.String())
		})
	}
}

func TestLiveISO_resumesAfterAnInterruption(t *testing.T) {
	s := newSite(t)
	content := isoBytes(1 << 20)
	p := s.liveISO(content, "")
	breaks, ranges := 2, 0
	s.serve(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/blobs/") || r.Method != http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		if r.Header.Get("Range") != "" {
			ranges++
		}
		if breaks--; breaks < 0 {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(&cutWriter{ResponseWriter: w, left: 200}, r)
	})
	var got bytes.Buffer
	_, err := s.library().LiveISO(t.Context(), p, nil, func(int64) (io.Writer, error) { return &got, nil })
	require.NoError(t, err)
	require.Equal(t, content, got.Bytes())
	require.Positive(t, ranges)
}

// cutWriter closes the connection after a number of bytes.
type cutWriter struct {
	http.ResponseWriter
	left int
}

func (c *cutWriter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	if err == nil && n < len(p) {
		if flusher, ok := c.ResponseWriter.(http.Flusher); ok {
			flusher.Flush()
		}
		panic(http.ErrAbortHandler)
	}
	c.left -= n
	return n, err
}

func TestLiveISO_missingOrUnwritable(t *testing.T) {
	s := newSite(t)
	p := s.liveISO(isoBytes(1000), "")
	full := errors.New("the disk is full")
	_, err := s.library().LiveISO(t.Context(), p, nil, func(int64) (io.Writer, error) { return nil, full })
	require.ErrorIs(t, err, full)

	p.Architecture = "s390x"
	_, err = s.library().LiveISO(t.Context(), p, nil, nil)
	require.ErrorContains(t, err, "has no live ISO for s390x")

	delete(p.Images, TagMachineOSImages)
	_, err = s.library().LiveISO(t.Context(), p, nil, nil)
	require.ErrorContains(t, err, `has no image "machine-os-images"`)
}
