package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"landfall/store/blob"
	"landfall/store/wal"
)

// Staged is content that was written with DB.Stage and is not a file yet. Small content is in
// memory, larger content is synced to the disk. Staged content needs no Close: CollectBlobs removes
// content that no file refers to.
type Staged struct {
	size    int64
	sha256  string
	content []byte // nil if it is a blob
}

// Size returns the size of the content in bytes.
func (s *Staged) Size() int64 { return s.size }

// SHA256 returns the SHA-256 of the content in hex.
func (s *Staged) SHA256() string { return s.sha256 }

// Stage reads r to its end and keeps the content for Files.Put. It holds at most 64 KiB in memory.
// Larger content is written to a blob, synced, and renamed to its hash; with Options.Elsewhere,
// another machine then gets it too. Stage wraps the errors of r and ctx. It returns *WriteError if
// the disk is full or fails.
func (db *DB) Stage(ctx context.Context, r io.Reader) (*Staged, error) {
	r = blob.NewReader(ctx, r)
	// io.ReadFull would not distinguish truncated content from short content.
	head, err := io.ReadAll(io.LimitReader(r, inlineLimit+1))
	if err != nil {
		return nil, fmt.Errorf("read the content to store: %w", err)
	}
	if len(head) > inlineLimit {
		sum, size, err := db.blobs.Write(io.MultiReader(bytes.NewReader(head), r), db.clock.Now())
		if err != nil {
			return nil, err
		}
		if db.elsewhere != nil {
			db.elsewhere.Share(ctx, sum, func() (io.ReadSeekCloser, int64, error) { return db.OpenContent(sum) })
		}
		return &Staged{size: size, sha256: sum}, nil
	}
	sum := sha256.Sum256(head)
	return &Staged{size: int64(len(head)), sha256: hex.EncodeToString(sum[:]), content: bytes.Clone(head)}, nil
}

// CollectBlobs removes blobs that no file refers to, if they were staged longer than
// Options.BlobGrace ago. It also removes files that an interrupted Stage left. It removes nothing
// if the index of the contents was damaged at the start, until Relink has derived it again.
func (db *DB) CollectBlobs(ctx context.Context) error {
	if db.unlinked.Load() {
		return nil
	}
	removed, err := db.blobs.RemoveLeftovers()
	if err != nil {
		return fmt.Errorf("collect blobs: %w", err)
	}
	old, err := db.blobs.OlderThan(ctx, db.clock.Now().Add(-db.grace))
	if err != nil {
		return fmt.Errorf("collect blobs: %w", err)
	}
	for _, sum := range old {
		// An update sees the changes of updates that are not committed, and a snapshot does not. So
		// no committed row may refer to the blob either.
		referenced := false
		if err := db.View(func(tx *Tx) error { referenced = tx.references(sum); return nil }); err != nil {
			return fmt.Errorf("collect blobs: %w", err)
		}
		if referenced {
			continue
		}
		// No file can start to refer to the blob between the check and the removal.
		gone, err := db.removeBlob(ctx, sum, func(tx *Tx) bool { return tx.references(sum) })
		if err != nil {
			return fmt.Errorf("collect blobs: %w", err)
		}
		if gone {
			removed++
		}
	}
	if removed > 0 {
		db.logger.Info("Unreferenced blobs removed.", "removed", removed)
	}
	return nil
}

// removeBlob removes a blob that was staged longer than Options.BlobGrace ago. It reports false if
// it is needed, or if a snapshot may need it.
func (db *DB) removeBlob(ctx context.Context, sum string, needed func(*Tx) bool) (gone bool, err error) {
	err = db.alone(ctx, func(tx *Tx) (err error) {
		if !needed(tx) && db.snapshots.Load() == 0 {
			gone, err = db.blobs.Remove(sum, db.clock.Now().Add(-db.grace))
		}
		return err
	})
	return gone, err
}

// Relink derives the index that protects contents from collection again, after it was damaged. all
// are all files of the database: the content of a file that is not among them is collected.
func (db *DB) Relink(ctx context.Context, all ...Files) error {
	err := db.Update(ctx, func(tx *Tx) error {
		for _, files := range all {
			if err := files.relink(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		db.unlinked.Store(false)
	}
	return err
}

// relink corrects the index rows that protect the blobs of readable files. Those of other files
// stay.
func (f Files) relink(tx *Tx) error {
	want, readable := map[string]bool{}, map[string]bool{}
	err := f.Keys(tx, "", func(key string) error {
		info, _, err := f.read(tx, key)
		if err != nil {
			return SkipDamaged(err)
		}
		readable[f.prefix+key] = true
		if !inline(info) {
			want[blobReference(info.SHA256, f.prefix+key)] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	var wrong []string
	err = tx.walk(wal.Index, blobReferences, func(reference string, _ []byte) error {
		_, key, _ := strings.Cut(reference[len(blobReferences):], "/")
		if !want[reference] && readable["/"+key] {
			wrong = append(wrong, reference)
		}
		delete(want, reference)
		return nil
	})
	if err != nil {
		return err
	}
	for _, reference := range wrong {
		if err := tx.remove(wal.Index, reference); err != nil {
			return err
		}
	}
	for reference := range want {
		if err := tx.set(wal.Index, reference, []byte{}); err != nil {
			return err
		}
	}
	return nil
}

// alone runs fn while no other update runs. fn does not write.
func (db *DB) alone(ctx context.Context, fn func(*Tx) error) error {
	if db.follows {
		return db.rows.Exclude(ctx, func() error { return db.View(fn) })
	}
	return db.Update(ctx, fn)
}

// references reports whether a file refers to the blob with the given hash.
func (tx *Tx) references(sum string) bool {
	prefix := []byte(blobReference(sum, ""))
	key, _ := tx.rows.Cursor(wal.Index).Seek(prefix)
	return bytes.HasPrefix(key, prefix)
}
