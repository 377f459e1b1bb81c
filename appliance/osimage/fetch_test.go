package osimage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/isogen/skeleton"
)

const (
	waitLimit = time.Minute
	tick      = time.Millisecond
)

// server serves an ISO and counts the requests.
type server struct {
	*httptest.Server
	content  atomic.Pointer[[]byte]
	tag      atomic.Pointer[string]
	broken   atomic.Int32 // number of downloads to cut off half-way
	ranges   atomic.Int32
	requests atomic.Int32
}

func newServer(t *testing.T, content []byte) *server {
	t.Helper()
	s := &server{}
	s.put(content, `"1"`)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		if r.Header.Get("Range") != "" {
			s.ranges.Add(1)
		}
		content := *s.content.Load()
		w.Header().Set("ETag", *s.tag.Load())
		if s.broken.Add(-1) >= 0 {
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			if _, err := w.Write(content[:len(content)/2]); err == nil {
				panic(http.ErrAbortHandler)
			}
			return
		}
		http.ServeContent(w, r, "live.iso", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) put(content []byte, tag string) {
	s.content.Store(&content)
	s.tag.Store(&tag)
}

func TestDownload(t *testing.T) {
	content := isoContent(t, iso)
	from := newServer(t, content)
	s := newSite(t, Configured{URL: from.URL + "/live.iso", SHA256: sumOf(content), OpenshiftVersion: "4.18",
		CPUArchitecture: "x86_64"})
	l, stop := s.open(t)
	_, err := l.Find("4.18.2", "x86_64")
	require.ErrorContains(t, err, "is not available yet (waiting)")
	stop()

	l, stop = s.run(t)
	image := waitForState(t, l, onlyImage(t, l).ID, StateReady)
	require.Equal(t, SourceURL, image.Source)
	require.Equal(t, sumOf(content), image.SHA256)
	require.Equal(t, from.URL+"/live.iso", image.URL)
	stop()

	l, _ = s.open(t)
	require.Equal(t, StateReady, onlyImage(t, l).State, "the image is not ready after a restart")
	require.EqualValues(t, 1, from.requests.Load())
}

func TestDownload_resumesAfterBreak(t *testing.T) {
	from := newServer(t, isoContent(t, iso))
	from.broken.Store(1)
	s := newSite(t, Configured{URL: from.URL + "/live.iso"})
	l, _ := s.run(t)
	id := onlyImage(t, l).ID
	require.Eventually(t, func() bool { return onlyImage(t, l).Message != "" }, waitLimit, tick)
	requireSentence(t, onlyImage(t, l).Message, "the last attempt failed: downloading "+from.URL+"/live.iso")
	require.NoError(t, s.clock.BlockUntilContext(t.Context(), 1))
	s.clock.Advance(firstRetry)
	waitForState(t, l, id, StateReady)
	require.EqualValues(t, 1, from.ranges.Load(), "the second attempt requested the whole file")
}

func TestDownload_resumesAfterRestart(t *testing.T) {
	content := isoContent(t, iso)
	from := newServer(t, content)
	from.broken.Store(1)
	s := newSite(t, Configured{URL: from.URL + "/live.iso"})
	l, stop := s.run(t)
	require.Eventually(t, func() bool { return onlyImage(t, l).Message != "" }, waitLimit, tick)
	stop()
	l, _ = s.run(t)
	require.Equal(t, sumOf(content), waitForState(t, l, onlyImage(t, l).ID, StateReady).SHA256)
	require.EqualValues(t, 1, from.ranges.Load())
}

// TestDownload_serverWithoutRanges downloads from a server that answers each request with the whole
// file, over a line that breaks.
func TestDownload_serverWithoutRanges(t *testing.T) {
	content := isoContent(t, iso)
	goOn := make(chan struct{})
	var requests atomic.Int32
	from := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, err := w.Write(content[:len(content)/2])
		if requests.Add(1) == 1 || err != nil {
			panic(http.ErrAbortHandler)
		}
		err = http.NewResponseController(w).Flush()
		select {
		case <-goOn:
		case <-r.Context().Done():
		}
		if requests.Load() == 2 || err != nil {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(content[len(content)/2:]) // the test sees that the image is not complete
	}))
	t.Cleanup(from.Close)
	s := newSite(t, Configured{URL: from.URL + "/live.iso"})
	l, _ := s.run(t)
	id := onlyImage(t, l).ID
	awaitMessage := func(state State, part string) {
		require.Eventually(t, func() bool {
			image := onlyImage(t, l)
			return image.State == state && strings.Contains(image.Message, part)
		}, waitLimit, tick)
	}
	awaitMessage(StateWaiting, "unexpected EOF")
	require.NotContains(t, onlyImage(t, l).Message, "range requests", "nothing has started over")
	require.NoError(t, s.clock.BlockUntilContext(t.Context(), 1))
	s.clock.Advance(firstRetry)
	awaitMessage(StateDownloading, "the server does not support range requests, so the download started over")
	require.Regexp(t, `^downloading \(\d+% of \d+ MB; the server does not support`, onlyImage(t, l).Progress())
	goOn <- struct{}{}
	awaitMessage(StateWaiting, "the next attempt starts over again: upload the image")
	require.NoError(t, s.clock.BlockUntilContext(t.Context(), 1))
	s.clock.Advance(2 * firstRetry)
	close(goOn)
	require.Empty(t, waitForState(t, l, id, StateReady).Message)
}

