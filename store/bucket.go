package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"landfall/store/fastjson"
	"landfall/store/wal"
)

var errEmptyKey = errors.New("the key is empty")

// Bucket stores values of type T as JSON under the keys "/<name>/<key>". A Bucket is a description:
// it needs no registration, and several equal descriptions may exist.
type Bucket[T any] struct {
	name     string
	prefix   string
	version  int
	deepCopy copier // set for a cached bucket
	cached   bool
	derived  bool // see Derived
	weight   int  // see CachedWeight
}

// Raw is a value that is stored as the JSON text that it holds, like json.RawMessage.
type Raw interface {
	JSON() []byte
	// SetJSON sets the text. The value may keep the slice.
	SetJSON(text []byte)
}

// remember keeps the value of a row that the update wrote, so that it need not be decoded.
func (tx *Tx) remember(key string, row *decodedRow) {
	if tx.recent == nil {
		tx.recent = map[string]*decodedRow{}
	}
	tx.recent[key] = row
}

// NewBucket describes the bucket with the given name. Values of type json.RawMessage must be JSON
// and are stored unchanged. Raise version when T changes so that an older program must not read or
// overwrite it. Values of older versions are decoded as usual.
func NewBucket[T any](name string, version int) Bucket[T] {
	return Bucket[T]{name: name, prefix: "/" + name + "/", version: version}
}

// Cached returns the bucket with a cache of decoded values: Get copies a cached value instead of
// decoding JSON. Use it for values that are read much more often than changed.
func (b Bucket[T]) Cached() Bucket[T] {
	b.cached, b.deepCopy = true, copiers{}.forType(reflect.TypeFor[T]())
	return b
}

// CachedWeight is Cached for values that need weight times as much memory as other decoded values.
// Fewer of them are cached.
func (b Bucket[T]) CachedWeight(weight int) Bucket[T] {
	b = b.Cached()
	b.weight = weight
	return b
}

// Prefix returns the start of the bucket's keys in the database, for example in Change.Key:
// "/<name>/".
func (b Bucket[T]) Prefix() string { return b.prefix }

// Derived returns the bucket for values that are derived from others: Get returns ErrNotFound for a
// damaged value, so that it is derived again.
func (b Bucket[T]) Derived() Bucket[T] {
	b.derived = true
	return b
}

