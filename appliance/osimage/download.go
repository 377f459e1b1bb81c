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

// stallLimit is the time without data after which a download counts as stalled.
const stallLimit = time.Minute

var errStalled = fmt.Errorf("the server sent nothing for %s", stallLimit)

// download downloads the missing part of an image from its URL.
func (l *Library) download(ctx context.Context, e *entry, part *partial) error {
	l.mu.Lock()
	from, validator, added := e.record.URL, e.record.Validator, l.additions[e.record.URL]
	l.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := l.options.Clock.AfterFunc(stallLimit, func() { cancel(errStalled) })
	defer stall.Stop()
	brokeAgain, err := l.receiveURL(ctx, e, part, source{from, validator, added}, func() { stall.Reset(stallLimit) })
	if err == nil {
		return nil
	}
	if errors.Is(context.Cause(ctx), errStalled) {
		err = errStalled
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // without the URL, because the message below contains it
	}
	if brokeAgain {
		err = fmt.Errorf("%w; %s, and the next attempt starts over again: upload the image, or use a server that "+
			"supports range requests", err, noRanges)
	}
	return fmt.Errorf("downloading %s: %w", redacted(from), err)
}

// redacted returns a URL without its password and without the values of its query, which may
// contain a token.
func redacted(raw string) string {
	parsed, err := url.Parse(raw)
	if err != nil || parsed.User == nil && parsed.RawQuery == "" {
		return raw
	}
	if parsed.RawQuery != "" {
		parsed.RawQuery = "xxxxx"
	}
	return parsed.Redacted()
}

// source describes the request of a download.
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

// receiveURL appends what a server sends. brokeAgain reports whether the download started over,
// because the server does not support range requests, and the server has not sent all of it again.
func (l *Library) receiveURL(ctx context.Context, e *entry, part *partial, from source,
	alive func()) (brokeAgain bool, err error) {
	request, err := from.request(ctx)
	if err != nil {
		return false, &ContentError{Problem: err.Error()}
	}
	if part.offset > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", part.offset))
		if from.validator != "" {
			// if the file has changed, the server sends the whole file
			request.Header.Set("If-Range", from.validator)
		}
	}
	client := &http.Client{Transport: l.options.Transport}
	response, err := client.Do(request)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	continued := part.offset > 0
	total, err := l.readHeader(e, part, response)
	if err != nil || total == part.offset && total > 0 {
		return false, err
	}
	startedOver := continued && part.offset == 0 && validatorOf(response) == from.validator
	if startedOver {
		l.noteStartedOver(ctx, e)
	}
	if total > 0 {
		if err := part.reserve(total); err != nil {
			return false, err
		}
	}
	buffer := make([]byte, copyBuffer)
	writer := &progressWriter{library: l, entry: e, part: part, alive: alive}
	_, err = io.CopyBuffer(writer, response.Body, buffer)
	if err == nil && total > 0 && part.offset != total {
		err = fmt.Errorf("the server closed the connection after %d of %d bytes: %w", part.offset,
			total, io.ErrUnexpectedEOF)
	}
	return err != nil && startedOver && !writer.failed, err
}

// noRanges says that an interrupted download could not continue.
const noRanges = "the server does not support range requests, so the download started over"

// noteStartedOver shows that a download starts over although the file is the same.
func (l *Library) noteStartedOver(ctx context.Context, e *entry) {
	l.log.WarnContext(ctx, "A download of an OS image started over, because the server does not support range "+
		"requests.", "id", e.id)
	l.mu.Lock()
	defer l.mu.Unlock()
	e.message = noRanges
}

const fileChanged = "the file on the server has changed; the download restarts"

// readHeader reads the header of a response: the offset of its body, to which it sets part, and the
// total size of the file. The size is 0 if unknown.
func (l *Library) readHeader(e *entry, part *partial, response *http.Response) (total int64, err error) {
	l.mu.Lock()
	validator, size := e.record.Validator, e.record.TotalBytes
	l.mu.Unlock()
	switch response.StatusCode {
	case http.StatusPartialContent:
		// Some servers ignore If-Range.
		if now := validatorOf(response); validator != "" && now != "" && now != validator {
			return 0, errors.Join(errors.New(fileChanged), part.restart())
		}
		var first, last int64
		if _, err := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last,
			&total); err != nil || first != part.offset {
			return 0,
				errors.Join(fmt.Errorf("the server sent the range %q for the request of bytes=%d-; the download "+
					"restarts",
					response.Header.Get("Content-Range"), part.offset), part.restart())
		}
		if size > 0 && total != size {
			return 0, errors.Join(errors.New(fileChanged), part.restart())
		}
	case http.StatusOK:
		if err := part.restart(); err != nil {
			return 0, err
		}
		total = max(0, response.ContentLength)
	case http.StatusRequestedRangeNotSatisfiable:
		if _, err := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes */%d", &total); err == nil &&
			total == part.offset {
			return total, nil // the file is complete
		}
		return 0, errors.Join(errors.New(fileChanged), part.restart())
	default:
		return 0, fmt.Errorf("the server answered %s", response.Status)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.record.Validator, e.record.TotalBytes, e.total = validatorOf(response), total, total
	return total, nil
}

// validatorOf returns by what later requests recognize the same content of the file, or "".
func validatorOf(response *http.Response) string {
	validator := response.Header.Get("ETag")
	if validator == "" || strings.HasPrefix(validator, "W/") { // weak tags do not support ranges (RFC 9110, 13.1.5)
		validator = response.Header.Get("Last-Modified")
	}
	return validator
}

// progressWriter writes to a partial and reports the progress.
type progressWriter struct {
	library *Library
	entry   *entry
	part    *partial
	alive   func() // called for received bytes
	failed  bool   // the bytes could not be written
}

func (n *progressWriter) Write(b []byte) (int, error) {
	n.alive()
	written, err := n.part.Write(b)
	n.library.mu.Lock()
	n.entry.done = n.part.offset
	n.library.mu.Unlock()
	n.failed = n.failed || err != nil
	return written, err
}

// downloadFromRelease extracts an image from a release payload. A layer can only be read from its
// beginning, so an interrupted attempt restarts. The registry client resumes after broken
// connections.
func (l *Library) downloadFromRelease(ctx context.Context, e *entry, part *partial) error {
	if l.options.FetchRelease == nil {
		return &ContentError{Problem: "imports from releases are not configured in this appliance"}
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
		return &RequestError{"the pull secret of the image cannot be decrypted: " + err.Error()}
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
		return &progressWriter{library: l, entry: e, part: part, alive: func() {}}, part.reserve(size)
	})
	if err != nil {
		return err
	}
	if got := part.digest(); sum != "" && !strings.EqualFold(sum, got) {
		return &ContentError{Problem: fmt.Sprintf("the live ISO in release %s has sha256 %s, but the payload states "+
			"%s; copy the release to the mirror again", cmp.Or(r.Release, r.OpenshiftVersion), got, sum)}
	}
	return nil
}