// rangesAdvice is the end of an error after which the next attempt starts over again.
const rangesAdvice = "starts over again: upload the image, or use a server that supports range requests"

func TestDownload_stalledServerWithoutRanges(t *testing.T) {
	content := isoContent(t, iso)
	ended := make(chan struct{})
	var requests atomic.Int32
	from := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		if requests.Add(1) == 1 {
			_, _ = w.Write(content[:len(content)/2]) // the client sees the end of the connection
			panic(http.ErrAbortHandler)
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-ended:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(from.Close)
	t.Cleanup(func() { close(ended) })
	s := newSite(t, Configured{URL: from.URL + "/live.iso"})
	l, _ := s.run(t)
	await := func(state State, part string) {
		require.Eventually(t, func() bool {
			image := onlyImage(t, l)
			return image.State == state && strings.Contains(image.Message, part)
		}, waitLimit, tick)
	}
	await(StateWaiting, "unexpected EOF")
	require.NoError(t, s.clock.BlockUntilContext(t.Context(), 1))
	s.clock.Advance(firstRetry)
	await(StateDownloading, "the download started over")
	s.clock.Advance(stallLimit)
	await(StateWaiting, "the server sent nothing for 1m0s")
	require.Contains(t, onlyImage(t, l).Message, rangesAdvice)
}

// roundTripper answers requests without a server.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// reader calls a function for each read.
type reader func([]byte) (int, error)

func (f reader) Read(b []byte) (int, error) { return f(b) }

// Another server does not help if the file can't be written.
func TestDownload_failedWriteWithoutRanges(t *testing.T) {
	s := newSite(t)
	l, _ := s.run(t)
	file := filepath.Join(t.TempDir(), "live.iso.part")
	part, err := openPartial(file, 0, nil, func(int64, []byte) error { return nil })
	require.NoError(t, err)
	_, err = part.Write([]byte("half"))
	require.NoError(t, err)
	l.options.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		require.Equal(t, "bytes=4-", r.Header.Get("Range"))
		return &http.Response{StatusCode: http.StatusOK, ContentLength: 8, Header: http.Header{},
			Body: io.NopCloser(reader(func(b []byte) (int, error) {
				return copy(b, "all"), part.file.Close()
			}))}, nil
	})
	err = l.download(t.Context(), &entry{record: record{URL: "http://mirror.example.com/live.iso"}}, part)
	require.ErrorIs(t, err, os.ErrClosed)
	require.NotContains(t, err.Error(), rangesAdvice)
}

func TestDownload_replacedFileStartsAgain(t *testing.T) {
	from := newServer(t, isoContent(t, iso))
	from.broken.Store(1)
	s := newSite(t, Configured{URL: from.URL + "/live.iso"})
	l, _ := s.run(t)
	require.Eventually(t, func() bool { return onlyImage(t, l).Message != "" }, waitLimit, tick)
	other := iso
	other.RootFSSize = 7 << 20
	from.put(isoContent(t, other), `"2"`)
	require.NoError(t, s.clock.BlockUntilContext(t.Context(), 1))
	s.clock.Advance(firstRetry)
	require.Equal(t, sumOf(isoContent(t, other)), waitForState(t, l, onlyImage(t, l).ID, StateReady).SHA256)
}

func TestDownload_wrongDigestIsRefused(t *testing.T) {
	from := newServer(t, isoContent(t, iso))
	for name, c := range map[string]struct {
		configured Configured
		message    string
	}{
		"sha256":  {Configured{URL: from.URL, SHA256: sumOf([]byte("other"))}, "but sha256 " + sumOf([]byte("other"))},
		"version": {Configured{URL: from.URL, OpenshiftVersion: "4.12"}, "is for OpenShift 4.18, not for 4.12"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, c.configured)
			l, _ := s.run(t)
			image := waitForState(t, l, onlyImage(t, l).ID, StateBad)
			requireSentence(t, image.Message, c.message)
			require.Eventually(t, func() bool { return slices.Equal([]string{image.ID + ".json"}, s.files(t)) },
				waitLimit, tick)
		})
	}
}

