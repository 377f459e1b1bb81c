package replica

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"landfall/appliance/backup"
)

// Summary describes a replica.
type Summary struct {
	Owner     *Owner     `json:"owner"`
	Heartbeat *Heartbeat `json:"heartbeat"`
	// Oldest and Newest are the limits of the times that can be restored.
	Oldest    time.Time `json:"oldest,omitzero"`
	Newest    time.Time `json:"newest,omitzero"`
	Snapshots int       `json:"snapshots"`
	Frames    int       `json:"frames"`
	Objects   int       `json:"objects"`
	Bytes     int64     `json:"bytes"`
	// Unread is the number of objects and frames that are encrypted, and were not opened.
	Unread int      `json:"unread"`
	Damage []Damage `json:"damage"`
}

// Summary describes the replica without reading its contents.
func (r Reader) Summary() (*Summary, error) {
	if err := r.present(); err != nil {
		return nil, err
	}
	if !IsReplica(r.Path) {
		return nil, fmt.Errorf("the directory %s contains no replica", r.Path)
	}
	s := &Summary{Damage: []Damage{}}
	var err error
	if s.Owner, err = ReadOwner(r.Path); err != nil {
		return nil, err
	}
	if s.Heartbeat, err = ReadHeartbeat(r.Path); err != nil {
		s.Damage = append(s.Damage, Damage{filepath.Join(r.Path, heartbeatName), err.Error()})
	}
	all, bad, err := r.points()
	if err != nil {
		return nil, err
	}
	for _, each := range bad {
		s.Damage = append(s.Damage, Damage{each.Path, each.Reason})
	}
	if s.Snapshots = len(all); s.Snapshots > 0 {
		s.Oldest, s.Newest = all[0].Time, all[len(all)-1].Time
	}
	s.Bytes, err = size(r.Path)
	return s, err
}

// Verify reads the whole replica, and says what is damaged.
func (r Reader) Verify(ctx context.Context) (_ *Summary, err error) {
	unlock := r.repository().LockForReading()
	defer func() { err = errors.Join(err, unlock()) }()
	s, err := r.Summary()
	if err != nil {
		return nil, err
	}
	v := &verification{Reader: r, Summary: s, checked: map[string]bool{}}
	all, _, err := r.points()
	if err != nil {
		return nil, err
	}
	generations, err := r.generations()
	if err != nil {
		return nil, err
	}
	if err := v.lists(); err != nil {
		return nil, err
	}
	for _, p := range all {
		if err := v.snapshot(ctx, p); err != nil {
			return nil, err
		}
	}
	for _, generation := range generations {
		if err := v.log(ctx, generation, all); err != nil {
			return nil, err
		}
	}
	return s, nil
}

type verification struct {
	Reader
	*Summary
	checked map[string]bool // objects
	read    int64           // bytes
}

// progress notes that bytes were read.
func (v *verification) progress(bytes int64) {
	v.read += bytes
	if v.Progress != nil {
		v.Progress(min(v.read, v.Bytes), v.Bytes)
	}
}

// counted is a writer that counts for the progress.
type counted struct{ *verification }

func (c counted) Write(p []byte) (int, error) {
	c.progress(int64(len(p)))
	return len(p), nil
}

func (v *verification) damaged(path, format string, values ...any) {
	v.Damage = append(v.Damage, Damage{path, fmt.Sprintf(format, values...)})
}

// lists checks the lists of objects of all backups: a removal of old ones trusts them.
func (v *verification) lists() error {
	names, err := v.repository().Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := v.repository().Objects(name); err != nil {
			v.damaged(filepath.Join(v.Path, snapshotsName, "backups", name+".objects"), "%v", err)
		}
	}
	return nil
}

