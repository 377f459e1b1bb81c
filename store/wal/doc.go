// Package wal is the log-structured layer of the store. It makes the rows of a transaction durable
// with one sequential write and keeps them readable. A row is a key and a value in one of the
// buckets Data, Log, Index and Meta; package store gives rows their meaning.
//
//	   Update(fn)                                  Begin: a snapshot
//	       |                                             ^
//	       | updateLock: one fn at a time                | Get and Cursor merge the levels,
//	       v                                             | the upper level wins
//	+----------------------------+  rows   +-------------+--------------+
//	| commit group               |-------->| active memtable            |  newest commits
//	| updates that share one     |         +----------------------------+
//	| record of the log          |         | immutable memtable         |  being checkpointed
//	+----------------------------+         +----------------------------+
//	       |                               | bbolt file                 |  all older commits
//	       | logLock: one record at a time +----------------------------+
//	       v                                       ^               ^
//	+----------------------------+  checkpoint:    |               |
//	| write-ahead log: two files |  one bbolt -----+               | Open: recovery reads the
//	| used in alternation        |  transaction                    | newer records of the log
//	+----------------------------+---------------------------------+ into the active memtable
//
// # Commit
//
// Update adds rows to the active memtable and one record to the log (commit.go, log.go). The rows
// are committed when the record is on the disk. Only then do new transactions see them. Updates
// that run while a record is being synced share the next one (group commit).
//
// # Checkpoint
//
// When a file of the log is full, the active memtable becomes immutable. An empty memtable and the
// other file of the log replace the full ones. One bbolt transaction writes the immutable rows in
// the background, together with the number of the newest commit among them (checkpoint.go). A
// checkpoint that fails leaves the memtable and the log unchanged. It is repeated when the log has
// grown by the same amount again.
//
// # Recovery
//
// The bbolt file is whole and synced after each of its transactions. Open reads the records of the
// log that are newer than the file into the active memtable (recovery.go) and writes nothing.
// Close checkpoints everything and removes the log.
//
// # Concurrency
//
// Readers take no lock: a memtable is a skip list whose rows keep one version per commit
// (memtable.go). Two locks order the writers. updateLock is held while an update function runs,
// logLock while a record is written. Lock order: logLock before updateLock.
//
// Design: docs/design.md#group-commit, docs/design.md#a-write-ahead-log-in-front-of-bbolt.
package wal
