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
// Update adds rows to the active memtable and one record to the log. The rows are committed when
// the record is on the disk. Only then do new transactions read them. Updates that run while a
// record is being synced share the next record (group commit).
//
// # Checkpoint
//
// When a log file is full, the active memtable becomes immutable. An empty memtable replaces it,
// and the log continues in its other file. One bbolt transaction writes the immutable rows in the
// background, together with the number of the newest commit among them. A failed checkpoint leaves
// the memtable and the log unchanged. It is repeated when the log has grown by the same size again.
//
// # Recovery
//
// The bbolt file is complete and synced after each of its transactions. Open reads the log records
// that are newer than the file into the active memtable and writes nothing. Close checkpoints all
// rows and removes the log.
//
// # Shared log
//
// Several machines can have the same rows. Each record then goes to a SharedLog first, and to the
// log file after that; followers apply the records of the SharedLog: see shared.go.
//
// # Concurrency
//
// Readers take no lock: a memtable is a skip list whose rows have one version per commit. Two locks
// order the writers. updateLock is held while an update function runs, logLock while a record is
// written. Lock order: logLock before updateLock.
//
// # Files
//
//	db.go          DB: open, close, update; the state and its locks
//	commit.go      commit groups: share a record, commit it or roll it back
//	log.go         the write-ahead log: format, append, discard, read
//	memtable.go    rows in memory: skip lists with versions
//	checkpoint.go  moves rows from a memtable to the bbolt file
//	recovery.go    reads the log when the database is opened
//	tx.go          Tx: snapshots, reads and writes of rows
//	cursor.go      Cursor: iteration over the merged levels
//	shared.go      a log of several machines in front of the log file: leaders and followers
//	follow.go      Follower: the commits as they happen, for a copy at another place
//	disk.go        files, sizes and syncs, which tests can replace
//	errors.go      typed errors
//	sync_*.go      syncs a file; one file per system
//	pages_*.go     returns mapped pages to the system; one file per system
//
// Design: docs/design.md#group-commit, docs/design.md#a-write-ahead-log-in-front-of-bbolt,
// docs/design.md#a-log-that-several-machines-share.
package wal