// snapshot checks the objects of a snapshot.
func (v *verification) snapshot(ctx context.Context, p point) error {
	listed, unlisted := v.repository().Objects(p.Backup)
	path := filepath.Join(v.Path, snapshotsName, "backups", p.Backup+".json")
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		v.damaged(path, "the snapshot of %s is missing", p.Time.Format(time.RFC3339))
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	clear, err := backup.Decrypt(file, v.Identities...)
	if errors.Is(err, backup.ErrEncrypted) {
		v.Unread++
		return nil
	}
	manifest := new(backup.Manifest)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(clear)
	}
	if err == nil {
		manifest, err = backup.ParseManifest(text)
	}
	if err != nil {
		v.damaged(path, "the snapshot can't be read: %v", err)
		return nil
	}
	if manifest.Name() != p.Backup || manifest.Revision != p.Revision {
		v.damaged(path, "it is not the snapshot of commit %d", p.Commit)
	}
	for _, entry := range manifest.Entries {
		if _, found := slices.BinarySearch(listed, entry.SHA256); !found && unlisted == nil {
			v.damaged(path, "%s is missing in the list of its objects", entry.Name)
		}
		if err := v.object(ctx, entry.SHA256); err != nil {
			return err
		}
	}
	return nil
}

// object compares the content of an object with its name.
func (v *verification) object(ctx context.Context, sum string) error {
	if v.checked[sum] {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	v.checked[sum] = true
	v.Objects++
	path := filepath.Join(v.Path, snapshotsName, "objects", sum)
	content, err := v.repository().Open(sum, v.Identities...)
	if errors.Is(err, backup.ErrEncrypted) {
		v.Unread++
		return nil
	}
	if err != nil {
		v.damaged(path, "%v", err)
		return nil
	}
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(hash, counted{v}), content)
	if err == nil && hex.EncodeToString(hash.Sum(nil)) != sum {
		err = errors.New("its content does not fit its name")
	}
	if err = errors.Join(err, content.Close()); err != nil {
		v.damaged(path, "%v", err)
	}
	return nil
}

// log checks the frames of a generation and what they refer to.
func (v *verification) log(ctx context.Context, generation uint64, all []point) error {
	frames, holes, err := v.frames(generation)
	if err != nil {
		return err
	}
	v.Frames += len(frames)
	newest := uint64(0)
	for i, at := range frames {
		if i > 0 && (at.Previous != frames[i-1].sum || at.First != frames[i-1].Last+1) {
			v.damaged(at.path, "frames are missing before commit %d", at.First)
		}
		newest = at.Last
		if at.To.After(v.Newest) {
			v.Newest = at.To
		}
		for _, sum := range at.Objects {
			if err := v.object(ctx, sum); err != nil {
				return err
			}
		}
		_, err := v.body(at)
		v.progress(at.size)
		switch {
		case errors.Is(err, backup.ErrEncrypted):
			v.Unread++
		case err != nil:
			v.damaged(at.path, "the frame of commit %d can't be read: %v", at.First, err)
		}
	}
	if len(holes) == 1 && v.torn(generation, holes[0], frames) {
		return nil
	}
	for _, each := range holes {
		v.damaged(each.path, "%v, at byte %d", errFrame, each.offset)
	}
	if beat := v.Heartbeat; beat != nil && beat.Generation == generation && beat.Commit > newest {
		if !covered(all, generation, beat.Commit) {
			v.damaged(v.Directory.log(generation), "the log ends with commit %d, and commit %d was written", newest,
				beat.Commit)
		}
	}
	return nil
}

// covered reports whether a snapshot of the generation has a commit.
func covered(all []point, generation, commit uint64) bool {
	for _, p := range all {
		if p.generation == generation && p.Commit >= commit {
			return true
		}
	}
	return false
}

// torn reports whether a damaged place is the end of a file whose last frame was being written when
// the appliance or the disk stopped. That frame was never counted as written. Nothing counts the
// frames of former generations, so a whole one with a wrong checksum is damage there.
func (v *verification) torn(generation uint64, at hole, frames []located) bool {
	paths, err := v.segmentPaths(generation)
	if err != nil || len(paths) == 0 || at.path != paths[len(paths)-1] {
		return false
	}
	newest, end := uint64(0), int64(0)
	for _, each := range frames {
		newest = each.Last
		if each.path == at.path {
			end = each.offset + each.size
		}
	}
	if at.offset != end {
		return false
	}
	if beat := v.Heartbeat; beat != nil && beat.Generation == generation {
		return beat.Commit <= newest
	}
	return at.short
}
