package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"landfall/store/wal"
)

// damagedDir is the directory for damaged contents of files that a repair removed.
const damagedDir = "damaged"

// Repair removes what can't be read: damaged rows become Asides, damaged contents are kept in
// damagedDir, and references to missing files are dropped. What was written again since the check
// stays. Repair forgets the damage that earlier starts found; its list is kept under another name.
// It calls removed for each row that it removes, in the transaction that removes the row.
//
// With a shared log, no row is removed, because other machines have the same rows in good state.
// Repair moves damaged contents away, which are then missing. Its error is a *DamagedCopyError if
// anything else is damaged.
func (db *DB) Repair(ctx context.Context, removed func(tx *Tx, key string) error) error {
	report, err := db.Check(ctx)
	if err != nil {
		return err
	}
	dropLog := false
	for _, problem := range report.Problems {
		if db.shared {
			if err := db.discardCopy(problem); err != nil {
				return err
			}
			continue
		}
		switch problem.Kind {
		case ProblemRow:
			if strings.HasPrefix(problem.Where, "/") && !strings.HasSuffix(problem.Where, "/") {
				err = db.removeDamaged(ctx, problem.Where, removed)
			} else {
				dropLog = true
			}
		case ProblemFile:
			err = db.removeFile(ctx, problem.Where, problem.content, removed)
		case ProblemReference:
			err = db.Update(ctx, func(tx *Tx) error { return tx.remove(wal.Index, problem.Where) })
		}
		if err != nil {
			return err
		}
	}
	if dropLog {
		if err := db.dropLog(ctx); err != nil {
			return err
		}
	}
	return db.forgetRecorded()
}

// discardCopy moves a damaged content away, so that it is copied from another machine. The error is
// a *DamagedCopyError for other damage.
func (db *DB) discardCopy(problem Problem) error {
	if problem.Kind != ProblemFile || problem.content == "" {
		return &DamagedCopyError{Path: db.path, Reason: problem.Where + ": " + problem.Reason}
	}
	return db.keepContent(problem.content)
}

// removeDamaged removes a row, if it is still damaged.
func (db *DB) removeDamaged(ctx context.Context, key string, removed func(*Tx, string) error) error {
	return db.Update(ctx, func(tx *Tx) error {
		row := tx.rows.Get(wal.Data, tx.join(key, ""))
		if row == nil {
			return nil
		}
		if _, err := tx.parse(key, row); !IsDamaged(err) {
			return err
		}
		return errors.Join(tx.delete(key), removed(tx, key))
	})
}

// removeFile removes a file with a damaged or missing content, if the file still has that content.
func (db *DB) removeFile(ctx context.Context, key, content string, removed func(*Tx, string) error) error {
	if content == "" {
		return nil
	}
	found := false
	err := db.Update(ctx, func(tx *Tx) error {
		reference := blobReference(content, key)
		if found = tx.rows.Get(wal.Index, []byte(reference)) != nil; !found {
			return nil
		}
		return errors.Join(tx.delete(key), tx.remove(wal.Index, reference), removed(tx, key))
	})
	if err != nil || !found {
		return err
	}
	return db.keepContent(content)
}

// keepContent moves a damaged content to damagedDir, so that it is not collected.
func (db *DB) keepContent(content string) error {
	path, dir := db.blobs.Path(content), filepath.Join(db.dir, damagedDir)
	if err := makeDir(dir); err != nil {
		return err
	}
	err := os.Rename(path, filepath.Join(dir, filepath.Base(path)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &DirError{Dir: dir, Err: err}
	}
	return nil
}

// forgetRecorded renames the list of the damage that earlier starts found.
func (db *DB) forgetRecorded() error {
	path := filepath.Join(db.dir, DamageFileName)
	err := os.Rename(path, path+"."+db.clock.Now().UTC().Format("20060102T150405Z"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &DirError{Dir: db.dir, Err: err}
	}
	db.damages.mu.Lock()
	defer db.damages.mu.Unlock()
	clear(db.damages.byKey)
	return nil
}
