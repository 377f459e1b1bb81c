package release

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"

	"landfall/appliance/mirror"
)

// liveISOBytes is the approximate size of a live ISO.
const liveISOBytes = 1_200_000_000

// BenchmarkLiveISO streams a live ISO from a layer of a registry on the loopback interface. It
// alternates with gunzip(1) of the same layer, which verifies no digest, once to files and once to
// nothing. ratio is the speed relative to gunzip. ratio-own is the speed relative to unpacking the
// file with the library that the streaming uses, which is faster than gunzip. peak-MiB is the
// maximum growth of the heap.
func BenchmarkLiveISO(b *testing.B) {
	dir := b.TempDir()
	layer, payload := liveISORegistry(b, dir)
	library, err := New(Options{Mirror: mirror.NewClient(nil, mirror.ClientOptions{}), CacheDir: b.TempDir(),
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, library.Close()) })
	gunzip := func(w io.Writer) error {
		cmd := exec.CommandContext(b.Context(), "gunzip", "--stdout", layer)
		cmd.Stdout = w
		return cmd.Run()
	}
	for name, path := range map[string]string{"into=file": filepath.Join(dir, "out"), "into=nothing": os.DevNull} {
		b.Run(name, func(b *testing.B) {
			var streamed, plain, own time.Duration
			peak := uint64(0)
			for b.Loop() {
				began := time.Now()
				require.NoError(b, intoFile(path, gunzip))
				plain += time.Since(began)

				began = time.Now()
				require.NoError(b, intoFile(path, func(w io.Writer) error { return unpackFile(layer, w) }))
				own += time.Since(began)

				before := heap()
				began = time.Now()
				require.NoError(b, intoFile(path, func(w io.Writer) error {
					_, err := library.LiveISO(b.Context(), payload, nil, func(int64) (io.Writer, error) {
						return &watched{Writer: w, peak: &peak, before: before}, nil
					})
					return err
				}))
				streamed += time.Since(began)
			}
			b.ReportMetric(plain.Seconds()/streamed.Seconds(), "ratio")
			b.ReportMetric(own.Seconds()/streamed.Seconds(), "ratio-own")
			b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
			b.ReportMetric(float64(b.N)*liveISOBytes/1e6/streamed.Seconds(), "MB/s-streamed")
			b.ReportMetric(float64(b.N)*liveISOBytes/1e6/plain.Seconds(), "MB/s-gunzip")
		})
	}
}

func intoFile(path string, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := write(file); err != nil {
		return err
	}
	return file.Close()
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapSys - stats.HeapReleased
}

// unpackFile is gunzip with the library that the streaming uses.
func unpackFile(path string, w io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{unpacked}, make([]byte, copyBuffer))
	return err
}

// watched samples the heap every 64 MiB.
type watched struct {
	io.Writer
	peak         *uint64
	before, next uint64
	n            uint64
}

func (w *watched) Write(p []byte) (int, error) {
	if w.n += uint64(len(p)); w.n >= w.next {
		w.next += 64 << 20
		if now := heap(); now > w.before {
			*w.peak = max(*w.peak, now-w.before)
		}
	}
	return w.Writer.Write(p)
}

// liveISORegistry serves an image with one layer, which is stored in a file. The layer is an ISO
// that mostly holds a compressed file system, as those of CoreOS do.
func liveISORegistry(b *testing.B, dir string) (layer string, payload *Payload) {
	b.Helper()
	layer = filepath.Join(dir, "layer.tar.gz")
	sum := sha256.New()
	require.NoError(b, intoLayer(layer, sum))
	packed, err := os.Stat(layer)
	require.NoError(b, err)
	config := []byte(`{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}`)
	digest := func(data []byte) string {
		sum := sha256.Sum256(data)
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	layerDigest := "sha256:" + hex.EncodeToString(sum.Sum(nil))
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
		"config": map[string]any{"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config),
			"digest": digest(config)},
		"layers": []any{map[string]any{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
			"size": packed.Size(), "digest": layerDigest}},
	})
	require.NoError(b, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "/manifests/"):
			w.Header().Set("Content-Type", "application/vnd.docker.distribution.manifest.v2+json")
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(manifest))
		case strings.HasSuffix(r.URL.Path, "/blobs/"+layerDigest):
			w.Header().Set("Content-Type", "application/octet-stream")
			http.ServeFile(w, r, layer)
		case strings.Contains(r.URL.Path, "/blobs/"):
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(config))
		}
	}))
	b.Cleanup(server.Close)
	spec := fmt.Sprintf("%s/ocp/image@%s", strings.TrimPrefix(server.URL, "http://"), digest(manifest))
	return layer, &Payload{Image: spec, Version: "4.20.8", Architecture: "x86_64",
		Images: map[string]string{TagMachineOSImages: spec}}
}

func intoLayer(path string, also io.Writer) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	packed := gzip.NewWriter(io.MultiWriter(file, also))
	archive := tar.NewWriter(packed)
	if err := archive.WriteHeader(&tar.Header{Name: "coreos/coreos-x86_64.iso", Mode: 0o644,
		Size: liveISOBytes}); err != nil {
		return err
	}
	noise := rand.NewChaCha8([32]byte{1})
	block, text := make([]byte, 1<<20), bytes.Repeat([]byte("a kernel and what lies around it, as text goes; "),
		1<<20/48+1)
	for written := 0; written < liveISOBytes; written += len(block) {
		block = block[:min(len(block), liveISOBytes-written)]
		if _, err := noise.Read(block); err != nil {
			return err
		}
		if written>>20%8 == 0 { // an eighth that compresses well
			copy(block, text)
		}
		if _, err := archive.Write(block); err != nil {
			return err
		}
	}
	for _, end := range []io.Closer{archive, packed, file} {
		if err := end.Close(); err != nil {
			return err
		}
	}
	return nil
}
