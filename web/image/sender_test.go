package image_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/web/image"
)

// TestSender_stalledClientIsDropped stops hundreds of clients in the middle of a download while
// others continue.
func TestSender_stalledClientIsDropped(t *testing.T) {
	const stalled = 300
	i := build(t, largeBase(t, 24<<20), "config")
	logger, lines := newLog()
	server, _ := serveWith(t, image.Options{Source: &source{image: i}, StallTimeout: time.Second, Logger: logger})
	conns := make([]net.Conn, stalled)
	for n := range conns {
		conns[n] = begin(t, server, "GET "+path+" HTTP/1.1")
		if n > 0 { // otherwise the clients would use gigabytes of socket buffers
			require.NoError(t, conns[n].(*net.TCPConn).SetReadBuffer(4096))
		}
	}
	_, body := get(t, server, path, "lively", "") // while the others are connected
	require.Equal(t, sha256.Sum256(content(t, i)), sha256.Sum256(body))
	for range conns {
		lines.await(t, "disconnected because it stopped reading an image")
	}
	got, promised := rest(t, conns[0])
	require.Less(t, got, promised)
}

// TestSender_slowClientIsKept lets a client read small pieces for many times the stall time-out.
func TestSender_slowClientIsKept(t *testing.T) {
	const stallTimeout = 200 * time.Millisecond
	i := build(t, largeBase(t, 24<<20), "config")
	server, _ := serveWith(t, image.Options{Source: &source{image: i}, StallTimeout: stallTimeout})
	conn := begin(t, server, "GET "+path+" HTTP/1.1")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	pace := time.NewTicker(stallTimeout / 20)
	defer pace.Stop()
	sum, took := sha256.New(), time.Now()
	for {
		n, err := io.CopyN(sum, response.Body, 256<<10)
		if n == 0 {
			require.Equal(t, io.EOF, err)
			break
		}
		<-pace.C
	}
	require.Equal(t, sha256.Sum256(content(t, i)), [32]byte(sum.Sum(nil)))
	require.Greater(t, time.Since(took), 3*stallTimeout)
}

// TestSender_baseChanges changes the base ISO during downloads, as users and failing disks do.
func TestSender_baseChanges(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"truncated": func(path string) error { return os.Truncate(path, 8<<20) },
		"extended": func(path string) error {
			file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err == nil {
				_, err = file.Write([]byte("more"))
			}
			return err
		},
		"overwritten": func(path string) error {
			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_, err = file.WriteAt(make([]byte, 1<<20), 16<<20)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := largeBase(t, 24<<20)
			src := &source{image: build(t, b, "config")}
			logger, lines := newLog()
			server, _ := serveWith(t, image.Options{Source: src, Logger: logger})
			conn := begin(t, server, "GET "+path+" HTTP/1.1")
			lines.await(t, "Download of an image started")
			require.NoError(t, change(b.Path()))
			got, promised := rest(t, conn)
			require.Less(t, got, promised, "no client receives a complete image from two files")
			lines.await(t, "cancelled because the base ISO was changed")
			require.Equal(t, 1, src.failed)
			response, body := get(t, server, path, "another", "")
			requireProblem(t, response, body, http.StatusServiceUnavailable, "was changed after it was opened")
		})
	}
}

// TestSender_baseRemovedOrReplaced removes or replaces the path of the base ISO; the open file
// stays the same.
func TestSender_baseRemovedOrReplaced(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"removed":              os.Remove,
		"replaced by renaming": func(path string) error { return os.Rename(path, path+".old") },
	} {
		t.Run(name, func(t *testing.T) {
			b := largeBase(t, 24<<20)
			i := build(t, b, "config")
			want := sha256.Sum256(content(t, i))
			logger, lines := newLog()
			server, _ := serveWith(t, image.Options{Source: &source{image: i}, Logger: logger})
			conn := begin(t, server, "GET "+path+" HTTP/1.1")
			lines.await(t, "Download of an image started")
			require.NoError(t, change(b.Path()))
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			sum := sha256.New()
			_, err = io.Copy(sum, response.Body)
			require.NoError(t, err)
			require.Equal(t, want, [32]byte(sum.Sum(nil)))
			_, body := get(t, server, path, "another", "")
			require.Equal(t, want, sha256.Sum256(body))
		})
	}
}

