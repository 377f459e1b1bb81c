package osimage

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"landfall/appliance/durable"
	"landfall/appliance/fleet/filecopy"
	"landfall/store"
)

// The members of a fleet have the same images. The leader writes a row for each image that is
// complete, and one for each that was removed, so that no member brings a removed image back. The
// rows have the records; the members copy the files from each other.

// sharedRows has the images of a fleet by the ID of the fleet and that of the image.
var sharedRows = store.NewBucket[sharedRow]("os-images", 1)

type sharedRow struct {
	Record  []byte `json:"record,omitempty"` // as in its file: sealed
	Size    int64  `json:"size,omitempty"`   // bytes
	SHA256  string `json:"sha256,omitempty"`
	Removed bool   `json:"removed,omitempty"`
}

// copyEnding is the ending of the name of a file that is being copied from another member.
const copyEnding = ".copy"

// Shared is what the libraries of the members of a fleet share.
type Shared struct {
	DB    *store.DB
	Fleet string          // ID
	Fetch filecopy.Source // of the files of images, by their IDs
	// Follows is set for a member that follows. Its library has what [Mirror] copies.
	Follows bool
}

func (s *Shared) key(id string) string { return s.Fleet + "/" + id }

// rows returns the images of the fleet by their IDs.
func (s *Shared) rows() (map[string]*sharedRow, error) {
	found := map[string]*sharedRow{}
	return found, s.DB.View(func(tx *store.Tx) error {
		return sharedRows.Each(tx, s.key(""), func(key string, row *sharedRow) error {
			if id := strings.TrimPrefix(key, s.key("")); validID(id) {
				found[id] = row
			}
			return nil
		})
	})
}

// validID reports whether a text is the ID of an image, so that it is safe in a path.
func validID(id string) bool {
	decoded, err := hex.DecodeString(id)
	return err == nil && len(decoded) == 8 && strings.ToLower(id) == id
}

// OpenFile opens the file of a complete image in a directory of images, for another member. Its
// error is fs.ErrNotExist if it is not there.
func OpenFile(dir, id string) (*os.File, error) {
	if !validID(id) {
		return nil, fmt.Errorf("the OS image %q: %w", id, fs.ErrNotExist)
	}
	return os.Open((&Library{options: Options{Dir: dir}}).path(id, isoEnding))
}

// takeShared writes the records of the images of the fleet that this member does not have, and
// removes the images that were removed.
func (l *Library) takeShared() error {
	if l.options.Shared == nil || l.options.Shared.Follows {
		return nil
	}
	rows, err := l.options.Shared.rows()
	if err != nil {
		return fmt.Errorf("read the OS images of the fleet: %w", err)
	}
	for id, row := range rows {
		if err := l.take(id, row); err != nil {
			return fmt.Errorf("take an OS image of the fleet: %w", err)
		}
	}
	return nil
}

// take writes the record of an image, or removes a removed image. It reports nothing about its
// file.
func (l *Library) take(id string, row *sharedRow) error {
	if row.Removed {
		return l.discard(&entry{id: id})
	}
	if exists(l.path(id, isoEnding)) && exists(l.path(id, recordEnding)) {
		return nil
	}
	if err := removeFiles(l.path(id, partEnding)); err != nil { // of an own download of the same image
		return err
	}
	return durable.WriteFile(l.path(id, recordEnding), row.Record, 0o600)
}

// elsewhere reports whether an entry is complete on another member and not here.
func (l *Library) elsewhere(e *entry) bool {
	return l.options.Shared != nil && e.record.Source != SourceFile && e.record.SHA256 != "" && e.base == nil
}

// comes reports whether an image is about to be copied to this follower. The leader may use it
// already.
func (l *Library) comes(e *entry) bool { return l.elsewhere(e) && l.options.Shared.Follows }

const copying = "it is copied from another member of the fleet"

// copyWithRetry copies an image from another member until it is here or the context ends.
func (l *Library) copyWithRetry(ctx context.Context, e *entry) {
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		l.mu.Lock()
		r := e.record
		e.state, e.message, e.total = StateDownloading, copying, r.Size
		l.mu.Unlock()
		err := l.options.Shared.copy(ctx, l, e.id, &r, func(done int64) {
			l.mu.Lock()
			defer l.mu.Unlock()
			e.done = done
		})
		l.mu.Lock()
		if err == nil && !l.closed {
			l.open(e)
		}
		if err != nil {
			e.state, e.message = StateWaiting, copying+"; "+attemptFailed+err.Error()
		}
		again := errors.Is(err, fs.ErrNotExist) && r.Source != SourceImport
		if again {
			e.record.SHA256 = "" // no member has it, so it is downloaded again
		}
		l.mu.Unlock()
		if err == nil || again || ctx.Err() != nil {
			return
		}
		l.log.Warn("An OS image could not be copied from another member. It is tried again.", "id", e.id, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-l.options.Clock.After(wait):
		}
	}
}

// copy copies the file of an image from another member.
func (s *Shared) copy(ctx context.Context, l *Library, id string, r *record, progress func(int64)) error {
	path := l.path(id, copyEnding)
	file := filecopy.File{ID: id, Name: r.Name, Size: r.Size, SHA256: r.SHA256}
	if err := s.Fetch.Copy(ctx, file, path, progress); err != nil {
		return spaceError(l.options.Dir, err)
	}
	// The record has the digest of the file with this time.
	if err := os.Chtimes(path, r.Modified, r.Modified); err != nil {
		return err
	}
	if err := os.Rename(path, l.path(id, isoEnding)); err != nil {
		return err
	}
	if err := durable.SyncDir(l.options.Dir); err != nil {
		return err
	}
	l.makeTable(l.path(id, isoEnding))
	return nil
}

