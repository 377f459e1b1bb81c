package store

import (
	"bytes"
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

// inlineLimit is the size in bytes up to which a file's content is kept in the database; larger
// ones become blobs.
const inlineLimit = 64 << 10

// filesVersion is the schema version of the rows of files.
const filesVersion = 1

// FileInfo describes a stored file.
type FileInfo struct {
	Size     int64     `json:"size"`     // bytes
	SHA256   string    `json:"sha256"`   // hex
	Modified time.Time `json:"modified"` // UTC
}

// Files keeps files under the keys "/<name>/<key>": their description and, up to 64 KiB, their
// content as a row of the database, greater content as a blob beside it. They change, fail and are
// watched with everything else in their transaction.
//
// A row's value is the schema version and the length of the description as uvarints, the
// description (FileInfo as JSON), and the content if it is inline.
type Files struct {
	prefix string
}

// NewFiles describes the files of that name.
func NewFiles(name string) Files {
	return Files{prefix: "/" + name + "/"}
}

// Prefix is what the files' keys begin with in the database, in Change.Key for one: "/<name>/".
func (f Files) Prefix() string { return f.prefix }

// Put makes the key hold what was staged. The same staged content may be put under several keys.
// ErrStagedGone if it waited longer than Options.BlobGrace.
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

// Stat describes a file. ErrNotFound if there is none.
func (f Files) Stat(tx *Tx, key string) (FileInfo, error) {
	info, _, err := f.read(tx, key)
	return info, err
}

// Open opens a file's content for reading; it stays readable if the file is replaced or deleted
// meanwhile. ErrNotFound if there is none. The caller closes it.
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
	// The blob may be collected between the look-up and the opening if the file is deleted or
	// replaced just then: another look-up tells.
	var previous string
	for {
		if err := db.View(read); err != nil {
			return nil, FileInfo{}, err
		}
		if inline(info) {
			return inlineFile{bytes.NewReader(content)}, info, nil
		}
		file, err := db.blobs.open(info)
		if err == nil {
			return file, info, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || info.SHA256 == previous {
			return nil, FileInfo{}, db.corruptRow(f.prefix+key, fmt.Errorf("its content: %w", err))
		}
		previous = info.SHA256
	}
}

// OpenIn is Open within a transaction, which sees what itself has put.
func (f Files) OpenIn(tx *Tx, key string) (io.ReadSeekCloser, error) {
	info, stored, err := f.read(tx, key)
	if err != nil {
		return nil, err
	}
	if inline(info) {
		return inlineFile{bytes.NewReader(bytes.Clone(stored))}, nil
	}
	file, err := tx.db.blobs.open(info)
	if err != nil {
		return nil, tx.db.corruptRow(f.prefix+key, fmt.Errorf("its content: %w", err))
	}
	return file, nil
}

// Delete removes a file; its blob goes with the next CollectBlobs. A key that has none is no error
// and no change.
func (f Files) Delete(tx *Tx, key string) error {
	if err := f.unlink(tx, key); err != nil {
		return err
	}
	tx.describes = true
	defer func() { tx.describes = false }()
	return tx.delete(f.prefix + key)
}

// Keys calls fn in order with every key that begins with prefix ("" for all). ErrStop from fn ends
// it early. fn may write.
func (f Files) Keys(tx *Tx, prefix string, fn func(key string) error) error {
	return tx.walk(wal.Data, f.prefix+prefix, func(key string, _ []byte) error {
		return fn(key[len(f.prefix):])
	})
}

// link makes the index say which blob, if any, the key refers to.
func (f Files) link(tx *Tx, key string, info FileInfo) error {
	old, _, err := f.read(tx, key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if old.SHA256 == info.SHA256 {
		return nil
	}
	if err := f.unlink(tx, key); err != nil || inline(info) {
		return err
	}
	if _, err := os.Stat(tx.db.blobs.path(info.SHA256)); err != nil {
		return fmt.Errorf("write %s%s: %w", f.prefix, key, ErrStagedGone)
	}
	return tx.set(wal.Index, blobReference(info.SHA256, f.prefix+key), []byte{})
}

// unlink removes the key's reference to its blob, if it has one.
func (f Files) unlink(tx *Tx, key string) error {
	info, _, err := f.read(tx, key)
	switch {
	case errors.Is(err, ErrNotFound), err == nil && inline(info):
		return nil
	case err != nil:
		return err
	}
	return tx.remove(wal.Index, blobReference(info.SHA256, f.prefix+key))
}

// read returns a file's description and, if it is inline, its content in bbolt's memory.
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
		return FileInfo{}, nil, tx.db.corruptRow(f.prefix+key, errors.New("the file's description is cut off"))
	}
	description, content := rest[n:n+int(length)], rest[n+int(length):]
	var info FileInfo
	if err := json.Unmarshal(description, &info); err != nil {
		return FileInfo{}, nil, tx.db.corruptRow(f.prefix+key, err)
	}
	if inline(info) && info.Size != int64(len(content)) {
		return FileInfo{}, nil, tx.db.corruptRow(f.prefix+key, fmt.Errorf("the file has %d of %d bytes", len(content),
			info.Size))
	}
	return info, content, nil
}

func inline(info FileInfo) bool { return info.Size <= inlineLimit }

// blobReference is the index row by which a file keeps its blob from being collected.
func blobReference(sha256, key string) string {
	return "blobs/" + sha256 + key
}

// inlineFile reads content that was copied out of the database.
type inlineFile struct{ *bytes.Reader }

func (inlineFile) Close() error { return nil }
