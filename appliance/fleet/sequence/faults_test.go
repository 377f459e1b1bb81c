//go:build etcd

package sequence

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"landfall/appliance/fleet/etcdtest"
	"landfall/store/wal"
)

func TestCampaign_nextLeaderAfterClose(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	s := created(t, server.URL())
	first := lead(t, s, "a")
	require.NoError(t, first.Append(t.Context(), 1, []byte("one")))
	won := make(chan *Leadership)
	go func() {
		second, err := open(t, server.URL()).Campaign(t.Context(), Member{ID: "b"})
		if err == nil {
			won <- second
		}
	}()
	leader, err := s.Leader(t.Context())
	require.NoError(t, err)
	require.Equal(t, "a", leader.Member.ID)
	first.Close()
	second := <-won
	defer second.Close()
	require.Equal(t, uint64(1), second.Head().Number)
	require.ErrorAs(t, first.Append(t.Context(), 2, []byte("two")), new(*wal.RefusedError))
	require.NoError(t, second.Append(t.Context(), 2, []byte("two of b")))
	require.Equal(t, []string{"one", "two of b"}, contents(t, s, Position{}))
}

func TestAppend_formerLeaderIsRefused(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	s := created(t, server.URL())
	first := lead(t, s, "a")
	require.Positive(t, first.Remaining())
	require.Less(t, first.Remaining(), s.Lease, "some of it is left for clocks of different speeds")
	_, err := s.client.Revoke(t.Context(), first.leaseID)
	require.NoError(t, err)
	second := lead(t, open(t, server.URL()), "b")
	require.NoError(t, second.Append(t.Context(), 1, []byte("of b")))

	var refused *wal.RefusedError
	require.ErrorAs(t, first.Append(t.Context(), 1, []byte("of a")), &refused)
	require.ErrorAs(t, refused, new(*LostError))
	<-first.Done()
	require.False(t, first.Leads())
	require.Zero(t, first.Remaining())
	require.Equal(t, []string{"of b"}, contents(t, s, Position{}))
}

// A record that is not in the log any more may be that of the former leader.
func TestAppend_unknownAfterCompaction(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	s := created(t, server.URL())
	first := lead(t, s, "a")
	require.Positive(t, first.Remaining())
	require.Less(t, first.Remaining(), s.Lease, "some of it is left for clocks of different speeds")
	_, err := s.client.Revoke(t.Context(), first.leaseID)
	require.NoError(t, err)
	second := lead(t, open(t, server.URL()), "b")
	require.NoError(t, second.Append(t.Context(), 1, []byte("one")))
	require.NoError(t, second.Append(t.Context(), 2, []byte("two")))
	require.NoError(t, second.Compact(t.Context(), Kept{After: 1, Most: 1 << 20}))

	require.ErrorAs(t, first.Append(t.Context(), 1, []byte("one")), new(*UnknownError))
	<-first.Done()
	require.Equal(t, []string{"two"}, contents(t, s, Position{Number: 1}))
}

// An answer that is lost is found in the log.
func TestAppend_lostAnswerIsRepeated(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	line := etcdtest.NewLine(t, server.Address)
	s := created(t, "http://"+line.Address)
	leader := lead(t, s, "a")
	for i := range uint64(5) {
		line.Silence(false, true)
		timer := time.AfterFunc(50*time.Millisecond, line.Break)
		require.NoError(t, leader.Append(t.Context(), i+1, []byte("record")))
		timer.Stop()
	}
	require.Len(t, contents(t, s, Position{}), 5)
}

func TestAppend_unknownWhileEtcdIsAway(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	line := etcdtest.NewLine(t, server.Address)
	s := created(t, "http://"+line.Address)
	leader := lead(t, s, "a")
	line.Silence(false, true) // the request arrives, its answer does not
	began := time.Now()
	require.ErrorAs(t, leader.Append(t.Context(), 1, []byte("one")), new(*UnknownError))
	require.Less(t, time.Since(began), 20*shortLease, "it does not wait until etcd is back")
	<-leader.Done()
	require.ErrorAs(t, leader.Err(), new(*LostError))
	require.Equal(t, []string{"one"}, contents(t, open(t, server.URL()), Position{}))
	line.Mend()
}

func TestAppend_largeRecordGoesInParts(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	s := created(t, server.URL())
	leader := lead(t, s, "a")
	large := strings.Repeat("0123456789abcdef", 200_000) // 3.2 MB
	require.NoError(t, leader.Append(t.Context(), 1, []byte(large)))
	require.NoError(t, leader.Append(t.Context(), 2, []byte("small")))
	require.Equal(t, []string{large, "small"}, contents(t, s, Position{}))
	require.NoError(t, leader.Compact(t.Context(), Kept{After: 1, Most: 1 << 30}))
	parts, err := s.get(t.Context(), s.Prefix+"parts/")
	require.NoError(t, err)
	require.Empty(t, parts.Kvs)
	require.ErrorAs(t, s.Follow(t.Context(), Position{}, nil), new(*CompactedError))
	require.Equal(t, []string{"small"}, contents(t, s, Position{Number: 1}))
}

