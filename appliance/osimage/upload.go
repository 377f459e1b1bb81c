package osimage

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"landfall/appliance/architecture"
)

// copyBuffer is the size in bytes of one step of an upload or download.
const copyBuffer = 256 << 10

// UploadRequest is a request to start an upload. Zero fields are unknown.
type UploadRequest struct {
	Name             string `json:"name"`
	SizeBytes        int64  `json:"size_bytes"`
	SHA256           string `json:"sha256"`
	OpenshiftVersion string `json:"openshift_version"`
	CPUArchitecture  string `json:"cpu_architecture"`
}

// Upload is the progress of an upload.
type Upload struct {
	ID     string `json:"id"`
	Offset int64  `json:"offset_bytes"` // offset of the next byte
	Size   int64  `json:"size_bytes"`   // 0 while unknown
	// The values with which the upload was started. A client that states others starts another
	// upload.
	OpenshiftVersion string `json:"openshift_version"`
	CPUArchitecture  string `json:"cpu_architecture"`
	SHA256           string `json:"sha256"`
	Image            *Image `json:"-"` // after the last byte, if the image is valid
}

// StartUpload starts an upload. It reserves space on the disk, so that the upload does not fail
// later. The error is a *RequestError, a *SpaceError, or an error of the operating system.
func (l *Library) StartUpload(a UploadRequest) (*Upload, error) {
	if err := checkStated(a.OpenshiftVersion, a.CPUArchitecture, a.SHA256); err != nil {
		return nil, err
	}
	if err := l.checkSize(a.SizeBytes); err != nil {
		return nil, err
	}
	if a.SHA256 != "" {
		if err := l.rejectDuplicate(strings.ToLower(a.SHA256), a.OpenshiftVersion, nil); err != nil {
			return nil, err
		}
	}
	e := &entry{id: newID(), state: StateWaiting, message: interrupted, total: a.SizeBytes, record: record{
		Source: SourceImport, Created: l.options.Clock.Now().UTC(), Name: cleanName(a.Name), TotalBytes: a.SizeBytes,
		OpenshiftVersion: a.OpenshiftVersion, CPUArchitecture: a.CPUArchitecture, WantSHA256: strings.ToLower(a.SHA256),
	}}
	e.writing.Lock()
	defer e.writing.Unlock()
	err := l.openUpload(e)
	if err == nil {
		if err = e.part.reserve(a.SizeBytes); err != nil {
			err = errors.Join(err, e.part.file.Close())
		} else {
			err = l.closeUpload(e)
		}
	}
	if err != nil {
		return nil, errors.Join(err, l.discard(e))
	}
	l.add(e)
	return l.standing(e), nil
}

func (l *Library) checkSize(size int64) error {
	switch {
	case size < 0:
		return &RequestError{fmt.Sprintf("size_bytes is %d; expected the file's size, or no value if it is unknown",
			size)}
	case l.options.MaxBytes > 0 && size > l.options.MaxBytes:
		return &RequestError{fmt.Sprintf("the file has %d bytes, but the limit for OS images is %d; raise "+
			"limits.os_image_bytes in the configuration", size, l.options.MaxBytes)}
	}
	return nil
}

// add adds an entry before the other imports, because Find prefers later imports.
func (l *Library) add(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.IndexFunc(l.entries, func(other *entry) bool { return !other.configured })
	if at < 0 {
		at = len(l.entries)
	}
	l.entries = slices.Insert(l.entries, at, e)
}

func newID() string {
	id := make([]byte, 8)
	rand.Read(id) // never fails: https://pkg.go.dev/crypto/rand#Read
	return hex.EncodeToString(id)
}

// cleanName returns the last element of a path of any operating system, without control characters.
func cleanName(name string) string {
	name = filepath.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, name)
	if name == "." || name == "/" {
		return "image.iso"
	}
	return name[:min(len(name), 255)]
}

// upload returns an incomplete upload.
func (l *Library) upload(id string) (*entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.id == id && e.record.Source == SourceImport && e.record.SHA256 == "" {
			return e, nil
		}
	}
	return nil, &NotFoundError{id}
}

// openUpload opens the upload's file at its end. The caller holds the write lock.
func (l *Library) openUpload(e *entry) (err error) {
	if e.part != nil {
		return nil
	}
	e.part, err = openPartial(l.path(e.id, partEnding), e.record.Offset, e.record.HashState, l.checkpoint(e))
	return err
}

// checkpoint records the progress of an entry's file.
func (l *Library) checkpoint(e *entry) func(int64, []byte) error {
	return func(offset int64, state []byte) error {
		l.mu.Lock()
		e.record.Offset, e.record.HashState = offset, state
		l.mu.Unlock()
		return l.save(e)
	}
}

// closeUpload closes the upload's file and keeps its content. The caller holds the write lock.
func (l *Library) closeUpload(e *entry) error {
	part := e.part
	e.part = nil
	if part == nil {
		return nil
	}
	return part.close()
}

// Offset returns the progress of an upload. The error is a *NotFoundError if the upload does not
// exist.
func (l *Library) Offset(id string) (*Upload, error) {
	e, err := l.upload(id)
	if err != nil {
		return nil, err
	}
	e.writing.Lock()
	defer e.writing.Unlock()
	return l.standing(e), nil
}

