package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"
)

// Keys of the Meta bucket that belong to this package.
var (
	epochKey     = []byte("epoch")     // epoch of the log's records: see log.go
	committedKey = []byte("committed") // newest commit in the bbolt file
)

// checkpoint is a running or completed checkpoint.
type checkpoint struct {
	done chan struct{}
	err  error // set when done is closed
}

// prepareLog prepares the log for an update: it starts an epoch, or makes room in a full log. The
// caller holds updateLock, and no record is being written.
func (db *DB) prepareLog() error {
	if db.log == nil {
		return db.startEpoch()
	}
	// the record that filled the file failed, and the next record overwrites it
	if db.log.end < db.checkpointAt {
		return nil
	}
	if db.memtables.Load().immutable != nil {
		if db.running == nil {
			db.running = db.startCheckpoint()
		}
		<-db.running.done
		if err := db.running.err; err != nil {
			db.running = nil
			if db.log.end >= db.disk.LogLimit {
				return fmt.Errorf("%d MiB of changes in the log could not be written to the database: %w",
					db.log.end>>20, err)
			}
			db.checkpointAt = db.log.end + db.disk.CheckpointAt
			return nil
		}
	}
	db.freezeMemtable()
	db.switchLogFile()
	db.running = db.startCheckpoint()
	return nil
}

// switchLogFile continues the log in the other file.
func (db *DB) switchLogFile() {
	db.log.switchFile(db.committed.Load() + 1)
	db.checkpointAt = db.disk.CheckpointAt
}

// freezeMemtable makes the active memtable immutable and replaces it with an empty one.
func (db *DB) freezeMemtable() {
	full := db.memtables.Load().active
	full.lastCommit, full.sequence = db.committed.Load(), db.Position().Number
	db.memtables.Store(&memtables{active: new(memtable), immutable: full})
}

// startCheckpoint starts a checkpoint of the immutable memtable in the background.
func (db *DB) startCheckpoint() *checkpoint {
	c := &checkpoint{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		if c.err = db.checkpointImmutable(); c.err != nil {
			db.logger.Error("Checkpoint failed.", "path", db.path, "error", c.err)
		}
	}()
	return c
}

// checkpointImmutable writes the immutable memtable to the bbolt file and drops it.
//
// Transactions that started before may still read the dropped memtable. That is harmless, because
// rows of a memtable take precedence over rows of the file. The file must not have newer rows than
// the active memtable of a transaction: see DB.begin.
func (db *DB) checkpointImmutable() error {
	now := db.memtables.Load()
	err := db.updateFile(func(b *bolt.Tx, digests Digests) error {
		for bucket := range now.immutable.lists {
			if err := now.immutable.writeTo(b, Bucket(bucket), digests); err != nil {
				return err
			}
		}
		return b.Bucket(BucketNames[Meta]).Put(committedKey,
			binary.BigEndian.AppendUint64(nil, now.immutable.lastCommit))
	})
	if err == nil {
		db.memtables.Store(&memtables{active: now.active})
		db.syncedSequence.Store(now.immutable.sequence)
	}
	return err
}

// writeTo writes the rows of a bucket to the bbolt file, and changes the digests accordingly.
func (m *memtable) writeTo(b *bolt.Tx, id Bucket, digests Digests) error {
	bucket := b.Bucket(BucketNames[id])
	if id == Log {
		bucket.FillPercent = 1 // rows of this bucket are only appended
	}
	for n := m.lists[id].first[0].Load(); n != nil; n = n.next[0].Load() {
		v := n.newest.Load()
		if v == nil {
			continue
		}
		digests.remove(id, n.key, bucket.Get(n.key))
		digests.Add(id, n.key, v.value)
		var err error
		if v.value == nil {
			err = bucket.Delete(n.key)
		} else {
			err = bucket.Put(n.key, v.value)
		}
		if err != nil {
			return fmt.Errorf("row %q of %s: %w", n.key, BucketNames[id], err)
		}
	}
	return nil
}

// updateFile commits a transaction to the bbolt file. fn changes the digests with the rows. It must
// not be called concurrently.
//
// After a failed sync, bbolt's newest meta page may exist only in the page cache, while the kernel
// considers it written. bbolt would then reuse pages that the meta page on the disk still refers
// to. So updateFile writes and syncs the unchanged meta pages before the first commit and after a
// failed commit.
func (db *DB) updateFile(fn func(*bolt.Tx, Digests) error) (err error) {
	defer CatchCorruption(db.path, &err)
	defer guardPage()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if db.unsynced {
		file := db.file.file
		metas := make([]byte, 2*db.file.Info().PageSize)
		if _, err := file.ReadAt(metas, 0); err != nil {
			return err
		}
		if _, err := file.WriteAt(metas, 0); err != nil {
			return err
		}
		if err := db.disk.Sync(file); err != nil {
			return err
		}
	}
	db.unsynced = true
	if err := db.disk.Update(db.file.DB, func(b *bolt.Tx) error {
		digests, err := loadDigests(b)
		if err != nil {
			return err
		}
		if err := fn(b, digests); err != nil {
			return err
		}
		return putDigests(b, digests)
	}); err != nil {
		return err
	}
	db.unsynced = false
	return nil
}

// checkpointAll writes all committed rows to the bbolt file and returns when they are synced.
func (db *DB) checkpointAll() error {
	if db.running != nil {
		<-db.running.done
		db.running = nil
	}
	if db.memtables.Load().immutable != nil {
		if err := db.checkpointImmutable(); err != nil {
			return err
		}
	}
	if db.memtables.Load().active.empty() {
		return nil
	}
	db.freezeMemtable()
	return db.checkpointImmutable()
}

// startEpoch starts an epoch before the first update of the process. It first checkpoints the rows
// of the previous epoch and removes its log.
func (db *DB) startEpoch() error {
	if err := db.checkpointAll(); err != nil {
		return err
	}
	if err := errors.Join(removeLog(db.dir), SyncDirs(db.dir)); err != nil {
		return err
	}
	var epoch [8]byte
	if _, err := rand.Read(epoch[:]); err != nil {
		return err
	}
	begins := db.shared != nil && db.Position().Digest == 0
	err := db.updateFile(func(b *bolt.Tx, _ Digests) error {
		meta := b.Bucket(BucketNames[Meta])
		if begins {
			if err := meta.Put(recordKey, epoch[:]); err != nil {
				return err
			}
		}
		return meta.Put(epochKey, epoch[:])
	})
	if err != nil {
		return err
	}
	if begins {
		db.setPosition(Position{Digest: parseNumber(epoch[:])})
	}
	disk := db.disk
	if db.shares() { // the shared log is synced
		disk.Sync, disk.Preallocate = func(*os.File) error { return nil }, 0
	}
	db.log, err = newLog(db.dir, disk, binary.BigEndian.Uint64(epoch[:]), db.committed.Load()+1)
	db.checkpointAt = db.disk.CheckpointAt
	return err
}
