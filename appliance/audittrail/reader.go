package audittrail

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/sitekey"
	"landfall/store"
)

// Reader reads the files of a trail that it does not write, such as that of a follower of a fleet.
// A [Trail] of the same process may write them meanwhile. A reader sees what the files have at each
// call, without a record whose write was not completed. The outcome of an operation without an end
// is unknown.
type Reader struct {
	Dir   string // the trail's directory; without one, the trail has no records
	Key   *sitekey.Key
	Clock clockwork.Clock
	// DB has the heads of the trails of all members of a fleet, and Member names this trail there.
	// nil: no head is known.
	DB     *store.DB
	Member string
}

// List does the same as [Trail.List].
func (r Reader) List(ctx context.Context, filter Filter) (*Page, error) {
	return listContents(ctx, r.readable, filter)
}

// readable returns the contents with damaged files that are newer than the newest record whose
// signature can be read.
func (r Reader) readable(after uint64) (contents, error) {
	head, tail, unread, err := newestReadable(r.Dir)
	if err != nil || unread == nil {
		return r.contents(after)
	}
	var found contents
	if tail != (source{}) {
		if found, err = contentsUntil(r.Dir, head, tail, after); err != nil {
			return contents{}, err
		}
	}
	found.ended = true
	paths, err := segmentPaths(r.Dir)
	for _, path := range paths {
		if tail != (source{}) && firstOf(path) <= firstOf(tail.path) {
			continue
		}
		damaged, statErr := damagedSource(path)
		found.sources, err = append(found.sources, damaged), errors.Join(err, statErr)
	}
	return found, err
}

// Verify does the same as [Trail.Verify]. Without a database, the caller gives the head of the
// store as one of those that are expected.
func (r Reader) Verify(ctx context.Context, expect Expect) (*Report, error) {
	kept, err := r.Kept(r.Member)
	if err != nil {
		return nil, err
	}
	expect.Heads = append(slices.Clone(expect.Heads), kept)
	return verifyContents(ctx, r.Dir, r.contents, expect, r.Key)
}

// Export does the same as [Trail.Export].
func (r Reader) Export(ctx context.Context, w io.Writer, after uint64) error {
	return exportContents(ctx, r.contents, w, after, signer{r.Key, r.Clock.Now().UTC()})
}

// Kept does the same as [Trail.Kept].
func (r Reader) Kept(member string) (Head, error) {
	if r.DB == nil {
		return Head{}, nil
	}
	return keptHead(r.DB, member)
}

// Head returns the number and the hash of the newest record.
func (r Reader) Head() Head {
	head, _, err := newest(r.Dir)
	if err != nil { // a reading of the records has the error
		return Head{}
	}
	return head
}

// contents implements readContents.
func (r Reader) contents(after uint64) (contents, error) {
	head, tail, err := newest(r.Dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && tail == (source{}) {
		return contents{}, nil
	}
	if err != nil {
		return contents{}, err
	}
	found, err := contentsUntil(r.Dir, head, tail, after)
	found.ended = true
	return found, err
}
