package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"landfall/appliance/fault"
	"landfall/appliance/registry/medium"
	"landfall/appliance/registry/overlay"
	"landfall/appliance/registry/staging"
)

// Manifest is a manifest that can be served.
type Manifest struct {
	medium.Manifest
	Digest string
	pushed bool
}

// Manifest returns the manifest of a repository under a tag or a digest. Any repository has every
// digest on media, because a digest names its content; a pushed manifest is in its repository only.
// A manifest whose config or layers can't be read now is unavailable: a client that gets it chooses
// this registry, and then fails in the middle.
func (r *Registry) Manifest(repository, reference string) (*Manifest, error) {
	c := r.current.Load()
	found, err := r.find(c, repository, reference)
	if err != nil {
		return nil, err
	}
	parsed, err := medium.ParseManifest(found.Data)
	if err != nil {
		return nil, fmt.Errorf("read the manifest %s: %w", found.Digest, err)
	}
	if missing := r.missingParts(parsed); slices.ContainsFunc(missing, r.Overlay.Lacks) {
		return nil, &UnavailableError{RetryAfter: retryAfter, Reason: "parts of this image are not copied yet from " +
			"the member of the fleet to which it was pushed; wait until that member is back, or push the image again"}
	} else if len(missing) > 0 {
		return nil, &IncompleteError{Missing: missing, Pushed: found.pushed}
	}
	for _, part := range parsed.Parts() {
		if err := r.reachable(c, part); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Find is like [Registry.Manifest], but its config and layers need not be readable now.
func (r *Registry) Find(repository, reference string) (*Manifest, error) {
	return r.find(r.current.Load(), repository, reference)
}

func (r *Registry) find(c *content, repository, reference string) (*Manifest, error) {
	digest, manifest, err := r.Overlay.Manifest(repository, reference)
	pushed := err == nil
	if errors.Is(err, overlay.ErrUnknown) {
		digest, manifest, err = r.onMedia(c, repository, reference)
	}
	if err != nil {
		return nil, err
	}
	return &Manifest{manifest, digest, pushed}, nil
}

// onMedia finds the manifest of a repository under a tag or a digest on the media.
func (r *Registry) onMedia(c *content, repository, reference string) (digest string, _ medium.Manifest, err error) {
	digest, known := reference, true
	if !medium.ValidDigest(reference) {
		if digest, known = c.resolve(repository, reference); digest == "" {
			return "", medium.Manifest{}, r.absent(known)
		}
	}
	manifest, ok := c.manifests[digest]
	if ok {
		return digest, manifest, nil
	}
	if _, ok := c.places[digest]; ok || !medium.ValidDigest(reference) {
		// The medium has a tag or a blob for it, but no manifest that could be read.
		return "", manifest, r.unreadable(c, digest)
	}
	err = r.absent(known)
	if left := c.leftOut[digest]; left != nil && fault.KindOf(err) == fault.NotFound {
		err = left
	}
	return "", manifest, err
}

// absent returns the error for content that is not known. While a path is read for the first time,
// or because an administrator asked for it, the answer is not known yet, unless the path hangs.
func (r *Registry) absent(repository bool) error {
	r.mu.Lock()
	now := r.options.Clock.Now()
	reading := slices.ContainsFunc(r.paths, func(p *mediaPath) bool { return p.isExpected() && !p.hangs(now) })
	r.mu.Unlock()
	switch {
	case reading:
		return &UnavailableError{Reason: "the media are being read", RetryAfter: retryAfter}
	case !repository:
		return ErrNameUnknown
	}
	return ErrManifestUnknown
}

// unreadable returns the error for a manifest that a medium names but that was not read.
func (r *Registry) unreadable(c *content, digest string) error {
	if _, ok := c.places[digest]; ok {
		return &UnavailableError{Reason: fmt.Sprintf("the manifest %s is damaged on the medium", digest)}
	}
	return &IncompleteError{Missing: []string{digest}, Itself: true}
}

// reachable returns an error if a part of an image can't be read now.
func (r *Registry) reachable(c *content, part medium.Descriptor) error {
	if medium.ValidDigest(part.Digest) && r.local(part.Digest) {
		return nil
	}
	return r.onNoMedium(c, part)
}

// onNoMedium returns an error if no present medium has a sound blob.
func (r *Registry) onNoMedium(c *content, part medium.Descriptor) error {
	media := c.places[part.Digest]
	if len(media) == 0 {
		return &IncompleteError{Missing: []string{part.Digest}}
	}
	var missing *held
	for _, m := range media {
		switch m.state(part.Digest) {
		case statePresent:
			return nil
		case stateMissing:
			missing = m
		}
	}
	if missing == nil {
		return r.damagedError(media[0], part.Digest)
	}
	return missing.unavailable()
}

type blobState int

const (
	statePresent blobState = iota
	stateMissing
	stateDamaged
)

func (m *held) state(digest string) blobState {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.damaged[digest]:
		return stateDamaged
	case m.reader == nil:
		return stateMissing
	}
	return statePresent
}

// unavailable returns the error for content of a missing medium.
func (m *held) unavailable() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &UnavailableError{RetryAfter: retryAfter, Reason: fmt.Sprintf("the medium %s is missing since %s UTC; plug "+
		"it in again, or give it up with landfall registry remove", m.location.Label(),
		m.since.UTC().Format(time.DateTime))}
}

