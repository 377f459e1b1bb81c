package image

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

const (
	// maxReaders bounds how many clients are remembered; the one that has been quiet for longest is
	// forgotten beyond that.
	maxReaders = 4096
	// maxRevisions bounds how many images can be asked for by their tags when they are not an
	// infra-env's newest any more.
	maxRevisions = 256
	// maxHeld bounds the memory that those take, in bytes.
	maxHeld = 256 << 20
	// begins is how long a reader must have been quiet for a request that looks like a first one
	// (HEAD, or a range from byte 0 on) to be one: whoever mounts an image again gets it as it is
	// now.
	begins = 30 * time.Second
)

// readers remembers which revision of an image each client reads.
//
// A client is an address with a User-Agent at one path. It is given the image as the infra-env is
// when it begins, and goes on with that one until it has been quiet for as long as hold says. A
// request that names a revision by its tag (If-Range, If-Match) gets that revision, whoever it
// comes from, as long as it is remembered.
type readers struct {
	clock clockwork.Clock
	hold  time.Duration

	mu      sync.Mutex
	bound   map[readerKey]*reader
	byTag   map[tagKey]*revision
	held    int64 // bytes of the revisions in byTag
	maxHeld int64
}

type readerKey struct {
	client, agent, path string
	network             int // by which the image's links are
}

type reader struct {
	image    *download
	last     time.Time
	inRanges time.Time // the last request for a range
}

type tagKey struct {
	path, tag string
	network   int
}

type revision struct {
	image *download
	last  time.Time
}

func newReaders(clock clockwork.Clock, hold time.Duration) *readers {
	return &readers{clock: clock, hold: hold, bound: make(map[readerKey]*reader), byTag: make(map[tagKey]*revision),
		maxHeld: maxHeld}
}

// pick returns the image that a request is to be answered with, or nil if it begins with the
// present one: bind that then.
func (s *readers) pick(k readerKey, r *http.Request) *download {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if tag := wantedTag(r); tag != "" {
		if known := s.byTag[tagKey{k.path, tag, k.network}]; known != nil {
			known.last = now
			return known.image
		}
	}
	known := s.bound[k]
	if known == nil || now.Sub(known.last) > s.hold || asksForPresent(r) {
		return nil
	}
	if looksFirst(r) && (now.Sub(known.last) >= begins || known.image.Intact() != nil) {
		return nil
	}
	if r.Method == http.MethodHead && known.inRanges.IsZero() {
		return nil // whoever has only asked so far is told of the image as it is now
	}
	known.touch(now, r)
	return known.image
}

// bind notes which image a client begins with and returns the one that it gets: another one if the
// client turns out to be in the middle of reading that.
func (s *readers) bind(k readerKey, r *http.Request, image *download) *download {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remember(tagKey{k.path, image.ETag(), k.network}, image, now)
	known := s.bound[k]
	inTheMiddle := known != nil && now.Sub(known.inRanges) < begins && known.image.Intact() == nil
	switch {
	case inTheMiddle && asksForPresent(r):
		return image // and those who read in ranges under the same name go on with theirs
	case inTheMiddle:
		known.touch(now, r)
		return known.image
	}
	if known == nil && len(s.bound) >= maxReaders {
		s.forgetQuietest()
	}
	known = &reader{image: image}
	known.touch(now, r)
	s.bound[k] = known
	return image
}

// touch notes that a client is still reading, which an answer that takes long does at its end.
func (s *readers) touch(k readerKey, r *http.Request) {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.bound[k]; known != nil {
		known.touch(now, r)
	}
}

func (r *reader) touch(now time.Time, request *http.Request) {
	r.last = now
	if len(request.Header["Range"]) > 0 {
		r.inRanges = now
	}
}

// forget drops what is known of an infra-env's images.
func (s *readers) forget(infraEnvID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, known := range s.bound {
		if known.image.InfraEnvID == infraEnvID {
			delete(s.bound, k)
		}
	}
	for k, known := range s.byTag {
		if known.image.InfraEnvID == infraEnvID {
			s.held -= known.image.Held()
			delete(s.byTag, k)
		}
	}
}

func (s *readers) remember(k tagKey, image *download, now time.Time) {
	if known := s.byTag[k]; known != nil {
		known.last = now
		return
	}
	s.byTag[k] = &revision{image, now}
	s.held += image.Held()
	for len(s.byTag) > 1 && (len(s.byTag) > maxRevisions || s.held > s.maxHeld) {
		s.forgetOldest(k)
	}
}

// forgetOldest drops the revision that was asked for longest ago, but for one.
func (s *readers) forgetOldest(but tagKey) {
	oldest, at := but, time.Time{}
	for k, known := range s.byTag {
		if k != but && (at.IsZero() || known.last.Before(at)) {
			oldest, at = k, known.last
		}
	}
	s.held -= s.byTag[oldest].image.Held()
	delete(s.byTag, oldest)
}

// forgetQuietest drops the readers that were quiet for too long, and the one that was so for
// longest.
func (s *readers) forgetQuietest() {
	var oldest readerKey
	var at time.Time
	now := s.clock.Now()
	for k, known := range s.bound {
		if now.Sub(known.last) > s.hold {
			delete(s.bound, k)
		} else if at.IsZero() || known.last.Before(at) {
			oldest, at = k, known.last
		}
	}
	delete(s.bound, oldest)
}

// asksForPresent tells a download of the whole, which must never get an older image than the
// infra-env's present one.
func asksForPresent(r *http.Request) bool {
	return r.Method == http.MethodGet && len(r.Header["Range"]) == 0
}

// looksFirst tells what clients send before they begin to read.
func looksFirst(r *http.Request) bool {
	ranges := r.Header["Range"]
	return r.Method == http.MethodHead || len(ranges) == 1 && strings.HasPrefix(ranges[0], "bytes=0-")
}

// wantedTag is the one strong tag that a request insists on, or "".
func wantedTag(r *http.Request) string {
	values := r.Header["If-Match"]
	if len(values) == 0 && len(r.Header["Range"]) > 0 {
		values = r.Header["If-Range"]
	}
	if len(values) == 1 && strings.HasPrefix(values[0], `"`) && strings.Count(values[0], `"`) == 2 {
		return values[0]
	}
	return ""
}

// clientOf is the address that a request came from, without the port.
func clientOf(r *http.Request) string {
	if colon := strings.LastIndexByte(r.RemoteAddr, ':'); colon > 0 {
		return strings.Trim(r.RemoteAddr[:colon], "[]")
	}
	return r.RemoteAddr
}
