package image_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/discovery"
	"landfall/web/image"
)

// TestReaders_rangesKeepRevision covers a management controller, which names no revision and
// continues to read while the infra-env changes.
func TestReaders_rangesKeepRevision(t *testing.T) {
	b, clock := base(t), clockwork.NewFakeClock()
	old, changed := build(t, b, "old"), build(t, b, "changed")
	src := &source{image: old}
	server, _ := serveWith(t, image.Options{Source: src, Clock: clock})

	response, _ := do(t, server, http.MethodHead, path, "User-Agent", "bmc")
	require.Equal(t, old.ETag(), response.Header.Get("ETag"))
	src.set(changed)
	clock.Advance(time.Hour)
	response, body := get(t, server, path, "bmc", "100000-500000")
	require.Equal(t, old.ETag(), response.Header.Get("ETag"), "the client keeps its revision for an hour")
	require.True(t, bytes.Equal(content(t, old)[100000:500001], body))
	response, _ = do(t, server, http.MethodHead, path, "User-Agent", "bmc")
	require.Equal(t, old.ETag(), response.Header.Get("ETag"),
		"a HEAD request between ranges does not change the revision")
	response, _ = get(t, server, path, "bmc", "0-2047")
	require.Equal(t, old.ETag(), response.Header.Get("ETag"), "the first sector does not change the revision")

	for _, other := range []string{"another BMC", "curl/8"} {
		response, _ = get(t, server, path, other, "5-9")
		require.Equal(t, changed.ETag(), response.Header.Get("ETag"), "a new client receives the current image")
	}
	response, body = get(t, server, path, "bmc", "")
	require.Equal(t, changed.ETag(), response.Header.Get("ETag"),
		"a request for the whole image receives the current image")
	require.True(t, bytes.Equal(content(t, changed), body))
	response, _ = get(t, server, path, "bmc", "5-9")
	require.Equal(t, old.ETag(), response.Header.Get("ETag"), "the client with range requests keeps its revision")
}

// TestReaders_headReturnsCurrentImage asserts that the first ranges after a HEAD request are of the
// image in its response, and that a later HEAD request describes the current image.
func TestReaders_headReturnsCurrentImage(t *testing.T) {
	b := base(t)
	old, changed := build(t, b, "old"), build(t, b, "changed")
	src := &source{image: old}
	server := serve(t, src)
	headETag := func() string {
		response, _ := do(t, server, http.MethodHead, path, "User-Agent", "bmc")
		return response.Header.Get("ETag")
	}
	require.Equal(t, old.ETag(), headETag())
	src.set(changed)
	require.Equal(t, changed.ETag(), headETag())
	src.set(old)
	response, _ := get(t, server, path, "bmc", "0-2047")
	require.Equal(t, changed.ETag(), response.Header.Get("ETag"), "the first range is of the image of the HEAD request")
	require.Equal(t, changed.ETag(), headETag(), "a later HEAD describes the image that is read")
}

func TestReaders_restartAfterPause(t *testing.T) {
	b := base(t)
	old, changed := build(t, b, "old"), build(t, b, "changed")
	for name, c := range map[string]struct {
		pause  time.Duration
		method string
		ranges string
		want   *discovery.Image
	}{
		"a HEAD after half a minute":           {30 * time.Second, http.MethodHead, "", changed},
		"a HEAD before half a minute":          {29 * time.Second, http.MethodHead, "", old},
		"the first sector after half a minute": {30 * time.Second, http.MethodGet, "bytes=0-2047", changed},
		"another sector":                       {30 * time.Second, http.MethodGet, "bytes=2048-4095", old},
		"another sector after five hours":      {5 * time.Hour, http.MethodGet, "bytes=2048-4095", old},
		"another sector after the hold":        {6*time.Hour + 1, http.MethodGet, "bytes=2048-4095", changed},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clockwork.NewFakeClock()
			src := &source{image: old}
			server, _ := serveWith(t, image.Options{Source: src, Clock: clock})
			get(t, server, path, "bmc", "0-9")
			src.set(changed)
			clock.Advance(c.pause)
			header := []string{"User-Agent", "bmc"}
			if c.ranges != "" {
				header = append(header, "Range", c.ranges)
			}
			response, _ := do(t, server, c.method, path, header...)
			require.Equal(t, c.want.ETag(), response.Header.Get("ETag"))
		})
	}
}

