// Package loginstate seals the state of a login that consists of two requests: to an identity
// provider and back, or a challenge and its answer. The browser keeps the sealed state in a cookie,
// so begun logins take no memory of the appliance.
//
// The key is in memory only. A restart therefore ends all begun logins.
package loginstate

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/fault"
)

// Errors of Open and Spend.
var (
	ErrForeign = fault.New(fault.Forbidden, "the login was not begun in this browser, or the appliance was restarted "+
		"since; begin again")
	ErrExpired = fault.New(fault.Forbidden, "the login took too long; begin again")
	ErrSpent   = fault.New(fault.Forbidden, "this login was already completed; begin again")
)

// Box seals states of one kind of login.
type Box struct {
	aead     cipher.AEAD
	lifetime time.Duration
	clock    clockwork.Clock
	begin    time.Time // Times in states count from here, so that a change of the clock has no effect.

	lock  sync.Mutex
	spent map[ID]time.Duration // completed logins, until their states expire
	swept time.Duration        // the last time at which expired ones were removed
}

// ID identifies a sealed state.
type ID [12]byte

// New returns a box whose states are valid for a time.
func New(lifetime time.Duration, clock clockwork.Clock) (*Box, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("create the key of begun logins: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("create the key of begun logins: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("create the key of begun logins: %w", err)
	}
	return &Box{aead: aead, lifetime: lifetime, clock: clock, begin: clock.Now(), spent: map[ID]time.Duration{}}, nil
}

// Lifetime returns the time for which states are valid.
func (b *Box) Lifetime() time.Duration { return b.lifetime }

// now returns the time since the box was made. It does not follow changes of the machine's clock.
func (b *Box) now() time.Duration { return b.clock.Since(b.begin) }

// Seal encrypts the JSON form of a state. The result can be the value of a cookie.
func (b *Box) Seal(state any) (string, error) {
	text, err := json.Marshal(state)
	if err != nil {
		return "", fmt.Errorf("seal the state of a login: %w", err)
	}
	var id ID
	if _, err := rand.Read(id[:]); err != nil {
		return "", fmt.Errorf("seal the state of a login: %w", err)
	}
	plain := binary.BigEndian.AppendUint64(nil, uint64(b.now()+b.lifetime))
	sealed := b.aead.Seal(id[:], id[:], append(plain, text...), nil)
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// maxState is the maximum length of a sealed state. Browsers keep cookies of up to 4 KiB.
const maxState = 8 << 10

// Open decrypts a sealed state. The state can be opened until Spend is called with its ID.
func (b *Box) Open(sealed string, state any) (ID, error) {
	var id ID
	if len(sealed) > maxState {
		return id, ErrForeign
	}
	coded, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil || len(coded) < len(id) {
		return id, ErrForeign
	}
	copy(id[:], coded)
	plain, err := b.aead.Open(nil, id[:], coded[len(id):], nil)
	if err != nil || len(plain) < 8 {
		return id, ErrForeign
	}
	if b.now() >= time.Duration(binary.BigEndian.Uint64(plain)) {
		return id, ErrExpired
	}
	b.lock.Lock()
	_, spent := b.spent[id]
	b.lock.Unlock()
	if spent {
		return id, ErrSpent
	}
	if err := json.Unmarshal(plain[8:], state); err != nil {
		return id, fmt.Errorf("open the state of a login: %w", err)
	}
	return id, nil
}

// Spend ends a login. Of several calls with one ID, only the first succeeds, so that a login cannot
// be repeated with the messages of a completed one. Only completed logins take memory, and only
// until their states expire.
func (b *Box) Spend(id ID) error {
	b.lock.Lock()
	defer b.lock.Unlock()
	now := b.now()
	if now-b.swept >= b.lifetime/4 {
		b.swept = now
		maps.DeleteFunc(b.spent, func(_ ID, end time.Duration) bool { return now >= end })
	}
	if _, spent := b.spent[id]; spent {
		return ErrSpent
	}
	b.spent[id] = now + b.lifetime
	return nil
}
