package registry

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"landfall/appliance/architecture"
	"landfall/appliance/registry/medium"
	"landfall/appliance/registry/overlay"
)

// Image is a manifest in a repository.
type Image struct {
	Repository string `json:"repository"`
	Tag        string `json:"tag,omitempty"` // "" if it has none
	Digest     string `json:"digest"`
}

func (i Image) String() string {
	if i.Tag == "" {
		return i.Repository + "@" + i.Digest
	}
	return i.Repository + ":" + i.Tag
}

// unread returns an error while a path is read for the first time, or because an administrator
// asked for it, also if it hangs.
func (r *Registry) unread() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.paths {
		if p.hangs(r.options.Clock.Now()) {
			return &UnavailableError{RetryAfter: retryAfter, Reason: fmt.Sprintf("%s does not answer, so it is not "+
				"known what lies there; connect it again, or restart the appliance without it", p.path)}
		}
	}
	if slices.ContainsFunc(r.paths, (*mediaPath).isExpected) {
		return &UnavailableError{Reason: "the media are being read", RetryAfter: retryAfter}
	}
	return nil
}

// Images returns what the registry serves, sorted: each tag, and each manifest without a tag. A
// pushed tag hides the same tag on media, as in answers to clients. While a path is read for the
// first time, the answer is not known yet.
func (r *Registry) Images() ([]Image, error) {
	if err := r.unread(); err != nil {
		return nil, err
	}
	type place struct{ repository, reference string }
	found := map[place]string{}
	for repository, tags := range r.current.Load().repositories {
		for tag, of := range tags {
			found[place{repository, tag}] = of.digest
		}
	}
	if err := r.Overlay.Each(func(t overlay.Tagged) error {
		found[place{t.Repository, cmp.Or(t.Tag, t.Digest)}] = t.Digest
		return nil
	}); err != nil {
		return nil, err
	}
	images := make([]Image, 0, len(found))
	tagged := map[place]bool{}
	for at, digest := range found {
		if !medium.ValidDigest(at.reference) {
			tagged[place{at.repository, digest}] = true
			images = append(images, Image{at.repository, at.reference, digest})
		}
	}
	for _, at := range slices.Collect(maps.Keys(found)) {
		if medium.ValidDigest(at.reference) && !tagged[at] {
			images = append(images, Image{Repository: at.repository, Digest: found[at]})
		}
	}
	slices.SortFunc(images, func(a, b Image) int {
		return cmp.Or(strings.Compare(a.Repository, b.Repository), strings.Compare(a.Tag, b.Tag),
			strings.Compare(a.Digest, b.Digest))
	})
	return images, nil
}

// IsReleaseOf reports whether a repository and a tag are those of an image of a release, whose tag
// begins with its version and architecture.
func (i Image) IsReleaseOf(release Release) bool {
	if i.Repository != releaseRepository && i.Repository != componentRepository {
		return false
	}
	prefix := release.Version + "-" + release.Architecture
	return i.Tag == prefix || strings.HasPrefix(i.Tag, prefix+"-")
}

// Architectures returns the architectures for which the media have the image of a pull spec by
// digest: oc-mirror may leave out others of a list. It is empty for an image without a list.
func (r *Registry) Architectures(pullSpec string) (found []architecture.Architecture) {
	_, digest, _ := strings.Cut(pullSpec, "@")
	c := r.current.Load()
	list, err := medium.ParseManifest(c.manifests[digest].Data)
	if err != nil {
		return nil
	}
	for _, image := range list.Manifests {
		if image.Platform != nil && c.manifests[image.Digest].Data != nil {
			found = append(found, architecture.Of(image.Platform.Architecture))
		}
	}
	return found
}

// Announce tells those who wait for changes of the content to look again.
func (r *Registry) Announce() { r.notify() }

// Newest returns the newest time on the known media, and the name of the medium. A clock that is
// before it is wrong.
func (r *Registry) Newest() (label string, at time.Time) {
	for _, m := range r.current.Load().media {
		if m.index.Newest.After(at) {
			label, at = m.location.Label(), m.index.Newest
		}
	}
	return label, at
}
