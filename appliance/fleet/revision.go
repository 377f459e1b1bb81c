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

// Stamp returns what puts the revision of a database into answers. The answer of a leader, which
// passes through a follower, keeps the newer revision that it has.
func Stamp(db *store.DB) func(http.Header) {
	return func(header http.Header) {
		if revision := db.Revision(); revision >= RevisionOf(header) {
			header[headerRevision] = []string{strconv.FormatUint(revision, 10)}
		}
	}
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
// up to it. known is false until the present leader has answered: a change may have been made whose
// answer was lost. It is false, too, while etcd does not say who leads: the copy then gets no
// changes.
func (f *Forwarder) Seen() (revision uint64, known bool) {
	heard := f.heard.Load()
	return f.seen.Load(), heard != nil && heard == f.leaders.certain()
}

// see notes the revision in an answer of a leader.
func (f *Forwarder) see(answer *http.Response, of *leader) {
	revision := RevisionOf(answer.Header)
	if revision == 0 {
		return
	}
	for {
		seen := f.seen.Load()
		if revision <= seen || f.seen.CompareAndSwap(seen, revision) {
			break
		}
	}
	f.heard.Store(of)
}
