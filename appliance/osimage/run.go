package osimage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"landfall/appliance/architecture"
	"landfall/isogen"
)

// Delays between two attempts to fetch an image.
const (
	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute
)

// Limits of concurrent downloads and verifications.
const (
	fetches       = 3
	verifications = 1
)

// Run downloads missing images and verifies digests on request until the context ends. It handles
// each image independently.
func (l *Library) Run(ctx context.Context) error {
	var working sync.WaitGroup
	defer working.Wait()
	l.publish(ctx)
	fetching, verifying := make(chan struct{}, fetches), make(chan struct{}, verifications)
	for {
		l.mu.Lock()
		for _, e := range l.entries {
			switch {
			case e.worker != nil:
			case l.elsewhere(e) && e.state == StateWaiting:
				l.work(ctx, &working, e, fetching, l.copyWithRetry)
			case e.wantsFetching():
				l.work(ctx, &working, e, fetching, l.fetchWithRetry)
			case e.verify && e.base != nil:
				l.work(ctx, &working, e, verifying, l.verifyFile)
			}
		}
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
		}
	}
}

func (e *entry) wantsFetching() bool {
	return e.base == nil && e.state == StateWaiting && (e.record.Source == SourceURL ||
		e.record.Source == SourcePayload)
}

// work runs a job for an entry as soon as a worker is free. The caller holds the mutex.
func (l *Library) work(ctx context.Context, working *sync.WaitGroup, e *entry, places chan struct{},
	job func(context.Context, *entry)) {
	ctx, cancel := context.WithCancel(ctx)
	w := &worker{cancel: cancel, done: make(chan struct{})}
	e.worker = w
	working.Go(func() {
		defer func() {
			cancel()
			l.mu.Lock()
			e.worker = nil
			l.mu.Unlock()
			close(w.done)
			l.signal() // the entry may need another job
		}()
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			job(ctx, e)
		case <-ctx.Done():
		}
	})
}

// Request is a request to download an image. Its source is URL or Release.
type Request struct {
	URL              string `json:"url"`
	Release          string `json:"release"` // a version, such as 4.20.8, or a pull spec
	PullSecret       string `json:"pull_secret"`
	OpenshiftVersion string `json:"openshift_version"`
	CPUArchitecture  string `json:"cpu_architecture"`
	SHA256           string `json:"sha256"`
	// Unattended is set if no person asks. An image that was rejected is not fetched again then.
	Unattended bool `json:"-"`
}

