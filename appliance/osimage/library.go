// Package osimage manages the live ISOs from which discovery images are made. An image is named in
// the configuration (a file, a URL or a release payload), uploaded by a user, or downloaded at a
// user's request.
//
// The content of an image determines its version and architecture, never its name. Package isogen
// reads the volume id, the embed areas and the descriptions. A stated version or architecture that
// contradicts them is an error. An unusable image does not affect the others.
//
// During its transfer, an image is written to a file with the suffix .part. A JSON record next to
// the file contains the number of synced bytes and the state of the hash at this offset. An
// interrupted upload or download therefore resumes where it stopped, even after a restart. A
// complete image is synced, verified and renamed to .iso. Images are neither copied nor extracted.
// Opening the library takes a few milliseconds for each image.
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

	"landfall/appliance/architecture"
	"landfall/appliance/sitekey"
	"landfall/isogen"
)

// Configured is an image in the configuration. Its source is Path, URL or Release.
type Configured struct {
	Path             string
	URL              string
	Release          bool   // from the release payload of OpenshiftVersion
	OpenshiftVersion string // "" to read it from the content
	CPUArchitecture  string // x86_64, aarch64, arm64, ppc64le or s390x; "" to read it from the content
	SHA256           string // hex; "" if unknown
}

// User is an infra-env whose images are made from an OS image.
type User struct {
	Name, OpenshiftVersion, CPUArchitecture string
}

// Release names the release payload that contains an image.
type Release struct {
	Name         string // a version or a pull spec; "" for the release of Version
	Version      string // an OpenShift version, such as 4.20 or 4.20.8
	Architecture string // in RPM's spelling; "" for x86_64
	PullSecret   string // JSON; "" for the appliance's own, if it has one
}

// FetchRelease writes the live ISO of a release. It calls begin with the release's version and the
// ISO's size in bytes, and writes to the returned writer. It returns the digest (hex) of the ISO
// according to the payload.
type FetchRelease func(ctx context.Context, release Release, begin func(version string, size int64) (io.Writer,
	error)) (sha256 string, err error)

// Options are the inputs of a Library. Dir, Logger and Clock are required.
type Options struct {
	Dir          string // of all images and records; created if it does not exist
	Images       []Configured
	MaxBytes     int64                  // of an upload; 0 for no limit
	Transport    http.RoundTripper      // for URLs; nil for http.DefaultTransport
	CheckURL     func(string) error     // rejects URLs that may not be fetched; nil accepts all
	FetchRelease FetchRelease           // nil to reject imports from releases
	Users        func() ([]User, error) // returns the infra-envs; nil for none
	Secrets      *sitekey.Box           // encrypts records; nil to store them in plain text
	Shared       *Shared                // with the other members of a fleet; nil on a single machine
	Clock        clockwork.Clock        // for the delays between attempts
	Logger       *slog.Logger
}

// Library is the set of OS images. Its methods may be called concurrently.
type Library struct {
	options Options
	log     *slog.Logger
	hash    func(ctx context.Context, path string, progress func(done int64)) (string, os.FileInfo, error)

	wake chan struct{} // signals work to Run

	mu      sync.Mutex
	entries []*entry // the configured images in their order, then the others, the latest first
	closed  bool

	additions map[string]Additions // by URL
}

// Additions are the request headers and query parameters that a server requires for an image.
type Additions struct{ Headers, Query map[string]string }

// SetAdditions sets the additions for the next downloads, by URL. They are not stored, so the
// caller sets them after each start. If the additions of a failed download change, the download is
// retried immediately.
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

// New opens the library. It opens the existing images; Run downloads the missing ones. New returns
// an error only for the directory. The state and the message of an image contain its own problems.
func New(options Options) (*Library, error) {
	if options.Transport == nil {
		options.Transport = http.DefaultTransport
	}
	if options.Users == nil {
		options.Users = func() ([]User, error) { return nil, nil }
	}
	l := &Library{options: options, log: options.Logger, hash: hashFile, wake: make(chan struct{}, 1)}
	if err := os.MkdirAll(options.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the directory of OS images: %w", err)
	}
	if err := l.takeShared(); err != nil {
		return nil, err
	}
	records, err := l.readRecords()
	if err != nil {
		return nil, err
	}
	l.entries = l.configuredEntries(records)
	for _, e := range l.entries {
		delete(records, e.id)
	}
	var others []*entry
	for id, record := range records {
		if record.Source == SourceFile {
			// The configuration no longer names the file, and the record contains only its digest.
			if err := removeFiles(l.path(id, recordEnding)); err != nil {
				return nil, err
			}
			continue
		}
		others = append(others, &entry{id: id, record: *record})
	}
	slices.SortFunc(others, compareAge)
	l.entries = append(l.entries, others...)
	for _, e := range l.entries {
		l.start(e)
	}
	return l, l.removeStrays()
}

// compareAge orders images that the configuration does not name, the latest first.
func compareAge(a, b *entry) int {
	return cmp.Or(b.record.Created.Compare(a.record.Created), cmp.Compare(a.id, b.id))
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
	case l.elsewhere(e):
		e.state, e.message = StateWaiting, copying
	default:
		e.state = StateWaiting
		if e.record.Source == SourceImport {
			e.message = interrupted
		}
	}
	e.done, e.total = e.record.Offset, e.record.TotalBytes
}

