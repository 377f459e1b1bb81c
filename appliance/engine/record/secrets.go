package record

import (
	"bytes"
	"errors"
	"io"

	"landfall/appliance/fault"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// Pull secrets are sealed in the rows of clusters and infra-envs. All files that installations
// generate are also sealed, because they contain pull secrets, private keys and passwords. They are
// sealed when they are written and unsealed when they are used, so that the database and its
// backups contain no clear text. Rows from before the key existed are sealed when they are next
// written.

// OpenSecret returns the clear text of a pull secret in a row.
func OpenSecret(secrets *sitekey.Box, sealed string) (string, error) {
	secret, err := secrets.Open(sealed)
	if err != nil {
		return "", &fault.Error{Kind: fault.Conflict, Reason: "The pull secret can't be read: " + err.Error() + ".",
			Err: err}
	}
	return secret, nil
}

// ReplaceSecret returns the new value of a row's pull secret. If the secret does not change, its
// sealed form is kept.
func ReplaceSecret(secrets *sitekey.Box, held, wanted string) string {
	if open, err := secrets.Open(held); err == nil && open == wanted {
		return held
	}
	return wanted // possibly the stored value itself
}

// Seal seals the pull secret of a row before it is written, unless it is sealed already. A client
// can't send a pull secret that looks sealed, because pull secrets are JSON.
func Seal(secrets *sitekey.Box, secret *string) (err error) {
	if sitekey.IsSealed(*secret) {
		return nil
	}
	*secret, err = secrets.Seal(*secret)
	return err
}

// memoryFile is the opened content of a file.
type memoryFile struct{ *bytes.Reader }

// FileOf returns a file that is open for reading and has the given content.
func FileOf(content []byte) io.ReadSeekCloser { return memoryFile{bytes.NewReader(content)} }

// Close implements io.Closer.
func (memoryFile) Close() error { return nil }

// OpenSealed opens a file for reading, and unseals its content if it is sealed. The returned
// description is that of the clear text, except for the digest.
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