// Fetch starts the download of an image and returns the image's current state. The download
// continues after restarts until the image is complete, permanently rejected or removed. The error
// is a *RequestError, a *ContentError if the image exists already, or an error of the disk.
func (l *Library) Fetch(r Request) (Image, error) {
	if err := checkStated(r.OpenshiftVersion, r.CPUArchitecture, r.SHA256); err != nil {
		return Image{}, err
	}
	secret, err := l.options.Secrets.Seal(r.PullSecret)
	if err != nil {
		return Image{}, err
	}
	rec := record{
		Source: SourceURL, Created: l.options.Clock.Now().UTC(), URL: r.URL, OpenshiftVersion: r.OpenshiftVersion,
		CPUArchitecture: r.CPUArchitecture,
		WantSHA256:      strings.ToLower(r.SHA256), Release: r.Release, PullSecret: secret,
	}
	switch parsed, err := url.Parse(r.URL); {
	case (r.URL == "") == (r.Release == ""):
		return Image{}, &RequestError{"the source is ambiguous; give either url or release"}
	case r.URL != "" && (err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https"):
		return Image{}, &RequestError{fmt.Sprintf("url is %q; expected an http:// or https:// URL", r.URL)}
	case r.URL != "":
		rec.Name = cleanName(path.Base(parsed.Path))
	case l.options.FetchRelease == nil:
		return Image{}, &RequestError{"imports from releases are not configured in this appliance"}
	default:
		rec.Source, rec.CPUArchitecture = SourcePayload, cmp.Or(architecture.Of(r.CPUArchitecture).RPM(), "x86_64")
		rec.Name = "coreos-" + rec.CPUArchitecture + ".iso"
	}
	if check := l.options.CheckURL; check != nil && r.URL != "" {
		if err := check(r.URL); err != nil {
			return Image{}, err
		}
	}
	e := &entry{id: newID(), state: StateWaiting, record: rec}
	if err := l.rejectDuplicateFetch(e, r.Unattended); err != nil {
		return Image{}, err
	}
	if err := l.save(e); err != nil {
		return Image{}, errors.Join(err, l.discard(e))
	}
	l.add(e)
	l.signal()
	return l.Image(e.id)
}

func (l *Library) rejectDuplicateFetch(e *entry, unattended bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	same := slices.IndexFunc(l.entries, func(other *entry) bool {
		a, b := e.record, other.record
		return (unattended || other.state != StateBad) && a.Source == b.Source && a.URL == b.URL &&
			a.Release == b.Release && a.CPUArchitecture == b.CPUArchitecture &&
			(a.OpenshiftVersion == "" || Minor(a.OpenshiftVersion) == Minor(other.stated()))
	})
	if same < 0 {
		return nil
	}
	existing := l.entries[same].id
	return &ContentError{Problem: fmt.Sprintf("the image exists already or is being downloaded as %s; no further "+
		"request is needed",
		existing), Existing: existing}
}

// fetchWithRetry repeats the download until the image is complete or permanently rejected, or the
// context ends.
func (l *Library) fetchWithRetry(ctx context.Context, e *entry) {
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		err := l.fetch(ctx, e)
		if err == nil || ctx.Err() != nil {
			return
		}
		wrong := new(ContentError)
		permanent := errors.As(err, &wrong)
		l.recordFailure(e, permanent, err)
		if permanent {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-l.options.Clock.After(wait):
		}
	}
}

// fetch makes one attempt to download an image. It continues the previous attempt.
func (l *Library) fetch(ctx context.Context, e *entry) error {
	l.mu.Lock()
	r := e.record
	e.state, e.message = StateDownloading, ""
	l.mu.Unlock()
	part, err := openPartial(l.path(e.id, partEnding), r.Offset, r.HashState, l.checkpoint(e))
	if err != nil {
		return err
	}
	if r.Source == SourcePayload {
		err = l.downloadFromRelease(ctx, e, part)
	} else {
		err = l.download(ctx, e, part)
	}
	wrong, full := new(ContentError), new(SpaceError)
	if err == nil {
		if err = l.addFile(e, part); err == nil {
			return nil
		}
	} else if closeErr := part.close(); !errors.As(err, &full) {
		err = errors.Join(err, closeErr)
	}
	if errors.As(err, &wrong) || errors.As(err, &full) {
		l.mu.Lock()
		e.record.Offset, e.record.HashState, e.record.Validator, e.done = 0, nil, "", 0
		l.mu.Unlock()
		err = errors.Join(err, removeFiles(l.path(e.id, partEnding)))
	}
	return err
}

// recordFailure records why the download of an image failed.
func (l *Library) recordFailure(e *entry, permanent bool, err error) {
	text := strings.Join(strings.Split(err.Error(), "\n"), "; ")
	l.mu.Lock()
	e.state, e.message = StateWaiting, attemptFailed+text
	if permanent {
		e.state, e.message, e.record.Problem = StateBad, text, text
	}
	name := redacted(e.record.URL) + e.record.Release
	l.mu.Unlock()
	l.log.Error("The download of an OS image failed.", "from", name, "retry", !permanent, "error", text)
	if !permanent {
		return
	}
	if err := l.save(e); err != nil {
		l.log.Error("The record of an OS image could not be written.", "id", e.id, "error", err)
	}
}

