package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"landfall/appliance/registry"
	"landfall/appliance/registry/medium"
)

// parallelImages is the number of images that are copied at the same time, and busyWait the pause
// while nodes read from the medium.
const (
	parallelImages = 4
	busyWait       = 2 * time.Second
)

// copier copies images to the site's registry.
type copier struct {
	service *Service
	target  *target
	list    *list
	chunk   *chunkSize

	mu     sync.Mutex
	blobs  map[string]*copied // by digest
	placed map[string]bool    // by repository and digest
}

// copied is where the registry has a blob.
type copied struct {
	mu      sync.Mutex // held while it is copied, so that each blob is sent once
	at      string     // a repository; "" for none
	counted bool
}

func newCopier(s *Service, to *target, images *list, chunk *chunkSize) *copier {
	return &copier{service: s, target: to, list: images, chunk: chunk, blobs: map[string]*copied{},
		placed: map[string]bool{}}
}

// run copies all images. What the registry has is not sent again.
func (c *copier) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelImages)
	for _, image := range c.list.images {
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil // another image failed, and its error is returned
			}
			c.service.advance(func(p *Status) { p.Current = image.String() })
			if err := c.image(ctx, image); err != nil {
				return fmt.Errorf("copy %s: %w", image, err)
			}
			c.service.advance(func(p *Status) { p.ImagesDone++ })
			return nil
		})
	}
	return group.Wait()
}

func (c *copier) image(ctx context.Context, image registry.Image) error {
	found, err := c.service.walk(image.Repository, image.Digest)
	if err != nil {
		return err
	}
	if found.manifest == nil {
		return fmt.Errorf("%s is not in the appliance's registry any more", image.Digest)
	}
	to := c.target.place.repository(image.Repository)
	if err := c.below(ctx, to, found); err != nil {
		return err
	}
	reference := image.Tag
	if reference == "" {
		reference = found.manifest.Digest
	}
	return c.manifest(ctx, to, reference, found.manifest)
}

// below copies everything that an image names.
func (c *copier) below(ctx context.Context, repository string, t *tree) error {
	for _, part := range t.parts {
		if err := c.blob(ctx, repository, part); err != nil {
			return c.target.explain(err, repository)
		}
	}
	for _, manifest := range t.below {
		if err := c.manifest(ctx, repository, manifest.Digest, manifest); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) manifest(ctx context.Context, repository, reference string, manifest *registry.Manifest) error {
	err := c.target.putManifest(ctx, repository, reference, manifest.MediaType, manifest.Data)
	if err != nil && final(err) && statusOf(err) != 0 {
		if own := new(refusal); errors.As(c.target.explain(err, repository), &own) {
			return own
		}
		return refused("%s refuses the manifest %s of %s (%s); see its log", c.target.host, reference, repository,
			describe(err))
	}
	return c.target.explain(err, repository)
}

// blob copies a blob to a repository, unless the repository has it.
func (c *copier) blob(ctx context.Context, repository string, part medium.Descriptor) error {
	key := repository + "@" + part.Digest
	c.mu.Lock()
	known := c.blobs[part.Digest]
	if known == nil {
		known = new(copied)
		c.blobs[part.Digest] = known
	}
	placed := c.placed[key]
	c.mu.Unlock()
	if placed {
		return nil
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	u := &upload{target: c.target, repository: repository, digest: part.Digest, size: part.Size, from: known.at,
		chunk: c.chunk, write: c.read(part),
		sent: func(n int64) { c.service.advance(func(p *Status) { p.SentBytes += n }) }}
	has, err := u.has(ctx)
	if err != nil {
		return err
	}
	if !has {
		if err := u.run(ctx); err != nil {
			return err
		}
	}
	if !known.counted {
		known.counted = true
		c.service.advance(func(p *Status) { p.BytesDone += part.Size })
	}
	known.at = repository
	c.mu.Lock()
	defer c.mu.Unlock()
	c.placed[key] = true
	return nil
}

// read returns the function that reads ranges of a blob from the appliance's registry. Nodes that
// pull come first.
func (c *copier) read(part medium.Descriptor) func(context.Context, io.Writer, int64, int64) error {
	return func(ctx context.Context, w io.Writer, offset, size int64) error {
		for {
			blob, err := c.service.Source.Blob(part.Digest)
			if err != nil {
				return err
			}
			end, err := blob.Start(ctx)
			if busy := new(registry.BusyError); errors.As(err, &busy) {
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-c.service.Clock.After(busyWait):
				}
				continue
			}
			if err != nil {
				return err
			}
			defer end()
			return blob.Copy(ctx, w, offset, size)
		}
	}
}
