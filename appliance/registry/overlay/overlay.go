// Package overlay stores the images that people and programs push to the appliance's registry,
// beside the media, which are never written.
//
// Blobs are files with the hexadecimal digits of their digests as names. Uploads have other names,
// and are renamed when their digest was verified and their bytes are synced, so a crash never
// leaves a wrong blob. Manifests and tags are rows of the store.
package overlay

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/durable"
	"landfall/appliance/fault"
	"landfall/appliance/registry/medium"
	"landfall/appliance/registry/quota"
	"landfall/store"
)

// manifestRows stores manifests by repository@digest, and tagRows digests by repository:tag.
var (
	manifestRows = store.NewBucket[manifestRow]("registry-manifests", 1)
	tagRows      = store.NewBucket[string]("registry-tags", 1)
)

type manifestRow struct {
	MediaType string    `json:"media_type"`
	Data      []byte    `json:"data"`
	Pushed    time.Time `json:"pushed"`
	// Blobs has the sizes of those of its parts that were pushed, by their digests. The others lie
	// on media.
	Blobs map[string]int64 `json:"blobs,omitempty"`
}

// Errors of requests.
var (
	// ErrUploadUnknown is returned for an upload that does not exist.
	ErrUploadUnknown = fault.Sentinel(fault.NotFound, "the upload is unknown; start it again")
	// ErrUnknown is returned for content that nobody pushed.
	ErrUnknown = fault.Sentinel(fault.NotFound, "nobody pushed this")
	// ErrDigest is returned for bytes that do not have the stated digest.
	ErrDigest = fault.Sentinel(fault.Invalid, "the bytes do not have the stated digest; nothing was stored")
	// ErrFull is returned if the limit of the registry or the disk has no room.
	ErrFull = quota.ErrFull
	// ErrInUse is returned for the deletion of a blob that a manifest needs.
	ErrInUse = fault.Sentinel(fault.Conflict, "a manifest needs this blob; delete the manifest first")
)

// OffsetError reports a part of an upload that does not continue it.
type OffsetError struct{ Offset int64 }

func (e *OffsetError) Error() string {
	return fmt.Sprintf("the upload has %d bytes; continue there", e.Offset)
}

// Options configures [Open].
type Options struct {
	DB     *store.DB
	Dir    string
	Quota  *quota.Quota
	Shared *Shared // with the other members of a fleet; nil on a single machine
	Clock  clockwork.Clock
	Logger *slog.Logger
}

// Overlay holds pushed images. Its methods may be called concurrently.
type Overlay struct {
	options  Options
	syncFile func(*os.File) error
	syncDir  func(dir string) error

	// removing is held for writing while blobs are removed, and for reading from the check that the
	// blobs of a manifest exist until the manifest is stored.
	removing sync.RWMutex

	mu      sync.Mutex
	uploads map[string]*upload
	used    int64 // bytes of blobs, uploads and unfinished copies
	// lacking has the sizes of the blobs that were pushed to another member and are not here yet.
	lacking map[string]int64
	wake    chan struct{} // makes Run look for blobs that are not here
}

// upload is a running upload.
type upload struct {
	path string
	size atomic.Int64 // changed with the mutex held; negative until the file was read after a restart

	mu    sync.Mutex
	hash  hash.Hash // of the bytes so far; nil until they were read after a restart
	ended bool      // it became a blob or was removed
}

// Open opens the overlay. Uploads that a crash interrupted can be continued.
func Open(options Options) (*Overlay, error) {
	o := &Overlay{options: options, syncFile: (*os.File).Sync, syncDir: durable.SyncDir,
		uploads: map[string]*upload{}, lacking: map[string]int64{}, wake: make(chan struct{}, 1)}
	if options.Shared == nil { // a member that has left its fleet may have unfinished copies
		if err := os.RemoveAll(o.dir(copies)); err != nil {
			return nil, fmt.Errorf("remove unfinished copies of the registry: %w", err)
		}
	}
	for _, dir := range []string{o.dir(blobs), o.dir(uploads), o.dir(copies)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("create the directory of the registry: %w", err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("read the directory of the registry: %w", err)
		}
		for _, entry := range entries {
			if info, err := entry.Info(); err == nil {
				o.used += info.Size()
				options.Quota.Count(info.Size())
			}
		}
	}
	return o, nil
}

// Names of directories.
const (
	blobs   = "blobs"
	uploads = "uploads"
	copies  = "copies" // from other members, unfinished
)

