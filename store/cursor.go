package store

import (
	"bytes"

	bolt "go.etcd.io/bbolt"
)

// cursor goes through a bucket's rows as a transaction sees them: forward from seek, back from
// before. Keys and values are as long-lived as the transaction and must not be changed. Of what the
// transaction itself writes meanwhile it may show the old or the new.
type cursor struct {
	tx   *Tx
	id   bucketID
	back bool
	at   []byte // the key that was shown last

	// Where each level stands; nil: at its end.
	above      [len(Tx{}.above)]*node
	base       *bolt.Cursor
	key, value []byte // base's
}

func (tx *Tx) cursor(id bucketID) *cursor {
	return &cursor{tx: tx, id: id, base: tx.bucket(id).Cursor()}
}

// seek goes to the first row whose key is not smaller than key, or to the first of all if key is
// nil. Behind the last k is nil.
func (c *cursor) seek(key []byte) (k, v []byte) {
	c.back = false
	if key == nil {
		key = []byte{} // for find nil is the end
	}
	c.key, c.value = c.base.Seek(key)
	for i := range c.above {
		if list := c.list(i); list != nil {
			_, c.above[i] = list.find(key, nil)
		}
	}
	return c.show()
}

// before goes to the last row whose key is smaller, or to the last of all if key is nil.
func (c *cursor) before(key []byte) (k, v []byte) {
	c.back = true
	if behind := key; behind == nil {
		c.key, c.value = c.base.Last()
	} else if behind, _ = c.base.Seek(key); behind == nil {
		c.key, c.value = c.base.Last()
	} else {
		c.key, c.value = c.base.Prev()
	}
	for i := range c.above {
		if list := c.list(i); list != nil {
			c.above[i], _ = list.find(key, nil)
		}
	}
	return c.show()
}

// next goes on by one row.
func (c *cursor) next() (k, v []byte) {
	c.pass(c.at)
	return c.show()
}

// list is the bucket's at a level above bbolt's file; nil if there is no such level.
func (c *cursor) list(level int) *skipList {
	if c.tx.above[level] == nil {
		return nil
	}
	return &c.tx.above[level].lists[c.id]
}

// show finds which of the rows that the levels stand at comes first. Of one that several have, the
// uppermost counts.
func (c *cursor) show() (key, value []byte) {
	for {
		key, value = c.key, c.value
		for level := len(c.above) - 1; level >= 0; level-- {
			n, v := c.visible(level)
			if n != nil && (key == nil || bytes.Equal(n.key, key) || bytes.Compare(n.key, key) < 0 != c.back) {
				key, value = n.key, v.value
			}
		}
		if key == nil || value != nil {
			c.at = key
			return key, value
		}
		c.pass(key) // it was removed
	}
}

// visible passes over what a level has of later commits only, and returns the row that it stands at
// then.
func (c *cursor) visible(level int) (*node, *version) {
	for n := c.above[level]; n != nil; n = c.above[level] {
		if v := n.at(c.tx.commit); v != nil {
			return n, v
		}
		c.step(level)
	}
	return nil, nil
}

func (c *cursor) step(level int) {
	n := c.above[level]
	if c.back {
		c.above[level], _ = c.list(level).find(n.key, nil)
	} else {
		c.above[level] = n.next[0].Load()
	}
}

// pass has each level go on that stands at the key.
func (c *cursor) pass(key []byte) {
	if c.key != nil && bytes.Equal(c.key, key) {
		if c.back {
			c.key, c.value = c.base.Prev()
		} else {
			c.key, c.value = c.base.Next()
		}
	}
	for level, n := range c.above {
		if n != nil && bytes.Equal(n.key, key) {
			c.step(level)
		}
	}
}
