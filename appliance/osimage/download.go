package osimage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"landfall/appliance/architecture"
)

// stallLimit is the time after which a server that sends nothing has stalled.
const stallLimit = time.Minute

var errStalled = fmt.Errorf("the server sent nothing for %s", stallLimit)

// download fetches the missing part of an image from its URL.
func (l *Library) download(ctx context.Context, e *entry, part *partial) error {
	l.mu.Lock()
	from, validator, added := e.record.URL, e.record.Validator, l.additions[e.record.URL]
	l.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := l.options.Clock.AfterFunc(stallLimit, func() { cancel(errStalled) })
	defer stall.Stop()
	err := l.receiveURL(ctx, e, part, source{from, validator, added}, func() { stall.Reset(stallLimit) })
	if err == nil {
		return nil
	}
	if errors.Is(context.Cause(ctx), errStalled) {
		err = errStalled
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // which URL is said here
	}
	return fmt.Errorf("downloading %s: %w", redacted(from), err)
}

// redacted returns a URL without its password.
func redacted(raw string) string {
	parsed, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return parsed.Redacted()
}

// source is the source of a download.
type source struct {
	url, validator string
	Additions
}

func (s source) request(ctx context.Context) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	for name, value := range s.Headers {
		request.Header.Set(name, value)
	}
	if len(s.Query) > 0 {
		query := request.URL.Query()
		for name, value := range s.Query {
			query.Set(name, value)
		}
		request.URL.RawQuery = query.Encode()
	}
	return request, nil
}

func (l *Library) receiveURL(ctx context.Context, e *entry, part *partial, from source, alive func()) (err error) {
	request, err := from.request(ctx)
	if err != nil {
		return &ContentError{Problem: err.Error()}
	}
	if part.offset > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", part.offset))
		if from.validator != "" {
			request.Header.Set("If-Range", from.validator) // another file there is sent from its beginning
		}
	}
	client := &http.Client{Transport: l.options.Transport}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	total, err := l.begin(e, part, response)
	if err != nil || total == part.offset && total > 0 {
		return err
	}
	if total > 0 {
		if err := part.reserve(total); err != nil {
			return err
		}
	}
	buffer := make([]byte, copyBuffer)
	if _, err := io.CopyBuffer(&noted{l, e, part, alive}, response.Body, buffer); err != nil {
		return err
	}
	if total > 0 && part.offset != total {
		return fmt.Errorf("the server ended after %d of %d bytes: %w", part.offset, total, io.ErrUnexpectedEOF)
	}
	return nil
}

// begin reads an answer's header: where its body goes, and how large the whole is (0: it is not
// said).
func (l *Library) begin(e *entry, part *partial, response *http.Response) (total int64, err error) {
	switch response.StatusCode {
	case http.StatusPartialContent:
		var first, last int64
		if _, err := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last,
			&total); err != nil || first != part.offset {
			return 0, errors.Join(fmt.Errorf("the server answered the range %q to bytes=%d-; the download begins anew",
				response.Header.Get("Content-Range"), part.offset), part.restart())
		}
	case http.StatusOK:
		if err := part.restart(); err != nil {
			return 0, err
		}
		total = max(0, response.ContentLength)
	case http.StatusRequestedRangeNotSatisfiable:
		if _, err := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes */%d", &total); err == nil &&
			total == part.offset {
			return total, nil // it is complete
		}
		return 0, errors.Join(fmt.Errorf("the server has another file now; the download begins anew"), part.restart())
	default:
		return 0, fmt.Errorf("the server answered %s", response.Status)
	}
	validator := response.Header.Get("ETag")
	if validator == "" || strings.HasPrefix(validator, "W/") { // a weak tag is no good for ranges (RFC 9110, 13.1.5)
		validator = response.Header.Get("Last-Modified")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.record.Validator, e.record.TotalBytes, e.total = validator, total, total
	return total, nil
}

// noted is a partial that reports its progress.
type noted struct {
	library *Library
	entry   *entry
	part    *partial
	alive   func() // called for received bytes
}

func (n *noted) Write(b []byte) (int, error) {
	n.alive()
	written, err := n.part.Write(b)
	n.library.mu.Lock()
	n.entry.done = n.part.offset
	n.library.mu.Unlock()
	return written, err
}

// fromRelease extracts an image from a release payload. A layer can only be read from its
// beginning, so an interrupted attempt starts again. The registry client bridges broken
// connections.
func (l *Library) fromRelease(ctx context.Context, e *entry, part *partial) error {
	if l.options.FetchRelease == nil {
		return &ContentError{Problem: "this appliance has no releases to take images out of"}
	}
	l.mu.Lock()
	r := e.record
	l.mu.Unlock()
	if err := part.restart(); err != nil {
		return err
	}
	name := r.Release
	if e.configured {
		name = ""
	}
	secret, err := l.options.Secrets.Open(r.PullSecret)
	if err != nil {
		return &RequestError{"the pull secret of the image can't be read: " + err.Error()}
	}
	release := Release{Name: name, Version: r.OpenshiftVersion,
		Architecture: cmp.Or(architecture.Of(r.CPUArchitecture).RPM(),
			"x86_64"), PullSecret: secret}
	sum, err := l.options.FetchRelease(ctx, release, func(version string, size int64) (io.Writer, error) {
		l.mu.Lock()
		e.record.TotalBytes, e.total, e.done = size, size, 0
		if e.record.OpenshiftVersion == "" {
			e.record.OpenshiftVersion = Minor(version)
		}
		l.mu.Unlock()
		return &noted{l, e, part, func() {}}, part.reserve(size)
	})
	if err != nil {
		return err
	}
	if got := part.digest(); sum != "" && !strings.EqualFold(sum, got) {
		return &ContentError{Problem: fmt.Sprintf("the live ISO in release %s has sha256 %s, the payload says %s; "+
			"copy the release to the mirror again", cmp.Or(r.Release, r.OpenshiftVersion), got, sum)}
	}
	return nil
}