func (o *Overlay) dir(name string) string { return filepath.Join(o.options.Dir, name) }

// path returns the file of a blob. The digest is valid.
func (o *Overlay) path(digest string) string {
	return filepath.Join(o.dir(blobs), strings.TrimPrefix(digest, "sha256:"))
}

// Stat returns the size of a blob, or ErrUnknown.
func (o *Overlay) Stat(digest string) (int64, error) {
	info, err := os.Stat(o.path(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, ErrUnknown
	}
	if err != nil {
		return 0, fmt.Errorf("read a pushed blob: %w", err)
	}
	return info.Size(), nil
}

// Blob opens the file of a blob. Its error is ErrUnknown if nobody pushed the blob.
func (o *Overlay) Blob(digest string) (*os.File, error) {
	file, err := os.Open(o.path(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, fmt.Errorf("read a pushed blob: %w", err)
	}
	return file, nil
}

// Start starts an upload and returns its ID.
func (o *Overlay) Start() (id string, err error) {
	id = strings.ToLower(rand.Text())
	up := &upload{path: filepath.Join(o.dir(uploads), id), hash: sha256.New()}
	file, err := os.OpenFile(up.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", writeError(err)
	}
	if err := file.Close(); err != nil {
		return "", writeError(err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.uploads[id] = up
	return id, nil
}

// find returns a running upload.
func (o *Overlay) find(id string) (*upload, error) {
	if len(id) > 64 || strings.ContainsFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '2' || r > '7')
	}) {
		return nil, ErrUploadUnknown
	}
	path := filepath.Join(o.dir(uploads), id)
	o.mu.Lock()
	defer o.mu.Unlock()
	up := o.uploads[id]
	if up == nil {
		if _, err := os.Lstat(path); err != nil {
			return nil, ErrUploadUnknown
		}
		up = &upload{path: path}
		up.size.Store(-1)
		o.uploads[id] = up
	}
	return up, nil
}

// lock returns a running upload with its mutex held.
func (o *Overlay) lock(id string) (*upload, error) {
	up, err := o.find(id)
	if err != nil {
		return nil, err
	}
	up.mu.Lock()
	err = up.load()
	if up.ended { // while this request waited for another one
		err = ErrUploadUnknown
	}
	if err != nil {
		up.mu.Unlock()
		return nil, err
	}
	return up, nil
}

// load computes the hash of the bytes so far after a restart. The caller holds the mutex.
func (up *upload) load() error {
	if up.hash != nil || up.ended {
		return nil
	}
	file, err := os.Open(up.path)
	if err != nil {
		return fmt.Errorf("read an upload: %w", err)
	}
	sum := sha256.New()
	size, err := io.Copy(sum, file)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("read an upload: %w", err)
	}
	up.hash = sum
	up.size.Store(size)
	return nil
}

// Size returns the number of bytes that an upload has. It does not wait for a request that adds
// bytes: a client whose connection hangs asks this on another one.
func (o *Overlay) Size(id string) (int64, error) {
	up, err := o.find(id)
	if err != nil {
		return 0, err
	}
	if size := up.size.Load(); size >= 0 {
		return size, nil
	}
	if up, err = o.lock(id); err != nil {
		return 0, err
	}
	defer up.mu.Unlock()
	return up.size.Load(), nil
}

