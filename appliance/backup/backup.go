// Package backup writes backups of a running appliance and restores them.
//
// A backup is a consistent state of one revision. It consists of entries: the rows of the store in
// pieces, the contents of files, the keys and the other small files of the data directory. Rows and
// contents are sealed with the data key, as in the data directory, so that pieces of unchanged rows
// are equal in each backup. The last entry is the manifest with the SHA-256 of all others and of
// itself; without it, a backup is incomplete and is refused.
//
// A stream is a tar archive of the entries. A directory keeps each content once, under its SHA-256,
// for any number of backups.
//
// Design: docs/design.md#backups.
package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"landfall/appliance/checksum"
	"landfall/appliance/keyring"
	"landfall/store"
)

const (
	// formatVersion is the version of the format of backups.
	formatVersion = 1
	// manifestName is the last entry of a stream.
	manifestName = "manifest.json"
	rowsDir      = "rows/"
)

// Manifest describes a backup.
type Manifest struct {
	Version  int       `json:"version"` // of the format
	Program  string    `json:"program"` // version of the program that wrote the backup
	Time     time.Time `json:"time"`
	Revision uint64    `json:"revision"`
	// SealedWith is the method that seals the data keys in the data directory.
	SealedWith string `json:"sealed_with"`
	// Key reports that the backup contains what opens its data keys on any machine.
	Key     bool    `json:"key"`
	Entries []Entry `json:"entries"`
}

// Entry is a file of a backup.
type Entry struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Bytes returns the size of all entries.
func (m *Manifest) Bytes() (size int64) {
	for _, entry := range m.Entries {
		size += entry.Size
	}
	return size
}

// Source is what is backed up.
type Source struct {
	DB      *store.DB
	Dir     string // the data directory
	Program string // version of the program
	Now     func() time.Time
	// SealedWith is the method that seals the data keys.
	SealedWith string
	// DataKey returns the file data.key with all data keys that a snapshot may need.
	DataKey func() ([]byte, error)
	// ExportKeys returns the files data.key and seal.key, with which the data keys are opened on
	// any machine.
	ExportKeys func() (map[string][]byte, error)
}

// smallFile is the largest file of a directory that is part of a backup, in bytes. Live ISOs are
// larger; they can be imported again.
const smallFile = 64 << 20

// writer writes the entries of a stream.
type writer struct {
	tar      *tar.Writer
	manifest Manifest
}

func (w *writer) add(name string, size int64, content io.Reader) error {
	if err := w.tar.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o600, ModTime: w.manifest.Time,
		Format: tar.FormatPAX}); err != nil {
		return err
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(w.tar, hash), io.LimitReader(content, size))
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("back up %s: %w", name, err)
	}
	w.manifest.Entries = append(w.manifest.Entries, Entry{name, size, hex.EncodeToString(hash.Sum(nil))})
	return nil
}

// Write writes a backup as a stream. withKey includes what opens the data keys on any machine, so
// that the stream must be kept like the keys themselves.
func (s *Source) Write(ctx context.Context, to io.Writer, withKey bool) (err error) {
	snapshot, err := s.DB.Snapshot()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	return s.WriteSnapshot(ctx, snapshot, to, withKey)
}