func TestRanges_malformedAreRefused(t *testing.T) {
	i := build(t, base(t), "config")
	server := serve(t, &source{image: i})
	for name, header := range map[string]string{
		"letters":                 "bytes=b-a",
		"backwards":               "bytes=9-5",
		"only a dash":             "bytes=-",
		"negative":                "bytes=--5",
		"another unit":            "sectors=0-5",
		"no unit":                 "0-5",
		"behind the end":          "bytes=99999999-",
		"larger than a number":    "bytes=0-99999999999999999999999999",
		"ten thousand":            "bytes=" + strings.Repeat("0-0,", 9_999) + "0-0",
		"ten thousand suffixes":   "bytes=" + strings.Repeat("-1,", 9_999) + "-1",
		"ten thousand of nothing": "bytes=" + strings.Repeat(",", 10_000),
	} {
		t.Run(name, func(t *testing.T) {
			response, body := do(t, server, http.MethodGet, path, "Range", header)
			requireProblem(t, response, body, http.StatusRequestedRangeNotSatisfiable, "the Range header")
			require.Equal(t, fmt.Sprintf("bytes */%d", i.Size()), response.Header.Get("Content-Range"))
			require.Empty(t, response.Header.Get("Content-Disposition"))
			require.Less(t, len(body), 500)
		})
	}
}

func TestRanges_overlappingGiveWhole(t *testing.T) {
	i := build(t, base(t), "config")
	server := serve(t, &source{image: i})
	response, body := do(t, server, http.MethodGet, path, "Range", "bytes="+strings.Repeat("0-,", 90)+"0-")
	require.Equal(t, http.StatusOK, response.StatusCode, "90 times the size of the image")
	require.True(t, bytes.Equal(content(t, i), body))
}

func TestDigest_headerAfterComputation(t *testing.T) {
	i := build(t, base(t), "config")
	sum := sha256.Sum256(content(t, i))
	known, wanted := "", false
	i.Digest = func(compute bool) string {
		wanted = wanted || compute
		return known
	}
	server := serve(t, &source{image: i})
	response, _ := get(t, server, path, "bmc", "0-9")
	require.Empty(t, response.Header.Get("Repr-Digest"))
	require.False(t, wanted, "a range request does not start the computation of the digest")
	get(t, server, path, "browser", "")
	require.True(t, wanted)
	known = hex.EncodeToString(sum[:])
	for _, ranges := range []string{"", "0-9"} {
		response, _ = get(t, server, path, "bmc", ranges)
		require.Equal(t, "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":", response.Header.Get("Repr-Digest"))
	}
}

// TestSender_reusesConnection sends many requests on one connection for longer than the deadline of
// the first ones.
func TestSender_reusesConnection(t *testing.T) {
	i := build(t, base(t), "config")
	want := content(t, i)
	server, _ := serveWith(t, image.Options{Source: &source{image: i}, StallTimeout: 50 * time.Millisecond})
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	reader := bufio.NewReader(conn)
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for n := range 40 {
		from := n * 5000
		_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nRange: bytes=nonsense\r\n\r\n", path)
		require.NoError(t, err)
		refused, err := http.ReadResponse(reader, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusRequestedRangeNotSatisfiable, refused.StatusCode)
		_, err = io.Copy(io.Discard, refused.Body)
		require.NoError(t, err)
		<-pause.C
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nRange: bytes=%d-%d\r\n\r\n", path, from, from+4999)
		require.NoError(t, err)
		response, err := http.ReadResponse(reader, nil)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want[from:from+5000], body))
		<-pause.C
	}
}

func TestSender_concurrentReaders(t *testing.T) {
	i := build(t, largeBase(t, 4<<20), "config")
	want := sha256.Sum256(content(t, i))
	server := serve(t, &source{image: i})
	var reading sync.WaitGroup
	for n := range 32 {
		reading.Go(func() {
			request, err := http.NewRequest(http.MethodGet, server.URL+path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			request.Header.Set("User-Agent", fmt.Sprint(n))
			response, err := server.Client().Do(request)
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			sum := sha256.New()
			if _, err := io.Copy(sum, response.Body); err != nil {
				t.Error(err)
			}
			if [32]byte(sum.Sum(nil)) != want {
				t.Error("a reader received wrong bytes")
			}
		})
	}
	reading.Wait()
}
