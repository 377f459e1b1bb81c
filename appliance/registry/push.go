package registry

import (
	"context"
	"errors"
	"strings"

	"landfall/appliance/fault"
	"landfall/appliance/registry/medium"
	"landfall/appliance/registry/overlay"
)

// ErrOnMedium is returned for the deletion of content that lies on a medium.
var ErrOnMedium = fault.Sentinel(fault.Conflict, "this lies on a medium, to which the registry never writes; only "+
	"what was pushed can be deleted")

// MissingPartsError reports a pushed manifest whose parts the registry does not have.
type MissingPartsError struct{ Digests []string }

func (e *MissingPartsError) Error() string {
	return "the manifest names content that the registry does not have: " + strings.Join(e.Digests, ", ")
}

// FaultKind implements fault.Classified.
func (*MissingPartsError) FaultKind() fault.Kind { return fault.Invalid }

// maxManifest is the largest manifest in bytes (OCI distribution specification, section "Pushing
// Manifests").
const maxManifest = 4 << 20

// PutManifest stores a pushed manifest. Its config and layers must be there; the images of an index
// may be absent, because mirrors leave out other architectures.
func (r *Registry) PutManifest(ctx context.Context, repository, reference, mediaType string, data []byte) (
	digest string, parsed *medium.Parsed, err error) {
	if len(data) > maxManifest {
		return "", nil, fault.New(fault.TooLarge, "The manifest has more than %d MiB.", maxManifest>>20)
	}
	if parsed, err = medium.ParseManifest(data); err != nil {
		return "", nil, fault.New(fault.Invalid, "The manifest can't be read: %v.", err)
	}
	if mediaType == "" {
		mediaType = parsed.MediaType
	}
	digest, err = r.Overlay.PutManifest(ctx, repository, reference, medium.Manifest{MediaType: mediaType, Data: data},
		func() error {
			if missing := r.missingParts(parsed); len(missing) > 0 {
				return &MissingPartsError{missing}
			}
			return nil
		})
	return digest, parsed, err
}

// missingParts returns the parts of an image that were not pushed and lie on none of the known
// media.
func (r *Registry) missingParts(parsed *medium.Parsed) (missing []string) {
	seen := map[string]bool{}
	for _, part := range parsed.Parts() {
		if !seen[part.Digest] && !r.has(part.Digest) {
			missing = append(missing, part.Digest)
		}
		seen[part.Digest] = true
	}
	return missing
}

// has reports whether a blob was pushed or lies on a known medium.
func (r *Registry) has(digest string) bool {
	if !medium.ValidDigest(digest) {
		return false
	}
	return r.local(digest) || len(r.current.Load().places[digest]) > 0
}

// Delete deletes a pushed tag or manifest.
func (r *Registry) Delete(ctx context.Context, repository, reference string) error {
	err := r.Overlay.Delete(ctx, repository, reference)
	if !errors.Is(err, overlay.ErrUnknown) {
		return err
	}
	c := r.current.Load()
	if medium.ValidDigest(reference) {
		if _, ok := c.manifests[reference]; ok {
			return ErrOnMedium
		}
		return ErrManifestUnknown
	}
	if digest, _ := c.resolve(repository, reference); digest != "" {
		return ErrOnMedium
	}
	return ErrManifestUnknown
}

// DeleteBlob deletes a pushed blob. A copy on a medium remains.
func (r *Registry) DeleteBlob(digest string) error {
	err := r.Overlay.DeleteBlob(digest)
	if errors.Is(err, overlay.ErrUnknown) {
		if len(r.current.Load().places[digest]) > 0 {
			return ErrOnMedium
		}
		return ErrBlobUnknown
	}
	return err
}
