package store

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
)

// table keeps rows in memory that bbolt's file need not have yet, each with its versions by the
// numbers of the commits that made them. One goroutine writes, who holds the turn; any number read
// meanwhile without waiting for it, as of a commit: what later ones have written they pass over.
//
// The rows of each bucket are a skip list (William Pugh, "Skip Lists: A Probabilistic Alternative
// to Balanced Trees", 1990), to which readers need no lock and of which no commit copies anything.
// Nothing leaves it: a row that was removed has a version that says so, and a row whose writes were
// all taken back has none.
type table struct {
	lists [buckets]skipList
	last  uint64 // the newest commit, when no more come
}

// maxHeight is enough for 4^10 rows.
const maxHeight = 10

// skipList is one bucket's rows in the order of their keys: a chain of all, one of about every
// fourth, one of every fourth of those and so on.
type skipList struct {
	first [maxHeight]atomic.Pointer[node]
}

// node is a row.
type node struct {
	key    []byte
	newest atomic.Pointer[version]
	next   []atomic.Pointer[node] // in each of the chains that the node is in
}

// version is what a commit has made of a row. Its value is never changed.
type version struct {
	commit uint64
	value  []byte // nil: the row was removed
	older  *version
	logged bool // of the writer: it is in the log's record
}

// find goes to where a key is, or would be: behind the last node whose key is smaller, and before
// the first whose key is not. Without a key that is the end. The places, if they are asked for, are
// the pointers that a new node has to be put into.
func (l *skipList) find(key []byte, places *[maxHeight]*atomic.Pointer[node]) (before, at *node) {
	next := l.first[:]
	var behind *node // known not to be smaller
	for level := maxHeight - 1; level >= 0; level-- {
		at = next[level].Load()
		for at != nil && at != behind && (key == nil || bytes.Compare(at.key, key) < 0) {
			before, next = at, at.next
			at = next[level].Load()
		}
		behind = at
		if places != nil {
			places[level] = &next[level]
		}
	}
	return before, at
}

// get is the version of a row as of a commit; nil if there is none.
func (l *skipList) get(key []byte, commit uint64) *version {
	if _, n := l.find(key, nil); n != nil && bytes.Equal(n.key, key) {
		return n.at(commit)
	}
	return nil
}

// add finds the node of a key, or makes it, without a version.
func (l *skipList) add(key []byte) *node {
	var places [maxHeight]*atomic.Pointer[node]
	if _, n := l.find(key, &places); n != nil && bytes.Equal(n.key, key) {
		return n
	}
	n := &node{key: bytes.Clone(key), next: make([]atomic.Pointer[node], height())}
	for level := range n.next {
		n.next[level].Store(places[level].Load())
	}
	// from the chain of all rows upwards, so that whoever finds it in one finds it in those below
	for level := range n.next {
		places[level].Store(n)
	}
	return n
}

// height is in how many chains a node is: each has a fourth of the one below.
func height() int {
	return min(1+bits.TrailingZeros32(rand.Uint32())/2, maxHeight)
}

// at is the newest version that is not newer than a commit; nil if there is none.
func (n *node) at(commit uint64) *version {
	v := n.newest.Load()
	for v != nil && v.commit > commit {
		v = v.older
	}
	return v
}

// put adds a version; without a value it removes the row.
func (n *node) put(commit uint64, value []byte) {
	n.newest.Store(&version{commit: commit, value: value, older: n.newest.Load()})
}