// publishTime limits the writing of a row.
const publishTime = 10 * time.Second

// publish writes rows for the complete images that have none, so that the other members copy them.
func (l *Library) publish(ctx context.Context) {
	s := l.options.Shared
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	rows, err := s.rows()
	l.mu.Lock()
	entries := slices.Clone(l.entries)
	l.mu.Unlock()
	for _, e := range entries {
		if err != nil {
			break
		}
		err = l.publishOne(ctx, e, rows[e.id])
	}
	if err != nil && ctx.Err() == nil {
		l.log.Warn("The other members do not know a new OS image yet.", "error", err)
	}
}

func (l *Library) publishOne(ctx context.Context, e *entry, present *sharedRow) error {
	l.mu.Lock()
	r, complete := e.record, e.base != nil && e.record.Source != SourceFile && e.record.SHA256 != ""
	data, err := json.MarshalIndent(r, "", "  ")
	l.mu.Unlock()
	if !complete || err != nil || present != nil && !present.Removed && present.SHA256 == r.SHA256 {
		return err
	}
	if data, err = l.options.Secrets.SealBytes(data); err != nil {
		return err
	}
	return l.options.Shared.DB.Update(ctx, func(tx *store.Tx) error {
		return sharedRows.Put(tx, l.options.Shared.key(e.id), &sharedRow{Record: data, Size: r.Size, SHA256: r.SHA256})
	})
}

// withdraw notes for the other members that an image is removed.
func (l *Library) withdraw(id string) error {
	s := l.options.Shared
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), publishTime)
	defer cancel()
	return s.DB.Update(ctx, func(tx *store.Tx) error {
		if !sharedRows.Exists(tx, s.key(id)) {
			return nil
		}
		return sharedRows.Put(tx, s.key(id), &sharedRow{Removed: true})
	})
}

// Mirror copies the images of the leader into the library of a member that follows. Shared.Fetch
// limits its rate.
type Mirror struct {
	Library *Library
	// Missing is called with the number of images that are not here yet.
	Missing func(int)
}

// Run copies images until the context ends.
func (m *Mirror) Run(ctx context.Context) {
	of := m.Library.options
	mirror := &filecopy.Mirror{DB: of.Shared.DB, Prefix: sharedRows.Prefix(), Files: "live ISOs", Clock: of.Clock,
		Logger: of.Logger}
	mirror.Copy = func(ctx context.Context, _ []store.Change) (int, error) { return m.copyAll(ctx) }
	mirror.Run(ctx)
}

// copyAll copies the images that are not here, one after the other. It returns how many are still
// missing.
func (m *Mirror) copyAll(ctx context.Context) (missing int, err error) {
	l := m.Library
	rows, err := l.options.Shared.rows()
	if err != nil {
		return 0, err
	}
	wanted := map[string]*record{}
	for id, row := range rows {
		if row.Removed {
			l.forget(id)
		}
		if err := l.take(id, row); err != nil {
			return 0, err
		}
		if row.Removed {
			continue
		}
		data, err := l.options.Secrets.OpenBytes(bytes.Clone(row.Record))
		r := new(record)
		if err == nil {
			err = json.Unmarshal(data, r)
		}
		if err != nil {
			return 0, fmt.Errorf("read the record of the OS image %s: %w", id, err)
		}
		if l.learn(id, r); !exists(l.path(id, isoEnding)) {
			wanted[id] = r
		}
	}
	missing = len(wanted)
	m.Missing(missing)
	var errs []error
	for id, r := range wanted {
		if err := l.options.Shared.copy(ctx, l, id, r, func(int64) {}); err != nil {
			errs = append(errs, fmt.Errorf("copy %s: %w", r.Name, err))
			continue
		}
		l.learn(id, r)
		missing--
		m.Missing(missing)
		l.log.Info("OS image copied from another member.", "id", id, "name", r.Name, "sha256", r.SHA256)
	}
	return missing, errors.Join(errs...)
}

// learn adds an image of the fleet, and opens it if its file is here.
func (l *Library) learn(id string, r *record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.IndexFunc(l.entries, func(e *entry) bool { return e.id == id })
	if at < 0 {
		added := &entry{id: id, record: *r}
		at = slices.IndexFunc(l.entries, func(e *entry) bool { return !e.configured && compareAge(added, e) < 0 })
		if at < 0 {
			at = len(l.entries)
		}
		l.entries = slices.Insert(l.entries, at, added)
	}
	e := l.entries[at]
	if e.base != nil {
		return
	}
	stated := e.record
	e.record = *r
	e.record.Damage = stated.Damage // of the file of this member
	if e.configured {
		e.record.OpenshiftVersion, e.record.CPUArchitecture, e.record.WantSHA256 = stated.OpenshiftVersion,
			stated.CPUArchitecture, stated.WantSHA256
	}
	l.start(e)
}

// forget closes an image that was removed on the leader.
func (l *Library) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.IndexFunc(l.entries, func(e *entry) bool { return e.id == id })
	if at < 0 {
		return
	}
	e := l.entries[at]
	l.closeBase(e)
	e.state, e.record.SHA256, e.record.Damage = StateWaiting, "", nil
	if !e.configured {
		l.entries = slices.Delete(l.entries, at, at+1)
	}
}