// WriteSnapshot does the same as Write, with a snapshot of the store that the caller took and
// closes.
func (s *Source) WriteSnapshot(ctx context.Context, snapshot *store.Snapshot, to io.Writer, withKey bool) error {
	w := &writer{tar: tar.NewWriter(to), manifest: Manifest{Version: formatVersion, Program: s.Program,
		Time: s.Now().UTC(), Revision: snapshot.Revision(), SealedWith: s.SealedWith, Key: withKey}}
	if err := w.rows(ctx, snapshot); err != nil {
		return err
	}
	if err := snapshot.Contents(ctx, w.add); err != nil {
		return err
	}
	if err := s.files(w, withKey); err != nil {
		return err
	}
	text, err := checksum.Marshal(w.manifest)
	if err != nil {
		return err
	}
	if err := w.tar.WriteHeader(&tar.Header{Name: manifestName, Size: int64(len(text)), Mode: 0o600,
		ModTime: w.manifest.Time, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = w.tar.Write(text)
	return errors.Join(err, w.tar.Close())
}

const (
	// smallPiece and largePiece limit the sizes of pieces of rows, in bytes.
	smallPiece, largePiece = 128 << 10, 1 << 20
	// pieceRows is the mean number of rows between two possible ends of pieces.
	pieceRows = 64
)

// rows writes the rows in pieces. A piece ends after a row that is selected by the hash of its key,
// so that a changed row changes only its own piece.
func (w *writer) rows(ctx context.Context, snapshot *store.Snapshot) error {
	var piece []byte
	number := 0
	flush := func() error {
		number++
		err := w.add(fmt.Sprintf("%s%06d", rowsDir, number), int64(len(piece)), bytes.NewReader(piece))
		piece = piece[:0]
		return err
	}
	err := snapshot.Rows(ctx, func(row store.StoredRow) error {
		piece = store.AppendRow(piece, row)
		hash := fnv.New32a()
		hash.Write(row.Key) // never fails
		if len(piece) < largePiece && (len(piece) < smallPiece || hash.Sum32()%pieceRows != 0) {
			return nil
		}
		return flush()
	})
	if err != nil || len(piece) == 0 {
		return err
	}
	return flush()
}

// Keys returns the files with the data keys. withKey selects those that any machine can open.
func (s *Source) Keys(withKey bool) (map[string][]byte, error) {
	if withKey {
		return s.ExportKeys()
	}
	content, err := s.DataKey()
	return map[string][]byte{keyring.FileName: content}, err
}

// files writes the keys and the other files of the data directory.
func (s *Source) files(w *writer, withKey bool) error {
	keys, err := s.Keys(withKey)
	if err != nil {
		return fmt.Errorf("export the data keys: %w", err)
	}
	for name, content := range keys {
		if err := w.add(name, int64(len(content)), bytes.NewReader(content)); err != nil {
			return err
		}
	}
	names, err := s.FileNames()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.file(w, name); err != nil {
			return err
		}
	}
	return nil
}

// FileNames returns the names below the data directory of the files that are part of a backup,
// besides the keys and the contents of the store. Some may be missing.
func (s *Source) FileNames() ([]string, error) {
	return fileNames(s.Dir, func(part) bool { return true })
}

func fileNames(dir string, wants func(part) bool) ([]string, error) {
	var names []string
	for _, p := range parts() {
		switch {
		case !wants(p) || p.kind == notSaved || p.kind == savedRows:
			continue
		case p.kind == savedFile:
			names = append(names, p.pattern)
			continue
		}
		entries, err := os.ReadDir(filepath.Join(dir, p.pattern))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, entry := range entries {
			if info, err := entry.Info(); err == nil && info.Mode().IsRegular() &&
				(p.kind == savedWhole || info.Size() <= smallFile) &&
				!strings.HasSuffix(entry.Name(), ".part") && !temporary.MatchString(entry.Name()) {
				names = append(names, path.Join(p.pattern, entry.Name()))
			}
		}
	}
	return names, nil
}

func (s *Source) file(w *writer, name string) error {
	file, err := os.Open(filepath.Join(s.Dir, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil {
		err = w.add(name, info.Size(), file)
	}
	return errors.Join(err, file.Close())
}

// IncompleteError reports that a backup is not complete or damaged.
type IncompleteError struct {
	Reason string
	Err    error // of the reading; may be nil
}

// Error implements error.
func (e *IncompleteError) Error() string {
	return "the backup can't be used: " + e.Reason + "; use another backup"
}

// Unwrap returns the error of the reading.
func (e *IncompleteError) Unwrap() error { return e.Err }

// Read reads a stream. entry gets each entry; it may be nil. Read returns the manifest if the
// stream is complete and undamaged.
func Read(from io.Reader, entry func(name string, size int64, content io.Reader) error) (*Manifest, error) {
	archive := tar.NewReader(from)
	var read []Entry
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, &IncompleteError{Reason: "it ends without its manifest, so its writing was interrupted"}
		}
		if err != nil {
			return nil, &IncompleteError{fmt.Sprintf("it is damaged or not a backup (%v)", err), err}
		}
		if header.Name == manifestName {
			return readManifest(archive, read)
		}
		if !fs.ValidPath(header.Name) {
			return nil, &IncompleteError{Reason: fmt.Sprintf("the name %q is not valid", header.Name)}
		}
		hash := sha256.New()
		content := io.TeeReader(archive, hash)
		if entry != nil {
			if err := entry(header.Name, header.Size, content); err != nil {
				return nil, err
			}
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			return nil, &IncompleteError{fmt.Sprintf("%s can't be read (%v)", header.Name, err), err}
		}
		read = append(read, Entry{header.Name, header.Size, hex.EncodeToString(hash.Sum(nil))})
	}
}

func readManifest(from io.Reader, read []Entry) (*Manifest, error) {
	text, err := io.ReadAll(from)
	if err != nil {
		return nil, &IncompleteError{fmt.Sprintf("its manifest can't be read (%v)", err), err}
	}
	m, err := ParseManifest(text)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(m.Entries, read) {
		return nil, &IncompleteError{Reason: "its content differs from its manifest, so it is damaged"}
	}
	return m, nil
}

// ParseManifest reads a manifest in clear. Its error is *IncompleteError if it is damaged, or if a
// newer program wrote it.
func ParseManifest(text []byte) (*Manifest, error) {
	m := new(Manifest)
	if err := checksum.Unmarshal(text, m); err != nil {
		return nil, &IncompleteError{fmt.Sprintf("its manifest is damaged (%v)", err), err}
	}
	if m.Version > formatVersion {
		return nil, &IncompleteError{Reason: fmt.Sprintf("a newer Landfall (%s) wrote it, with format %d; this "+
			"program reads %d", m.Program, m.Version, formatVersion)}
	}
	return m, nil
}
