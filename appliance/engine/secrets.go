package engine

import (
	"bytes"
	"errors"
	"io"

	"landfall/appliance/sitekey"
	"landfall/store"
)

// Pull secrets lie sealed in the store, in the rows of clusters and infra-envs, and so do all files
// that installations generate: they hold pull secrets, private keys and passwords. They are sealed
// when they are written and opened where they are used, so that the database and its backups hold
// none in clear. Rows that were written before there was a key are sealed when they are written
// next.

// openSecret returns a pull secret that was taken from a row.
func (e *Engine) openSecret(sealed string) (string, error) {
	secret, err := e.options.Secrets.Open(sealed)
	if err != nil {
		return "", &Error{Kind: Conflict, Reason: "The pull secret can't be read: " + err.Error() + ".", Err: err}
	}
	return secret, nil
}

// replaceSecret returns what a row is to hold for a pull secret: what it holds already, if that is
// the same.
func (e *Engine) replaceSecret(held, wanted string) string {
	if open, err := e.options.Secrets.Open(held); err == nil && open == wanted {
		return held
	}
	return wanted // which may be what is held itself
}

// seal seals the pull secret of a row that is about to be written.
func (e *Engine) seal(secret *string) (err error) {
	*secret, err = e.options.Secrets.Seal(*secret)
	return err
}

// openedFile is the content of a file that was sealed.
type openedFile struct{ *bytes.Reader }

// Close implements io.Closer.
func (openedFile) Close() error { return nil }

// openSealed opens a file for reading, and unseals it if need be; the description is then of what
// was sealed, but for the digest.
func (e *Engine) openSealed(files store.Files, key string) (io.ReadSeekCloser, store.FileInfo, error) {
	file, info, err := files.Open(e.options.DB, key)
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
	content, err := e.options.Secrets.OpenBytes(append(beginning, rest...))
	if err != nil {
		return nil, info, &Error{Kind: Conflict, Reason: "The file " + key + " can't be read: " + err.Error() + ".",
			Err: err}
	}
	info.Size = int64(len(content))
	return openedFile{bytes.NewReader(content)}, info, nil
}
