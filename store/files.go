package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"landfall/store/wal"
)

// inlineLimit is the maximum size of content that is stored in the database, in bytes. Larger
// content becomes a blob.
const inlineLimit = 64 << 10

// filesVersion is the schema version of the rows of files.
const filesVersion = 1

// FileInfo describes a stored file.
type FileInfo struct {
	Size     int64     `json:"size"`     // bytes
	SHA256   string    `json:"sha256"`   // hex
	Modified time.Time `json:"modified"` // UTC
}

// Files stores files under the keys "/<name>/<key>". A row contains the description and up to 64
// KiB of content. Larger content is stored as a blob beside the database. Files are written, rolled
// back and watched together with the other changes of their transaction.
//
// The value of a row has these parts: the schema version and the length of the description
// (uvarints), the description (FileInfo as JSON), and inline content.
type Files struct {
	prefix string
}

// NewFiles describes the files with the given name.
func NewFiles(name string) Files {
	return Files{prefix: "/" + name + "/"}
}

// Prefix returns the start of the files' keys in the database, for example in Change.Key:
// "/<name>/".
func (f Files) Prefix() string { return f.prefix }

// Put writes staged content to a key. The same staged content may be stored under several keys. Put
// returns ErrStagedGone if the content was staged longer than Options.BlobGrace ago and was
// collected.
func (f Files) Put(tx *Tx, key string, staged *Staged, modified time.Time) error {
	if key == "" {
		return fmt.Errorf("write %s: %w", f.prefix, errEmptyKey)
	}
	info := FileInfo{Size: staged.size, SHA256: staged.sha256, Modified: modified.UTC()}
	description, err := json.Marshal(info)
	if err != nil {
		return fmt.Errorf("write %s%s: %w", f.prefix, key, err)
	}
	if err := f.link(tx, key, info); err != nil {
		return err
	}
	row := newRow(filesVersion, binary.MaxVarintLen64+len(description)+len(staged.content))
	row = binary.AppendUvarint(row, uint64(len(description)))
	row = append(append(row, description...), staged.content...)
	tx.describes = true
	defer func() { tx.describes = false }()
	return tx.put(f.prefix+key, filesVersion, row)
}

// Stat returns the description of a file. It returns ErrNotFound if the file does not exist.
func (f Files) Stat(tx *Tx, key string) (FileInfo, error) {
	info, _, err := f.read(tx, key)
	return info, err
}

// Open opens the content of a file for reading. The content stays readable if the file is replaced
// or deleted. A content that is not on this machine is fetched first, see Options.Elsewhere. Open
// returns ErrNotFound if the file does not exist. The caller must close the content.
func (f Files) Open(db *DB, key string) (io.ReadSeekCloser, FileInfo, error) {
	var info FileInfo
	var content []byte
	read := func(tx *Tx) error {
		var stored []byte
		var err error
		info, stored, err = f.read(tx, key)
		content = bytes.Clone(stored)
		return err
	}
	// The file may be replaced and its blob collected between the lookup and the opening. A second
	// lookup then finds the new state.
	var previous string
	for fetched := false; ; {
		if err := db.View(read); err != nil {
			return nil, FileInfo{}, err
		}
		if inline(info) {
			return inlineFile{bytes.NewReader(content)}, info, nil
		}
		file, err := db.openBlob(f.prefix+key, info)
		if err == nil {
			return file, info, nil
		}
		if absent := errors.Is(err, fs.ErrNotExist); !absent || info.SHA256 == previous {
			if absent && !fetched && db.fetch(context.Background(), info.SHA256) {
				fetched = true
				continue
			}
			return nil, FileInfo{}, db.unreadable(f.prefix+key, info.SHA256, err)
		}
		previous = info.SHA256
	}
}

// openBlob opens the content of the file with a key.
func (db *DB) openBlob(key string, info FileInfo) (io.ReadSeekCloser, error) {
	return db.blobs.Open(info.SHA256, info.Size, func(err error) error { return db.damaged(key, err) })
}

// unreadable returns the error of a file whose content can't be opened.
func (db *DB) unreadable(key, sum string, err error) error {
	if db.shared && errors.Is(err, fs.ErrNotExist) {
		return &MissingContentError{Key: key, SHA256: sum}
	}
	return db.damaged(key, fmt.Errorf("open the content: %w", err))
}

