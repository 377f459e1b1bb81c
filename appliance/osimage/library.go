// Package osimage keeps the live ISOs from which discovery images are made: those that the
// configuration names by file, by URL or by release payload, and those that people upload or order
// to fetch.
//
// The content of an image determines its version and architecture, never its name. Package isogen
// reads the volume id, the embed areas and the descriptions. A stated version or architecture that
// contradicts them is an error. A bad image does not affect the others.
//
// An arriving image is written to a file with the ending .part. A JSON record beside it has the
// number of bytes that are safe on the disk, and the state of the digest after them. An interrupted
// upload or download therefore resumes where it stopped, also after a restart. A complete image is
// renamed to .iso after it was synced and verified. Nothing is copied or extracted; an image is
// indexed in milliseconds when the library is opened.
package osimage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/sitekey"
	"landfall/isogen"
)

// Configured is an image in the configuration. One of Path, URL and Release is its source.
type Configured struct {
	Path             string
	URL              string
	Release          bool   // from the release payload of OpenshiftVersion
	OpenshiftVersion string // "": read from the content
	CPUArchitecture  string // x86_64, aarch64, arm64, ppc64le or s390x; "": read from the content
	SHA256           string // hex; "": unknown
}

// User is an infra-env whose images are made from an OS image.
type User struct {
	Name, OpenshiftVersion, CPUArchitecture string
}

// Release names the release payload that contains an image.
type Release struct {
	Name         string // a version or a pull spec; "": the release of Version
	Version      string // an OpenShift version, such as 4.20 or 4.20.8
	Architecture string // as RPM spells it; "": x86_64
	PullSecret   string // JSON; "": the appliance's own, if it has one
}

// FetchRelease writes the live ISO of a release. It calls begin with the release's version and the
// ISO's size in bytes, and writes to the returned writer. It returns the digest (hex) of the ISO
// according to the payload.
type FetchRelease func(ctx context.Context, release Release, begin func(version string, size int64) (io.Writer,
	error)) (sha256 string, err error)

// Options are the inputs of a Library. Dir, Logger and Clock are required.
type Options struct {
	Dir          string // of all files; created if it does not exist
	Images       []Configured
	MaxBytes     int64                  // of an upload; 0: no limit
	Transport    http.RoundTripper      // for URLs; nil: http.DefaultTransport
	FetchRelease FetchRelease           // nil: there are no images from releases
	Users        func() ([]User, error) // the infra-envs; nil: none
	Secrets      *sitekey.Box           // seals pull secrets in records; nil: they are stored unsealed
	Clock        clockwork.Clock        // for the delays between attempts
	Logger       *slog.Logger
}

// Library is the set of OS images. Its methods may be called concurrently.
type Library struct {
	options Options
	log     *slog.Logger

	wake chan struct{} // signals work to Run

	mu      sync.Mutex
	entries []*entry // the configured ones in their order, then the others, the latest first
	closed  bool

	additions map[string]Additions // by URL
}

// Additions are the request headers and query parameters that a server requires for an image.
type Additions struct{ Headers, Query map[string]string }

// SetAdditions sets the additions for the next downloads, by URL. They are not stored, so the
// caller sets them after each start. A failed download is tried again at once if its additions
// changed.
func (l *Library) SetAdditions(byURL map[string]Additions) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if url := e.record.URL; e.worker != nil && e.state == StateWaiting && !reflect.DeepEqual(l.additions[url],
			byURL[url]) {
			e.worker.cancel()
		}
	}
	l.additions = byURL
}

// New opens the library. It indexes the present images; Run fetches the missing ones. An error
// concerns the directory. Problems of an image are in that image's state and message.
func New(options Options) (*Library, error) {
	if options.Transport == nil {
		options.Transport = http.DefaultTransport
	}
	if options.Users == nil {
		options.Users = func() ([]User, error) { return nil, nil }
	}
	l := &Library{options: options, log: options.Logger, wake: make(chan struct{}, 1)}
	if err := os.MkdirAll(options.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of OS images: %w", err)
	}
	records, err := l.readRecords()
	if err != nil {
		return nil, err
	}
	for _, configured := range options.Images {
		e := l.configuredEntry(configured, records)
		if slices.ContainsFunc(l.entries, func(other *entry) bool { return other.id == e.id }) {
			continue // a duplicate
		}
		l.entries = append(l.entries, e)
		delete(records, e.id)
	}
	var others []*entry
	for id, record := range records {
		if record.Source == SourceFile {
			// The configuration no longer names the file. The record has only its digest.
			if err := removeFiles(l.path(id, recordEnding)); err != nil {
				return nil, err
			}
			continue
		}
		others = append(others, &entry{id: id, record: *record})
	}
	slices.SortFunc(others, func(a, b *entry) int {
		return cmp.Or(b.record.Created.Compare(a.record.Created), cmp.Compare(a.id, b.id))
	})
	l.entries = append(l.entries, others...)
	for _, e := range l.entries {
		l.start(e)
	}
	return l, l.removeStrays()
}

// start determines the state of an entry.
func (l *Library) start(e *entry) {
	path := l.file(e)
	switch {
	case e.record.Source == SourceFile || exists(path):
		l.open(e)
	case e.record.SHA256 != "" && exists(l.path(e.id, partEnding)):
		// The image was verified, but the process ended before the rename.
		if err := os.Rename(l.path(e.id, partEnding), path); err != nil {
			e.fail(err)
			return
		}
		l.open(e)
	case e.record.Problem != "":
		e.state, e.message = StateBad, e.record.Problem
	default:
		e.state = StateWaiting
		if e.record.Source == SourceImport {
			e.message = interrupted
		}
	}
	e.done, e.total = e.record.Offset, e.record.TotalBytes
}