// Append adds bytes to an upload. offset is the number of bytes that the client believes the upload
// to have; a negative one matches any. What arrived before an error is kept, and the upload
// continues there.
func (o *Overlay) Append(id string, offset int64, body io.Reader) (size int64, err error) {
	up, err := o.lock(id)
	if err != nil {
		return 0, err
	}
	defer up.mu.Unlock()
	size = up.size.Load()
	if offset >= 0 && offset != size {
		return size, &OffsetError{size}
	}
	file, err := os.OpenFile(up.path, os.O_WRONLY, 0o600)
	if err != nil {
		return size, writeError(err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffer := make([]byte, 256<<10)
	unlooked := int64(checkInterval) // many uploads may be small
	for {
		n, readErr := body.Read(buffer)
		if n > 0 {
			if unlooked += int64(n); unlooked >= checkInterval {
				unlooked = 0
				if err := o.checkRoom(int64(n)); err != nil {
					return size, err
				}
			}
			if !o.take(int64(n)) {
				return size, ErrFull
			}
			if _, err := file.WriteAt(buffer[:n], size); err != nil {
				o.release(int64(n))
				return size, writeError(err)
			}
			up.hash.Write(buffer[:n])
			size += int64(n)
			up.size.Store(size)
		}
		if errors.Is(readErr, io.EOF) {
			return size, nil
		}
		if readErr != nil {
			return size, readErr
		}
	}
}

func writeError(err error) error { return quota.WriteError("store what was pushed", err) }

// checkInterval is how many bytes an upload writes between two looks at the room on the disk.
const checkInterval = 32 << 20

// checkRoom returns ErrFull if n more bytes would take from the disk what the rest of the appliance
// needs.
func (o *Overlay) checkRoom(n int64) error {
	room, limitedBy, err := o.options.Quota.Room()
	if err != nil {
		return errors.Join(ErrFull, err)
	}
	if room < n {
		return fmt.Errorf("%w (the limit is %s)", ErrFull, limitedBy)
	}
	return nil
}

func (o *Overlay) take(n int64) bool {
	if !o.options.Quota.Take(n) {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.used += n
	return true
}

func (o *Overlay) release(n int64) {
	o.options.Quota.Release(n)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.used -= n
}

// Finish ends an upload: its bytes become a blob if they have the digest, and are removed
// otherwise.
func (o *Overlay) Finish(ctx context.Context, id, digest string) error {
	if err := o.finish(id, digest); err != nil {
		return err
	}
	o.send(ctx, digest)
	return nil
}

func (o *Overlay) finish(id, digest string) error {
	up, err := o.lock(id)
	if err != nil {
		return err
	}
	defer up.mu.Unlock()
	if "sha256:"+hex.EncodeToString(up.hash.Sum(nil)) != digest {
		return errors.Join(ErrDigest, o.drop(id, up))
	}
	file, err := os.OpenFile(up.path, os.O_WRONLY, 0o600)
	if err != nil {
		return writeError(err)
	}
	if err := errors.Join(o.syncFile(file), file.Close()); err != nil {
		// The kernel reports lost bytes once, so a later success would say nothing.
		return errors.Join(writeError(err), o.drop(id, up))
	}
	if err := o.keep(up.path, digest); err != nil {
		if _, lost := os.Lstat(up.path); errors.Is(lost, fs.ErrNotExist) {
			o.end(id, up, up.size.Load())
		}
		return err
	}
	o.end(id, up, 0)
	return nil
}

// Cancel removes an upload.
func (o *Overlay) Cancel(id string) error {
	up, err := o.lock(id)
	if err != nil {
		return err
	}
	defer up.mu.Unlock()
	return o.drop(id, up)
}

// drop removes the file of an upload. The caller holds its mutex.
func (o *Overlay) drop(id string, up *upload) error {
	if err := os.Remove(up.path); err != nil {
		return fmt.Errorf("remove an upload: %w", err)
	}
	o.end(id, up, up.size.Load())
	return nil
}

// end forgets an upload and releases bytes of it. The caller holds its mutex.
func (o *Overlay) end(id string, up *upload, released int64) {
	up.ended = true
	o.release(released)
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.uploads, id)
}

// PutManifest stores a manifest under its digest and, if reference is a tag, under the tag. check
// returns an error if parts of it do not exist; none is removed until the manifest is stored.
func (o *Overlay) PutManifest(ctx context.Context, repository, reference string, manifest medium.Manifest,
	check func() error) (digest string, err error) {
	sum := sha256.Sum256(manifest.Data)
	digest = "sha256:" + hex.EncodeToString(sum[:])
	if medium.ValidDigest(reference) && reference != digest {
		return "", ErrDigest
	}
	for part := range o.pushedParts(manifest.Data) {
		o.send(ctx, part)
	}
	o.removing.RLock()
	defer o.removing.RUnlock()
	if err := check(); err != nil {
		return "", err
	}
	pushed := o.pushedParts(manifest.Data)
	return digest, o.options.DB.Update(ctx, func(tx *store.Tx) error {
		row := &manifestRow{MediaType: manifest.MediaType, Data: manifest.Data, Pushed: o.options.Clock.Now().UTC(),
			Blobs: pushed}
		if err := manifestRows.Put(tx, repository+"@"+digest, row); err != nil {
			return fmt.Errorf("store a manifest: %w", err)
		}
		if reference == digest {
			return nil
		}
		return tagRows.Put(tx, repository+":"+reference, &digest)
	})
}

// Manifest returns a manifest of a repository by a tag or by its digest. It returns ErrUnknown if
// nobody pushed it there.
func (o *Overlay) Manifest(repository, reference string) (digest string, manifest medium.Manifest, err error) {
	err = o.options.DB.View(func(tx *store.Tx) error {
		digest = reference
		if !medium.ValidDigest(reference) {
			tagged, err := tagRows.Get(tx, repository+":"+reference)
			if err != nil {
				return unknown(err)
			}
			digest = *tagged
		}
		row, err := manifestRows.Get(tx, repository+"@"+digest)
		if err == nil {
			manifest = medium.Manifest{MediaType: row.MediaType, Data: row.Data}
		}
		return unknown(err)
	})
	return digest, manifest, err
}

func unknown(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return ErrUnknown
	}
	return err
}

// Tags returns the sorted tags of a repository, and whether anything was pushed to it.
func (o *Overlay) Tags(repository string) (tags []string, known bool, err error) {
	err = o.options.DB.View(func(tx *store.Tx) error {
		if err := manifestRows.Each(tx, repository+"@", func(string, *manifestRow) error {
			known = true
			return nil
		}); err != nil {
			return err
		}
		return tagRows.Each(tx, repository+":", func(key string, _ *string) error {
			tags = append(tags, strings.TrimPrefix(key, repository+":"))
			return nil
		})
	})
	slices.Sort(tags)
	return tags, known, err
}

// Tagged is a manifest in a repository, by one of its tags.
type Tagged struct {
	Repository, Tag, Digest string // without a tag, Tag is ""
}

// Each calls a function for each tag, and for each manifest without one.
func (o *Overlay) Each(call func(Tagged) error) error {
	return o.options.DB.View(func(tx *store.Tx) error {
		tagged := map[string]bool{}
		if err := tagRows.Each(tx, "", func(key string, digest *string) error {
			repository, tag, _ := strings.Cut(key, ":")
			tagged[repository+"@"+*digest] = true
			return call(Tagged{repository, tag, *digest})
		}); err != nil {
			return err
		}
		return manifestRows.Keys(tx, "", func(key string) error {
			repository, digest, _ := strings.Cut(key, "@")
			if tagged[key] {
				return nil
			}
			return call(Tagged{Repository: repository, Digest: digest})
		})
	})
}

// Referrers returns the manifests of a repository that refer to a digest.
func (o *Overlay) Referrers(repository, digest string) (found []medium.Descriptor, err error) {
	err = o.options.DB.View(func(tx *store.Tx) error {
		return manifestRows.Each(tx, repository+"@", func(key string, row *manifestRow) error {
			parsed, err := medium.ParseManifest(row.Data)
			if err == nil && parsed.Subject != nil && parsed.Subject.Digest == digest {
				found = append(found, medium.ReferrerOf(strings.TrimPrefix(key, repository+"@"),
					medium.Manifest{MediaType: row.MediaType, Data: row.Data}, parsed))
			}
			return nil
		})
	})
	return found, err
}

// Delete deletes a tag, or a manifest with its tags. It returns ErrUnknown if nobody pushed it.
func (o *Overlay) Delete(ctx context.Context, repository, reference string) error {
	return o.options.DB.Update(ctx, func(tx *store.Tx) error {
		if !medium.ValidDigest(reference) {
			if !tagRows.Exists(tx, repository+":"+reference) {
				return ErrUnknown
			}
			return tagRows.Delete(tx, repository+":"+reference)
		}
		if !manifestRows.Exists(tx, repository+"@"+reference) {
			return ErrUnknown
		}
		var tags []string
		if err := tagRows.Each(tx, repository+":", func(key string, digest *string) error {
			if *digest == reference {
				tags = append(tags, key)
			}
			return nil
		}); err != nil {
			return err
		}
		for _, tag := range tags {
			if err := tagRows.Delete(tx, tag); err != nil {
				return err
			}
		}
		return manifestRows.Delete(tx, repository+"@"+reference)
	})
}

// Needed returns the digests that the manifests name. A damaged manifest is an error, because it
// may need any blob.
func (o *Overlay) Needed() (map[string]bool, error) {
	needed := map[string]bool{}
	err := o.options.DB.View(func(tx *store.Tx) error {
		return manifestRows.Keys(tx, "", func(key string) error {
			row, err := manifestRows.Get(tx, key)
			if err != nil {
				return err
			}
			parsed, err := medium.ParseManifest(row.Data)
			if err != nil {
				return nil
			}
			for _, part := range parsed.Parts() {
				needed[part.Digest] = true
			}
			return nil
		})
	})
	return needed, err
}

// DeleteBlob deletes a blob that no manifest needs.
func (o *Overlay) DeleteBlob(digest string) error {
	o.removing.Lock()
	defer o.removing.Unlock()
	size, err := o.Stat(digest)
	if err != nil {
		return err
	}
	needed, err := o.Needed()
	if err != nil {
		return err
	}
	if needed[digest] {
		return ErrInUse
	}
	if err := os.Remove(o.path(digest)); err != nil {
		return fmt.Errorf("delete a blob: %w", err)
	}
	o.release(size)
	return nil
}

// Digests returns the digests of the blobs.
func (o *Overlay) Digests() ([]string, error) {
	entries, err := os.ReadDir(o.dir(blobs))
	if err != nil {
		return nil, fmt.Errorf("read the directory of the registry: %w", err)
	}
	digests := make([]string, 0, len(entries))
	for _, entry := range entries {
		if digest := "sha256:" + entry.Name(); medium.ValidDigest(digest) {
			digests = append(digests, digest)
		}
	}
	return digests, nil
}

// Discard removes a damaged blob, although manifests need it: a client sends a blob again only if
// it is absent. In a fleet, it is copied again from another member. damaged is the file that was
// read. Another one, which a client has pushed meanwhile, stays.
func (o *Overlay) Discard(digest string, damaged fs.FileInfo) error {
	o.removing.Lock()
	defer o.removing.Unlock()
	info, err := os.Stat(o.path(digest))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, damaged) {
		return nil
	}
	if err == nil {
		err = os.Remove(o.path(digest))
	}
	if err != nil {
		return fmt.Errorf("remove a damaged blob: %w", err)
	}
	o.release(info.Size())
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return nil
}

