package osimage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"landfall/appliance/durable"
	"landfall/isogen"
)

// addFile adds a completely received file to the library. It verifies the digest and checks that
// the file is a live ISO, then syncs and renames the file. It closes part. If the content is
// invalid, it returns a *ContentError, and the file is not served.
func (l *Library) addFile(e *entry, part *partial) error {
	if err := part.close(); err != nil {
		return err
	}
	l.mu.Lock()
	e.message = "" // the state stays, because nothing can use the file before it is renamed
	want, name, version := e.record.WantSHA256, e.record.Name, e.record.OpenshiftVersion
	l.mu.Unlock()
	got := part.digest()
	if want != "" && got != want {
		return &ContentError{Problem: fmt.Sprintf("%s has sha256 %s, but sha256 %s was expected; correct the digest, "+
			"or send the right file", name, got, want)}
	}
	if !e.configured {
		if err := l.rejectDuplicate(got, version, e); err != nil {
			return err
		}
	}
	path := l.path(e.id, partEnding)
	if err := l.checkFile(e, path); err != nil {
		return &ContentError{Problem: strings.ReplaceAll(err.Error(), path, name)}
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	l.mu.Lock()
	r := &e.record
	r.SHA256, r.Size, r.Modified, r.VerifiedAt = got, info.Size(), info.ModTime(), l.options.Clock.Now().UTC()
	r.Offset, r.TotalBytes, r.HashState, r.Validator, r.PullSecret = 0, info.Size(), nil, "", ""
	l.mu.Unlock()
	if err := l.save(e); err != nil {
		return err
	}
	if err := os.Rename(path, l.path(e.id, isoEnding)); err != nil {
		return err
	}
	if err := durable.SyncDir(l.options.Dir); err != nil {
		return err
	}
	l.makeTable(l.path(e.id, isoEnding))
	if l.serve(e) {
		l.publish(context.Background())
	}
	return nil
}

// serve opens a new image. It reports false if the library is closed: New opens the file at the
// next start.
func (l *Library) serve(e *entry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.open(e)
	l.log.Info("OS image added.", "id", e.id, "name", e.record.Name, "openshift_version", e.stated(), "architecture",
		e.arch(), "sha256", e.record.SHA256)
	return true
}

// checkFile checks that a file is a valid image.
func (l *Library) checkFile(e *entry, path string) error {
	base, err := isogen.Open(path)
	if err != nil {
		return err
	}
	l.mu.Lock()
	version, arch := e.record.OpenshiftVersion, e.record.CPUArchitecture
	l.mu.Unlock()
	_, _, err = identify(base, version, arch)
	return errors.Join(err, base.Close())
}

// rejectDuplicate returns a *ContentError if the library has another image with the same digest for
// the same OpenShift minor version. Several minor versions can share a live ISO; each of them has
// its own image. An empty version matches each image.
func (l *Library) rejectDuplicate(sum, version string, except *entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e != except && e.record.SHA256 == sum && e.base != nil &&
			(version == "" || Minor(version) == Minor(e.stated())) {
			return &ContentError{
				Problem: fmt.Sprintf("the image exists already as %s (OpenShift %s, %s); no import is needed",
					e.id, e.stated(), e.arch()),
				Existing: e.id,
			}
		}
	}
	return nil
}

// makeTable writes the table that minimal images require next to an image that was published
// without it. It logs no warning if the image does not support minimal images.
func (l *Library) makeTable(path string) {
	base, err := isogen.Open(path)
	if err == nil {
		err = errors.Join(base.MakeTable(context.Background()), base.Close())
	}
	if err != nil && !errors.As(err, new(*isogen.NoMinimalError)) {
		l.log.Warn("The table for minimal images could not be written.", "path", path, "error", err)
	}
}