// Verify starts a verification of an image: its digest is computed and its content is read again.
// It returns the current state of the image, usually StateVerifying. The image's state and message
// contain the result later.
func (l *Library) Verify(id string) (Image, error) {
	l.mu.Lock()
	at := slices.IndexFunc(l.entries, func(e *entry) bool { return e.id == id })
	var discarded *entry
	var err error
	if at >= 0 {
		e := l.entries[at]
		l.reopen(e)
		switch {
		case l.damaged(e) && e.canBeFetched() && (!e.record.Damage.Unreadable || e.unreadable > 1):
			if err = l.discardDamaged(e); err == nil {
				discarded = e
			}
		case e.state == StateBad && e.base == nil && exists(l.file(e)):
			if l.damaged(e) && e.record.Damage.Unreadable {
				e.record.Damage = nil // the next attempt may read the file
			}
			l.open(e) // the file may have been replaced
		case e.state == StateBad && e.record.Source != SourceFile && e.record.Source != SourceImport:
			e.state, e.message, e.record.Problem = StateWaiting, "", "" // download the image again
		}
		if e.base != nil {
			e.verify, e.state, e.done, e.total = true, StateVerifying, 0, e.base.Size()
		}
	}
	l.mu.Unlock()
	if at < 0 {
		return Image{}, &NotFoundError{id}
	}
	if discarded != nil {
		err = l.save(discarded)
	}
	if err != nil {
		return Image{}, fmt.Errorf("download the OS image %s again: %w", id, err)
	}
	l.signal()
	return l.Image(id)
}

// canBeFetched reports whether an image can be downloaded again.
func (e *entry) canBeFetched() bool {
	return e.record.Source == SourceURL || e.record.Source == SourcePayload
}

// discardDamaged removes the file of a damaged image, so that Run gets the image again: from
// another member of the fleet, or from its origin. The caller holds the mutex.
func (l *Library) discardDamaged(e *entry) error {
	if err := removeFiles(l.path(e.id, isoEnding), isogen.TablePath(l.path(e.id, isoEnding))); err != nil {
		return err
	}
	r := &e.record
	r.Damage, r.Problem, r.Offset, r.HashState, r.Validator = nil, "", 0, nil, ""
	if l.options.Shared == nil {
		r.SHA256 = "" // as of an image that was never complete
	}
	e.state, e.message, e.done, e.unreadable = StateWaiting, "", 0, 0
	return nil
}

// recordDamage records that a file must not be served, also after a restart. The caller holds the
// mutex.
func (l *Library) recordDamage(e *entry, info os.FileInfo, unreadable bool, err error) {
	e.fail(err)
	e.record.Damage = &damage{Message: err.Error(), Size: info.Size(), Modified: info.ModTime(),
		Unreadable: unreadable, Version: e.version, Architecture: e.architecture}
	l.closeBase(e)
	if unreadable {
		e.unreadable++
	}
}

// repairAdvice says how to replace a damaged image. An error of the disk may be temporary, so a
// file that can be downloaded again is read a second time before it is removed.
func (e *entry) repairAdvice(unreadable bool) string {
	switch {
	case e.canBeFetched() && unreadable && e.unreadable == 0:
		return fmt.Sprintf("run landfall iso verify %s to read the file again", e.id)
	case e.canBeFetched():
		return fmt.Sprintf("run landfall iso verify %s to download the image again", e.id)
	case e.record.Source == SourceFile:
		return fmt.Sprintf("replace the file, then run landfall iso verify %s", e.id)
	}
	return "import the image again, then remove this one"
}

