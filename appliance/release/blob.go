package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/mirror"
)

// maxAttemptsWithoutData is the number of consecutive attempts without received data after which a
// download fails.
const maxAttemptsWithoutData = 3

// stallLimit is the maximum time without data from a registry.
const stallLimit = time.Minute

var errStalled = fmt.Errorf("the registry sent nothing for %s", stallLimit)

// copyBuffer is the size in bytes of one copy step, and thus of one progress report.
const copyBuffer = 256 << 10

// DigestError reports that the content of a registry's blob does not match its digest.
type DigestError struct{ Blob, From, Got string }

func (e *DigestError) Error() string {
	return fmt.Sprintf("blob %s from %s is damaged: its content has digest %s; copy the image to the mirror again",
		e.Blob, e.From, e.Got)
}

// refusedError is the error of a response that a retry cannot change.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// download stores a complete and verified blob in the cache and returns its path. If the registry
// supports ranges, it resumes an earlier attempt, even one of an earlier process. It calls progress
// with the number of stored bytes.
func (l *Library) download(ctx context.Context, served mirror.Endpoint, secret authn.Keychain, blob v1.Descriptor,
	progress func(int64)) (string, error) {
	if blob.Digest.Algorithm != "sha256" {
		return "", fmt.Errorf("blob %s: the digest algorithm %s is not supported", blob.Digest, blob.Digest.Algorithm)
	}
	client, err := blobClient(ctx, served, l.mirror.Transport(served), secret)
	if err != nil {
		return "", mirror.Failed(served.Ref.Name(), served, err, secret)
	}
	path := filepath.Join(l.partialDir(), blob.Digest.Hex)
	d := &blobDownload{client: client, served: served, secret: secret, blob: blob, progress: progress}
	err = d.into(ctx, path, l)
	var damaged *DigestError
	if errors.As(err, &damaged) && d.resumed {
		// The data of an earlier attempt may be damaged: restart once.
		l.log.Warn("The data of a resumed download was damaged. The download restarts.", "blob", blob.Digest.String(),
			"from",
			served.Ref.Name())
		err = d.into(ctx, path, l)
	}
	if err != nil {
		return "", err
	}
	return path, nil
}

// blobClient returns a client for the endpoint's registry with the credentials of the secret.
func blobClient(ctx context.Context, served mirror.Endpoint, base http.RoundTripper,
	secret authn.Keychain) (*http.Client, error) {
	repository, auth := served.Ref.Context(), authn.Anonymous
	if secret != nil {
		var err error
		if auth, err = authn.Resolve(ctx, secret, repository); err != nil {
			return nil, err
		}
	}
	rt, err := transport.NewWithContext(ctx, repository.Registry, auth, base,
		[]string{repository.Scope(transport.PullScope)})
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: rt}, nil
}

type blobDownload struct {
	client   *http.Client
	served   mirror.Endpoint
	secret   authn.Keychain
	blob     v1.Descriptor
	progress func(int64)
	resumed  bool // the file had data before
}

