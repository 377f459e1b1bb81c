package store

import (
	"fmt"

	"landfall/store/wal"
)

// Index stores keys without values, "/<name>/<key>", that refer to other keys, such as
// "/hosts-by-cluster/<cluster>/<host>". It is written in the same transactions as the rows that it
// refers to. Its changes have no revision and are not watched.
type Index struct {
	prefix string
}

// NewIndex describes the index with the given name.
func NewIndex(name string) Index {
	return Index{prefix: "/" + name + "/"}
}

// Prefix returns the start of the index's keys in the database: "/<name>/".
func (x Index) Prefix() string { return x.prefix }

// Add adds a key. Adding an existing key has no effect.
func (x Index) Add(tx *Tx, key string) error {
	if key == "" {
		return fmt.Errorf("write %s: %w", x.prefix, errEmptyKey)
	}
	if tx.rows.Get(wal.Index, tx.join(x.prefix, key)) != nil {
		return nil
	}
	return tx.set(wal.Index, x.prefix+key, []byte{})
}

// Remove removes a key. Removing a missing key has no effect.
func (x Index) Remove(tx *Tx, key string) error {
	return tx.remove(wal.Index, x.prefix+key)
}

// Exists reports whether the index contains the key.
func (x Index) Exists(tx *Tx, key string) bool {
	return tx.rows.Get(wal.Index, tx.join(x.prefix, key)) != nil
}

// Keys calls fn with each key that starts with prefix ("" for all), in key order. If fn returns
// ErrStop, Keys stops and returns nil. fn may write.
func (x Index) Keys(tx *Tx, prefix string, fn func(key string) error) error {
	return tx.walk(wal.Index, x.prefix+prefix, func(key string, _ []byte) error {
		return fn(key[len(x.prefix):])
	})
}