func TestReaders_resumeKeepsRevision(t *testing.T) {
	b := base(t)
	old, changed := build(t, b, "old"), build(t, b, "changed")
	src := &source{image: old}
	server := serve(t, src)
	get(t, server, path, "wget", "")
	src.set(changed)
	response, body := get(t, server, path, "wget", "1000-")
	require.Equal(t, old.ETag(), response.Header.Get("ETag"), "a range without a tag is of the old image")
	require.True(t, bytes.Equal(content(t, old)[1000:], body))

	for _, header := range []string{"If-Range", "If-Match"} {
		response, _ = do(t, server, http.MethodGet, path, "User-Agent", "somebody else", "Range", "bytes=1000-",
			header, old.ETag())
		require.Equal(t, http.StatusPartialContent, response.StatusCode, header)
		require.Equal(t, old.ETag(), response.Header.Get("ETag"), "any client receives the revision of its tag")
	}
	response, _ = do(t, server, http.MethodGet, "/byid/"+infraEnv+"/other/x86_64/full.iso", "Range", "bytes=1000-",
		"If-Match", old.ETag())
	require.Equal(t, http.StatusPreconditionFailed, response.StatusCode,
		"a tag is valid only at the path that returned it")
}

func TestReaders_knownReaderNeedsNoLookup(t *testing.T) {
	src := &source{image: build(t, base(t), "config")}
	server := serve(t, src)
	for i := range 50 {
		get(t, server, path, "bmc", fmt.Sprintf("%d-%d", i*2048, i*2048+2047))
	}
	require.Equal(t, 1, src.lookups)
}

// TestReaders_imageChanges reads an image in ranges with 50 clients while it changes 100 times.
// Most clients have the same name, and some begin later. Each client receives one revision from the
// first byte to the last.
func TestReaders_imageChanges(t *testing.T) {
	const clients, changes, piece = 50, 100, 32 << 10
	b := base(t)
	revisions := map[[32]byte]bool{}
	images := make([]*discovery.Image, changes+1)
	for i := range images {
		images[i] = build(t, b, fmt.Sprintf(`{"revision": %d}`, i))
		revisions[sha256.Sum256(content(t, images[i]))] = true
	}
	require.Len(t, revisions, changes+1)
	src := &source{image: images[0]}
	server := serve(t, src)
	size := images[0].Size()

	next := make(chan struct{}, clients*int(size/piece+1)) // a change for some of the ranges
	var reading sync.WaitGroup
	for client := range clients {
		reading.Go(func() {
			agent := "bmc"
			if client%5 == 0 {
				agent = fmt.Sprintf("bmc %d", client)
			}
			sum := sha256.New()
			for at := int64(0); at < size; at += piece {
				request, err := http.NewRequest(http.MethodGet, server.URL+path, nil)
				if err != nil {
					t.Error(err)
					return
				}
				request.Header.Set("User-Agent", agent)
				request.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", at, at+piece-1))
				response, err := server.Client().Do(request)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := io.Copy(sum, response.Body); err != nil {
					t.Error(err)
				}
				if err := response.Body.Close(); err != nil {
					t.Error(err)
				}
				next <- struct{}{}
			}
			if !revisions[[32]byte(sum.Sum(nil))] {
				t.Errorf("client %d (%s) received bytes of two revisions", client, agent)
			}
		})
	}
	for i := 1; i <= changes; i++ {
		<-next
		<-next
		src.set(images[i])
	}
	reading.Wait()
	_, body := get(t, server, path, "bmc", "")
	require.True(t, bytes.Equal(content(t, images[changes]), body))
}