func TestFleet_isIdentified(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	s := open(t, server.URL())
	ctx := t.Context()
	_, err := s.Fleet(ctx)
	require.ErrorAs(t, err, new(*NoFleetError))
	require.NoError(t, s.Create(ctx, "fleet-1", Position{Number: 7, Digest: 8}))
	require.NoError(t, s.Create(ctx, "fleet-1", Position{Number: 7, Digest: 8}), "the answer was lost")
	require.ErrorAs(t, s.Create(ctx, "fleet-2", Position{}), new(*ExistsError))
	head, err := s.Head(ctx)
	require.NoError(t, err)
	require.Equal(t, Position{Number: 7, Digest: 8}, head)

	other := open(t, server.URL(), func(o *Options) { o.Fleet = "fleet-2" })
	_, err = other.Campaign(ctx, Member{})
	require.ErrorAs(t, err, new(*OtherFleetError))
	require.ErrorAs(t, other.Follow(ctx, Position{}, nil), new(*OtherFleetError))
	_, err = other.Join(ctx, Member{})
	require.ErrorAs(t, err, new(*OtherFleetError))

	require.ErrorAs(t, s.Follow(ctx, Position{Number: 9}, nil), new(*OlderError))
	require.ErrorAs(t, s.Follow(ctx, Position{Number: 7, Digest: 9}, nil), new(*DivergedError))
	require.ErrorIs(t, s.Remove(ctx, "a"), ErrNotLeading)
	leader, err := s.Campaign(ctx, Member{ID: "a"})
	require.NoError(t, err)
	defer leader.Close()
	require.ErrorIs(t, s.Remove(ctx, "b"), ErrNotLeading, "another member leads")
	require.NoError(t, s.Remove(ctx, "a"))
	_, err = s.Fleet(ctx)
	require.ErrorAs(t, err, new(*NoFleetError))
	own := open(t, server.URL(), func(o *Options) { o.Fleet = "fleet-1" })
	_, err = own.Fleet(ctx)
	require.ErrorAs(t, err, new(*NoFleetError))
	require.Equal(t, "a", EndedBy(err))
	require.Equal(t, "a", EndedBy(own.Follow(ctx, Position{}, nil)))
	_, err = other.Fleet(ctx)
	require.Empty(t, EndedBy(err), "nobody has ended it")
	left, err := s.client.Get(ctx, s.Prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	require.NoError(t, err)
	require.Len(t, left.Kvs, 1)
	require.Equal(t, s.Prefix+"ended/fleet-1", string(left.Kvs[0].Key))
	require.NoError(t, other.Create(ctx, "fleet-2", Position{}))
	_, err = own.Fleet(ctx)
	require.ErrorAs(t, err, new(*OtherFleetError))
	require.Equal(t, "a", EndedBy(err))
	require.NoError(t, own.ForgetEnd(ctx))
	_, err = own.Fleet(ctx)
	require.Empty(t, EndedBy(err))
}

func TestMembers_disappearWhenSilent(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	line := etcdtest.NewLine(t, server.Address)
	s := created(t, server.URL())
	silent, err := open(t, "http://"+line.Address).Join(t.Context(), Member{ID: "a", URL: "https://a"})
	require.NoError(t, err)
	b, err := s.Join(t.Context(), Member{ID: "b", Applied: 1})
	require.NoError(t, err)
	require.NoError(t, b.Update(t.Context(), Member{ID: "b", Applied: 2}))
	ids := func() (ids []string) {
		members, err := s.Members(t.Context())
		require.NoError(t, err)
		for _, m := range members {
			ids = append(ids, m.ID)
		}
		return ids
	}
	require.Equal(t, []string{"a", "b"}, ids())
	line.Cut()
	require.Eventually(t, func() bool { return len(ids()) == 1 }, time.Minute, 50*time.Millisecond)
	line.Mend()
	require.Eventually(t, func() bool { return len(ids()) == 2 }, time.Minute, 50*time.Millisecond)
	silent.Leave()
	b.Leave()
	require.Empty(t, ids())
}

func TestLeaders_areReported(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	s := created(t, server.URL())
	seen := make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- s.Leaders(ctx, func(l *Leader) {
			switch {
			case l == nil:
				seen <- ""
			case !l.Since.IsZero():
				seen <- l.Member.ID
			}
		})
	}()
	require.Empty(t, <-seen)
	first := lead(t, open(t, server.URL()), "a")
	require.Equal(t, "a", <-seen)
	first.Close()
	require.Empty(t, <-seen)
	second := lead(t, open(t, server.URL()), "b")
	require.Equal(t, "b", <-seen)
	second.Close()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// etcd forgets removed records only where it has no keys of others.
func TestCompact_etcdForgets(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		server := etcdtest.Start(t, etcdtest.Options{})
		s := created(t, server.URL())
		if shared {
			_, err := s.client.Put(t.Context(), "/registry/pods/a", "")
			require.NoError(t, err)
		}
		leader := lead(t, s, "a")
		for number := uint64(1); number <= 5; number++ {
			require.NoError(t, leader.Append(t.Context(), number, []byte("record")))
		}
		before, err := s.client.Get(t.Context(), s.headKey())
		require.NoError(t, err)
		require.NoError(t, leader.Compact(t.Context(), Kept{After: 5, Least: 3 * 6, Most: 1 << 20}),
			"three records are kept for members that come back")
		require.Equal(t, []string{"record", "record", "record"}, contents(t, s, Position{Number: 2}))
		require.NoError(t, leader.Compact(t.Context(), Kept{After: 3, Most: 1 << 20}))
		_, err = s.client.Get(t.Context(), s.headKey(), clientv3.WithRev(before.Header.Revision))
		if shared {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, rpctypes.ErrCompacted)
		}
		require.Equal(t, []string{"record", "record"}, contents(t, s, Position{Number: 3}))
		require.NoError(t, leader.Compact(t.Context(), Kept{After: 0, Most: 6}), "one record is kept")
		require.Equal(t, []string{"record"}, contents(t, s, Position{Number: 4}))
		require.ErrorAs(t, s.Follow(t.Context(), Position{Number: 3}, nil), new(*CompactedError))
	}
}
