// Package telescope follows how machines read their discovery images, so that a person sees where a
// boot hangs before any agent can speak: who reads which image of which infra-env, how far he is,
// how fast, and when he stopped.
//
// It is told of ranges that were sent, not of bytes, so that following costs next to nothing; see
// [Read.Sent]. It keeps what it saw in memory, of the clients that read last, and forgets it with
// the process.
package telescope

import (
	"slices"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/isogen"
)

const (
	// maxReads bounds how many reads are kept; one takes about 2 KiB.
	maxReads = 1024
	// sameRead is how long a client may pause; whoever reads the image again later is followed
	// anew.
	sameRead = 30 * time.Minute
	// belongs is how long what a client reads without naming an infra-env (kernel, rootfs) counts
	// for the one it named last.
	belongs = time.Hour
)

// Image is what is read.
type Image struct {
	InfraEnvID string // "" for a boot artifact, which belongs to what its reader read before
	Kind       string // full, minimal, initrd, rootfs, …
	Revision   string // tells one content from another
	Size       int64  // bytes
	Segments   []isogen.Segment
}

// Telescope follows reads. Its methods may be called by many goroutines at once.
type Telescope struct {
	clock clockwork.Clock

	mu    sync.Mutex
	reads map[key]*Read
	last  map[string]owner // by client: the infra-env that it named last
}

type key struct{ client, agent, infraEnvID, kind, revision string }

type owner struct {
	infraEnvID string
	at         time.Time
}

// New returns a telescope that has seen nothing.
func New(clock clockwork.Clock) *Telescope {
	return &Telescope{clock: clock, reads: make(map[key]*Read), last: make(map[string]owner)}
}

// Request notes that a client (its address, and the User-Agent that it sends) asks for a part of an
// image, and returns the read that it belongs to, with true if it is the first request of it. The
// caller tells it of what it sends and calls Done at the end.
func (t *Telescope) Request(client, agent string, image Image) (read *Read, first bool) {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if image.InfraEnvID == "" {
		if o, ok := t.last[client]; ok && now.Sub(o.at) < belongs {
			image.InfraEnvID = o.infraEnvID
		}
	} else {
		t.remember(client, owner{image.InfraEnvID, now})
	}
	k := key{client, agent, image.InfraEnvID, image.Kind, image.Revision}
	read = t.reads[k]
	if read == nil || !read.resume(now) {
		t.makeRoom()
		read, first = newRead(client, agent, image, t.clock, now), true
		t.reads[k] = read
	}
	return read, first
}

func (t *Telescope) remember(client string, o owner) {
	if _, ok := t.last[client]; !ok && len(t.last) >= maxReads {
		oldest, at := "", o.at
		for client, o := range t.last {
			if !o.at.After(at) {
				oldest, at = client, o.at
			}
		}
		delete(t.last, oldest)
	}
	t.last[client] = o
}

// makeRoom drops the read that has been quiet for longest if there are too many.
func (t *Telescope) makeRoom() {
	if len(t.reads) < maxReads {
		return
	}
	var oldest key
	var at time.Time
	for k, read := range t.reads {
		if last := read.lastRead(); at.IsZero() || last.Before(at) {
			oldest, at = k, last
		}
	}
	delete(t.reads, oldest)
}

// Forget drops what is known of an infra-env.
func (t *Telescope) Forget(infraEnvID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range t.reads {
		if k.infraEnvID == infraEnvID {
			delete(t.reads, k)
		}
	}
}

// Reads reports on the reads of an infra-env's images, the one with the latest byte first. A host
// that has registered since a read began (hosts has the times of their registrations) tells that
// its boot went well.
func (t *Telescope) Reads(infraEnvID string, hosts ...time.Time) []Report {
	now := t.clock.Now()
	t.mu.Lock()
	var found []*Read
	for k, read := range t.reads {
		if k.infraEnvID == infraEnvID {
			found = append(found, read)
		}
	}
	t.mu.Unlock()
	reports := make([]Report, 0, len(found))
	for _, read := range found {
		reports = append(reports, read.report(now, hosts))
	}
	slices.SortFunc(reports, func(a, b Report) int {
		if order := b.LastRead.Compare(a.LastRead); order != 0 {
			return order
		}
		return b.FirstRead.Compare(a.FirstRead)
	})
	return reports
}
