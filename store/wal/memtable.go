package wal

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
)

// memtable holds rows in memory that may not be in the bbolt file yet. Each row has one version per
// commit. Only the holder of updateLock writes. Any number of goroutines read at the same time
// without a lock: a reader at a commit skips the versions of later commits.
//
// The rows of each bucket are a skip list (William Pugh, "Skip Lists: A Probabilistic Alternative
// to Balanced Trees", 1990). Readers of a skip list need no lock, and a commit copies nothing. A
// deleted row has a version that marks the deletion. Only a rollback removes a row.
type memtable struct {
	lists      [bucketCount]skipList
	lastCommit uint64 // newest commit; set when the memtable becomes immutable
	sequence   uint64 // number of its record in the shared log; set like lastCommit
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

// maxHeight suffices for 4^10 rows.
const maxHeight = 10

// skipList holds the rows of one bucket in key order. Its lowest chain contains all rows. Each
// higher chain contains about a fourth of the rows of the chain below it.
type skipList struct {
	first [maxHeight]atomic.Pointer[node]
}

// node is a row.
type node struct {
	key    []byte
	newest atomic.Pointer[version]
	next   []atomic.Pointer[node] // next node by chain, for each chain that contains this node
}

// version is the state of a row after a commit. Its value never changes.
type version struct {
	commit uint64
	value  []byte // nil: the row was deleted
	older  *version
	logged bool // set while the current log record contains the version; used by the writer only
}

// find returns the position of a key: the last node with a smaller key, and the first node whose
// key is not smaller. A nil key means the end of the list. If places is not nil, find stores the
// pointers that an insertion at that position must change.
func (l *skipList) find(key []byte, places *[maxHeight]*atomic.Pointer[node]) (before, at *node) {
	next := l.first[:]
	var notSmaller *node // a node whose key is not smaller than the key
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

// get returns the version of a row at a commit, or nil.
func (l *skipList) get(key []byte, commit uint64) *version {
	if _, n := l.find(key, nil); n != nil && bytes.Equal(n.key, key) {
		return n.asOf(commit)
	}
	return nil
}

// insert returns the node of a key. If it is missing, insert creates it without a version.
func (l *skipList) insert(key []byte) *node {
	var places [maxHeight]*atomic.Pointer[node]
	if _, n := l.find(key, &places); n != nil && bytes.Equal(n.key, key) {
		return n
	}
	n := &node{key: bytes.Clone(key), next: make([]atomic.Pointer[node], randomHeight())}
	for level := range n.next {
		n.next[level].Store(places[level].Load())
	}
	// Insertion starts with the lowest chain: a reader that finds the node in one chain then finds
	// it in all lower chains.
	for level := range n.next {
		places[level].Store(n)
	}
	return n
}

// remove removes a node without versions. A reader at the node goes on by its pointers: it sees no
// later commit, so it misses no row that is inserted beside the node afterwards.
func (l *skipList) remove(n *node) {
	var places [maxHeight]*atomic.Pointer[node]
	l.find(n.key, &places)
	for level := range n.next {
		places[level].Store(n.next[level].Load())
	}
}

// randomHeight returns the number of chains that a new node joins. Each chain has about a fourth of
// the nodes of the chain below it.
func randomHeight() int {
	return min(1+bits.TrailingZeros32(rand.Uint32())/2, maxHeight)
}

// asOf returns the newest version up to a commit, or nil.
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
