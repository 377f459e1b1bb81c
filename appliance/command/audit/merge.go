package audit

import (
	"context"
	"slices"

	"landfall/appliance/audittrail"
)

// maxPage is the largest number of items that the API returns at once.
const maxPage = 1000

// merge reads the records of several trails by time, the newest first. Records of one trail keep
// their order, whatever its clock said.
type merge struct {
	limit int // largest number of records; 0 or less: all
	page  func(ctx context.Context, member string, before uint64, size int) (*audittrail.Page, error)
}

// stream are the records of one trail that were not merged yet.
type stream struct {
	member string
	items  []audittrail.Item
	next   uint64 // of the next page
	ended  bool   // there is no further page
}

// run calls add for each record. It returns the members whose trails could not be read to their
// end. If that is so for all of them, it returns an error.
func (m merge) run(ctx context.Context, members []string, add func(*record) error) (missing away, err error) {
	var streams []*stream
	for _, name := range members {
		streams = append(streams, &stream{member: name})
	}
	for done := 0; m.limit <= 0 || done < m.limit; done++ {
		for _, s := range slices.Clone(streams) {
			err := m.fill(ctx, s, m.limit-done)
			switch {
			case err == nil:
				continue
			case !isAway(err) || len(missing.members)+1 == len(members):
				return missing, err
			}
			missing.add(s.member, err)
			streams = slices.DeleteFunc(streams, func(one *stream) bool { return one == s })
		}
		from := newest(streams)
		if from == nil {
			return missing, nil
		}
		if err := add(&record{from.member, from.items[0]}); err != nil {
			return missing, err
		}
		from.items = from.items[1:]
	}
	return missing, nil
}

// fill reads the next page of a stream without records. left is the number of records that are
// still wanted; 0 or less: all.
func (m merge) fill(ctx context.Context, s *stream, left int) error {
	if len(s.items) > 0 || s.ended {
		return nil
	}
	size := maxPage
	if left > 0 {
		size = min(left, maxPage)
	}
	page, err := m.page(ctx, s.member, s.next, size)
	if err != nil {
		return err
	}
	s.items, s.next, s.ended = page.Items, page.Next, page.Next == 0
	return nil
}

// newest returns the stream with the newest record, or nil if there are no more.
func newest(streams []*stream) (found *stream) {
	for _, s := range streams {
		if len(s.items) > 0 && (found == nil || s.items[0].Time.After(found.items[0].Time)) {
			found = s
		}
	}
	return found
}