// verifyFile computes the digest of an image's file, which takes about one second per gigabyte, and
// compares it with the recorded digest. The image is served during the verification. If the digests
// differ, the image is not served until it is replaced.
func (l *Library) verifyFile(ctx context.Context, e *entry) {
	l.mu.Lock()
	base, recorded := e.base, e.record
	path := l.file(e)
	e.verify = false
	if base == nil {
		l.mu.Unlock()
		return
	}
	e.state, e.done, e.total = StateVerifying, 0, base.Size()
	l.mu.Unlock()
	sum, info, err := l.hash(ctx, path, func(done int64) {
		l.mu.Lock()
		e.done = done
		l.mu.Unlock()
	})
	l.mu.Lock()
	if e.base != base || ctx.Err() != nil {
		e.endVerification()
		l.mu.Unlock()
		return // the file has changed and was opened again
	}
	e.endVerification()
	switch {
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.EBADMSG), errors.Is(err, io.ErrUnexpectedEOF):
		damaged := fmt.Errorf("%s can't be read (%w): the disk may have damaged the file; %s", path, err,
			e.repairAdvice(true))
		if now, failed := os.Stat(path); failed == nil {
			l.recordDamage(e, now, true, damaged)
		} else {
			e.fail(damaged)
			l.closeBase(e)
		}
		l.log.Error("An OS image can't be read.", "path", path, "error", err)
	case err != nil:
		l.log.Error("The digest of an OS image could not be computed.", "path", path, "error", err)
		l.reopen(e)
	case recorded.SHA256 != "" && recorded.Source != SourceFile && recorded.SHA256 != sum:
		l.recordDamage(e, info, false, fmt.Errorf("%s has sha256 %s, but had %s after the import: the disk has "+
			"damaged the file; %s", path, sum, recorded.SHA256, e.repairAdvice(false)))
		l.log.Error("The disk has damaged an OS image.", "path", path, "sha256", sum, "expected", recorded.SHA256)
	default:
		e.unreadable = 0
		e.record.SHA256, e.record.Size, e.record.Modified, e.record.VerifiedAt = sum, info.Size(), info.ModTime(),
			l.options.Clock.Now().UTC()
		l.compare(e)
	}
	l.mu.Unlock()
	if err := l.save(e); err != nil {
		l.log.Warn("The digest of an OS image could not be stored; it will be computed again.", "path", path, "error",
			err)
	}
}

// endVerification ends a verification without a result.
func (e *entry) endVerification() {
	if e.state == StateVerifying && e.base != nil {
		e.state, e.message, e.done = StateReady, "", e.total
	}
}

// closeBase closes the base ISO of an entry that must no longer be used. This ends running
// downloads of its discovery images. The caller holds the mutex.
func (l *Library) closeBase(e *entry) {
	if e.base == nil {
		return
	}
	if err := e.base.Close(); err != nil {
		l.log.Warn("An OS image could not be closed.", "id", e.id, "error", err)
	}
	e.base = nil
}

// Remove removes an image with its files, or a running upload or download. The error is a
// *NotFoundError or an *InUseError.
func (l *Library) Remove(id string) error {
	image, err := l.Image(id)
	if err != nil {
		return err
	}
	switch {
	case image.Configured:
		return &InUseError{ID: id}
	case image.InUseBy > 0:
		return &InUseError{ID: id, Users: image.Users}
	}
	if err := l.withdraw(id); err != nil {
		return fmt.Errorf("remove the OS image %s from the other members: %w", id, err)
	}
	l.mu.Lock()
	at := slices.IndexFunc(l.entries, func(e *entry) bool { return e.id == id })
	if at < 0 {
		l.mu.Unlock()
		return &NotFoundError{id}
	}
	e := l.entries[at]
	l.entries = slices.Delete(l.entries, at, at+1)
	w := e.worker
	l.mu.Unlock()
	if w != nil {
		w.cancel()
		<-w.done
	}
	if e.record.Source == SourceImport && e.record.SHA256 == "" {
		return l.giveUp(e)
	}
	l.mu.Lock()
	l.closeBase(e)
	l.mu.Unlock()
	if err := l.discard(e); err != nil {
		return fmt.Errorf("remove the OS image %s: %w", id, err)
	}
	l.log.Info("OS image removed.", "id", id, "name", image.Name, "openshift_version", image.OpenshiftVersion,
		"architecture", image.CPUArchitecture)
	return nil
}