// OpenIn opens the content of a file within a transaction. It also finds files that the transaction
// has put.
func (f Files) OpenIn(tx *Tx, key string) (io.ReadSeekCloser, error) {
	info, stored, err := f.read(tx, key)
	if err != nil {
		return nil, err
	}
	if inline(info) {
		return inlineFile{bytes.NewReader(bytes.Clone(stored))}, nil
	}
	file, err := tx.db.openBlob(f.prefix+key, info)
	if err != nil {
		return nil, tx.db.unreadable(f.prefix+key, info.SHA256, err)
	}
	return file, nil
}

// Delete deletes a file. The next CollectBlobs removes its blob. Deleting a missing file is not an
// error and not a change.
func (f Files) Delete(tx *Tx, key string) error {
	if err := f.unlink(tx, key); err != nil {
		return err
	}
	tx.describes = true
	defer func() { tx.describes = false }()
	return tx.delete(f.prefix + key)
}

// Keys calls fn with each key that starts with prefix ("" for all), in key order. If fn returns
// ErrStop, Keys stops and returns nil. fn may write.
func (f Files) Keys(tx *Tx, prefix string, fn func(key string) error) error {
	return tx.walk(wal.Data, f.prefix+prefix, func(key string, _ []byte) error {
		return fn(key[len(f.prefix):])
	})
}

// link adds the index row that protects the blob of the key from collection. It does nothing for
// inline content.
func (f Files) link(tx *Tx, key string, info FileInfo) error {
	old, _, err := f.read(tx, key)
	if err != nil && !errors.Is(err, ErrNotFound) && !IsDamaged(err) {
		return err
	}
	if old.SHA256 == info.SHA256 {
		return nil
	}
	if err := f.unlink(tx, key); err != nil || inline(info) {
		return err
	}
	if _, err := os.Stat(tx.db.blobs.Path(info.SHA256)); err != nil {
		return fmt.Errorf("write %s%s: %w", f.prefix, key, ErrStagedGone)
	}
	return tx.set(wal.Index, blobReference(info.SHA256, f.prefix+key), []byte{})
}

// unlink removes the index row that protects the blob of the key from collection.
func (f Files) unlink(tx *Tx, key string) error {
	info, _, err := f.read(tx, key)
	switch {
	case errors.Is(err, ErrNotFound), IsDamaged(err), err == nil && inline(info):
		return nil
	case err != nil:
		return err
	}
	return tx.remove(wal.Index, blobReference(info.SHA256, f.prefix+key))
}

// read returns the description of a file, and its content if that is inline. The content is memory
// of bbolt.
func (f Files) read(tx *Tx, key string) (FileInfo, []byte, error) {
	r, ok, err := tx.record(f.prefix, key)
	if err != nil {
		return FileInfo{}, nil, err
	}
	if !ok {
		return FileInfo{}, nil, fmt.Errorf("%s%s: %w", f.prefix, key, ErrNotFound)
	}
	rest, err := tx.payload(f.prefix+key, filesVersion, r.value)
	if err != nil {
		return FileInfo{}, nil, err
	}
	length, n := binary.Uvarint(rest)
	if n <= 0 || length > uint64(len(rest)-n) {
		return FileInfo{}, nil, tx.db.damaged(f.prefix+key, errors.New("the file's description is truncated"))
	}
	description, content := rest[n:n+int(length)], rest[n+int(length):]
	var info FileInfo
	if err := json.Unmarshal(description, &info); err != nil {
		return FileInfo{}, nil, tx.db.damaged(f.prefix+key, err)
	}
	if inline(info) && info.Size != int64(len(content)) {
		return FileInfo{}, nil, tx.db.damaged(f.prefix+key, fmt.Errorf("the file has %d of %d bytes", len(content),
			info.Size))
	}
	return info, content, nil
}

func inline(info FileInfo) bool { return info.Size <= inlineLimit }

// blobReference returns the key of the index row that protects the blob of a file from collection.
func blobReference(sha256, key string) string {
	return blobReferences + sha256 + key
}

// blobReferences is the beginning of the keys of these rows.
const blobReferences = "blobs/"

// inlineFile reads content that was copied from the database.
type inlineFile struct{ *bytes.Reader }

func (inlineFile) Close() error { return nil }
