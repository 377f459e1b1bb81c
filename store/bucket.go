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

// Bucket keeps values of type T as JSON under the keys "/<name>/<key>". It is only a description:
// any number of equal ones may exist, and none needs to be made known to a database.
type Bucket[T any] struct {
	name    string
	prefix  string
	version int
	deepen  copier // of a cached bucket
	cached  bool
}

// NewBucket describes the bucket of that name. Values of type json.RawMessage are taken to be JSON
// and kept as they are. Raise version when T changes in a way that an older program must not read
// or overwrite; values of older versions are read as they are, by the rules of JSON.
func NewBucket[T any](name string, version int) Bucket[T] {
	return Bucket[T]{name: name, prefix: "/" + name + "/", version: version}
}

// Cached returns the bucket with its newest values remembered as they were decoded: Get then costs
// a copy instead of reading JSON. It is for values that are read much more often than changed.
func (b Bucket[T]) Cached() Bucket[T] {
	b.cached, b.deepen = true, copiers{}.of(reflect.TypeFor[T]())
	return b
}

// Prefix is what the bucket's keys begin with in the database, in Change.Key for one: "/<name>/".
func (b Bucket[T]) Prefix() string { return b.prefix }

// Get reads the value of a key. ErrNotFound if there is none, *NewerSchemaError if a newer program
// wrote it.
func (b Bucket[T]) Get(tx *Tx, key string) (*T, error) {
	r, ok, err := tx.record(b.prefix, key)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%s%s: %w", b.prefix, key, ErrNotFound)
	}
	if b.cached {
		return b.recall(tx, key, r)
	}
	return b.decode(tx, key, r.value)
}

// recall copies the value that is remembered of a row, which is decoded if there is none. Rows that
// the update at hand changed itself are not remembered: it may fail, and their revisions be those
// of the next one's.
func (b Bucket[T]) recall(tx *Tx, key string, r record) (*T, error) {
	held, ok := tx.db.decoded.get(tx.join(b.prefix, key), r.modified)
	if !ok {
		value, err := b.decode(tx, key, r.value)
		if err != nil || tx.rows.Writable() && r.modified >= tx.first {
			return value, err
		}
		tx.db.decoded.put(&decodedRow{b.prefix + key, r.modified, len(r.value), value})
		held = value
	}
	own := *held.(*T)
	if b.deepen != nil {
		b.deepen(reflect.ValueOf(&own).Elem())
	}
	return &own, nil
}

// Exists reports whether the key has a value.
func (b Bucket[T]) Exists(tx *Tx, key string) bool {
	return tx.rows.Get(wal.Data, tx.join(b.prefix, key)) != nil
}

// Holds reports whether this value encodes to the bytes that a key has, whatever schema version
// they were written with; false if there is none. *NewerSchemaError if a newer program wrote them.
func (b Bucket[T]) Holds(tx *Tx, key string, value *T) (bool, error) {
	r, ok, err := tx.record(b.prefix, key)
	if err != nil || !ok {
		return false, err
	}
	held, err := tx.payload(b.prefix+key, b.version, r.value)
	if err != nil {
		return false, err
	}
	text, err := encode(value)
	return bytes.Equal(held, text), err
}

// Modified is the revision of the newest change of a key's value. ErrNotFound if there is none.
func (b Bucket[T]) Modified(tx *Tx, key string) (uint64, error) {
	r, ok, err := tx.record(b.prefix, key)
	if err == nil && !ok {
		err = fmt.Errorf("%s%s: %w", b.prefix, key, ErrNotFound)
	}
	return r.modified, err
}

// Put writes the value of a key. Nothing happens if it encodes to the bytes that are there already.
// *NewerSchemaError if it would replace a newer program's value.
func (b Bucket[T]) Put(tx *Tx, key string, value *T) error {
	if key == "" {
		return fmt.Errorf("write %s: %w", b.prefix, errEmptyKey)
	}
	text, err := encode(value)
	if err != nil {
		return fmt.Errorf("write %s%s: %w", b.prefix, key, err)
	}
	row := newRow(b.version, len(text))
	return tx.put(b.prefix+key, b.version, append(row, text...))
}

// Delete removes a key and its value. A key that has none is no error and no change.
func (b Bucket[T]) Delete(tx *Tx, key string) error {
	return tx.delete(b.prefix + key)
}

// Each calls fn in key order with every key that begins with prefix ("" for all) and its value.
// ErrStop from fn ends it early; any other error ends it and is returned. fn may write.
func (b Bucket[T]) Each(tx *Tx, prefix string, fn func(key string, value *T) error) error {
	return tx.walk(wal.Data, b.prefix+prefix, b.each(tx, fn))
}

// EachReverse is Each from the last key to the first.
func (b Bucket[T]) EachReverse(tx *Tx, prefix string, fn func(key string, value *T) error) error {
	return tx.walkBack(wal.Data, b.prefix+prefix, b.each(tx, fn))
}

// Keys calls fn in order with every key that begins with prefix ("" for all), without reading the
// values. ErrStop from fn ends it early.
func (b Bucket[T]) Keys(tx *Tx, prefix string, fn func(key string) error) error {
	return tx.walk(wal.Data, b.prefix+prefix, func(key string, _ []byte) error {
		return fn(key[len(b.prefix):])
	})
}

// Revisions is Keys with the revision of the newest change of each key's value.
func (b Bucket[T]) Revisions(tx *Tx, prefix string, fn func(key string, revision uint64) error) error {
	return tx.walk(wal.Data, b.prefix+prefix, func(key string, row []byte) error {
		r, err := tx.parse(key, row)
		if err != nil {
			return err
		}
		return fn(key[len(b.prefix):], r.modified)
	})
}

// Sizes is Keys with about how many bytes each key's row takes in the file.
func (b Bucket[T]) Sizes(tx *Tx, prefix string, fn func(key string, bytes int) error) error {
	return tx.walk(wal.Data, b.prefix+prefix, func(key string, row []byte) error {
		return fn(key[len(b.prefix):], len(key)+len(row)+bucketOverhead)
	})
}

// bucketOverhead is what bbolt notes of each row in its page, in bytes.
const bucketOverhead = 16

// KeysAfter is Keys of all keys that are greater than after.
func (b Bucket[T]) KeysAfter(tx *Tx, after string, fn func(key string) error) error {
	return tx.walkFrom(wal.Data, b.prefix+after+"\x00", b.prefix, func(key string, _ []byte) error {
		return fn(key[len(b.prefix):])
	})
}

func (b Bucket[T]) each(tx *Tx, fn func(string, *T) error) func(string, []byte) error {
	return func(key string, row []byte) error {
		r, err := tx.parse(key, row)
		if err != nil {
			return err
		}
		value, err := b.decode(tx, key[len(b.prefix):], r.value)
		if err != nil {
			return err
		}
		return fn(key[len(b.prefix):], value)
	}
}

// encode takes JSON that is encoded already as it is.
func encode(value any) ([]byte, error) {
	if raw, ok := value.(*json.RawMessage); ok && len(*raw) > 0 {
		return *raw, nil
	}
	return fastjson.Marshal(value)
}

func (b Bucket[T]) decode(tx *Tx, key string, stored []byte) (*T, error) {
	text, err := tx.payload(b.prefix+key, b.version, stored)
	if err != nil {
		return nil, err
	}
	value := new(T)
	if raw, ok := any(value).(*json.RawMessage); ok {
		*raw = bytes.Clone(text)
		return value, nil
	}
	if err := fastjson.UnmarshalOwn(text, value); err != nil {
		return nil, tx.db.corruptRow(b.prefix+key, err)
	}
	return value, nil
}
