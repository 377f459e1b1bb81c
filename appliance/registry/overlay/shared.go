package overlay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"landfall/appliance/fleet/filecopy"
	"landfall/appliance/registry/medium"
	"landfall/appliance/registry/quota"
	"landfall/store"
	"landfall/store/blob"
)

// The members of a fleet have the same pushed images. Manifests and tags are rows, which all
// members have. The row of a manifest names those of its parts that were pushed, and the members
// copy these blobs from each other. What lies on a medium is not copied.

// Shared is what the overlays of the members of a fleet share.
type Shared struct {
	Fetch filecopy.Source // of blobs, by the hexadecimal digits of their digests
	// Send gives a blob to another member, if one is there that takes it in time. nil: the member
	// follows.
	Send  func(ctx context.Context, sum string, open func() (*os.File, error))
	Leads bool
	// Missing is called with the number of blobs that are not here yet.
	Missing func(int)
}

// BlobsDir returns the directory with the blobs of an overlay.
func BlobsDir(dir string) string { return filepath.Join(dir, blobs) }

// OpenBlob opens a blob in a directory of an overlay, by the hexadecimal digits of its digest. Its
// error is fs.ErrNotExist if it is not there.
func OpenBlob(dir, sum string) (*os.File, error) {
	if !medium.ValidDigest("sha256:" + sum) {
		return nil, fmt.Errorf("the blob %q: %w", sum, fs.ErrNotExist)
	}
	return os.Open(filepath.Join(BlobsDir(dir), sum))
}

// send lets another member have a pushed blob before a client learns that it is stored.
func (o *Overlay) send(ctx context.Context, digest string) {
	if o.options.Shared == nil || o.options.Shared.Send == nil {
		return
	}
	sum := strings.TrimPrefix(digest, "sha256:")
	o.options.Shared.Send(ctx, sum, func() (*os.File, error) { return OpenBlob(o.options.Dir, sum) })
}

// Take stores a blob that the leader sends, by the hexadecimal digits of its digest.
func (o *Overlay) Take(ctx context.Context, sum string, content io.Reader) error {
	id, err := o.Start()
	if err != nil {
		return err
	}
	if _, err := o.Append(id, 0, blob.NewReader(ctx, content)); err != nil {
		return errors.Join(err, o.Cancel(id))
	}
	return o.finish(id, "sha256:"+sum)
}

// collectInterval is the time between two collections of a follower, where no person can order one.
const collectInterval = time.Hour

// Run copies the blobs that this member lacks until the context ends. A follower also removes the
// blobs that no manifest needs. Run does nothing on a single machine.
func (o *Overlay) Run(ctx context.Context) error {
	s := o.options.Shared
	if s == nil {
		return nil
	}
	if s.Leads {
		if err := o.noteBlobs(ctx); err != nil && ctx.Err() == nil {
			o.options.Logger.Warn("The other members do not copy images that an older version of Landfall took.",
				"error", err)
		}
	}
	(&filecopy.Mirror{DB: o.options.DB, Prefix: manifestRows.Prefix(), Files: "blobs of pushed images",
		Every: collectInterval, Wake: o.wake, Clock: o.options.Clock, Logger: o.options.Logger,
		Copy: o.copyMissing}).Run(ctx)
	return nil
}

// Lacks reports whether a blob was pushed to another member and is not here yet.
func (o *Overlay) Lacks(digest string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.lacking[digest]
	return ok
}

