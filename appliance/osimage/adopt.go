package osimage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"landfall/isogen"
)

// adopt adds a complete file to the library. It checks the digest and that the file is a live ISO,
// gives it its name and syncs it to the disk. It closes part. It returns a *ContentError if the
// content is wrong; such a file is not served.
func (l *Library) adopt(e *entry, part *partial) error {
	if err := part.close(); err != nil {
		return err
	}
	l.mu.Lock()
	e.state, e.message = StateVerifying, ""
	want, name := e.record.WantSHA256, e.record.Name
	l.mu.Unlock()
	got := part.digest()
	if want != "" && got != want {
		return &ContentError{Problem: fmt.Sprintf("%s arrived with sha256 %s, not %s; give the right digest, "+
			"or give the right file", name, got, want)}
	}
	if !e.configured {
		if err := l.refuseTwice(got, e); err != nil {
			return err
		}
	}
	path := l.path(e.id, partEnding)
	if err := l.examine(e, path); err != nil {
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
	if err := syncDir(l.options.Dir); err != nil {
		return err
	}
	l.makeTable(l.path(e.id, isoEnding))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil // Open opens it at the next start
	}
	l.open(e)
	l.log.Info("An OS image is there.", "id", e.id, "name", name, "openshift_version", e.stated(), "architecture",
		e.arch(), "sha256", got)
	return nil
}

// examine opens a file as an image and closes it again.
func (l *Library) examine(e *entry, path string) error {
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

// refuseTwice returns a *ContentError if the library has an image with the same digest.
func (l *Library) refuseTwice(sum string, except *entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e != except && e.record.SHA256 == sum && e.base != nil {
			return &ContentError{
				Problem: fmt.Sprintf("the image exists already as %s (OpenShift %s, %s); there is nothing to do",
					e.id, e.stated(), e.arch()),
				Existing: e.id,
			}
		}
	}
	return nil
}

// makeTable makes the table for minimal images beside an image of the library that was published
// without one. It logs no warning for an image that cannot have minimal images.
func (l *Library) makeTable(path string) {
	base, err := isogen.Open(path)
	if err == nil {
		err = errors.Join(base.MakeTable(context.Background()), base.Close())
	}
	if err != nil && !errors.As(err, new(*isogen.NoMinimalError)) {
		l.log.Warn("The table for minimal images could not be made.", "path", path, "error", err)
	}
}
