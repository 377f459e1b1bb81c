//go:build etcd

package sequence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fleet/etcdtest"
	"landfall/store/wal"
)

// shortLease is the shortest lease that these servers grant.
const shortLease = time.Second

// open returns a sequence at a server.
func open(t testing.TB, address string, change ...func(*Options)) *Sequence {
	t.Helper()
	options := Options{Endpoints: []string{address}, Prefix: prefix(t), Clock: clockwork.NewRealClock(),
		Lease: shortLease}
	for _, c := range change {
		c(&options)
	}
	s, err := Open(options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// prefix gives each test its own keys in the same server.
func prefix(t testing.TB) string { return "/" + strings.ReplaceAll(t.Name(), "/", "-") + "/" }

// created returns a sequence with a new fleet.
func created(t testing.TB, address string, change ...func(*Options)) *Sequence {
	t.Helper()
	s := open(t, address, change...)
	require.NoError(t, s.Create(t.Context(), "fleet-1", Position{}))
	return s
}

func lead(t testing.TB, s *Sequence, name string) *Leadership {
	t.Helper()
	l, err := s.Campaign(t.Context(), Member{ID: name})
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return l
}

// leadSoon is lead for an etcd that was away.
func leadSoon(t testing.TB, s *Sequence, name string) *Leadership {
	t.Helper()
	for {
		l, err := s.Campaign(t.Context(), Member{ID: name})
		if err == nil {
			t.Cleanup(l.Close)
			return l
		}
		require.ErrorAs(t, err, new(*UnreachableError))
	}
}

// contents reads the whole log.
func contents(t testing.TB, s *Sequence, after Position) []string {
	t.Helper()
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	var list []string
	if head.Number == after.Number {
		return nil
	}
	done := errors.New("done")
	err = s.Follow(t.Context(), after, func(records []wal.Record) error {
		for _, r := range records {
			require.Equal(t, after.Number+uint64(len(list))+1, r.Number)
			list = append(list, string(r.Operations))
		}
		if records[len(records)-1].Number >= head.Number {
			return done
		}
		return nil
	})
	require.ErrorIs(t, err, done)
	return list
}

func TestAppend_followersGetRecordsInOrder(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	s := created(t, server.URL())
	leader := lead(t, s, "a")
	require.Equal(t, Position{}, leader.Head())

	got := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- open(t, server.URL()).Follow(ctx, Position{}, func(records []wal.Record) error {
			for _, r := range records {
				got <- fmt.Sprint(r.Number, " ", string(r.Operations))
			}
			return nil
		})
	}()
	for i := range uint64(50) {
		require.NoError(t, leader.Append(t.Context(), i+1, fmt.Append(nil, "record ", i+1)))
		require.Equal(t, fmt.Sprint(i+1, " record ", i+1), <-got)
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Len(t, contents(t, s, Position{}), 50)
	require.Equal(t, []string{"record 50"}, contents(t, s, Position{Number: 49}))
}