func TestReaders_infraEnvDeleted(t *testing.T) {
	src := &source{image: build(t, base(t), "config")}
	server, service := serveWith(t, image.Options{Source: src})
	get(t, server, path, "bmc", "0-9")
	src.mu.Lock()
	src.err = fmt.Errorf("no such image")
	src.mu.Unlock()
	response, _ := get(t, server, path, "bmc", "10-19")
	require.Equal(t, http.StatusPartialContent, response.StatusCode)
	service.DropInfraEnv(infraEnv)
	response, _ = get(t, server, path, "bmc", "20-29")
	require.Equal(t, http.StatusInternalServerError, response.StatusCode)
}

func TestShortURL_revokedOrExpired(t *testing.T) {
	const short = "/i/abcdefghijklmnop.iso"
	clock := clockwork.NewFakeClock()
	src := &source{image: build(t, base(t), "config"), code: "abcdefghijklmnop"}
	server, service := serveWith(t, image.Options{Source: src, Clock: clock})
	response, body := get(t, server, short, "bmc", "100000-500000")
	require.Equal(t, http.StatusPartialContent, response.StatusCode)
	require.True(t, bytes.Equal(content(t, src.image)[100000:500001], body))
	_, body = get(t, server, short+".sha256", "bmc", "")
	require.Contains(t, string(body), "discovery_image_site-1.iso")

	for _, wrong := range []string{"/i/abcdefghijklmnoq.iso", "/i/.iso", "/i/abcdefghijklmnop",
		"/i/abcdefghijklmnop.img", "/i/" + infraEnv + ".iso"} {
		response, _ = get(t, server, wrong, "bmc", "")
		require.Equal(t, http.StatusNotFound, response.StatusCode, wrong)
	}

	src.setCode("another one")
	service.DropCodes(infraEnv)
	response, body = get(t, server, short, "bmc", "0-9")
	requireProblem(t, response, body, http.StatusNotFound, "there is no image at this address")

	src.setCode("abcdefghijklmnop")
	src.until = clock.Now().Add(time.Minute) // no client sends a request at this moment
	response, _ = get(t, server, short, "bmc", "0-9")
	require.Equal(t, http.StatusPartialContent, response.StatusCode)
	src.setCode("expired")
	response, _ = get(t, server, short, "bmc", "10-19")
	require.Equal(t, http.StatusPartialContent, response.StatusCode)
	clock.Advance(time.Minute)
	response, _ = get(t, server, short, "bmc", "20-29")
	require.Equal(t, http.StatusNotFound, response.StatusCode, "a revoked code also ends a running download")
}

func TestShortURL_fitsManagementControllers(t *testing.T) {
	require.Less(t, len("http://fifteen-letters:65535/i/abcdefghijklmnop.iso"), 60)
}

// TestBase_changedIsNeverMixed changes the base ISO between the ranges of a client. The client
// receives no more bytes until it begins again with a complete image.
func TestBase_changedIsNeverMixed(t *testing.T) {
	b := base(t)
	src := &source{image: build(t, b, "config")}
	server := serve(t, src)
	get(t, server, path, "bmc", "0-9")
	require.NoError(t, os.Chtimes(b.Path(), modified, modified))
	other := build(t, base(t), "config")
	src.set(other)
	response, body := get(t, server, path, "bmc", "10-19")
	requireProblem(t, response, body, http.StatusServiceUnavailable, "was changed after it was opened")
	require.Equal(t, 1, src.failed, "the source checks the base")
	response, _ = get(t, server, path, "bmc", "0-9")
	require.Equal(t, http.StatusPartialContent, response.StatusCode)
	require.Equal(t, other.ETag(), response.Header.Get("ETag"))
}
