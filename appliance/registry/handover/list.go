package handover

import (
	"errors"
	"slices"
	"strings"

	"landfall/appliance/fault"
	"landfall/appliance/registry"
	"landfall/appliance/registry/medium"
)

// list is what is copied.
type list struct {
	images     []registry.Image
	bytes      int64    // of distinct blobs
	largest    int64    // of one blob
	incomplete []string // images that lack parts, which are left out
	sparse     []string // image lists without the images of some architectures
}

// repositories returns the sorted repositories.
func (l *list) repositories() (found []string) {
	for _, image := range l.images {
		if len(found) == 0 || found[len(found)-1] != image.Repository {
			found = append(found, image.Repository)
		}
	}
	return found
}

// list returns what is copied. needed leaves out releases that no dependent was installed with.
func (s *Service) list(needed bool, dependents []registry.Dependent) (*list, error) {
	images, err := s.Source.Images()
	if err != nil {
		return nil, err
	}
	if needed {
		if images, err = s.withoutUnused(images, dependents); err != nil {
			return nil, err
		}
	}
	l := &list{incomplete: []string{}}
	counted := map[string]bool{}
	for _, image := range images {
		found, err := s.walk(image.Repository, image.Digest)
		if err != nil {
			return nil, err
		}
		if found.incomplete {
			l.incomplete = append(l.incomplete, image.String())
			continue
		}
		if found.sparse {
			l.sparse = append(l.sparse, image.String())
		}
		l.images = append(l.images, image)
		for _, part := range found.parts {
			if !counted[part.Digest] {
				counted[part.Digest] = true
				l.bytes += part.Size
				l.largest = max(l.largest, part.Size)
			}
		}
	}
	return l, nil
}

// withoutUnused leaves out the images of releases that no dependent was installed with.
func (s *Service) withoutUnused(images []registry.Image, dependents []registry.Dependent) ([]registry.Image, error) {
	used := map[string]bool{}
	for _, d := range dependents {
		source, err := s.Installs(d.ID)
		if fault.KindOf(err) == fault.NotFound {
			continue // it was deleted in the meantime
		}
		if err != nil {
			return nil, err
		}
		_, digest, _ := strings.Cut(source.Release, "@")
		used[digest] = true
	}
	var kept, unused []registry.Release
	for _, release := range s.Source.Releases() {
		if used[release.Digest] {
			kept = append(kept, release)
		} else {
			unused = append(unused, release)
		}
	}
	return slices.DeleteFunc(images, func(image registry.Image) bool {
		return slices.ContainsFunc(unused, image.IsReleaseOf) && !slices.ContainsFunc(kept, image.IsReleaseOf)
	}), nil
}

// tree is an image with everything below it.
type tree struct {
	manifest   *registry.Manifest
	below      []*registry.Manifest // present images of lists, each once, and after those that it names
	parts      []medium.Descriptor  // blobs of all manifests
	sparse     bool                 // images of the list are absent
	incomplete bool                 // a blob is on no medium, or damaged on all
}

// walk reads an image and the images of a list.
func (s *Service) walk(repository, digest string) (*tree, error) {
	t := new(tree)
	var err error
	if t.manifest, err = s.add(t, repository, digest, map[string]bool{}); err != nil {
		return nil, err
	}
	t.incomplete = t.incomplete || t.manifest == nil
	return t, nil
}

// add adds what a manifest names to a tree, and returns the manifest, or nil if it is absent. It
// follows each digest once: lists of lists can name one image in very many ways.
func (s *Service) add(t *tree, repository, digest string, followed map[string]bool) (*registry.Manifest, error) {
	found, err := s.Source.Find(repository, digest)
	if err != nil {
		if absent(err) {
			return nil, nil
		}
		return nil, err
	}
	parsed, err := medium.ParseManifest(found.Data)
	if err != nil {
		t.incomplete = true // a node can't use it either
		return found, nil
	}
	for _, child := range parsed.Manifests {
		if followed[child.Digest] {
			continue
		}
		followed[child.Digest] = true
		below, err := s.add(t, repository, child.Digest, followed)
		switch {
		case err != nil:
			return nil, err
		case below == nil:
			t.sparse = true
		default:
			t.below = append(t.below, below)
		}
	}
	for _, part := range parsed.Parts() {
		_, err := s.Source.Blob(part.Digest)
		var unavailable *registry.UnavailableError
		switch {
		case err == nil, errors.As(err, &unavailable): // its medium will be back
		case absent(err):
			t.incomplete = true
		default:
			return nil, err
		}
		t.parts = append(t.parts, part)
	}
	return found, nil
}

// absent reports whether content is on no medium, or damaged on all.
func absent(err error) bool {
	var unavailable *registry.UnavailableError
	var damaged *registry.DamagedError
	return errors.Is(err, registry.ErrManifestUnknown) || errors.Is(err, registry.ErrNameUnknown) ||
		errors.Is(err, registry.ErrBlobUnknown) || errors.As(err, &damaged) || errors.As(err, &unavailable)
}