const interrupted = "the upload was interrupted; import the same file again to continue, or remove the upload"

// open opens an entry's file and compares it with the stated values. The caller holds the mutex, or
// no other goroutine has l yet.
func (l *Library) open(e *entry) {
	path := l.file(e)
	if e.base != nil {
		if err := e.base.Close(); err != nil {
			l.log.Warn("A changed OS image could not be closed.", "path", path, "error", err)
		}
		e.base = nil
	}
	if l.damaged(e) {
		e.version, e.architecture = e.record.Damage.Version, e.record.Damage.Architecture
		e.fail(errors.New(e.record.Damage.Message))
		return
	}
	e.record.Damage = nil
	base, err := isogen.Open(path)
	if err == nil {
		e.version, e.architecture, err = identify(base, e.record.OpenshiftVersion, e.record.CPUArchitecture)
		if err != nil {
			err = errors.Join(fmt.Errorf("%s is not a usable OS image: %w", path, err), base.Close())
		}
	}
	if err != nil {
		e.fail(err)
		l.log.Error("An OS image is unusable.", "openshift_version", e.record.OpenshiftVersion, "path", path,
			"error", err)
		return
	}
	e.base, e.state, e.message, e.wrong = base, StateReady, "", nil
	info, err := os.Stat(path)
	if err != nil || e.record.describes(info) {
		l.compare(e)
		return
	}
	e.record.SHA256 = "" // belongs to another file, or is unknown
	if e.record.WantSHA256 != "" {
		e.verify = true
		l.signal()
	}
}

// damaged reports whether a verification found that the present file of an entry is damaged.
func (l *Library) damaged(e *entry) bool {
	if e.record.Damage == nil {
		return false
	}
	info, err := os.Stat(l.file(e))
	return err == nil && e.record.Damage.isOf(info)
}

// compare compares a computed digest with the expected one. The caller holds the mutex, or no other
// goroutine has l yet.
func (l *Library) compare(e *entry) {
	want, got := e.record.WantSHA256, e.record.SHA256
	if want == "" || got == "" || strings.EqualFold(want, got) {
		return
	}
	path := l.file(e)
	e.fail(fmt.Errorf("%s has sha256 %s, but sha256 %s is configured; correct sha256 under os_images, or replace the "+
		"file",
		path, got, want))
	if info, err := os.Stat(path); err == nil {
		e.wrong = info
	}
	l.closeBase(e)
	l.log.Error("The digest of an OS image differs from the configured one.", "path", path, "sha256", got, "expected",
		want)
}

// signal signals work to Run.
func (l *Library) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // a signal is already pending
	}
}

// reopen opens a file again if it was unusable or has changed. A replaced file thus needs no
// restart of the appliance. The caller holds the mutex.
func (l *Library) reopen(e *entry) {
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

// Find returns the base ISO for a version and an architecture. Its preferences, in this order: the
// exact version over the same minor version, a usable image over an unusable one, a configured
// image over an imported one, and a later import over an earlier one. A follower in a fleet prefers
// like the leader, also an image that it does not have yet. Errors are *UnavailableError.
func (l *Library) Find(version, arch string) (*isogen.Base, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.choose(version, arch)
	if found == nil {
		return nil,
			&UnavailableError{fmt.Sprintf("no OS image matches OpenShift %s on %s; %s; import the live ISO of that "+
				"release, or add it to os_images in the configuration", version, arch, l.describeImages())}
	}
	switch {
	case found.base != nil:
		return found.base, nil
	case found.state == StateBad:
		return nil, &UnavailableError{fmt.Sprintf("discovery images for OpenShift %s on %s are unavailable: %s",
			version, arch, found.message)}
	}
	return nil,
		&UnavailableError{fmt.Sprintf("the OS image for OpenShift %s on %s is not available yet (%s); try again later",
			version, arch, l.describe(found, nil).Progress())}
}

// choose returns the entry for Find, or nil. The caller holds the mutex.
func (l *Library) choose(version, arch string) *entry {
	rank := func(e *entry) int {
		rank := 0
		if e.stated() == version || e.stated() == "" {
			rank += 2
		}
		if e.base != nil || l.comes(e) {
			rank++
		}
		return rank
	}
	var found *entry
	for _, e := range l.entries {
		if !l.mayFit(e, version, arch) {
			continue
		}
		l.reopen(e)
		if l.mayFit(e, version, arch) && (found == nil || rank(e) > rank(found)) {
			found = e
		}
	}
	return found
}

// mayFit reports whether an image fits. The content of one that is about to be copied is not known.
func (l *Library) mayFit(e *entry, version, arch string) bool {
	if !l.comes(e) {
		return e.fits(version, arch)
	}
	return (e.arch() == "" || e.arch() == architecture.Of(arch).RPM()) &&
		(e.stated() == "" || Minor(e.stated()) == Minor(version))
}

// describeImages lists the images for an error text. The caller holds the mutex.
func (l *Library) describeImages() string {
	var versions []string
	for _, e := range l.entries {
		if version := e.stated(); version != "" {
			versions = append(versions, strings.TrimSpace(version+" ("+e.arch()+")"))
		}
	}
	if len(versions) == 0 {
		return "the appliance has no OS images"
	}
	return "the appliance has images for " + strings.Join(versions, ", ")
}

// Close closes the images. Run must have ended. A nil library has none.
func (l *Library) Close() error {
	if l == nil {
		return nil
	}
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