func TestDownload_missingFileIsRetried(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(gone.Close)
	from := newServer(t, isoContent(t, iso))
	l, _ := newSite(t, Configured{URL: gone.URL + "/a.iso", OpenshiftVersion: "4.17", CPUArchitecture: "x86_64"},
		Configured{URL: from.URL + "/b.iso"}).run(t)
	require.Eventually(t, func() bool {
		_, err := l.Find("4.18", "x86_64")
		return err == nil
	}, waitLimit, tick)
	require.Eventually(t, func() bool {
		_, err := l.Find("4.17", "x86_64")
		return err != nil && bytes.Contains([]byte(err.Error()), []byte("the server answered 404 Not Found"))
	}, waitLimit, tick)
}

func TestDownload_urlPasswordIsHidden(t *testing.T) {
	require.Equal(t, "http://me:xxxxx@mirror/live.iso", redacted("http://me:secret@mirror/live.iso"))
}

func TestDownload_onRequestResumesAfterRestart(t *testing.T) {
	content := isoContent(t, iso)
	from := newServer(t, content)
	from.broken.Store(1)
	s := newSite(t)
	l, stop := s.run(t)
	image, err := l.Fetch(Request{URL: from.URL + "/live.iso"})
	require.NoError(t, err)
	require.False(t, image.Configured)
	_, err = l.Fetch(Request{URL: from.URL + "/live.iso"})
	require.ErrorContains(t, err, "exists already or is being downloaded as "+image.ID)
	require.Eventually(t, func() bool { return onlyImage(t, l).Message != "" }, waitLimit, tick)
	stop()
	l, _ = s.run(t)
	require.Equal(t, sumOf(content), waitForState(t, l, image.ID, StateReady).SHA256)
	require.NoError(t, l.Remove(image.ID))
	require.Empty(t, s.files(t))
}

