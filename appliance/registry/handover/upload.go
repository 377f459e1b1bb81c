package handover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

const (
	dialTimeout = 10 * time.Second
	// finishTimeout is how long a registry may take to answer. Registries with object stores copy
	// a large blob when its upload ends.
	finishTimeout = 10 * time.Minute
	// firstChunk is the size of parts after a whole blob was too large for a request, and
	// smallestChunk is where the reduction ends. Both in bytes.
	firstChunk    = 64 << 20
	smallestChunk = 1 << 20
	// fruitless is the number of attempts without progress after which an upload ends.
	fruitless = 3
)

// upload is the upload of a blob.
type upload struct {
	target     *target
	repository string
	digest     string
	size       int64
	from       string // a repository that has the blob, or ""
	// write writes a range of the blob.
	write func(ctx context.Context, w io.Writer, offset, size int64) error
	// sent is called with the bytes that the registry has received.
	sent  func(n int64)
	chunk *chunkSize
}

// has reports whether the repository has the blob.
func (u *upload) has(ctx context.Context) (bool, error) {
	answer, err := u.target.do(ctx, call{method: http.MethodHead, repository: u.repository,
		address: "blobs/" + u.digest, want: []int{http.StatusOK}})
	switch {
	case err == nil:
		return answer.ContentLength < 0 || answer.ContentLength == u.size, nil
	case statusOf(err) == http.StatusNotFound:
		return false, nil
	}
	return false, err
}

// run uploads the blob. After a broken connection, it continues at the offset that the registry
// names.
func (u *upload) run(ctx context.Context) error {
	location, done, err := u.start(ctx)
	if err != nil || done {
		return err
	}
	var offset int64
	for tries := 0; offset < u.size || u.size == 0; {
		next, at, err := u.send(ctx, location, offset)
		if err == nil {
			if u.size == 0 {
				location = at
				break
			}
			if next > offset {
				offset, location, tries = next, at, 0
				continue
			}
			err = fmt.Errorf("%s accepts a part of %s, but says that it has only %d bytes", u.target.host, u.digest,
				next)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if statusOf(err) == http.StatusRequestEntityTooLarge {
			if !u.chunk.reduce() {
				return refused("%s refuses a request with %d bytes (413); raise the limit of its reverse proxy, such "+
					"as client_max_body_size of nginx", u.target.host, u.chunk.of(u.size))
			}
		} else if final(err) {
			return err
		}
		if tries++; tries > fruitless {
			return err
		}
		known, at, failed := u.offset(ctx, location)
		switch {
		case statusOf(failed) != 0 && final(failed) || statusOf(failed) == http.StatusRequestedRangeNotSatisfiable:
			// The registry has dropped the upload, or does not continue it after a broken request.
			if location, done, failed = u.start(ctx); failed != nil || done {
				return failed
			}
			offset = 0
		case failed != nil:
			return errors.Join(err, failed)
		default:
			if known > offset {
				tries = 0
				u.sent(known - offset)
			}
			offset, location = known, at
		}
	}
	return u.finish(ctx, location)
}

// final reports whether repeating a request would not help.
func final(err error) bool {
	switch status := statusOf(err); status {
	case 0, http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusRequestedRangeNotSatisfiable:
		return false
	default:
		return status < http.StatusInternalServerError
	}
}

// start begins an upload, or mounts the blob of another repository. A registry that does not allow
// the mount gets the bytes.
func (u *upload) start(ctx context.Context) (location string, done bool, err error) {
	if u.from != "" {
		answer, err := u.target.do(ctx, call{method: http.MethodPost, repository: u.repository, from: u.from,
			address: "blobs/uploads/", query: url.Values{"mount": {u.digest}, "from": {u.from}},
			want: []int{http.StatusCreated, http.StatusAccepted}})
		switch {
		case err == nil && answer.StatusCode == http.StatusCreated:
			return "", true, nil
		case err == nil:
			location, err := locationOf(answer)
			return location, false, err
		case statusOf(err) == 0:
			return "", false, err
		}
	}
	answer, err := u.target.do(ctx, call{method: http.MethodPost, repository: u.repository, address: "blobs/uploads/",
		want: []int{http.StatusAccepted}})
	if err != nil {
		return "", false, err
	}
	location, err = locationOf(answer)
	return location, false, err
}

// locationOf returns the URL at which an upload goes on.
func locationOf(a answer) (string, error) {
	location, err := a.Response.Location()
	if err != nil {
		return "", fmt.Errorf("the registry names no location for an upload: %w", err)
	}
	return location.String(), nil
}

// send sends the next part of the blob.
func (u *upload) send(ctx context.Context, location string, offset int64) (next int64, at string, err error) {
	size := u.chunk.of(u.size - offset)
	reader, writer := io.Pipe()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		err := u.write(reading, writer, offset, size)
		ended <- err
		_ = writer.CloseWithError(err) // never fails
	}()
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	if offset > 0 || size < u.size {
		header.Set("Content-Range", fmt.Sprintf("%d-%d", offset, offset+size-1))
	}
	answer, err := u.target.do(ctx, call{method: http.MethodPatch, repository: u.repository, address: location,
		header: header, body: reader, size: size, want: []int{http.StatusAccepted, http.StatusNoContent,
			http.StatusCreated}})
	stop()
	_ = reader.CloseWithError(context.Canceled) // never fails; ends the writer
	if read := <-ended; read != nil && err != nil && !errors.Is(read, context.Canceled) {
		return 0, "", &readError{read}
	}
	if err != nil {
		return 0, "", err
	}
	if at, err = locationOf(answer); err != nil {
		return 0, "", err
	}
	next = offset + size
	if known, ok := rangeOf(answer); ok && known > 0 { // some registries answer 0-0 to each part
		next = min(known, next)
	}
	u.sent(max(0, next-offset))
	return next, at, nil
}

