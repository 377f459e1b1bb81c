// Package progress records how far machines have read their discovery images: the client, the
// image, the position, the speed and the time of the last byte. It shows where a boot stops before
// an agent can report.
// Callers report sent ranges and not single bytes, so recording is cheap; see [Read.Sent]. The
// records of the most recent clients are in memory only.
package progress

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/isogen"
)

const (
	// maxReads limits the number of recorded reads; each takes about 2 KiB.
	maxReads = 1024
	// sameRead is the longest pause within one read. A client that reads the image again later
	// starts a new read.
	sameRead = 30 * time.Minute
	// ownership is the time for which a client's boot artifacts without an infra-env (kernel,
	// rootfs) count for the infra-env of its last boot script.
	ownership = time.Hour
)

// Image describes the image of a read.
type Image struct {
	InfraEnvID string // "" for a boot artifact, which belongs to the infra-env that its client requested last
	Kind       string // full, minimal, initrd, rootfs, …
	Revision   string // changes with the content
	Size       int64  // bytes
	Segments   []isogen.Segment
}

// Recorder records reads. It is safe for concurrent use.
type Recorder struct {
	clock clockwork.Clock

	mu    sync.Mutex
	reads map[key]*Read
	last  map[string]owner // by client: the infra-env that it requested last
}

type key struct {
	client, agent, infraEnvID, kind, revision string
	number                                    int // of the read among those at the same time
}

type owner struct {
	infraEnvID string
	at         time.Time
}

// NewRecorder returns a recorder without reads.
func NewRecorder(clock clockwork.Clock) *Recorder {
	return &Recorder{clock: clock, reads: make(map[key]*Read), last: make(map[string]owner)}
}

// Request records that a client (its address and its User-Agent) requests an image: a part of it,
// or all of it. One machine requests all of an image once at a time, so such a request during
// another one is of another machine behind the same address, and has its own read. Request returns
// the read of the request, and true if the request starts the read. The caller reports sent
// bytes with [Read.Sent] and calls [Read.Done] at the end.
func (r *Recorder) Request(client, agent string, image Image, all bool) (read *Read, first bool) {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if image.InfraEnvID == "" {
		if o, ok := r.last[client]; ok && now.Sub(o.at) < ownership {
			image.InfraEnvID = o.infraEnvID
		}
	} else {
		r.setOwner(client, owner{image.InfraEnvID, now})
	}
	k := key{client, agent, image.InfraEnvID, image.Kind, image.Revision, 0}
	for read = r.reads[k]; all && read != nil && read.sendsAll(); read = r.reads[k] {
		k.number++
	}
	if read == nil || !read.resume(now, all) {
		r.makeRoom()
		read, first = newRead(client, agent, image, r.clock, now), true
		read.all = all
		r.reads[k] = read
	}
	return read, first
}

func (r *Recorder) setOwner(client string, o owner) {
	if _, ok := r.last[client]; !ok && len(r.last) >= maxReads {
		oldest, at := "", o.at
		for client, o := range r.last {
			if !o.at.After(at) {
				oldest, at = client, o.at
			}
		}
		delete(r.last, oldest)
	}
	r.last[client] = o
}

// makeRoom drops the read with the oldest last byte if there are too many reads.
func (r *Recorder) makeRoom() {
	if len(r.reads) < maxReads {
		return
	}
	var oldest key
	var at time.Time
	for k, read := range r.reads {
		if last := read.lastRead(); at.IsZero() || last.Before(at) {
			oldest, at = k, last
		}
	}
	delete(r.reads, oldest)
}

// DropInfraEnv drops the reads of an infra-env.
func (r *Recorder) DropInfraEnv(infraEnvID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.reads {
		if k.infraEnvID == infraEnvID {
			delete(r.reads, k)
		}
	}
}

// Reads reports the reads of an infra-env's images; the read with the most recent byte comes first.
// hosts are the registration times of the infra-env's hosts: a registration after the start of a
// read proves that the boot succeeded.
func (r *Recorder) Reads(infraEnvID string, hosts ...time.Time) []Report {
	now := r.clock.Now()
	r.mu.Lock()
	var found []*Read
	for k, read := range r.reads {
		if k.infraEnvID == infraEnvID {
			found = append(found, read)
		}
	}
	r.mu.Unlock()
	reports := make([]Report, 0, len(found))
	for _, read := range found {
		reports = append(reports, read.report(now, hosts))
	}
	slices.SortFunc(reports, Report.Compare)
	return reports
}

// InfraEnvs returns the infra-envs whose images were read.
func (r *Recorder) InfraEnvs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := make(map[string]bool)
	for k := range r.reads {
		if k.infraEnvID != "" {
			found[k.infraEnvID] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