func (l *Library) standing(e *entry) *Upload {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := &Upload{ID: e.id, Offset: e.record.Offset, Size: e.record.TotalBytes,
		OpenshiftVersion: e.record.OpenshiftVersion, CPUArchitecture: architecture.Of(e.record.CPUArchitecture).RPM(),
		SHA256: e.record.WantSHA256}
	if e.part != nil {
		u.Offset = e.part.offset
	}
	return u
}

// Append appends the content of r to an upload, which must have exactly offset bytes. total is the
// size of the image, 0 if unknown. A later call for the same upload supersedes a call that is still
// reading, because the client of the earlier call has presumably lost its connection.
//
// After the last byte, Append validates the image. It returns a valid image. It removes an invalid
// image and returns a *ContentError. Other errors: *NotFoundError, *OffsetError, *SupersededError,
// *SpaceError, *RequestError. After an error of r everything that arrived is kept and the upload
// can be gone on with.
func (l *Library) Append(ctx context.Context, id string, offset, total int64, r io.Reader) (*Upload, error) {
	e, err := l.upload(id)
	if err != nil {
		return nil, err
	}
	mine, err := l.startUpload(e, offset, total)
	if err != nil {
		return nil, err
	}
	readErr := l.receive(ctx, e, mine, r)
	return l.finishUpload(e, mine, readErr)
}

func (l *Library) startUpload(e *entry, offset, total int64) (*uploader, error) {
	e.writing.Lock()
	defer e.writing.Unlock()
	if e.removed {
		return nil, &NotFoundError{e.id}
	}
	if err := l.checkSize(total); err != nil {
		return nil, err
	}
	if err := l.openUpload(e); err != nil {
		return nil, err
	}
	if offset != e.part.offset {
		have := e.part.offset
		if e.uploader == nil {
			return nil, errors.Join(&OffsetError{Sent: offset, Have: have}, l.closeUpload(e))
		}
		return nil, &OffsetError{Sent: offset, Have: have}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if size := e.record.TotalBytes; size > 0 && total > 0 && size != total {
		return nil,
			&RequestError{fmt.Sprintf("the upload was started with a size of %d bytes, but the request states %d",
				size, total)}
	}
	if total > 0 && total < offset {
		return nil, &RequestError{fmt.Sprintf("the request states a size of %d bytes, but the upload already has %d; "+
			"state the size of the whole file", total, offset)}
	}
	if total > 0 {
		e.record.TotalBytes, e.total = total, total
	}
	e.uploader = new(uploader)
	e.state, e.message, e.done = StateDownloading, "", offset
	return e.uploader, nil
}

// receive writes the content of r until r ends or another request supersedes this one.
func (l *Library) receive(ctx context.Context, e *entry, mine *uploader, r io.Reader) error {
	buffer := make([]byte, copyBuffer)
	for {
		if err := ctx.Err(); err != nil {
			return &InterruptedError{err}
		}
		n, readErr := r.Read(buffer)
		if n > 0 {
			if err := l.write(e, mine, buffer[:n]); err != nil {
				return err
			}
		}
		if errors.Is(readErr, io.EOF) {
			return nil
		}
		if readErr != nil {
			return &InterruptedError{readErr}
		}
	}
}

func (l *Library) write(e *entry, mine *uploader, b []byte) error {
	e.writing.Lock()
	defer e.writing.Unlock()
	if e.uploader != mine {
		return &SupersededError{}
	}
	l.mu.Lock()
	total, after := e.record.TotalBytes, e.part.offset+int64(len(b))
	e.done = after
	l.mu.Unlock()
	if total > 0 && after > total {
		return &RequestError{fmt.Sprintf("the request exceeds the %d bytes with which the upload was started", total)}
	}
	if err := l.checkSize(after); err != nil {
		return err
	}
	_, err := e.part.Write(b)
	return err
}

// finishUpload ends a request. Depending on err, it adds the image, keeps the upload for the next
// request, or removes it.
func (l *Library) finishUpload(e *entry, mine *uploader, err error) (*Upload, error) {
	e.writing.Lock()
	defer e.writing.Unlock()
	if e.uploader != mine {
		return nil, &SupersededError{}
	}
	e.uploader = nil
	standing := l.standing(e)
	if err == nil && standing.Size > 0 && standing.Offset == standing.Size {
		err = l.addFile(e, e.part)
		e.part = nil
		if err == nil {
			image, err := l.Image(e.id)
			standing.Image = &image
			return standing, err
		}
		e.removed = true
		return nil, errors.Join(err, l.drop(e))
	}
	closeErr := l.closeUpload(e)
	if full := new(SpaceError); errors.As(err, &full) || errors.As(closeErr, &full) {
		e.removed = true
		return nil, errors.Join(full, l.drop(e))
	}
	l.mu.Lock()
	e.state, e.message = StateWaiting, interrupted
	l.mu.Unlock()
	if err = errors.Join(err, closeErr); err != nil {
		return nil, err
	}
	return standing, nil
}

// drop removes an entry with all its files.
func (l *Library) drop(e *entry) error {
	l.mu.Lock()
	l.entries = slices.DeleteFunc(l.entries, func(other *entry) bool { return other == e })
	l.mu.Unlock()
	return l.discard(e)
}

// CancelUpload removes an incomplete upload.
func (l *Library) CancelUpload(id string) error {
	e, err := l.upload(id)
	if err != nil {
		return err
	}
	return l.giveUp(e)
}

func (l *Library) giveUp(e *entry) error {
	e.writing.Lock()
	defer e.writing.Unlock()
	e.uploader, e.removed = nil, true
	return errors.Join(l.closeUpload(e), l.drop(e))
}
