package registry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/registry/medium"
	"landfall/randtest"
)

var removals = flag.Int("removals", 16, "random removals of the medium in TestRemovals_random")

// socket is a place for a stick. Files on it can be opened and read while the stick is plugged in.
type socket struct {
	mu    sync.Mutex
	empty bool
	left  int64 // bytes until the stick is pulled out; negative for never
}

func (s *socket) open(path string) (medium.File, error) {
	if err := s.use(0); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	return pluggedFile{file, s}, err
}

func (s *socket) use(bytes int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left >= 0 && !s.empty {
		if s.left -= bytes; s.left < 0 {
			s.empty = true
		}
	}
	if s.empty {
		return &fs.PathError{Op: "read", Path: "stick", Err: errors.New("input/output error")}
	}
	return nil
}

// set pulls the stick out after a number of bytes, or plugs it in if they are negative.
func (s *socket) set(left int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left, s.empty = left, false
}

type pluggedFile struct {
	medium.File
	socket *socket
}

// ReadAt implements io.ReaderAt.
func (f pluggedFile) ReadAt(p []byte, offset int64) (int, error) {
	if err := f.socket.use(int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, offset)
}

// pulls counts how the pulls of clients end.
type pulls struct {
	mu            sync.Mutex
	ended         *sync.Cond
	whole, failed int
	resumed       int
	stop          bool
}

func (p *pulls) note(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.ended.Broadcast()
}

// await waits until more pulls have ended.
func (p *pulls) await(more int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for until := p.whole + p.failed + more; p.whole+p.failed < until && !p.stop; {
		p.ended.Wait()
	}
}

// pullLikeNode pulls a blob as containers/image does: a body that breaks is continued by a range,
// and an error answer ends the pull. It returns an error for all that a node must never see.
func (p *pulls) pullLikeNode(url string, want []byte) error {
	var got []byte
	for try := 0; ; try++ {
		request, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		wanted := http.StatusOK
		if len(got) > 0 {
			wanted = http.StatusPartialContent
			request.Header.Set("Range", fmt.Sprintf("bytes=%d-", len(got)))
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			p.note(func() { p.failed++ }) // the connection broke before the headers
			return nil
		}
		data, err := io.ReadAll(response.Body)
		_ = response.Body.Close() // it was read
		switch status := response.StatusCode; {
		case status == http.StatusServiceUnavailable, status == http.StatusTooManyRequests:
			var failure struct{ Errors []struct{ Message string } }
			if json.Unmarshal(data, &failure) != nil || len(failure.Errors) != 1 || failure.Errors[0].Message == "" ||
				response.Header.Get("Retry-After") == "" {
				return fmt.Errorf("status %d without a sentence: %s", status, data)
			}
			p.note(func() { p.failed++ })
			return nil
		case status != wanted:
			return fmt.Errorf("status %d: %s", status, data)
		}
		got = append(got, data...)
		switch {
		case err == nil && !bytes.Equal(got, want):
			return fmt.Errorf("a pull ended cleanly with wrong bytes (%d of %d)", len(got), len(want))
		case err == nil:
			p.note(func() { p.whole++ })
			return nil
		case !bytes.HasPrefix(want, got):
			return fmt.Errorf("a broken pull has wrong bytes (%d of %d)", len(got), len(want))
		case try == 5:
			p.note(func() { p.failed++ })
			return nil
		}
		p.note(func() { p.resumed++ })
	}
}

// While 20 clients pull, the medium is removed and comes back at random: in the middle of a read,
// at another path, with or without a copy to the disk. Every pull ends with the right bytes or a
// clear failure.
func TestRemovals_random(t *testing.T) {
	seed := randtest.Seed(t)
	random := rand.New(rand.NewPCG(seed, 1))
	s := newSite(t)
	from := &socket{left: -1}
	s.open = from.open
	a, layers := layered(t, 12, 600<<10)
	s.write(archive1, a)
	s.start()
	p := new(pulls)
	p.ended = sync.NewCond(&p.mu)
	digests := make([]string, 0, len(layers))
	for digest := range layers {
		digests = append(digests, digest)
	}
	slices.Sort(digests)
	clients := new(errgroup.Group)
	for i := range 20 {
		clients.Go(func() error {
			random := rand.New(rand.NewPCG(seed, uint64(i+2)))
			for {
				p.mu.Lock()
				stop := p.stop
				p.mu.Unlock()
				if stop {
					return nil
				}
				digest := digests[random.IntN(len(digests))]
				if err := p.pullLikeNode(s.server.URL+"/v2/team/image/blobs/"+digest, layers[digest]); err != nil {
					p.note(func() { p.stop = true })
					return err
				}
			}
		})
	}
	at := s.path(archive1)
	for range *removals {
		switch random.IntN(8) {
		case 0:
			_, err := s.registry.Stage(t.Context(), "all")
			require.NoError(t, err)
		case 1, 2:
			if s.registry.CancelStage(t.Context(), "all") == nil {
				_, err := s.registry.Collect(t.Context())
				require.NoError(t, err)
			}
		}
		from.set(random.Int64N(4 << 20))
		p.await(1 + random.IntN(20))
		if random.IntN(2) == 0 { // the stick is plugged in elsewhere
			to := filepath.Join(s.dir, fmt.Sprint("port", random.IntN(3)), archive1)
			require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o700))
			require.NoError(t, os.Rename(at, to))
			at = to
			s.registry.Look()
			p.await(1)
		}
		from.set(-1)
		s.lookNow()
		p.await(1 + random.IntN(20))
	}
	p.note(func() { p.stop = true })
	require.NoError(t, clients.Wait())
	t.Logf("%d pulls ended whole, %d failed clearly, %d were continued", p.whole, p.failed, p.resumed)
	require.NotZero(t, p.whole)
	require.NotZero(t, p.failed)
	s.pullAll(2, layers)
}
