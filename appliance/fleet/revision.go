package fleet

import (
	"net/http"
	"strconv"

	"landfall/store"
)

// headerRevision is the header with a revision of the database, which is the same on all members.
// An answer contains nothing newer. A member answers a request with this header when it has the
// changes up to the revision.
const headerRevision = "Landfall-Revision"

// Stamp returns what puts the revision of a database into answers.
func Stamp(db *store.DB) func(http.Header) {
	return func(header http.Header) { header[headerRevision] = []string{strconv.FormatUint(db.Revision(), 10)} }
}

// RevisionOf returns the revision in headers, or 0.
func RevisionOf(header http.Header) uint64 {
	revision, err := strconv.ParseUint(header.Get(headerRevision), 10, 64)
	if err != nil {
		return 0
	}
	return revision
}

// Seen returns the newest revision in an answer that passed here. A client may know of the changes
// up to it.
func (f *Forwarder) Seen() uint64 { return f.seen.Load() }

// see notes the revision in an answer of the leader.
func (f *Forwarder) see(answer *http.Response) {
	revision := RevisionOf(answer.Header)
	for {
		seen := f.seen.Load()
		if revision <= seen || f.seen.CompareAndSwap(seen, revision) {
			return
		}
	}
}
