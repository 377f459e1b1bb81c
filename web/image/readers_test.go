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
	require.Equal(t, old.ETag(), response.Header.Get("ETag"), "an hour's pause is none")
	require.True(t, bytes.Equal(content(t, old)[100000:500001], body))
	response, _ = do(t, server, http.MethodHead, path, "User-Agent", "bmc")
	require.Equal(t, old.ETag(), response.Header.Get("ETag"), "a question in between does not begin anew")
	response, _ = get(t, server, path, "bmc", "0-2047")
	require.Equal(t, old.ETag(), response.Header.Get("ETag"), "nor does the first sector")

	for _, other := range []string{"another BMC", "curl/8"} {
		response, _ = get(t, server, path, other, "5-9")
		require.Equal(t, changed.ETag(), response.Header.Get("ETag"), "whoever begins now gets the present image")
	}
	response, body = get(t, server, path, "bmc", "")
	require.Equal(t, changed.ETag(), response.Header.Get("ETag"), "and so does whoever asks for the whole")
	require.True(t, bytes.Equal(content(t, changed), body))
	response, _ = get(t, server, path, "bmc", "5-9")
	require.Equal(t, old.ETag(), response.Header.Get("ETag"), "which takes nothing from one who reads in ranges")
}

// TestReaders_headAnswersPresentImage asserts that the first ranges after a HEAD are of the image
// of that HEAD, and that a later HEAD describes the present image.
func TestReaders_headAnswersPresentImage(t *testing.T) {
	b := base(t)
	old, changed := build(t, b, "old"), build(t, b, "changed")
	src := &source{image: old}
	server := serve(t, src)
	asked := func() string {
		response, _ := do(t, server, http.MethodHead, path, "User-Agent", "bmc")
		return response.Header.Get("ETag")
	}
	require.Equal(t, old.ETag(), asked())
	src.set(changed)
	require.Equal(t, changed.ETag(), asked())
	src.set(old)
	response, _ := get(t, server, path, "bmc", "0-2047")
	require.Equal(t, changed.ETag(), response.Header.Get("ETag"), "what it was told of")
	require.Equal(t, changed.ETag(), asked(), "and reads now")
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
		"a HEAD within it":                     {29 * time.Second, http.MethodHead, "", old},
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
	require.Equal(t, old.ETag(), response.Header.Get("ETag"), "without a word of which one it was")
	require.True(t, bytes.Equal(content(t, old)[1000:], body))

	for _, header := range []string{"If-Range", "If-Match"} {
		response, _ = do(t, server, http.MethodGet, path, "User-Agent", "somebody else", "Range", "bytes=1000-",
			header, old.ETag())
		require.Equal(t, http.StatusPartialContent, response.StatusCode, header)
		require.Equal(t, old.ETag(), response.Header.Get("ETag"), "a tag names the revision for whoever asks")
	}
	response, _ = do(t, server, http.MethodGet, "/byid/"+infraEnv+"/other/x86_64/full.iso", "Range", "bytes=1000-",
		"If-Match", old.ETag())
	require.Equal(t, http.StatusPreconditionFailed, response.StatusCode, "but only where it was given out")
}

func TestReaders_knownReaderNeedsNoLookup(t *testing.T) {
	src := &source{image: build(t, base(t), "config")}
	server := serve(t, src)
	for i := range 50 {
		get(t, server, path, "bmc", fmt.Sprintf("%d-%d", i*2048, i*2048+2047))
	}
	require.Equal(t, 1, src.asked)
}

// TestReaders_imageChanges has 50 clients read an image in ranges while it changes 100 times. Most
// of them have the same name, and some begin late. Each client gets one revision from the first
// byte to the last.
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
				t.Errorf("client %d (%s) got a mixture", client, agent)
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
	src.err = fmt.Errorf("it is gone")
	src.mu.Unlock()
	response, _ := get(t, server, path, "bmc", "10-19")
	require.Equal(t, http.StatusPartialContent, response.StatusCode)
	service.Forget(infraEnv)
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
	service.ForgetCodes(infraEnv)
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
	require.Equal(t, http.StatusNotFound, response.StatusCode, "in the middle of reading, too")
}

func TestShortURL_fitsManagementControllers(t *testing.T) {
	require.Less(t, len("http://fifteen-letters:65535/i/abcdefghijklmnop.iso"), 60)
}

// TestBase_changedIsNeverMixed changes the base between the ranges of a reader. The reader gets
// nothing more until it starts again with a whole image.
func TestBase_changedIsNeverMixed(t *testing.T) {
	b := base(t)
	src := &source{image: build(t, b, "config")}
	server := serve(t, src)
	get(t, server, path, "bmc", "0-9")
	require.NoError(t, os.Chtimes(b.Path(), modified, modified))
	other := build(t, base(t), "config")
	src.set(other)
	response, body := get(t, server, path, "bmc", "10-19")
	requireProblem(t, response, body, http.StatusServiceUnavailable, "is not what it was when it was opened")
	require.Equal(t, 1, src.failed, "whoever keeps the bases hears of it")
	response, _ = get(t, server, path, "bmc", "0-9")
	require.Equal(t, http.StatusPartialContent, response.StatusCode)
	require.Equal(t, other.ETag(), response.Header.Get("ETag"))
}
