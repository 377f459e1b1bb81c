package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/audittrail"
	"landfall/appliance/command/remote"
)

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// trailOf returns the records of a trail with times in seconds, the newest first.
func trailOf(seconds ...int) (items []audittrail.Item) {
	for i, second := range seconds {
		items = append(items, audittrail.Item{Record: audittrail.Record{Sequence: uint64(len(seconds) - i),
			Time: began.Add(time.Duration(second) * time.Second)}})
	}
	return items
}

// pages returns the pages of trails, as the API does. A request for a page of a member fails if
// fails has an error for it: before the record with the number in the key.
func pages(of map[string][]audittrail.Item, fails map[string]error) func(context.Context, string, uint64, int) (
	*audittrail.Page, error) {
	return func(_ context.Context, member string, before uint64, size int) (*audittrail.Page, error) {
		if err := fails[fmt.Sprint(member, before)]; err != nil {
			return nil, err
		}
		items := slices.DeleteFunc(slices.Clone(of[member]), func(item audittrail.Item) bool {
			return before > 0 && item.Sequence >= before
		})
		page := &audittrail.Page{Items: items[:min(size, len(items))]}
		if len(items) > size {
			page.Next = items[size-1].Sequence
		}
		return page, nil
	}
}

var errGone = &remote.RefusedError{Status: http.StatusServiceUnavailable, Reason: "it is away"}

// run merges the trails of some members, and returns the members and the seconds of the records.
func run(t *testing.T, m merge, members ...string) (got []string, missing []string, err error) {
	t.Helper()
	away, err := m.run(t.Context(), members, func(one *record) error {
		got = append(got, fmt.Sprintf("%s %.0f", one.Member, one.Time.Sub(began).Seconds()))
		return nil
	})
	return got, away.members, err
}

func TestMerge(t *testing.T) {
	for name, test := range map[string]struct {
		trails map[string][]audittrail.Item
		limit  int
		fails  map[string]error
		want   []string // member and second
		away   []string
	}{
		"a single machine": {trails: map[string][]audittrail.Item{"": trailOf(3, 2, 1)},
			want: []string{" 3", " 2", " 1"}},
		"by time": {trails: map[string][]audittrail.Item{"a": trailOf(9, 2, 1), "b": trailOf(7, 5), "c": trailOf(8)},
			want: []string{"a 9", "c 8", "b 7", "b 5", "a 2", "a 1"}},
		"the newest ones": {trails: map[string][]audittrail.Item{"a": trailOf(9, 2, 1), "b": trailOf(7, 5)}, limit: 3,
			want: []string{"a 9", "b 7", "b 5"}},
		"equal times, in the order of the names": {
			trails: map[string][]audittrail.Item{"a": trailOf(2, 1), "b": trailOf(2, 1)},
			want:   []string{"a 2", "b 2", "a 1", "b 1"}},
		"a clock that was set back does not change the order of a trail": {
			trails: map[string][]audittrail.Item{"a": trailOf(3, 9, 1), "b": trailOf(5)},
			want:   []string{"b 5", "a 3", "a 9", "a 1"}},
		"a trail without records": {trails: map[string][]audittrail.Item{"a": nil, "b": trailOf(1)},
			want: []string{"b 1"}},
		"no records": {trails: map[string][]audittrail.Item{"a": nil, "b": nil}},
		"a member is away": {trails: map[string][]audittrail.Item{"a": trailOf(9), "b": trailOf(5), "c": trailOf(7)},
			fails: map[string]error{"b0": errGone}, want: []string{"a 9", "c 7"}, away: []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, missing, err := run(t, merge{limit: test.limit, page: pages(test.trails, test.fails)},
				slices.Sorted(maps.Keys(test.trails))...)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
			require.Equal(t, test.away, missing)
		})
	}
}

func TestMerge_readsAllPages(t *testing.T) {
	odd, even := []int{}, []int{}
	for second := 6*maxPage + 1; second > 0; second -= 2 {
		odd, even = append(odd, second), append(even, second-1)
	}
	trails := map[string][]audittrail.Item{"a": trailOf(odd...), "b": trailOf(even...)}
	got, missing, err := run(t, merge{page: pages(trails, nil)}, "a", "b")
	require.NoError(t, err)
	require.Empty(t, missing)
	require.Len(t, got, 6*maxPage+2)
	for i, one := range got {
		require.Equal(t, fmt.Sprintf("%s %d", []string{"a", "b"}[i%2], 6*maxPage+1-i), one)
	}

	second := trails["b"][maxPage-1].Sequence // the number before which the second page begins
	got, missing, err = run(t, merge{page: pages(trails, map[string]error{fmt.Sprint("b", second): errGone})}, "a", "b")
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, missing, "it goes away after its first page")
	require.Len(t, got, 3*maxPage+1+maxPage)
}

func TestMerge_fails(t *testing.T) {
	trails := map[string][]audittrail.Item{"a": trailOf(2), "b": trailOf(1)}
	_, _, err := run(t, merge{page: pages(trails, map[string]error{"a0": errGone, "b0": errGone})}, "a", "b")
	require.ErrorIs(t, err, errGone, "all members are away")
	_, _, err = run(t, merge{page: pages(trails, map[string]error{"a0": errGone})}, "a")
	require.ErrorIs(t, err, errGone, "the only one that is wanted")
	refused := errors.New("the caller is no administrator")
	_, _, err = run(t, merge{page: pages(trails, map[string]error{"b0": refused})}, "a", "b")
	require.ErrorIs(t, err, refused)
}

func TestDamage_namedOnce(t *testing.T) {
	var d damage
	require.NoError(t, d.err())
	part := audittrail.Unread{File: "1.jsonl", From: 4096, To: 8192, Reason: "input/output error"}
	for range 2 {
		d.add("", []audittrail.Unread{part})
		d.add("two", []audittrail.Unread{part})
	}
	require.EqualError(t, d.err(), "the records in damaged parts of the audit trail are not shown: the bytes 4096 to "+
		"8191 of 1.jsonl can't be read (input/output error); at the member two, the bytes 4096 to 8191 of 1.jsonl "+
		"can't be read (input/output error); replace the disk, and look for these records in an export, a backup or "+
		"at the receiver of audit.syslog")
}