// readError reports that the appliance could not read its own blob.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

// offset asks the registry how much of the upload it has.
func (u *upload) offset(ctx context.Context, location string) (n int64, at string, err error) {
	answer, err := u.target.do(ctx, call{method: http.MethodGet, repository: u.repository, address: location,
		want: []int{http.StatusNoContent, http.StatusOK, http.StatusAccepted}})
	if err != nil {
		return 0, "", err
	}
	at = location
	if moved, err := locationOf(answer); err == nil {
		at = moved
	}
	n, _ = rangeOf(answer)
	return n, at, nil
}

// rangeOf returns the number of bytes that an answer names: "0-1023" are 1024, and "0-0" of some
// registries is none.
func rangeOf(a answer) (int64, bool) {
	_, last, ok := strings.Cut(strings.TrimPrefix(a.Header.Get("Range"), "bytes="), "-")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(last, 10, 64)
	switch {
	case err != nil:
		return 0, false
	case n <= 0:
		return 0, true
	}
	return n + 1, true
}

// finish ends the upload. The registry compares the bytes with the digest.
func (u *upload) finish(ctx context.Context, location string) error {
	_, err := u.target.do(ctx, call{method: http.MethodPut, repository: u.repository, address: location,
		query: url.Values{"digest": {u.digest}}, header: http.Header{"Content-Type": {"application/octet-stream"}},
		want: []int{http.StatusCreated, http.StatusNoContent, http.StatusAccepted}})
	if codeOf(err, transport.DigestInvalidErrorCode) {
		if own := u.compare(ctx); own != nil {
			return &readError{own}
		}
		return fmt.Errorf("%s received %s damaged; it is sent again", u.target.host, u.digest)
	}
	return err
}

// compare reads the whole blob and compares it with its digest. A blob that is sent in parts is not
// compared otherwise. The registry marks a damaged one when it is read as a whole.
func (u *upload) compare(ctx context.Context) error {
	sum := sha256.New()
	if err := u.write(ctx, struct{ io.Writer }{sum}, 0, u.size); err != nil {
		return err
	}
	if "sha256:"+hex.EncodeToString(sum.Sum(nil)) != u.digest {
		return fmt.Errorf("this appliance has %s damaged; compare all blobs with landfall registry verify, and then "+
			"copy the medium or push the image again", u.digest)
	}
	return nil
}

// cancelUpload removes an upload that was only begun. Registries that can't do so remove it later.
func (t *target) cancelUpload(ctx context.Context, repository, location string) {
	_, _ = t.do(ctx, call{method: http.MethodDelete, repository: repository, address: location,
		want: []int{http.StatusNoContent, http.StatusOK, http.StatusAccepted}}) // see the comment
}

// putManifest stores a manifest under a tag or its digest.
func (t *target) putManifest(ctx context.Context, repository, reference, mediaType string, data []byte) error {
	_, err := t.do(ctx, call{method: http.MethodPut, repository: repository, address: "manifests/" + reference,
		header: http.Header{"Content-Type": {mediaType}}, body: newBody(data), size: int64(len(data)),
		want: []int{http.StatusCreated, http.StatusOK, http.StatusAccepted}})
	return err
}