// noteBlobs completes the rows of manifests that an older version of Landfall wrote.
func (o *Overlay) noteBlobs(ctx context.Context) error {
	complete := func(tx *store.Tx, found func(key string, row *manifestRow) error) error {
		return manifestRows.Each(tx, "", func(key string, row *manifestRow) error {
			if row.Blobs != nil {
				return nil
			}
			if row.Blobs = o.pushedParts(row.Data); row.Blobs == nil {
				return nil
			}
			return found(key, row)
		})
	}
	old := map[string]*manifestRow{}
	if err := o.options.DB.View(func(tx *store.Tx) error {
		return complete(tx, func(key string, row *manifestRow) error {
			old[key] = row
			return nil
		})
	}); err != nil || len(old) == 0 {
		return err
	}
	return o.options.DB.Update(ctx, func(tx *store.Tx) error {
		for key, row := range old {
			now, err := manifestRows.Get(tx, key)
			if errors.Is(err, store.ErrNotFound) || err == nil && now.Blobs != nil {
				continue // it was deleted or pushed again meanwhile
			}
			if err == nil {
				err = manifestRows.Put(tx, key, row)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// pushedParts returns the sizes of those parts of a manifest that are here, by their digests; nil
// if there are none.
func (o *Overlay) pushedParts(manifest []byte) map[string]int64 {
	parsed, err := medium.ParseManifest(manifest)
	if err != nil {
		return nil
	}
	var found map[string]int64
	for _, part := range parsed.Parts() {
		if !medium.ValidDigest(part.Digest) {
			continue
		}
		if size, err := o.Stat(part.Digest); err == nil {
			if found == nil {
				found = map[string]int64{}
			}
			found[part.Digest] = size
		}
	}
	return found
}

// copyMissing implements filecopy.Mirror.Copy. After a look at all rows, a follower also removes
// what is not needed.
func (o *Overlay) copyMissing(ctx context.Context, changes []store.Change) (missing int, err error) {
	if slices.ContainsFunc(changes, func(c store.Change) bool { return c.Deleted }) {
		changes = nil
	}
	if err := o.look(ctx, changes); err != nil {
		return 0, err
	}
	o.mu.Lock()
	lacking := maps.Clone(o.lacking)
	o.mu.Unlock()
	missing = len(lacking)
	o.options.Shared.Missing(missing)
	var failed error
	for _, digest := range slices.Sorted(maps.Keys(lacking)) {
		if err := o.copyBlob(ctx, digest, lacking[digest]); err != nil {
			failed = err // the others mostly fail for the same reason
			continue
		}
		missing--
		o.options.Shared.Missing(missing)
	}
	if changes != nil || o.options.Shared.Leads {
		return missing, failed
	}
	_, err = o.Collect(ctx)
	return missing, errors.Join(failed, err)
}

// look finds out which blobs are not here. changes are those of manifests since the last look; nil:
// all are looked at.
func (o *Overlay) look(ctx context.Context, changes []store.Change) error {
	wanted := map[string]int64{}
	if err := o.options.DB.View(func(tx *store.Tx) error {
		note := func(_ string, row *manifestRow) error {
			maps.Copy(wanted, row.Blobs)
			return nil
		}
		if changes == nil {
			return manifestRows.Each(tx, "", note)
		}
		for _, change := range changes {
			row, err := manifestRows.Get(tx, strings.TrimPrefix(change.Key, manifestRows.Prefix()))
			if err == nil {
				err = note("", row)
			}
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("read the pushed manifests: %w", err)
	}
	for digest := range wanted {
		if _, err := o.Stat(digest); err == nil {
			delete(wanted, digest)
		}
	}
	o.mu.Lock()
	if changes == nil {
		o.lacking = wanted
	} else {
		maps.Copy(o.lacking, wanted)
	}
	o.mu.Unlock()
	if changes != nil {
		return nil
	}
	return o.dropCopies()
}

// dropCopies removes unfinished copies of blobs that are no longer wanted.
func (o *Overlay) dropCopies() error {
	entries, err := os.ReadDir(o.dir(copies))
	if err != nil {
		return fmt.Errorf("read the directory of the registry: %w", err)
	}
	for _, entry := range entries {
		if o.Lacks("sha256:" + entry.Name()) {
			continue
		}
		path := filepath.Join(o.dir(copies), entry.Name())
		size := sizeOf(path)
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove an unfinished copy of a blob: %w", err)
		}
		o.release(size)
	}
	return nil
}

// copyBlob copies a blob from another member, unless a client has pushed it here meanwhile.
func (o *Overlay) copyBlob(ctx context.Context, digest string, size int64) error {
	sum := strings.TrimPrefix(digest, "sha256:")
	path := filepath.Join(o.dir(copies), sum)
	if _, err := o.Stat(digest); errors.Is(err, ErrUnknown) {
		before := sizeOf(path)
		if err := o.checkRoom(size - before); err != nil {
			return err
		}
		if !o.take(size - before) {
			return ErrFull
		}
		file := filecopy.File{ID: sum, Name: digest, Size: size, SHA256: sum}
		if err := o.options.Shared.Fetch.Copy(ctx, file, path, func(int64) {}); err != nil {
			o.release(size - sizeOf(path))
			return quota.WriteError("copy a pushed blob", err)
		}
		if err := o.keep(path, digest); err != nil {
			o.release(size - sizeOf(path))
			return err
		}
	} else if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.lacking, digest)
	return nil
}

// keep makes a synced file the blob with a digest. It replaces one that was pushed before: its
// bytes may be damaged. If the name can't be synced, the file is removed.
func (o *Overlay) keep(path, digest string) error {
	o.removing.RLock()
	defer o.removing.RUnlock()
	replaced, err := o.Stat(digest)
	if err != nil && !errors.Is(err, ErrUnknown) {
		return err
	}
	now := o.options.Clock.Now() // Collect measures its grace from this time
	if err := errors.Join(os.Chtimes(path, now, now), os.Rename(path, o.path(digest))); err != nil {
		return writeError(err)
	}
	o.release(replaced)
	if err := o.syncDir(o.dir(blobs)); err != nil {
		if replaced > 0 { // both files have the same bytes
			return writeError(err)
		}
		return errors.Join(writeError(err), os.Remove(o.path(digest))) // a power failure may remove the name
	}
	return nil
}

// sizeOf returns the size of a file, or 0 if it is not there.
func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