// grace is how long a collection keeps blobs without a manifest: a push sends the blobs first. An
// upload without progress is kept as long.
const grace = 24 * time.Hour

// Collected is the result of a collection.
type Collected struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// Collect removes the blobs that no manifest needs, and the uploads that nobody continued, both
// after a day. It never touches a medium.
func (o *Overlay) Collect(ctx context.Context) (Collected, error) {
	var done Collected
	before := o.options.Clock.Now().Add(-grace)
	err := o.collectBlobs(ctx, before, &done)
	if err == nil {
		err = o.collectUploads(ctx, before, &done)
	}
	return done, err
}

func (o *Overlay) collectBlobs(ctx context.Context, before time.Time, done *Collected) error {
	o.removing.Lock()
	defer o.removing.Unlock()
	needed, err := o.Needed()
	if err != nil {
		return err
	}
	return o.eachOld(ctx, blobs, before, func(name string, size int64) error {
		if needed["sha256:"+name] {
			return nil
		}
		if err := os.Remove(filepath.Join(o.dir(blobs), name)); err != nil {
			return fmt.Errorf("remove a blob: %w", err)
		}
		o.release(size)
		done.Files++
		done.Bytes += size
		return nil
	})
}

func (o *Overlay) collectUploads(ctx context.Context, before time.Time, done *Collected) error {
	return o.eachOld(ctx, uploads, before, func(name string, _ int64) error {
		up, err := o.lock(name)
		if errors.Is(err, ErrUploadUnknown) {
			return nil // it has ended meanwhile
		}
		if err != nil {
			return err
		}
		defer up.mu.Unlock()
		if info, err := os.Stat(up.path); err != nil || info.ModTime().After(before) {
			return nil // it was continued meanwhile
		}
		if err := o.drop(name, up); err != nil {
			return err
		}
		done.Files++
		done.Bytes += up.size.Load()
		return nil
	})
}

// eachOld calls fn for the files of a directory that are not newer than a time.
func (o *Overlay) eachOld(ctx context.Context, dir string, before time.Time,
	fn func(name string, size int64) error) error {
	entries, err := os.ReadDir(o.dir(dir))
	if err != nil {
		return fmt.Errorf("read the directory of the registry: %w", err)
	}
	for _, entry := range entries {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		info, err := entry.Info()
		if err != nil || info.ModTime().After(before) {
			continue
		}
		if err := fn(entry.Name(), info.Size()); err != nil {
			return err
		}
	}
	return nil
}

// Used returns the bytes of blobs, uploads and unfinished copies.
func (o *Overlay) Used() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.used
}