func TestDownload_removedWhileRunning(t *testing.T) {
	hanging := make(chan struct{})
	from := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000000")
		if _, err := w.Write(make([]byte, 1000)); err != nil {
			return
		}
		http.NewResponseController(w).Flush()
		select {
		case <-hanging:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(from.Close)
	t.Cleanup(func() { close(hanging) })
	s := newSite(t)
	l, _ := s.run(t)
	image, err := l.Fetch(Request{URL: from.URL + "/live.iso", OpenshiftVersion: "4.20"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return onlyImage(t, l).DoneBytes == 1000 }, waitLimit, tick)
	require.Equal(t, StateDownloading, onlyImage(t, l).State)
	require.NoError(t, l.Remove(image.ID))
	require.Empty(t, s.files(t))
}

func TestDownload_stalledServer(t *testing.T) {
	hanging := make(chan struct{})
	from := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hanging:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(from.Close)
	t.Cleanup(func() { close(hanging) })
	s := newSite(t, Configured{URL: from.URL + "/live.iso"})
	l, _ := s.run(t)
	require.NoError(t, s.clock.BlockUntilContext(t.Context(), 1))
	s.clock.Advance(stallLimit)
	require.Eventually(t, func() bool { return onlyImage(t, l).Message != "" }, waitLimit, tick)
	requireSentence(t, onlyImage(t, l).Message, "the server sent nothing for 1m0s")
}

func TestDownload_invalidRequest(t *testing.T) {
	s := newSite(t)
	s.options.FetchRelease = nil
	l, _ := s.open(t)
	for message, r := range map[string]Request{
		"either url or release": {},
		"the source is ambiguous; give either url or release": {URL: "http://a/b",
			Release: "4.20"},
		`url is "ftp://a/b"; expected an http:// or https:// URL`: {URL: "ftp://a/b"},
		`sha256 is "x"`: {URL: "http://a/b", SHA256: "x"},
		"imports from releases are not configured": {Release: "4.20.8"},
	} {
		_, err := l.Fetch(r)
		require.ErrorContains(t, err, message)
	}
}

func TestDownload_fromRelease(t *testing.T) {
	content := isoContent(t, iso)
	var requested Release
	failures := 1
	sum := sumOf(content)
	s := newSite(t, Configured{Release: true, OpenshiftVersion: "4.18", CPUArchitecture: "x86_64"})
	s.options.FetchRelease = func(_ context.Context, r Release, begin func(string, int64) (io.Writer, error)) (string,
		error) {
		requested = r
		w, err := begin("4.18.30", int64(len(content)))
		if err != nil {
			return "", err
		}
		if failures > 0 {
			failures--
			_, err := w.Write(content[:1000])
			return "", errors.Join(err, errCut)
		}
		_, err = w.Write(content)
		return sum, err
	}
	l, stop := s.run(t)
	require.Eventually(t, func() bool { return onlyImage(t, l).Message != "" }, waitLimit, tick)
	require.NoError(t, s.clock.BlockUntilContext(t.Context(), 1))
	s.clock.Advance(firstRetry)
	image := waitForState(t, l, onlyImage(t, l).ID, StateReady)
	require.Equal(t, SourcePayload, image.Source)
	require.Equal(t, Release{Version: "4.18", Architecture: "x86_64"}, requested)
	require.Equal(t, sumOf(content), image.SHA256)
	stop()

	s.options.Images, s.options.Dir = nil, t.TempDir()
	sum = sumOf([]byte("other"))
	l, _ = s.run(t)
	image, err := l.Fetch(Request{Release: "4.18.30", PullSecret: "{}"})
	require.NoError(t, err)
	image = waitForState(t, l, image.ID, StateBad)
	requireSentence(t, image.Message, "in release 4.18.30 has sha256 "+sumOf(content),
		"copy the release to the mirror again")
	require.Equal(t, Release{Name: "4.18.30", Architecture: "x86_64", PullSecret: "{}"}, requested)
	_, err = l.Fetch(Request{Release: "4.18.30", Unattended: true})
	rejected := new(ContentError)
	require.ErrorAs(t, err, &rejected, "nobody asked for another attempt")
	require.Equal(t, image.ID, rejected.Existing)
	sum = sumOf(content)
	_, err = l.Verify(image.ID) // the verification retries the download
	require.NoError(t, err)
	require.Equal(t, "4.18", waitForState(t, l, image.ID, StateReady).OpenshiftVersion)
}

func TestDownload_headersAndQuery(t *testing.T) {
	content := isoContent(t, iso)
	from := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") != "t" || r.URL.Query().Get("site") != "s 1" || r.URL.Query().Get("v") != "1" {
			http.Error(w, "missing credentials", http.StatusUnauthorized)
			return
		}
		http.ServeContent(w, r, "live.iso", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(from.Close)
	l, _ := newSite(t).run(t)
	url := from.URL + "/live.iso?v=1"
	image, err := l.Fetch(Request{URL: url})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return strings.Contains(onlyImage(t, l).Message, "401 Unauthorized") },
		waitLimit,
		tick)
	l.SetAdditions(map[string]Additions{url: {Headers: map[string]string{"X-Token": "t"},
		Query: map[string]string{"site": "s 1"}}})
	require.Equal(t, sumOf(content), waitForState(t, l, image.ID, StateReady).SHA256)
}

// TestDownload_serverIgnoresIfRange downloads a file that is replaced during the download, from a
// server that answers the request for the rest with the rest of the new file.
func TestDownload_serverIgnoresIfRange(t *testing.T) {
	before, after := isoContent(t, iso), isoContent(t, iso)
	after[len(after)-5000] ^= 1
	for name, tag := range map[string]string{"another tag": `"2"`, "another size": `"1"`} {
		t.Run(name, func(t *testing.T) {
			after := after
			if name == "another size" {
				after = isoContent(t, skeleton.ISO{VolumeID: iso.VolumeID, RootFSSize: 1 << 20})
			}
			var requests atomic.Int32
			from := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1) == 1 {
					w.Header().Set("ETag", `"1"`)
					w.Header().Set("Content-Length", strconv.Itoa(len(before)))
					if _, err := w.Write(before[:len(before)/2]); err == nil {
						panic(http.ErrAbortHandler)
					}
					return
				}
				w.Header().Set("ETag", tag)
				r.Header.Del("If-Range")
				http.ServeContent(w, r, "live.iso", time.Time{}, bytes.NewReader(after))
			}))
			t.Cleanup(from.Close)
			s := newSite(t, Configured{URL: from.URL + "/live.iso"})
			l, _ := s.run(t)
			id := onlyImage(t, l).ID
			require.Eventually(t, func() bool { return onlyImage(t, l).Message != "" }, waitLimit, tick)
			require.NoError(t, s.clock.BlockUntilContext(t.Context(), 1))
			s.clock.Advance(firstRetry)
			require.Eventually(t, func() bool {
				return strings.Contains(onlyImage(t, l).Message, fileChanged)
			}, waitLimit, tick)
			require.NoError(t, s.clock.BlockUntilContext(t.Context(), 1))
			s.clock.Advance(2 * firstRetry)
			require.Equal(t, sumOf(after), waitForState(t, l, id, StateReady).SHA256)
		})
	}
}
