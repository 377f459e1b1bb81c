package backup

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"filippo.io/age"

	"landfall/appliance/durable"
)

// encryptedPrefix is the beginning of a file that age encrypted.
const encryptedPrefix = "age-encryption.org/"

// WriteFile writes the backup in a stream to a file, and reads it back. After an error, or a crash,
// the file has its former content.
func WriteFile(path string, stream io.Reader, recipients ...age.Recipient) (_ *Manifest, err error) {
	defer func() { err = ExplainMedium("backup", path, err) }()
	if path, err = target(path); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return nil, err
	}
	defer func() {
		if rest := os.Remove(file.Name()); rest != nil && !errors.Is(rest, fs.ErrNotExist) {
			err = errors.Join(err, rest)
		}
	}()
	hash := sha256.New()
	manifest, err := WriteTo(io.MultiWriter(file, hash), stream, recipients...)
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = readBack(file, hash.Sum(nil))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return nil, err
	}
	return manifest, durable.SyncDir(filepath.Dir(path))
}

// target returns the path of the file that a rename replaces, so that a link or a device stays.
func target(path string) (string, error) {
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		link := path
		if path, err = filepath.EvalSymlinks(link); err != nil {
			if failed, ok := errors.AsType[*fs.PathError](err); ok {
				err = failed.Err
			}
			return "", fmt.Errorf("the link %s can't be followed (%w): mount what it leads to, or name another file",
				link, err)
		}
		info, err = os.Lstat(path)
	}
	if err == nil && !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no regular file: name a file or a directory", path)
	}
	return path, nil
}

// WriteFile writes a backup, without what opens its data keys, to a file and reads it back.
func (s *Source) WriteFile(ctx context.Context, path string) (*Manifest, error) {
	return Pipe(func(to *io.PipeWriter) error { return s.Write(ctx, to, false) },
		func(from io.Reader) (*Manifest, error) { return WriteFile(path, from) })
}

// Pipe calls read with what write writes, and waits for both. If write has failed and read
// therefore, the error is that of write.
func Pipe[T any](write func(*io.PipeWriter) error, read func(io.Reader) (T, error)) (T, error) {
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := write(writer)
		_ = writer.CloseWithError(err) // never fails
		ended <- err
	}()
	result, err := read(reader)
	if err == nil {
		// The end of the archive follows the manifest, and its writer waits until it is read.
		_, err = io.Copy(io.Discard, reader)
	}
	_ = reader.Close() // never fails; it ends the writer
	if written := <-ended; err == nil || errors.Is(err, written) {
		err = written
	}
	return result, err
}

// errorKeeper keeps the error of a write.
type errorKeeper struct {
	io.Writer
	err error
}

func (k *errorKeeper) Write(p []byte) (n int, err error) {
	n, k.err = k.Writer.Write(p)
	return n, k.err
}

// WriteTo copies the backup in a stream and checks it on the way.
func WriteTo(to io.Writer, stream io.Reader, recipients ...age.Recipient) (*Manifest, error) {
	var encrypted io.WriteCloser
	if len(recipients) > 0 {
		var err error
		if encrypted, err = age.Encrypt(to, recipients...); err != nil {
			return nil, fmt.Errorf("encrypt the backup: %w", err)
		}
		to = encrypted
	}
	written := &errorKeeper{Writer: to}
	copied := io.TeeReader(stream, written)
	manifest, err := Read(copied, nil)
	if err == nil {
		_, err = io.Copy(io.Discard, copied) // the end of the archive
	}
	if written.err != nil {
		err = written.err // Read takes it for damage of the stream
	}
	if encrypted != nil {
		err = errors.Join(err, encrypted.Close())
	}
	if err != nil {
		return nil, err
	}
	return manifest, nil
}

// ErrEncrypted reports that a backup is encrypted and no identity was given.
var ErrEncrypted = errors.New("the backup is encrypted; give the passphrase or the identity that opens it")

// Decrypt returns the clear content of a file that may be encrypted.
func Decrypt(from io.Reader, identities ...age.Identity) (io.Reader, error) {
	buffered := bufio.NewReaderSize(from, 64<<10)
	beginning, err := buffered.Peek(len(encryptedPrefix))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !bytes.Equal(beginning, []byte(encryptedPrefix)) {
		return buffered, nil
	}
	if len(identities) == 0 {
		return nil, ErrEncrypted
	}
	clear, err := age.Decrypt(buffered, identities...)
	if err != nil {
		return nil, fmt.Errorf("the backup can't be decrypted: %w", err)
	}
	return clear, nil
}
