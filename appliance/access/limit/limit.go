// Package limit limits attempts to log in. After some failures, each further attempt must wait, and
// the waits grow. A wait always ends, so nobody is locked out for good.
//
// The limiter has a fixed size. It counts the failures of each key in a slot of a table. Keys with
// the same hash share a slot, so a key may have to wait for the failures of another one. The hash
// is seeded at the start, so nobody can choose keys that share a slot.
//
// Attempts with a name have the keys of [Account] and [Address]. Attempts with a setup code have
// the key of [Address] only: a common key would let strangers delay the first login.
//
// Design: docs/security.md#attempts-to-log-in.
package limit

import (
	"hash/maphash"
	"net/netip"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/jonboulle/clockwork"
	"golang.org/x/text/unicode/norm"

	"landfall/appliance/access"
)

const (
	// FreeOfAccount is the number of failures of an account, or of a key without a kind, after
	// which attempts must wait.
	FreeOfAccount = 5
	// FreeOfAddress is the number of failures from one address, for all accounts together.
	FreeOfAddress = 20
	// FirstWait is the first wait. Each further failure doubles it.
	FirstWait = time.Second
	// LongestWait is the maximum wait.
	LongestWait = 5 * time.Minute
	// Forgotten is the time without a failure after which the failures of a key are forgotten.
	Forgotten = 30 * time.Minute
)

const (
	slotCount  = 1 << 16
	knownCount = 1 << 12
)

const (
	accountPrefix = "account "
	addressPrefix = "address "
	loopback      = addressPrefix + "loopback"
)

// Account returns the key of an account, however its name is spelled. A name that is not valid has
// the key of its letters and digits, because a directory may ignore the other characters (RFC 4518).
func Account(name string) string {
	parsed, err := access.ParseName(name)
	if err != nil {
		parsed = strings.Map(letterOrDigit, strings.ToLower(norm.NFKC.String(name)))
	}
	return accountPrefix + parsed
}

// letterOrDigit returns -1 for other characters.
func letterOrDigit(char rune) rune {
	if unicode.IsLetter(char) || unicode.IsDigit(char) {
		return char
	}
	return -1
}

// Address returns the key of a client's network address. All addresses of an IPv6 network of 64
// bits have one key, because a client can choose its address there.
func Address(address string) string {
	parsed, err := netip.ParseAddr(address)
	if err != nil {
		return addressPrefix + address
	}
	parsed = parsed.Unmap()
	switch {
	case parsed.IsLoopback():
		return loopback
	case parsed.Is6():
		if network, err := parsed.WithZone("").Prefix(64); err == nil {
			return addressPrefix + network.String()
		}
	}
	return addressPrefix + parsed.String()
}

// Limiter counts failed attempts. Its methods are safe for concurrent use.
type Limiter struct {
	clock   clockwork.Clock
	started time.Time
	seed    maphash.Seed

	mu    sync.Mutex
	slots [slotCount]slot
	// known holds the hashes of pairs of an account and an address, from which the account has
	// logged in. The index of a hash is its remainder.
	known [knownCount]uint64
}

// slot counts the failures of the keys with one hash.
type slot struct {
	failures int
	last     time.Duration // of the last failure, since the limiter's start
}

// New returns a limiter without failures.
func New(clock clockwork.Clock) *Limiter {
	return &Limiter{clock: clock, started: clock.Now(), seed: maphash.MakeSeed()}
}

// Allow reports whether an attempt is allowed now. Otherwise it returns how long the client must
// wait. The keys are those of Account and Address, and any other text for attempts of another kind.
//
// An allowed attempt counts as failed until Succeeded or Withdrawn is called. So the limit also
// holds for attempts at the same time.
func (l *Limiter) Allow(keys ...string) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Since(l.started)
	keys = l.counted(keys)
	for _, key := range keys {
		s := l.slot(key)
		s.forget(now)
		wait = max(wait, s.last+waitAfter(s.failures, free(key))-now)
	}
	if wait > 0 {
		return wait, false
	}
	for _, key := range keys {
		s := l.slot(key)
		s.failures, s.last = s.failures+1, now
	}
	return 0, true
}

// Failed reports that an allowed attempt failed. The wait for the next attempt starts now.
func (l *Limiter) Failed(keys ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Since(l.started)
	for _, key := range l.counted(keys) {
		l.slot(key).last = now
	}
}

// Succeeded reports that an allowed attempt succeeded. It forgets the failures of the account, and
// as many failures of the address. The other failures of the address stay, so that a client with an
// account of its own cannot make room for attempts on other accounts.
func (l *Limiter) Succeeded(keys ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	counted, most := l.counted(keys), 1
	for _, key := range counted {
		if !strings.HasPrefix(key, addressPrefix) {
			s := l.slot(key)
			most = max(most, s.failures)
			s.failures = 0
		}
	}
	for _, key := range counted {
		if strings.HasPrefix(key, addressPrefix) {
			s := l.slot(key)
			s.failures = max(0, s.failures-most)
		}
	}
	if pair, ok := pairOf(keys); ok {
		hash := maphash.String(l.seed, pair)
		l.known[hash%knownCount] = hash
	}
}

// Withdrawn reports that an allowed attempt has neither failed nor succeeded, for example because
// the appliance was too busy.
func (l *Limiter) Withdrawn(keys ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range l.counted(keys) {
		s := l.slot(key)
		s.failures = max(0, s.failures-1)
	}
}

// counted returns the keys whose failures count for an attempt. For an account at the loopback, or
// at an address from which it has logged in, this is the pair of both alone: the failures of
// strangers do not make the account's owner wait.
func (l *Limiter) counted(keys []string) []string {
	pair, ok := pairOf(keys)
	if !ok {
		return keys
	}
	hash := maphash.String(l.seed, pair)
	if strings.HasSuffix(pair, loopback) || l.known[hash%knownCount] == hash {
		return []string{pair}
	}
	return keys
}

// pairOf returns the key of an account at an address. ok is false unless the keys are these two.
func pairOf(keys []string) (pair string, ok bool) {
	if len(keys) != 2 {
		return "", false
	}
	account, address := keys[0], keys[1]
	if strings.HasPrefix(account, addressPrefix) {
		account, address = address, account
	}
	if !strings.HasPrefix(account, accountPrefix) || !strings.HasPrefix(address, addressPrefix) {
		return "", false
	}
	return account + "\x00" + address, true
}

func (l *Limiter) slot(key string) *slot { return &l.slots[maphash.String(l.seed, key)%slotCount] }

func (s *slot) forget(now time.Duration) {
	if now-s.last > Forgotten {
		s.failures = 0
	}
}

func free(key string) int {
	if strings.HasPrefix(key, addressPrefix) {
		return FreeOfAddress
	}
	return FreeOfAccount
}

// waitAfter returns the wait after a number of failures.
func waitAfter(failures, free int) time.Duration {
	if failures < free {
		return 0
	}
	return min(FirstWait<<min(failures-free, 20), LongestWait)
}
