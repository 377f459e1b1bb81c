// Package seal encrypts values with the data keys of a data directory.
//
// The cipher is AES-256-GCM with random nonces. A Ring derives a separate cipher key for each
// session, which is an opening of the ring or 2^30 values. So the number of values is not limited
// by the length of the nonce. A sealed value has these parts:
//
//	number of the data key (uvarint), session (8 bytes), nonce (12), ciphertext, tag (16)
//
// The context of a value, such as its key in the store, is authenticated but not stored. So a value
// that is moved to another place can't be opened.
//
// Design: docs/design.md#sealed-values.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// KeySize is the size of a data key in bytes.
const KeySize = 32

const (
	sessionSize = 8
	nonceSize   = 12
	tagSize     = 16
	// sessionValues is the number of values that are sealed in one session. NIST SP 800-38D allows
	// 2^32 random nonces for each cipher key.
	sessionValues = 1 << 30
)

// ErrOpen reports that a value was sealed with another key or in another context, or was altered.
var ErrOpen = errors.New("the value was sealed with another key, or it is damaged")

// Key is a data key. Its number tells it from the other keys of a ring.
type Key struct {
	Number uint64 `json:"number"` // from 1
	Secret []byte `json:"secret"` // KeySize bytes
}

// NewKey returns a random key.
func NewKey(number uint64) Key {
	secret := make([]byte, KeySize)
	rand.Read(secret) // never fails: see crypto/rand
	return Key{number, secret}
}

// Ring holds data keys. The newest key seals, all keys open. Its methods are safe for concurrent
// use.
type Ring struct {
	state atomic.Pointer[state]
	mu    sync.Mutex // held while state is replaced
}

type state struct {
	keys     []Key // the newest last
	sessions *sync.Map
	current  *session
}

type session struct {
	head   []byte // number of the data key, session
	aead   cipher.AEAD
	sealed atomic.Int64
}

// NewRing returns a ring with keys in the order of their numbers.
func NewRing(keys ...Key) (*Ring, error) {
	r := new(Ring)
	return r, r.set(keys, new(sync.Map))
}

func (r *Ring) set(keys []Key, sessions *sync.Map) error {
	if len(keys) == 0 {
		return errors.New("there is no data key")
	}
	for i, key := range keys {
		if len(key.Secret) != KeySize || key.Number == 0 || i > 0 && key.Number <= keys[i-1].Number {
			return fmt.Errorf("data key %d is not valid", key.Number)
		}
	}
	next := &state{keys: keys, sessions: sessions}
	newest := keys[len(keys)-1]
	head := binary.AppendUvarint(nil, newest.Number)
	at := len(head)
	head = append(head, make([]byte, sessionSize)...)
	rand.Read(head[at:])
	aead, err := newest.cipher(head[at:])
	if err != nil {
		return err
	}
	next.current = &session{head: head, aead: aead}
	sessions.Store(string(head), aead)
	r.state.Store(next)
	return nil
}

// cipher returns the cipher of a session.
func (k Key) cipher(session []byte) (cipher.AEAD, error) {
	secret, err := hkdf.Key(sha256.New, k.Secret, session, "landfall data", KeySize)
	if err != nil {
		return nil, fmt.Errorf("derive a key from data key %d: %w", k.Number, err)
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Add adds a key, which seals from now on.
func (r *Ring) Add(key Key) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.state.Load()
	return r.set(append(slices.Clone(now.keys), key), now.sessions)
}

// Keys returns the keys, the newest last.
func (r *Ring) Keys() []Key { return slices.Clone(r.state.Load().keys) }

// Current returns the number of the key that seals.
func (r *Ring) Current() uint64 {
	keys := r.state.Load().keys
	return keys[len(keys)-1].Number
}

// Overhead is the maximum number of bytes by which sealing makes a value longer.
const Overhead = binary.MaxVarintLen64 + sessionSize + nonceSize + tagSize

// Seal appends a sealed value to a buffer.
func (r *Ring) Seal(to, plain, context []byte) ([]byte, error) {
	s, err := r.session()
	if err != nil {
		return nil, err
	}
	to = append(to, s.head...)
	at := len(to)
	to = append(to, make([]byte, nonceSize)...)
	rand.Read(to[at:])
	return s.aead.Seal(to, to[at:at+nonceSize], plain, context), nil
}

// session returns the session for the next value.
func (r *Ring) session() (*session, error) {
	s := r.state.Load().current
	if s.sealed.Add(1) < sessionValues {
		return s, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.state.Load(); now.current == s {
		if err := r.set(now.keys, now.sessions); err != nil {
			return nil, err
		}
	}
	return r.state.Load().current, nil
}

// Open returns the clear value. Its error is ErrOpen.
func (r *Ring) Open(sealed, context []byte) ([]byte, error) { return r.OpenTo(nil, sealed, context) }

// OpenTo does the same as Open, and uses the memory of a slice if it is large enough.
func (r *Ring) OpenTo(to, sealed, context []byte) ([]byte, error) {
	number, n := binary.Uvarint(sealed)
	if n <= 0 || len(sealed) < n+sessionSize+nonceSize+tagSize {
		return nil, ErrOpen
	}
	head, rest := sealed[:n+sessionSize], sealed[n+sessionSize:]
	aead, err := r.opener(number, head, head[n:])
	if err != nil {
		return nil, err
	}
	to = slices.Grow(to[:0], len(rest)-nonceSize-tagSize)
	plain, err := aead.Open(to, rest[:nonceSize], rest[nonceSize:], context)
	if err != nil {
		return nil, ErrOpen
	}
	return plain, nil
}

// opener returns the cipher of a session, possibly of an earlier process.
func (r *Ring) opener(number uint64, head, session []byte) (cipher.AEAD, error) {
	now := r.state.Load()
	if string(head) == string(now.current.head) {
		return now.current.aead, nil
	}
	if known, ok := now.sessions.Load(string(head)); ok {
		return known.(cipher.AEAD), nil
	}
	for _, key := range now.keys {
		if key.Number != number {
			continue
		}
		aead, err := key.cipher(session)
		if err != nil {
			return nil, err
		}
		now.sessions.Store(string(head), aead)
		return aead, nil
	}
	return nil, ErrOpen
}

// Number returns the number of the key with which a value was sealed.
func Number(sealed []byte) (uint64, error) {
	number, n := binary.Uvarint(sealed)
	if n <= 0 {
		return 0, ErrOpen
	}
	return number, nil
}
