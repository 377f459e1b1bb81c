// Package keyfile gives all members of a fleet the same key files in their data directories, such
// as the authority of the management clusters' agents and the account at an ACME server.
//
// The leader writes the files, sealed as they are, into a row of the database before it uses them.
// The log of the fleet has the row, so every later leader has the files, and makes no others.
package keyfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"landfall/appliance/backup"
	"landfall/appliance/durable"
	"landfall/store"
)

// rows has one row.
var rows = store.NewBucket[row]("fleet-keys", 1)

const rowKey = "keys"

type row struct {
	Fleet string            `json:"fleet"` // ID; files of a former fleet of this machine may be old
	Files map[string][]byte `json:"files"` // by name below the data directory
}

// Directory has the key files of a member.
type Directory struct {
	Path  string // of the data directory
	Fleet string // ID
}

// Store writes the key files of the leader into the database, unless it has them.
func (d Directory) Store(ctx context.Context, db *store.DB) error {
	files, err := d.read()
	if err != nil {
		return fmt.Errorf("read the key files for the other members: %w", err)
	}
	return db.Update(ctx, func(tx *store.Tx) error {
		present, err := rows.Get(tx, rowKey)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err == nil && present.Fleet == d.Fleet && maps.EqualFunc(present.Files, files, bytes.Equal) {
			return nil
		}
		return rows.Put(tx, rowKey, &row{d.Fleet, files})
	})
}

func (d Directory) read() (map[string][]byte, error) {
	names, err := backup.KeyFiles(d.Path)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(d.Path, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files[name] = content
	}
	return files, nil
}

// Follow writes the key files of the leader into the directory at each change, until the context
// ends, and then once more: a member that was elected thus has the files of its predecessor.
func (d Directory) Follow(ctx context.Context, db *store.DB, logger *slog.Logger) error {
	for ctx.Err() == nil {
		var from uint64
		if err := db.View(func(tx *store.Tx) error { from = tx.Revision(); return nil }); err != nil {
			return err
		}
		if err := d.restore(db); err != nil {
			logger.WarnContext(ctx, "The key files of the leader could not be written. A member without them can't "+
				"lead.", "error", err)
		}
		watching, stop := context.WithCancel(ctx)
		select {
		case <-db.Watch(watching, from, rows.Prefix()).C():
		case <-ctx.Done():
		}
		stop()
	}
	return d.restore(db)
}

// restore writes the files of the row.
func (d Directory) restore(db *store.DB) error {
	var kept *row
	err := db.View(func(tx *store.Tx) (err error) {
		kept, err = rows.Get(tx, rowKey)
		return err
	})
	if errors.Is(err, store.ErrNotFound) || err == nil && kept.Fleet != d.Fleet {
		return nil
	}
	if err != nil {
		return err
	}
	present, err := d.read()
	if err != nil {
		return err
	}
	// The files of keys precede those of their certificates, which a start derives from them.
	names := slices.SortedFunc(maps.Keys(kept.Files), func(a, b string) int { return strings.Compare(b, a) })
	for _, name := range names {
		if !filepath.IsLocal(name) || bytes.Equal(present[name], kept.Files[name]) {
			continue
		}
		path := filepath.Join(d.Path, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		mode := fs.FileMode(0o600)
		if strings.HasSuffix(name, ".crt") {
			mode = 0o644 // people give it to their clients
		}
		if err := durable.WriteFile(path, kept.Files[name], mode); err != nil {
			return fmt.Errorf("write a key file of the leader: %w", err)
		}
	}
	for name := range present {
		// Answers to challenges of an ACME server, which the leader has removed.
		if _, ok := kept.Files[name]; !ok && strings.Contains(name, "/") {
			if err := os.Remove(filepath.Join(d.Path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
