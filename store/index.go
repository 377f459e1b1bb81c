package store

import (
	"fmt"

	"landfall/store/wal"
)

// Index keeps bare keys, "/<name>/<key>", by which others are found, such as
// "/hosts-by-cluster/<cluster>/<host>". It is written in the transactions of what it points to, but
// its changes have no revision and are not watched.
type Index struct {
	prefix string
}

// NewIndex describes the index of that name.
func NewIndex(name string) Index {
	return Index{prefix: "/" + name + "/"}
}

// Add adds a key; one that is there already is no change.
func (x Index) Add(tx *Tx, key string) error {
	if key == "" {
		return fmt.Errorf("write %s: %w", x.prefix, errEmptyKey)
	}
	if tx.rows.Get(wal.Index, tx.join(x.prefix, key)) != nil {
		return nil
	}
	return tx.set(wal.Index, x.prefix+key, []byte{})
}

// Remove removes a key; one that is not there is no change.
func (x Index) Remove(tx *Tx, key string) error {
	return tx.remove(wal.Index, x.prefix+key)
}

// Exists reports whether the index has the key.
func (x Index) Exists(tx *Tx, key string) bool {
	return tx.rows.Get(wal.Index, tx.join(x.prefix, key)) != nil
}

// Keys calls fn in order with every key that begins with prefix ("" for all). ErrStop from fn ends
// it early. fn may write.
func (x Index) Keys(tx *Tx, prefix string, fn func(key string) error) error {
	return tx.walk(wal.Index, x.prefix+prefix, func(key string, _ []byte) error {
		return fn(key[len(x.prefix):])
	})
}
