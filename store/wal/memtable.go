package wal

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
)

// memtable holds rows in memory that the bbolt file may not have yet, each with its versions by
// commit number. One goroutine writes, the holder of updateLock. Any number of goroutines read at
// the same time without a lock, as of a commit: they skip the versions of later commits.
//
// The rows of each bucket are a skip list (William Pugh, "Skip Lists: A Probabilistic Alternative
// to Balanced Trees", 1990). Readers of a skip list need no lock, and a commit copies nothing. No
// row leaves it: a deleted row has a version that marks the deletion, and a row whose writes were
// all rolled back has no version.
type memtable struct {
	lists      [bucketCount]skipList
	lastCommit uint64 // the newest commit; set when the memtable becomes immutable
}

// memtables are the levels in memory.
type memtables struct {
	active, immutable *memtable // immutable is nil if no checkpoint is pending
}

// empty reports whether the memtable has no rows.
func (m *memtable) empty() bool {
	for bucket := range m.lists {
		if m.lists[bucket].first[0].Load() != nil {
			return false
		}
	}
	return true
}

// maxHeight is enough for 4^10 rows.
const maxHeight = 10

// skipList holds the rows of one bucket in key order: a chain of all rows, a chain of about every
// fourth, a chain of every fourth of those and so on.
type skipList struct {
	first [maxHeight]atomic.Pointer[node]
}

// node is a row.
type node struct {
	key    []byte
	newest atomic.Pointer[version]
	next   []atomic.Pointer[node] // by chain, for each chain that contains the node
}

// version is the state of a row after a commit. Its value never changes.
type version struct {
	commit uint64
	value  []byte // nil: the row was deleted
	older  *version
	logged bool // the log record at hand contains it; used by the writer only
}

// find returns the position of a key: the last node with a smaller key, and the first node whose
// key is not smaller. A nil key stands for the end of the list. If places is not nil, it receives
// the pointers to change to insert a node at that position.
func (l *skipList) find(key []byte, places *[maxHeight]*atomic.Pointer[node]) (before, at *node) {
	next := l.first[:]
	var notSmaller *node // a node known not to have a smaller key
	for level := maxHeight - 1; level >= 0; level-- {
		at = next[level].Load()
		for at != nil && at != notSmaller && (key == nil || bytes.Compare(at.key, key) < 0) {
			before, next = at, at.next
			at = next[level].Load()
		}
		notSmaller = at
		if places != nil {
			places[level] = &next[level]
		}
	}
	return before, at
}

// get returns the version of a row as of a commit; nil if there is none.
func (l *skipList) get(key []byte, commit uint64) *version {
	if _, n := l.find(key, nil); n != nil && bytes.Equal(n.key, key) {
		return n.asOf(commit)
	}
	return nil
}

// insert returns the node of a key and creates it, without a version, if it is missing.
func (l *skipList) insert(key []byte) *node {
	var places [maxHeight]*atomic.Pointer[node]
	if _, n := l.find(key, &places); n != nil && bytes.Equal(n.key, key) {
		return n
	}
	n := &node{key: bytes.Clone(key), next: make([]atomic.Pointer[node], randomHeight())}
	for level := range n.next {
		n.next[level].Store(places[level].Load())
	}
	// Upwards from the chain of all rows: a reader that finds the node in one chain finds it in all
	// lower ones.
	for level := range n.next {
		places[level].Store(n)
	}
	return n
}

// randomHeight returns the number of chains that a new node joins: each chain has a fourth of the
// nodes of the one below.
func randomHeight() int {
	return min(1+bits.TrailingZeros32(rand.Uint32())/2, maxHeight)
}

// asOf returns the newest version that is not newer than a commit; nil if there is none.
func (n *node) asOf(commit uint64) *version {
	v := n.newest.Load()
	for v != nil && v.commit > commit {
		v = v.older
	}
	return v
}

// put adds a version. A nil value deletes the row.
func (n *node) put(commit uint64, value []byte) {
	n.newest.Store(&version{commit: commit, value: value, older: n.newest.Load()})
}
