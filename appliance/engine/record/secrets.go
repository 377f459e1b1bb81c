package record

import (
	"bytes"
	"errors"
	"io"

	"landfall/appliance/fault"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// Pull secrets lie sealed in the store, in the rows of clusters and infra-envs, and so do all files
// that installations generate: they hold pull secrets, private keys and passwords. They are sealed
// when they are written and opened where they are used, so that the database and its backups hold
// none in clear. Rows that were written before there was a key are sealed when they are written
// next.

// OpenSecret returns the clear text of a pull secret in a row.
func OpenSecret(secrets *sitekey.Box, sealed string) (string, error) {
	secret, err := secrets.Open(sealed)
	if err != nil {
		return "", &fault.Error{Kind: fault.Conflict, Reason: "The pull secret can't be read: " + err.Error() + ".",
			Err: err}
	}
	return secret, nil
}

// ReplaceSecret returns the value of a row's pull secret after an update. An equal secret keeps its
// sealed form.
func ReplaceSecret(secrets *sitekey.Box, held, wanted string) string {
	if open, err := secrets.Open(held); err == nil && open == wanted {
		return held
	}
	return wanted // it may be the held value itself
}

// Seal seals the pull secret of a row that is about to be written.
func Seal(secrets *sitekey.Box, secret *string) (err error) {
	*secret, err = secrets.Seal(*secret)
	return err
}

// memoryFile is the opened content of a file.
type memoryFile struct{ *bytes.Reader }

// FileOf returns content as a file that is open for reading.
func FileOf(content []byte) io.ReadSeekCloser { return memoryFile{bytes.NewReader(content)} }

// Close implements io.Closer.
func (memoryFile) Close() error { return nil }

// OpenSealed opens a file for reading, and unseals it if need be; the description is then of what
// was sealed, but for the digest.
func OpenSealed(db *store.DB, secrets *sitekey.Box, files store.Files,
	key string) (io.ReadSeekCloser, store.FileInfo, error) {
	file, info, err := files.Open(db, key)
	if err != nil {
		return nil, info, err
	}
	beginning := make([]byte, sitekey.SealedPrefix)
	if n, err := io.ReadFull(file, beginning); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) &&
		!errors.Is(err, io.EOF) {
		return nil, info, errors.Join(err, file.Close())
	} else if beginning = beginning[:n]; !sitekey.Sealed(beginning) {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return nil, info, errors.Join(err, file.Close())
		}
		return file, info, nil
	}
	rest, err := io.ReadAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, info, err
	}
	content, err := secrets.OpenBytes(append(beginning, rest...))
	if err != nil {
		return nil, info, &fault.Error{Kind: fault.Conflict, Reason: "The file " + key + " can't be read: " +
			err.Error() + ".",
			Err: err}
	}
	info.Size = int64(len(content))
	return FileOf(content), info, nil
}
