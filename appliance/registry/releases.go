package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"landfall/appliance/access"
	"landfall/store"
)

// namedRows stores the releases that an administrator's word covers, by digest. pathRows stores the
// paths whose first media were read.
var (
	namedRows = store.NewBucket[NamedRelease]("registry-releases", 1)
	pathRows  = store.NewBucket[time.Time]("registry-paths", 1)
)

// Release is a release on a medium.
type Release struct {
	Version      string `json:"version"`
	Architecture string `json:"architecture"` // as the payload spells it: x86_64, multi
	Digest       string `json:"digest"`
	PullSpec     string `json:"pull_spec"` // by digest, in the original repository
}

// NamedRelease is a release on a medium that an administrator named: by the configuration or by a
// request.
type NamedRelease struct {
	Release
	Path string    `json:"path"` // of the medium
	By   string    `json:"by"`   // the administrator, or "the configuration"
	At   time.Time `json:"at"`
}

// byConfiguration is the administrator of what the configuration names.
const byConfiguration = "the configuration"

// releaseTag matches the tag of a release image: the version and the architecture.
var releaseTag = regexp.MustCompile(
	`^(\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+(?:-[0-9A-Za-z.]+)*?)?)-(x86_64|aarch64|arm64|ppc64le|s390x|multi)$`)

// releasesOn returns the sorted releases on media. Two media with the same tag may have two
// releases: one medium must not hide that of another.
func (c *content) releasesOn(media ...*held) []Release {
	found := []Release{}
	for _, m := range media {
		for repository, tags := range m.index.Repositories {
			if base := path.Base(repository); base != path.Base(releaseRepository) &&
				base != path.Base(componentRepository) && base != path.Base(releaseSource) {
				continue
			}
			for tag, digest := range tags {
				match := releaseTag.FindStringSubmatch(tag)
				if match == nil || c.manifests[digest].Data == nil {
					continue
				}
				found = append(found, Release{Version: match[1], Architecture: match[2], Digest: digest,
					PullSpec: cmp.Or(c.named[digest], releaseSource+"@"+digest)})
			}
		}
	}
	slices.SortFunc(found, func(a, b Release) int {
		return strings.Compare(a.Version+a.Architecture+a.Digest, b.Version+b.Architecture+b.Digest)
	})
	return slices.Compact(found)
}

// Releases returns the releases on the known media. The caller must not change the list.
func (r *Registry) Releases() []Release { return r.current.Load().releases }

// Named returns the releases that an administrator named with their medium, by digest. They may be
// used; see docs/security.md.
func (r *Registry) Named() (map[string]NamedRelease, error) {
	named := map[string]NamedRelease{}
	err := r.options.DB.View(func(tx *store.Tx) error {
		return namedRows.Each(tx, "", func(digest string, row *NamedRelease) error {
			named[digest] = *row
			return nil
		})
	})
	return named, err
}

// Forget removes a release from those that an administrator named with their medium. It reports
// whether it was one. The media at the path are then no longer the first ones, which would be named
// again.
func (r *Registry) Forget(tx *store.Tx, digest string) (found bool, err error) {
	row, err := namedRows.Get(tx, digest)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case store.IsDamaged(err):
		return true, namedRows.Delete(tx, digest)
	case err != nil:
		return false, err
	}
	now := r.options.Clock.Now().UTC()
	return true, errors.Join(namedRows.Delete(tx, digest), pathRows.Put(tx, row.Path, &now))
}

// nameFirst records the releases of the first media at a path of the configuration: an
// administrator named them with the path. What is plugged in there later needs a signature or
// another word. Media that are being copied to the path are the first ones until they are whole.
// nameFirst reports whether it recorded something.
func (r *Registry) nameFirst(ctx context.Context, at string, whole, changed bool) (recorded bool, err error) {
	if !slices.Contains(r.options.Media, at) || !whole && !changed {
		return false, nil
	}
	before := false
	if err := r.options.DB.View(func(tx *store.Tx) error {
		before = pathRows.Exists(tx, at)
		return nil
	}); err != nil || before {
		return false, err
	}
	err = r.options.DB.Update(ctx, func(tx *store.Tx) error {
		now := r.options.Clock.Now().UTC()
		if err := r.name(tx, at, byConfiguration, now); err != nil || !whole {
			return err
		}
		return pathRows.Put(tx, at, &now)
	})
	return err == nil, err
}

// nameMedia records the releases of the present media at a path as named by the caller.
func (r *Registry) nameMedia(ctx context.Context, at string) error {
	return r.options.DB.Update(ctx, func(tx *store.Tx) error {
		return r.name(tx, at, access.From(ctx).String(), r.options.Clock.Now().UTC())
	})
}

func (r *Registry) name(tx *store.Tx, at, by string, now time.Time) error {
	c := r.current.Load()
	for _, m := range c.media {
		if m.path != at || m.missing() { // nobody sees what an absent medium holds
			continue
		}
		for _, release := range c.releasesOn(m) {
			if namedRows.Exists(tx, release.Digest) {
				continue
			}
			if err := namedRows.Put(tx, release.Digest, &NamedRelease{Release: release, Path: at, By: by,
				At: now}); err != nil {
				return fmt.Errorf("record a release: %w", err)
			}
		}
	}
	return nil
}