// Get returns the value of a key. It returns ErrNotFound if the key has no value, *DamagedError if
// the value is damaged, and *NewerSchemaError if a newer program wrote the value.
func (b Bucket[T]) Get(tx *Tx, key string) (*T, error) {
	row := tx.rows.Get(wal.Data, tx.join(b.prefix, key))
	if row == nil {
		return nil, fmt.Errorf("%s%s: %w", b.prefix, key, ErrNotFound)
	}
	if b.cached {
		return b.cachedValue(tx, key, row)
	}
	r, err := tx.parse(b.prefix+key, row)
	if err != nil && b.derivable(err) == nil {
		return nil, fmt.Errorf("%s%s: %w", b.prefix, key, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return b.decode(tx, key, r.value)
}

// derivable returns nil for a damaged value that can be derived again, else the error.
func (b Bucket[T]) derivable(err error) error {
	if b.derived {
		return SkipDamaged(err)
	}
	return err
}

// cachedValue returns a copy of the cached value of a row. It decodes a row that is not cached. It
// does not cache rows that the current update changed: if the update fails, the next update uses
// the same revisions.
func (b Bucket[T]) cachedValue(tx *Tx, key string, row []byte) (*T, error) {
	r, err := tx.parseHeader(b.prefix, row)
	if err != nil {
		return nil, err
	}
	var cached any
	ok := false
	if own := tx.recent[b.prefix+key]; own != nil && own.revision == r.modified {
		cached, ok = own.value, true
	} else {
		cached, ok = tx.db.decoded.get(tx.join(b.prefix, key), r.modified)
	}
	if !ok {
		if r, err = tx.open(b.prefix+key, row, r); err != nil {
			return nil, err
		}
		value, err := b.decode(tx, key, r.value)
		if err != nil || tx.rows.Writable() && r.modified >= tx.first {
			return value, err
		}
		tx.db.decoded.put(&decodedRow{b.prefix + key, r.modified, len(r.value) * max(b.weight, 1), value})
		cached = value
	}
	own := *cached.(*T)
	if b.deepCopy != nil {
		b.deepCopy(reflect.ValueOf(&own).Elem())
	}
	return &own, nil
}

// Exists reports whether the key has a value.
func (b Bucket[T]) Exists(tx *Tx, key string) bool {
	return tx.rows.Get(wal.Data, tx.join(b.prefix, key)) != nil
}

// Holds reports whether the stored value of a key equals the given value. It compares the encoded
// bytes and ignores the schema version. It returns false if the key has no value, and
// *NewerSchemaError if a newer program wrote the value.
func (b Bucket[T]) Holds(tx *Tx, key string, value *T) (bool, error) {
	r, ok, err := tx.record(b.prefix, key)
	if err != nil || !ok {
		return false, b.derivable(err)
	}
	stored, err := tx.payload(b.prefix+key, b.version, r.value)
	if err != nil {
		return false, err
	}
	text, err := encode(value)
	return bytes.Equal(stored, text), err
}

// Modified returns the revision of the last change of a key. It returns ErrNotFound if the key has
// no value.
func (b Bucket[T]) Modified(tx *Tx, key string) (uint64, error) {
	row := tx.rows.Get(wal.Data, tx.join(b.prefix, key))
	if row == nil {
		return 0, fmt.Errorf("%s%s: %w", b.prefix, key, ErrNotFound)
	}
	r, err := tx.parseHeader(b.prefix+key, row)
	return r.modified, err
}

// Put writes the value of a key. A cached bucket keeps a value of type Raw, so the caller must not
// change it afterwards. Put does nothing if the same encoded value is stored. It returns
// *NewerSchemaError if a newer program wrote the stored value.
func (b Bucket[T]) Put(tx *Tx, key string, value *T) error {
	if key == "" {
		return fmt.Errorf("write %s: %w", b.prefix, errEmptyKey)
	}
	text, err := encode(value)
	if err != nil {
		return fmt.Errorf("write %s%s: %w", b.prefix, key, err)
	}
	row, before := newRow(b.version, len(text)), tx.rev
	if err := tx.put(b.prefix+key, b.version, append(row, text...)); err != nil {
		return err
	}
	if _, raw := any(value).(Raw); raw && b.cached && tx.rev != before {
		tx.remember(b.prefix+key, &decodedRow{b.prefix + key, tx.rev, len(text) * max(b.weight, 1), value})
	}
	return nil
}

// Delete deletes a key and its value. Deleting a missing key is not an error and not a change.
func (b Bucket[T]) Delete(tx *Tx, key string) error {
	return tx.delete(b.prefix + key)
}

// Each calls fn with each key that starts with prefix ("" for all) and its value, in key order. It
// skips damaged values: see DB.Damage. If fn returns ErrStop, Each stops and returns nil. Any other
// error stops it and is returned. fn may write.
func (b Bucket[T]) Each(tx *Tx, prefix string, fn func(key string, value *T) error) error {
	return tx.walk(wal.Data, b.prefix+prefix, b.each(tx, fn))
}

// EachReverse does the same as Each, in reverse key order.
func (b Bucket[T]) EachReverse(tx *Tx, prefix string, fn func(key string, value *T) error) error {
	return tx.walkBack(wal.Data, b.prefix+prefix, b.each(tx, fn))
}

// Keys calls fn with each key that starts with prefix ("" for all), in key order. It does not
// decode the values. If fn returns ErrStop, Keys stops and returns nil.
func (b Bucket[T]) Keys(tx *Tx, prefix string, fn func(key string) error) error {
	return tx.walk(wal.Data, b.prefix+prefix, func(key string, _ []byte) error {
		return fn(key[len(b.prefix):])
	})
}

// Revisions calls fn with each key and the revision of its last change. See Keys.
func (b Bucket[T]) Revisions(tx *Tx, prefix string, fn func(key string, revision uint64) error) error {
	return tx.walk(wal.Data, b.prefix+prefix, func(key string, row []byte) error {
		r, err := tx.parseHeader(key, row)
		if err != nil {
			return SkipDamaged(err)
		}
		return fn(key[len(b.prefix):], r.modified)
	})
}

// Sizes calls fn with each key and the approximate size of its row in the file, in bytes. See Keys.
func (b Bucket[T]) Sizes(tx *Tx, prefix string, fn func(key string, bytes int) error) error {
	return tx.walk(wal.Data, b.prefix+prefix, func(key string, row []byte) error {
		return fn(key[len(b.prefix):], len(key)+len(row)+bucketOverhead)
	})
}

// bucketOverhead is the size of the header that bbolt adds to each row, in bytes.
const bucketOverhead = 16

// KeysAfter calls fn with each key that is greater than after. See Keys.
func (b Bucket[T]) KeysAfter(tx *Tx, after string, fn func(key string) error) error {
	return tx.walkFrom(wal.Data, b.prefix+after+"\x00", b.prefix, func(key string, _ []byte) error {
		return fn(key[len(b.prefix):])
	})
}

func (b Bucket[T]) each(tx *Tx, fn func(string, *T) error) func(string, []byte) error {
	return func(key string, row []byte) error {
		r, err := tx.parse(key, row)
		if err != nil {
			return SkipDamaged(err)
		}
		value, err := b.decode(tx, key[len(b.prefix):], r.value)
		if err != nil {
			return SkipDamaged(err)
		}
		return fn(key[len(b.prefix):], value)
	}
}

// encode returns the JSON of a value. It returns the text of a json.RawMessage or Raw unchanged.
func encode(value any) ([]byte, error) {
	switch raw := value.(type) {
	case *json.RawMessage:
		if len(*raw) > 0 {
			return *raw, nil
		}
	case Raw:
		return raw.JSON(), nil
	}
	return fastjson.Marshal(value)
}

func (b Bucket[T]) decode(tx *Tx, key string, stored []byte) (*T, error) {
	text, err := tx.payload(b.prefix+key, b.version, stored)
	if err != nil {
		return nil, err
	}
	value := new(T)
	switch raw := any(value).(type) {
	case *json.RawMessage:
		*raw = bytes.Clone(text)
		return value, nil
	case Raw:
		raw.SetJSON(bytes.Clone(text))
		return value, nil
	}
	if err := fastjson.UnmarshalOwn(text, value); err != nil {
		return nil, tx.db.damaged(b.prefix+key, err)
	}
	return value, nil
}
