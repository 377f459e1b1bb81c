package limit_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access/limit"
)

const stranger, office = "198.51.100.9", "192.0.2.7"

// fail makes a failed attempt as soon as it is allowed, and returns how long it had to wait.
func fail(t *testing.T, l *limit.Limiter, clock *clockwork.FakeClock, keys ...string) time.Duration {
	t.Helper()
	wait, ok := l.Allow(keys...)
	if !ok {
		clock.Advance(wait)
		_, ok = l.Allow(keys...)
	}
	require.True(t, ok, "an attempt is allowed after the wait")
	l.Failed(keys...)
	return wait
}

func TestAllow_waitsGrowAndEnd(t *testing.T) {
	clock := clockwork.NewFakeClock()
	l := limit.New(clock)
	keys := []string{limit.Account("admin"), limit.Address(stranger)}
	var waits []time.Duration
	for range 18 {
		waits = append(waits, fail(t, l, clock, keys...))
	}
	s := time.Second
	require.Equal(t, []time.Duration{0, 0, 0, 0, 0, 1 * s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 64 * s, 128 * s,
		256 * s, 300 * s, 300 * s, 300 * s, 300 * s}, waits)

	_, ok := l.Allow(limit.Account("ADMIN"), limit.Address(office))
	require.False(t, ok, "the account waits at every new address, and however its name is spelled")
	clock.Advance(limit.LongestWait)
	_, ok = l.Allow(limit.Account("admin"), limit.Address(office))
	require.True(t, ok)
}

func TestAllow_failuresAreForgotten(t *testing.T) {
	clock := clockwork.NewFakeClock()
	l := limit.New(clock)
	for range 10 {
		fail(t, l, clock, "setup")
	}
	clock.Advance(limit.Forgotten + time.Second)
	for range limit.FreeOfAccount {
		require.Zero(t, fail(t, l, clock, "setup"))
	}
	require.NotZero(t, fail(t, l, clock, "setup"))
}

func TestSucceeded_forgetsTheFailuresOfTheAccount(t *testing.T) {
	clock := clockwork.NewFakeClock()
	l := limit.New(clock)
	keys := []string{limit.Account("ana"), limit.Address(office)}
	for range 100 {
		for range limit.FreeOfAccount - 1 {
			require.Zero(t, fail(t, l, clock, keys...))
		}
		_, ok := l.Allow(keys...)
		require.True(t, ok)
		l.Succeeded(keys...)
	}
}

// An own account gives no room for attempts on other accounts from the same address.
func TestSucceeded_keepsOtherFailuresOfTheAddress(t *testing.T) {
	clock := clockwork.NewFakeClock()
	l := limit.New(clock)
	free := 0
	for i := range 100 {
		wait, ok := l.Allow(limit.Account(fmt.Sprint("a", i)), limit.Address(stranger))
		if !ok {
			require.NotZero(t, wait)
			break
		}
		free++
		own := []string{limit.Account("own"), limit.Address(stranger)}
		if _, ok := l.Allow(own...); ok {
			l.Succeeded(own...)
		}
	}
	require.Equal(t, limit.FreeOfAddress, free)
}

// Strangers cannot make the owner of an account wait where the owner has logged in before, nor at
// the machine itself.
func TestAllow_strangersDoNotDelayTheOwner(t *testing.T) {
	clock := clockwork.NewFakeClock()
	l := limit.New(clock)
	owner := []string{limit.Account("admin"), limit.Address(office)}
	_, ok := l.Allow(owner...)
	require.True(t, ok)
	l.Succeeded(owner...)
	for range 50 {
		fail(t, l, clock, limit.Account("admin"), limit.Address(stranger))
	}
	_, ok = l.Allow(limit.Account("admin"), limit.Address("203.0.113.5"))
	require.False(t, ok)
	for _, address := range []string{office, "127.0.0.1", "::1", "127.0.0.9"} {
		_, ok = l.Allow(limit.Account("admin"), limit.Address(address))
		require.True(t, ok, address)
	}
	for range limit.FreeOfAccount - 1 { // at the loopback, the attempts above count together
		l.Allow(limit.Account("admin"), limit.Address("::1"))
	}
	_, ok = l.Allow(limit.Account("admin"), limit.Address("::1"))
	require.False(t, ok, "guesses at the loopback wait as well")
}

func TestAllow_attemptsAtTheSameTime(t *testing.T) {
	l := limit.New(clockwork.NewFakeClock())
	var allowed atomic.Int32
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			if _, ok := l.Allow(limit.Account("admin"), limit.Address(stranger)); ok {
				allowed.Add(1)
			}
		})
	}
	group.Wait()
	require.Equal(t, int32(limit.FreeOfAccount), allowed.Load())
}

func TestWithdrawn_doesNotCount(t *testing.T) {
	l := limit.New(clockwork.NewFakeClock())
	keys := []string{limit.Account("admin"), limit.Address(stranger)}
	for range 100 {
		_, ok := l.Allow(keys...)
		require.True(t, ok)
		l.Withdrawn(keys...)
	}
}

func TestAddress(t *testing.T) {
	for name, test := range map[string]struct {
		a, b string
		same bool
	}{
		"two addresses":          {"192.0.2.1", "192.0.2.2", false},
		"one IPv6 network":       {"2001:db8::1", "2001:db8::ffff", true},
		"two IPv6 networks":      {"2001:db8::1", "2001:db8:0:1::1", false},
		"link-local with a zone": {"fe80::1%eth0", "fe80::2", true},
		"IPv4 in IPv6":           {"::ffff:192.0.2.1", "192.0.2.1", true},
		"the loopbacks":          {"127.0.0.1", "::1", true},
		"no addresses":           {"a", "b", false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.same, limit.Address(test.a) == limit.Address(test.b))
		})
	}
}

// A flood of names and addresses takes no memory, and leaves room for others.
func TestAllow_flood(t *testing.T) {
	clock := clockwork.NewFakeClock()
	l := limit.New(clock)
	attempt := 0
	allocated := testing.AllocsPerRun(10_000, func() {
		attempt++
		l.Allow(fmt.Sprint("account ", attempt), fmt.Sprint("address ", attempt))
	})
	require.Less(t, allocated, 10.0)
	_, ok := l.Allow(limit.Account("ana"), limit.Address(office))
	require.True(t, ok)
}

func BenchmarkAllow(b *testing.B) {
	l := limit.New(clockwork.NewRealClock())
	account, address := limit.Account("admin"), limit.Address(stranger)
	b.ReportAllocs()
	for b.Loop() {
		l.Allow(account, address)
	}
}