const interrupted = "the upload was interrupted: import the same file again to go on, or remove it"

// open indexes an entry's file and compares it with the stated values. The caller holds the mutex,
// or l is not shared yet.
func (l *Library) open(e *entry) {
	path := l.file(e)
	if e.base != nil {
		if err := e.base.Close(); err != nil {
			l.log.Warn("An OS image that was changed could not be closed.", "path", path, "error", err)
		}
		e.base = nil
	}
	base, err := isogen.Open(path)
	if err == nil {
		e.version, e.architecture, err = identify(base, e.record.OpenshiftVersion, e.record.CPUArchitecture)
		if err != nil {
			err = errors.Join(fmt.Errorf("%s can't be used: %w", path, err), base.Close())
		}
	}
	if err != nil {
		e.fail(err)
		l.log.Error("An OS image can't be used.", "openshift_version", e.record.OpenshiftVersion, "path", path,
			"error", err)
		return
	}
	e.base, e.state, e.message, e.wrong = base, StateReady, "", nil
	info, err := os.Stat(path)
	if err != nil || e.record.describes(info) {
		l.compare(e)
		return
	}
	e.record.SHA256 = "" // of another file, or not known yet
	if e.record.WantSHA256 != "" {
		e.verify = true
		l.signal()
	}
}

// compare compares a computed digest with the expected one. The caller holds the mutex, or l is not
// shared yet.
func (l *Library) compare(e *entry) {
	want, got := e.record.WantSHA256, e.record.SHA256
	if want == "" || got == "" || strings.EqualFold(want, got) {
		return
	}
	path := l.file(e)
	e.fail(fmt.Errorf("%s has sha256 %s, not %s; correct sha256 under os_images, or put the right file there",
		path, got, want))
	if info, err := os.Stat(path); err == nil {
		e.wrong = info
	}
	l.letGo(e)
	l.log.Error("An OS image does not have the stated digest.", "path", path, "sha256", got, "stated", want)
}

// signal signals work to Run.
func (l *Library) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // a signal is pending already
	}
}

// current opens a file again that was bad or has changed, so that a replaced file needs no restart
// of the appliance. The caller holds the mutex.
func (l *Library) current(e *entry) {
	switch {
	case e.record.Source == SourceFile && e.state == StateBad:
		info, err := os.Stat(e.record.Path)
		if err == nil && e.wrong != nil && os.SameFile(info, e.wrong) && info.ModTime().Equal(e.wrong.ModTime()) {
			return
		}
		l.open(e)
	case e.base != nil && e.base.Intact() != nil:
		l.open(e)
	}
}

// Find returns the base ISO for a version and an architecture. It prefers the exact version to the
// same minor version, a usable image to an unusable one, a configured image to an imported one, and
// the latest of several imported images. Errors are *UnavailableError.
func (l *Library) Find(version, arch string) (*isogen.Base, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.choose(version, arch)
	if found == nil {
		return nil,
			&UnavailableError{fmt.Sprintf("there is no OS image for OpenShift %s on %s; %s; import the live ISO of "+
				"that release, or name it under os_images in the configuration", version, arch, l.known())}
	}
	switch {
	case found.base != nil:
		return found.base, nil
	case found.state == StateBad:
		return nil, &UnavailableError{fmt.Sprintf("no discovery image can be made for OpenShift %s on %s: %s",
			version, arch, found.message)}
	}
	return nil,
		&UnavailableError{fmt.Sprintf("the OS image for OpenShift %s on %s is not there yet: it is %s; try again later",
			version, arch, l.describe(found, nil).Progress())}
}

// choose returns the entry for Find, or nil. The mutex is held.
func (l *Library) choose(version, arch string) *entry {
	rank := func(e *entry) int {
		rank := 0
		if e.stated() == version {
			rank += 2
		}
		if e.base != nil {
			rank++
		}
		return rank
	}
	var found *entry
	for _, e := range l.entries {
		if !e.fits(version, arch) {
			continue
		}
		l.current(e)
		if e.fits(version, arch) && (found == nil || rank(e) > rank(found)) {
			found = e
		}
	}
	return found
}

// known lists the images for an error text. The mutex is held.
func (l *Library) known() string {
	var known []string
	for _, e := range l.entries {
		if version := e.stated(); version != "" {
			known = append(known, strings.TrimSpace(version+" ("+e.arch()+")"))
		}
	}
	if len(known) == 0 {
		return "there is none at all"
	}
	return "there are " + strings.Join(known, ", ")
}

// Close closes the images. Run must have ended.
func (l *Library) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	var errs []error
	for _, e := range l.entries {
		if e.base != nil {
			errs = append(errs, e.base.Close())
			e.base = nil
		}
	}
	return errors.Join(errs...)
}

// exists reports whether a file exists.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func removeFiles(paths ...string) error {
	var errs []error
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// path returns the path of an image's file with an ending.
func (l *Library) path(id, ending string) string { return filepath.Join(l.options.Dir, id+ending) }

// file returns the path of an entry's ISO.
func (l *Library) file(e *entry) string {
	if e.record.Source == SourceFile {
		return e.record.Path
	}
	return l.path(e.id, isoEnding)
}
