package image

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

const (
	// maxReaders limits the number of stored clients; above it, the client with the longest idle
	// time is dropped.
	maxReaders = 4096
	// maxRevisions limits the number of former images that clients can request by their tags.
	maxRevisions = 256
	// maxHeld limits the memory of those images, in bytes.
	maxHeld = 256 << 20
	// idleBeforeRestart is the idle time after which a request that looks like a first one (HEAD,
	// or a range from byte 0) counts as a first one. A client that mounts an image again then
	// receives the current revision.
	idleBeforeRestart = 30 * time.Second
)

// readers stores the revision of an image that each client reads.
// A client is an address with a User-Agent at one path. It receives the revision that is current at
// its first request, and keeps it until it has been idle for the duration hold. A request that
// names a revision by its tag (If-Range, If-Match) receives that revision from any client while it
// is stored.
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
	network             int // index of the network whose URLs the image contains
}

type reader struct {
	image    *download
	last     time.Time
	inRanges time.Time // time of the last range request
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

// pick returns the image for a request, or nil if the client begins with the current image. The
// caller then binds that image.
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
	if known == nil || now.Sub(known.last) > s.hold || wantsCurrent(r) {
		return nil
	}
	if startsReading(r) && (now.Sub(known.last) >= idleBeforeRestart || known.image.Intact() != nil) {
		return nil
	}
	if r.Method == http.MethodHead && known.inRanges.IsZero() {
		return nil // a client that has read nothing yet receives the headers of the current image
	}
	known.touch(now, r)
	return known.image
}

// bind records the image that a client begins to read, and returns the image to send. If the client
// is already reading another image in ranges, bind returns that image.
func (s *readers) bind(k readerKey, r *http.Request, image *download) *download {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.storeRevision(tagKey{k.path, image.ETag(), k.network}, image, now)
	known := s.bound[k]
	inTheMiddle := known != nil && now.Sub(known.inRanges) < idleBeforeRestart && known.image.Intact() == nil
	switch {
	case inTheMiddle && wantsCurrent(r):
		return image // clients that read in ranges under the same key keep their image
	case inTheMiddle:
		known.touch(now, r)
		return known.image
	}
	if known == nil && len(s.bound) >= maxReaders {
		s.dropIdle()
	}
	known = &reader{image: image}
	known.touch(now, r)
	s.bound[k] = known
	return image
}

// touch records that a client is still reading. It is also called at the end of a long response.
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

// drop removes the images of an infra-env.
func (s *readers) drop(infraEnvID string) {
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

func (s *readers) storeRevision(k tagKey, image *download, now time.Time) {
	if known := s.byTag[k]; known != nil {
		known.last = now
		return
	}
	s.byTag[k] = &revision{image, now}
	s.held += image.Held()
	for len(s.byTag) > 1 && (len(s.byTag) > maxRevisions || s.held > s.maxHeld) {
		s.dropOldest(k)
	}
}

// dropOldest drops the least recently requested revision. It never drops the revision with the key
// keep.
func (s *readers) dropOldest(keep tagKey) {
	oldest, at := keep, time.Time{}
	for k, known := range s.byTag {
		if k != keep && (at.IsZero() || known.last.Before(at)) {
			oldest, at = k, known.last
		}
	}
	s.held -= s.byTag[oldest].image.Held()
	delete(s.byTag, oldest)
}

// dropIdle drops the readers that were idle for longer than hold. Of the other readers, it drops
// the one with the longest idle time.
func (s *readers) dropIdle() {
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

// wantsCurrent reports whether a request downloads the whole image. Such a request never receives
// an older revision than the current one.
func wantsCurrent(r *http.Request) bool {
	return r.Method == http.MethodGet && len(r.Header["Range"]) == 0
}

// startsReading reports whether a request looks like the first one of a client.
func startsReading(r *http.Request) bool {
	ranges := r.Header["Range"]
	return r.Method == http.MethodHead || len(ranges) == 1 && strings.HasPrefix(ranges[0], "bytes=0-")
}

// wantedTag returns the single strong tag in the conditions of a request, or "".
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

// clientOf returns the address of the client without the port.
func clientOf(r *http.Request) string {
	if colon := strings.LastIndexByte(r.RemoteAddr, ':'); colon > 0 {
		return strings.Trim(r.RemoteAddr[:colon], "[]")
	}
	return r.RemoteAddr
}
