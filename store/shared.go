package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"landfall/store/blob"
	"landfall/store/wal"
)

// Apply applies records of the shared log to a follower, and returns when readers see them; see
// wal.DB.Apply. Watchers get their changes.
func (db *DB) Apply(ctx context.Context, records []wal.Record) error {
	return db.rows.Apply(ctx, records)
}

// Sequence returns the number of the newest record of the shared log that the database contains, or
// 0 if it has no part in one.
func (db *DB) Sequence() uint64 { return db.Position().Number }

// Position returns the position of the database in the shared log.
func (db *DB) Position() wal.Position { return db.rows.Position() }

// SyncedSequence returns the number of the newest record of the shared log that the database
// contains for certain after a power cut. The shared log must keep the later ones.
func (db *DB) SyncedSequence() uint64 { return db.rows.SyncedSequence() }

// Broken returns a channel that is closed when the outcome of a record of the shared log became
// unknown. Every update then fails with ErrBroken. Close the database, open it as a follower, and
// apply what the shared log has.
func (db *DB) Broken() <-chan struct{} { return db.rows.Broken() }

// Sequence returns the number of the newest record of the shared log that the snapshot contains, or
// 0 for none.
func (s *Snapshot) Sequence() uint64 { return s.Position().Number }

// Position returns the position of the snapshot in the shared log. CreateFrom writes the rows of a
// snapshot to an empty directory, which can then follow from that position. Its digest is 0 if the
// database has no part in a shared log.
func (s *Snapshot) Position() wal.Position { return s.tx.rows.Position() }

// The records of the shared log contain the descriptions of files, and not the contents above 64
// KiB. A machine with a part in a shared log copies the contents that it lacks from another one.

// Elsewhere has contents on other machines.
type Elsewhere interface {
	// Share lets another machine have a content that was staged here, if one is there and takes it
	// in time. open opens the content, and returns its size in bytes.
	Share(ctx context.Context, sum string, open func() (io.ReadSeekCloser, int64, error))
	// Fetch returns a content of another machine, by its SHA-256. The caller closes it.
	Fetch(ctx context.Context, sum string) (io.ReadCloser, error)
}

// fetchTime limits how long a reader waits for a content of another machine.
const fetchTime = 30 * time.Second

// fetch stores a content that this machine lacks. It reports whether another machine had it.
func (db *DB) fetch(ctx context.Context, sum string) bool {
	if db.elsewhere == nil {
		return false
	}
	// Readers that need the same content wait for one copy of it.
	_, err, _ := db.fetching.Do(sum, func() (any, error) {
		ctx, cancel := context.WithTimeout(ctx, fetchTime)
		defer cancel()
		content, err := db.elsewhere.Fetch(ctx, sum)
		if err != nil {
			return nil, err
		}
		return nil, errors.Join(db.StoreContent(ctx, sum, content), content.Close())
	})
	if err != nil {
		db.logger.Warn("A content of a file could not be fetched from another machine.", "sha256", sum, "error", err)
	}
	return err == nil
}

// NewReferences returns a channel that has an item after Apply wrote references to contents, which
// may be missing here.
func (db *DB) NewReferences() <-chan struct{} { return db.references }

// MissingContents returns the SHA-256 of each content that a file refers to and that is not on this
// machine.
func (db *DB) MissingContents(ctx context.Context) ([]string, error) {
	return db.referenced(ctx, false)
}

// HeldContents returns the SHA-256 of each content that a file refers to and that is on this
// machine.
func (db *DB) HeldContents(ctx context.Context) ([]string, error) { return db.referenced(ctx, true) }

// referenced returns the contents to which files refer, those that are here or the others.
func (db *DB) referenced(ctx context.Context, here bool) (sums []string, err error) {
	last := ""
	err = db.View(func(tx *Tx) error {
		return tx.walk(wal.Index, blobReference("", ""), func(key string, _ []byte) error {
			sum, _, _ := strings.Cut(strings.TrimPrefix(key, blobReference("", "")), "/")
			if sum == last || !isSum(sum) {
				return ctx.Err()
			}
			last = sum
			_, err := db.blobs.Size(sum)
			if here && err == nil || !here && errors.Is(err, fs.ErrNotExist) {
				sums = append(sums, sum)
			}
			return ctx.Err()
		})
	})
	return sums, err
}

// RemovableContent returns the size in bytes of a content that RemoveContent would remove now, or 0
// if it would stay.
func (db *DB) RemovableContent(sum string) (size int64, err error) {
	if !isSum(sum) || db.snapshots.Load() > 0 {
		return 0, nil
	}
	if old, err := db.blobs.IsOlder(sum, db.clock.Now().Add(-db.grace)); err != nil || !old {
		return 0, err
	}
	return db.blobs.Size(sum)
}

// RemoveContent removes a content of this machine to which a file may refer: other machines have
// it. gone is false if it stays: it came less than Options.BlobGrace ago, or a snapshot may need
// it. Readers of the content can go on.
func (db *DB) RemoveContent(ctx context.Context, sum string) (gone bool, err error) {
	if !isSum(sum) {
		return false, nil
	}
	return db.removeBlob(ctx, sum, func(*Tx) bool { return false })
}

// isSum reports whether a text is a SHA-256 in hex.
func isSum(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == 32 && strings.ToLower(text) == text
}

// OpenContent opens a content by its SHA-256, for another machine. Its error is fs.ErrNotExist if
// the content is not here.
func (db *DB) OpenContent(sum string) (content io.ReadSeekCloser, size int64, err error) {
	if !isSum(sum) {
		return nil, 0, fmt.Errorf("the content %q: %w", sum, fs.ErrNotExist)
	}
	if size, err = db.blobs.Size(sum); err != nil {
		return nil, 0, err
	}
	content, err = db.blobs.Open(sum, size, func(err error) error { return err })
	return content, size, err
}

// StoreContent stores the content with a SHA-256 that another machine has sent. Its error is
// blob.ErrOther if r has another content, *WriteError if the disk is full or fails, and otherwise
// that of r or ctx.
func (db *DB) StoreContent(ctx context.Context, sum string, r io.Reader) error {
	_, err := db.blobs.Put(blob.NewReader(ctx, r), db.clock.Now(), sum)
	return err
}
