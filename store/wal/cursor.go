package wal

import (
	"bytes"

	bolt "go.etcd.io/bbolt"
)

// Cursor iterates over the rows of a bucket in a transaction: forward after Seek, backward after
// SeekBefore. Keys and values are valid until the transaction ends and must not be changed. If the
// transaction writes a row during the iteration, the cursor may return its old or its new state.
type Cursor struct {
	tx       *Tx
	bucket   Bucket
	backward bool
	at       []byte // last returned key

	// Position in each memtable; nil at its end.
	nodes      [len(Tx{}.memtables)]*node
	base       *bolt.Cursor
	key, value []byte // position in the bbolt file
}

// Cursor returns a cursor over a bucket.
func (tx *Tx) Cursor(bucket Bucket) *Cursor {
	defer guardPage()
	return &Cursor{tx: tx, bucket: bucket, base: tx.boltBucket(bucket).Cursor()}
}

// Seek moves to the first row whose key is not smaller than key. A nil key means the first row. The
// returned key is nil if no such row exists.
func (c *Cursor) Seek(key []byte) (k, v []byte) {
	c.backward = false
	if key == nil {
		key = []byte{} // find interprets nil as the end
	}
	c.seekBase(key)
	for level := range c.nodes {
		if list := c.list(level); list != nil {
			_, c.nodes[level] = list.find(key, nil)
		}
	}
	return c.merge()
}

// SeekBefore moves to the last row whose key is smaller than key. A nil key means the last row. The
// returned key is nil if no such row exists.
func (c *Cursor) SeekBefore(key []byte) (k, v []byte) {
	c.backward = true
	c.seekBaseBefore(key)
	for level := range c.nodes {
		if list := c.list(level); list != nil {
			c.nodes[level], _ = list.find(key, nil)
		}
	}
	return c.merge()
}

// seekBase moves the position in the bbolt file to the first row whose key is not smaller.
func (c *Cursor) seekBase(key []byte) {
	defer guardPage()
	c.key, c.value = c.base.Seek(key)
}

// seekBaseBefore moves the position in the bbolt file to the last row whose key is smaller. A nil
// key means the last row.
func (c *Cursor) seekBaseBefore(key []byte) {
	defer guardPage()
	if found := key; found == nil {
		c.key, c.value = c.base.Last()
	} else if found, _ = c.base.Seek(key); found == nil {
		c.key, c.value = c.base.Last()
	} else {
		c.key, c.value = c.base.Prev()
	}
}

// stepBase moves the position in the bbolt file by one row.
func (c *Cursor) stepBase() {
	defer guardPage()
	if c.backward {
		c.key, c.value = c.base.Prev()
	} else {
		c.key, c.value = c.base.Next()
	}
}

// Next moves to the next row in the direction of the iteration. The returned key is nil at the end.
func (c *Cursor) Next() (k, v []byte) {
	c.skip(c.at)
	return c.merge()
}

// list returns the bucket's rows in a memtable, or nil if the memtable does not exist.
func (c *Cursor) list(level int) *skipList {
	if c.tx.memtables[level] == nil {
		return nil
	}
	return &c.tx.memtables[level].lists[c.bucket]
}

// merge returns the first row among the positions of all levels. If several levels contain the row,
// the uppermost level takes precedence. Deleted rows are skipped.
func (c *Cursor) merge() (key, value []byte) {
	for {
		key, value = c.key, c.value
		for level := len(c.nodes) - 1; level >= 0; level-- {
			n, v := c.visible(level)
			if n != nil && (key == nil || bytes.Equal(n.key, key) || bytes.Compare(n.key, key) < 0 != c.backward) {
				key, value = n.key, v.value
			}
		}
		if key == nil || value != nil {
			c.at = key
			return key, value
		}
		c.skip(key) // the row was deleted
	}
}

// visible returns the row at the position in a level. It first skips rows that exist only in later
// commits.
func (c *Cursor) visible(level int) (*node, *version) {
	for n := c.nodes[level]; n != nil; n = c.nodes[level] {
		if v := n.asOf(c.tx.commit); v != nil {
			return n, v
		}
		c.step(level)
	}
	return nil, nil
}

// step moves the position in a level by one row.
func (c *Cursor) step(level int) {
	n := c.nodes[level]
	if c.backward {
		c.nodes[level], _ = c.list(level).find(n.key, nil)
	} else {
		c.nodes[level] = n.next[0].Load()
	}
}

// skip moves the position of every level that is at the key.
func (c *Cursor) skip(key []byte) {
	if c.key != nil && bytes.Equal(c.key, key) {
		c.stepBase()
	}
	for level, n := range c.nodes {
		if n != nil && bytes.Equal(n.key, key) {
			c.step(level)
		}
	}
}