// place returns where a blob lies, for people.
func (m *held) place(digest string) string {
	blob := m.index.Blobs[digest]
	if len(blob) == 0 {
		return m.location.Label()
	}
	file := m.index.Files[blob[0].File]
	if file == "" {
		return fmt.Sprintf("%s at byte %d", m.location.Label(), blob[0].Offset)
	}
	return m.location.Label() + "/" + file
}

// Tags returns the sorted tags of a repository.
func (r *Registry) Tags(repository string) ([]string, error) {
	tags, known := r.current.Load().tags(repository)
	pushed, there, err := r.Overlay.Tags(repository)
	switch {
	case err != nil:
		return nil, err
	case !known && !there:
		return nil, r.absent(false)
	}
	tags = append(tags, pushed...)
	slices.Sort(tags)
	return slices.Compact(tags), nil
}

// Referrers returns the manifests that refer to a digest: those on media, and those that were
// pushed to the repository.
func (r *Registry) Referrers(repository, digest string) ([]medium.Descriptor, error) {
	pushed, err := r.Overlay.Referrers(repository, digest)
	for _, found := range r.current.Load().referrers[digest] {
		if !slices.ContainsFunc(pushed, func(d medium.Descriptor) bool { return d.Digest == found.Digest }) {
			pushed = append(pushed, found)
		}
	}
	return pushed, err
}

// Blob is a blob that can be served, to one client.
type Blob struct {
	Digest   string
	Size     int64
	registry *Registry
	disks    []*disk // places on the appliance's disk, which come first
	media    []*held // present ones
	shared   bool    // it is copied by the first client that reads it

	reader    *staging.Reader // of the copy that runs; nil without one
	suppliers []*held         // media that supplied bytes to the last Read
}

// Blob returns a blob by its digest. It does not touch a medium.
func (r *Registry) Blob(digest string) (*Blob, error) {
	var disks []*disk
	var size int64
	for _, d := range []*disk{r.pushed, r.copies} {
		if found, ok := d.size(digest); ok && (len(disks) == 0 || found == size) {
			disks, size = append(disks, d), found
		}
	}
	c := r.current.Load()
	if len(c.places[digest]) == 0 && len(disks) == 0 {
		if err := r.absent(true); !errors.Is(err, ErrManifestUnknown) {
			return nil, err
		}
		return nil, ErrBlobUnknown
	}
	b, err := r.blobOnMedia(c, digest)
	if len(disks) > 0 {
		b.media = slices.DeleteFunc(b.media, func(m *held) bool { return m.index.Blobs[digest].Size() != size })
		b.Size, b.disks = size, disks
		return &b, nil
	}
	if err != nil {
		return nil, err
	}
	b.shared = !r.follows() && slices.ContainsFunc(b.media, r.isOrdered)
	return &b, nil
}

// startWait is how long a client waits until fewer clients read from the medium.
const startWait = 5 * time.Second

// Start reserves a place among the clients that read from the medium. It returns a *[BusyError] if
// too many read already. The caller calls the function when it has read the blob.
func (b *Blob) Start(ctx context.Context) (end func(), err error) {
	switch {
	case len(b.disks) > 0:
		return func() {}, nil
	case b.shared:
		return b.join(ctx)
	}
	return b.startReading(ctx)
}

func (b *Blob) startReading(ctx context.Context) (end func(), err error) {
	m := b.media[0]
	timer := b.registry.options.Clock.NewTimer(startWait)
	defer timer.Stop()
	select {
	case m.starts <- struct{}{}:
		return func() { <-m.starts }, nil
	default:
	}
	select {
	case m.starts <- struct{}{}:
		return func() { <-m.starts }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-timer.Chan():
		return nil, &BusyError{Label: m.location.Label()}
	}
}

// use returns the reader of a medium for a blob, or nil if the medium is missing or has it damaged.
// verify tells the caller to compare the bytes with the digest, because nobody has yet.
func (m *held) use(digest string, whole bool) (_ *medium.Reader, verify bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reader == nil || m.damaged[digest] {
		return nil, false
	}
	return m.reader, whole && !m.sound[digest]
}

func (m *held) setSound(digest string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sound[digest] = true
}

func (m *held) setDamaged(digest string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.damaged[digest] = true
}

// lost reacts to a failed read of a blob. If its file is absent or too short, or if the disk of the
// appliance can't give it any more, only the blob is damaged. Otherwise, unless the medium only
// hangs, it is missing from now on. Run looks for it again.
func (r *Registry) lost(m *held, digest string, failure *medium.ReadError) {
	switch {
	case failure.Hangs:
	case errors.Is(failure, fs.ErrNotExist), errors.Is(failure, io.ErrUnexpectedEOF),
		isOfDisk(failure) && r.packedOf(m) != nil:
		m.setDamaged(digest)
		r.notify() // a copy is made again
		r.log.Error("A blob is not complete. Its medium is not used for it any more.", "digest", digest, "place",
			m.place(digest), "error", failure)
	case m.detach(r.options.Clock.Now()):
		r.log.Warn("A medium can't be read. Clients are told to wait for it.", "medium", m.location.Label(), "error",
			failure)
		r.notify()
	}
	r.Look()
}