func (d *blobDownload) into(ctx context.Context, path string, l *Library) (err error) {
	sum := sha256.New()
	file, have, err := d.open(path, sum)
	if err != nil {
		return diskError(err)
	}
	defer func() {
		if closeErr := file.Close(); err == nil {
			err = diskError(closeErr)
		}
		// The data of an interrupted download is kept. Damaged data, and data that fills the disk,
		// is removed.
		var damaged *DigestError
		var full *DiskFullError
		if errors.As(err, &damaged) || errors.As(err, &full) {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	d.resumed = have > 0
	for fruitless := 0; have < d.blob.Size; {
		d.progress(have)
		before := have
		have, err = d.attempt(ctx, l.clock, file, sum, have)
		if err == nil {
			continue
		}
		var refused *refusedError
		var full *DiskFullError
		switch {
		case errors.As(err, &refused):
			return mirror.Failed(d.served.Ref.Name(), d.served, err, d.secret)
		case errors.As(err, &full):
			return full
		case ctx.Err() != nil:
			return fmt.Errorf("download blob %s from %s: %w", d.blob.Digest, d.served.Ref.Context().Name(), err)
		}
		if fruitless++; have > before {
			fruitless = 0
		}
		if fruitless == maxAttemptsWithoutData {
			return fmt.Errorf("the download of a layer stopped at %d of %d bytes after %d attempts: %w", have,
				d.blob.Size, fruitless, mirror.Failed(d.served.Ref.Name(), d.served, err, d.secret))
		}
		l.log.Warn("A download was interrupted and is resumed.", "blob", d.blob.Digest.String(), "from",
			d.served.Ref.Name(),
			"have", have, "size", d.blob.Size, "error", err)
		if err := l.pause(ctx, time.Duration(fruitless)*time.Second); err != nil {
			return err
		}
	}
	d.progress(have)
	if got := hex.EncodeToString(sum.Sum(nil)); got != d.blob.Digest.Hex {
		return &DigestError{Blob: d.blob.Digest.String(), From: d.served.Ref.Name(), Got: "sha256:" + got}
	}
	return nil
}

// open opens the file of the download and hashes what it has. If the file can't be read, because
// the disk has a damaged sector, it begins a new one.
func (d *blobDownload) open(path string, sum hash.Hash) (_ *os.File, have int64, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, 0, err
	}
	if have, err = d.existing(file, sum); err == nil {
		return file, have, nil
	}
	if err := errors.Join(file.Close(), os.Remove(path)); err != nil {
		return nil, 0, err
	}
	sum.Reset()
	file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return file, 0, err
}

// existing hashes the data of an earlier attempt in the file.
func (d *blobDownload) existing(file *os.File, sum hash.Hash) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if info.Mode().IsRegular() && info.Size() > d.blob.Size {
		if err := file.Truncate(0); err != nil {
			return 0, err
		}
	}
	if !info.Mode().IsRegular() {
		return 0, nil
	}
	return io.Copy(sum, file)
}

// attempt requests the missing data and appends it, up to the size of the blob. It ends if no data
// arrives for stallLimit.
func (d *blobDownload) attempt(ctx context.Context, clock clockwork.Clock, file *os.File, sum hash.Hash,
	have int64) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := clock.AfterFunc(stallLimit, func() { cancel(errStalled) })
	defer stall.Stop()
	resp, err := d.request(ctx, have)
	if err != nil {
		if errors.Is(context.Cause(ctx), errStalled) {
			err = errStalled
		}
		return have, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK && have > 0 {
		// The registry does not support ranges: skip the part that is present.
		if _, err := io.CopyN(skipper{stall}, resp.Body, have); err != nil {
			return have, err
		}
	}
	sink := &sink{file: file, sum: sum, have: have,
		progress: func(have int64) { stall.Reset(stallLimit); d.progress(have) }}
	_, err = io.CopyBuffer(sink, io.LimitReader(resp.Body, d.blob.Size-have), make([]byte, copyBuffer))
	if err == nil && sink.have < d.blob.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil && errors.Is(context.Cause(ctx), errStalled) {
		err = errStalled
	}
	return sink.have, err
}

// skipper drops bytes. Each of its writes shows that the registry sends something.
type skipper struct{ stall clockwork.Timer }

// Write implements io.Writer.
func (s skipper) Write(p []byte) (int, error) {
	s.stall.Reset(stallLimit)
	return len(p), nil
}

func (d *blobDownload) request(ctx context.Context, from int64) (*http.Response, error) {
	repository := d.served.Ref.Context()
	url := fmt.Sprintf("%s://%s/v2/%s/blobs/%s", repository.Scheme(), repository.RegistryStr(),
		repository.RepositoryStr(), d.blob.Digest)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, d.blob.Size-1))
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return nil, err
	}
	if err := transport.CheckError(resp, http.StatusOK, http.StatusPartialContent); err != nil {
		closeErr := resp.Body.Close()
		var answer *transport.Error
		if errors.As(err, &answer) && !answer.Temporary() {
			err = &refusedError{err}
		}
		return nil, errors.Join(err, closeErr)
	}
	return resp, nil
}

// sink appends to the file and updates sum and progress.
type sink struct {
	file     *os.File
	sum      hash.Hash
	have     int64
	progress func(int64)
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	if _, hashErr := s.sum.Write(p[:n]); err == nil {
		err = hashErr
	}
	s.have += int64(n)
	s.progress(s.have)
	return n, diskError(err)
}

// pause waits for d by the Library's clock, or until ctx ends.
func (l *Library) pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	select {
	case <-l.clock.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
