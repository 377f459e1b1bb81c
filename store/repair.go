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

// Repair removes what can't be read: damaged rows become Asides, and references to missing files
// are dropped. It forgets the damage that earlier starts found; its list is kept under another
// name. It returns the keys of the removed rows.
func (db *DB) Repair(ctx context.Context) (removed []string, err error) {
	report, err := db.Check(ctx)
	if err != nil {
		return nil, err
	}
	dropLog := false
	for _, problem := range report.Problems {
		switch problem.Kind {
		case ProblemRow:
			if strings.HasPrefix(problem.Where, "/") && !strings.HasSuffix(problem.Where, "/") {
				removed = append(removed, problem.Where)
			} else {
				dropLog = true
			}
		case ProblemFile:
			removed = append(removed, problem.Where)
		case ProblemReference:
			if err := db.Update(ctx, func(tx *Tx) error { return tx.remove(wal.Index, problem.Where) }); err != nil {
				return nil, err
			}
		}
	}
	for _, key := range removed {
		if err := db.Update(ctx, func(tx *Tx) error { return tx.delete(key) }); err != nil {
			return nil, err
		}
	}
	if dropLog {
		if err := db.dropLog(ctx); err != nil {
			return nil, err
		}
	}
	return removed, db.forgetRecorded()
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
