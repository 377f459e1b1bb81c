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

// Wanted returns the newest revision that a client has seen: that of an answer or, in a browser, of
// the last event of the live feed. It is 0 without one.
func Wanted(r *http.Request) uint64 {
	event, err := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64)
	if err != nil {
		event = 0
	}
	return max(RevisionOf(r.Header), event)
}

// Current precedes the handler of a leader. A follower may have applied a record, and shown it to
// a client, before the leader learns that etcd has the record. A request of such a client waits
// until the leader has it, too.
func Current(db *store.DB, refuse Refuse, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if Wanted(r) > db.Revision() {
			// An update ends after the commits that it may have read. It fails with the last of
			// them, which may be a later one than that of the client: etcd refuses it if full.
			err := db.Update(r.Context(), func(*store.Tx) error { return nil })
			if err != nil && Wanted(r) > db.Revision() {
				refuseAsFollower(w, r, refuse) // it is about to end its leadership, or the client has gone
				return
			}
		}
		handler.ServeHTTP(w, r)
	})
}

// Inform precedes the forwarder of a follower. It tells the leader the revision of the copy, which
// this member may have shown to the client. Polls need no revision.
func Inform(db *store.DB, forward http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if revision := db.Revision(); !isPoll(r) && revision > RevisionOf(r.Header) {
			r.Header.Set(headerRevision, strconv.FormatUint(revision, 10))
		}
		forward.ServeHTTP(w, r)
	})
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
