package replica

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"landfall/appliance/backup"
	"landfall/appliance/durable"
	"landfall/appliance/process"
)

// Directory is a replica in an existing directory. The directory may go away and come back, such as
// one on a USB disk.
type Directory struct{ Path string }

// String implements Target.
func (d Directory) String() string { return d.Path }

// Open implements Target.
func (d Directory) Open(ctx context.Context, owner Owner) (Session, error) {
	if err := d.present(); err != nil {
		return nil, err
	}
	former, err := ReadOwner(d.Path)
	if err != nil {
		return nil, err
	}
	if former != nil {
		if former.ID != owner.ID {
			return nil, &FencedError{Place: d.Path, Owner: *former}
		}
		owner.Replica, owner.Generation, owner.Former, owner.Since = former.Replica, former.Generation,
			former.Former, former.Since
	}
	if owner.Replica == "" {
		owner.Replica = uuid.NewString()
	}
	// A directory that goes away must not be made again, so only its subdirectories are made.
	for _, dir := range []string{filepath.Join(d.Path, snapshotsName), filepath.Join(d.Path, logName)} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	// The log of the generation is made before the owner is written: Promote counts the directories
	// of logs, and two processes never get the same number.
	for err = fs.ErrExist; errors.Is(err, fs.ErrExist); {
		owner.Generation++
		err = os.Mkdir(d.log(owner.Generation), 0o700)
	}
	if err != nil {
		return nil, err
	}
	if err = d.isCurrent(ctx, owner); err == nil {
		err = writeJSON(filepath.Join(d.Path, ownerName), owner)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(d.log(owner.Generation)))
	}
	return newDirectorySession(d, owner), durable.SyncDir(filepath.Join(d.Path, logName))
}

// isCurrent returns an error if an owner must not be written any more, because the directory hung:
// the appliance has stopped or no longer leads its fleet, and another session would be fenced, or
// another appliance owns the replica now, or a newer generation has begun. If the directory hangs
// only afterwards, the number of the generation is lower than those that follow, and fences none of
// them: the present session begins again.
func (d Directory) isCurrent(ctx context.Context, owner Owner) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	present, err := ReadOwner(d.Path)
	switch {
	case err != nil || present == nil:
	case present.ID != owner.ID:
		err = &FencedError{Place: d.Path, Owner: *present}
	case present.Generation > owner.Generation:
		err = ErrNotContinued
	}
	return cmp.Or(err, ctx.Err())
}

// newDirectorySession returns a session in a directory.
func newDirectorySession(d Directory, owner Owner) *directorySession {
	return &directorySession{Directory: d, owner: owner, log: d.log(owner.Generation),
		repository: &backup.Repository{Dir: filepath.Join(d.Path, snapshotsName)}, touched: map[string]bool{},
		segments: map[string]*segment{}}
}

// present returns an *AwayError if the directory is not there.
func (d Directory) present() error {
	info, err := os.Stat(d.Path)
	if err == nil && !info.IsDir() {
		err = errors.New("it is no directory")
	}
	if err != nil {
		return &AwayError{d.Path, err}
	}
	return nil
}

// log returns the directory of the log of a generation.
func (d Directory) log(generation uint64) string {
	return filepath.Join(d.Path, logName, fmt.Sprintf("%010d", generation))
}

// segmentBytes is the size from which a new file of frames begins. Files are removed as a whole.
const segmentBytes = 4 << 20

// directorySession implements Session.
type directorySession struct {
	Directory
	owner      Owner
	log        string // directory
	repository *backup.Repository

	pruning  sync.Mutex
	segments map[string]*segment // complete files of frames by path

	// removal is locked while objects are removed, and read-locked while one is looked for or
	// added. A large object takes long to write, so frames and signs of life do not wait for it.
	removal sync.RWMutex

	mu   sync.Mutex // locked after removal
	file string     // path of the file of frames that is written; "": none
	size int64      // of that file
	last string     // SHA-256 of the last frame; "": none
	// touched and before are the objects that were asked for or written since the last removal and
	// the one before it. Nothing may refer to them yet.
	touched, before map[string]bool
}

func (s *directorySession) Generation() uint64 { return s.owner.Generation }

// allowed returns an error if the session may not write any more.
func (s *directorySession) allowed(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.present(); err != nil {
		return err
	}
	owner, err := ReadOwner(s.Path)
	if err != nil {
		return err
	}
	if owner == nil {
		return &AwayError{s.Path, errors.New("it has no owner any more")}
	}
	switch {
	case owner.Replica != s.owner.Replica:
		return ErrNotContinued // another disk
	case owner.ID != s.owner.ID || owner.Generation > s.owner.Generation:
		return &FencedError{Place: s.Path, Owner: *owner}
	case owner.Generation < s.owner.Generation:
		return ErrNotContinued // an older copy of the disk
	}
	return nil
}

// Resume implements Session.
func (s *directorySession) Resume(ctx context.Context) (last string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.present() == nil && !IsReplica(s.Path) {
		return "", ErrNotContinued // another disk
	}
	if err := s.allowed(ctx); err != nil {
		return "", err
	}
	s.file, s.size, s.last = "", 0, ""
	paths, err := s.segmentPaths(s.owner.Generation)
	if err != nil {
		return "", err
	}
	for _, path := range slices.Backward(paths) { // the first frame of the newest file may be incomplete
		frames, _, err := readFrames(path)
		if err != nil {
			return "", err
		}
		if len(frames) > 0 {
			newest := frames[len(frames)-1]
			s.file, s.size, s.last = path, newest.offset+newest.size, newest.sum
			return newest.sum, nil
		}
	}
	return "", nil
}

func (s *directorySession) touch(sum string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touched[sum] = true
}

func (s *directorySession) Has(ctx context.Context, sum string) (has bool, err error) {
	s.removal.RLock()
	defer s.removal.RUnlock()
	if err := s.allowed(ctx); err != nil {
		return false, err
	}
	if has, err = s.repository.Has(sum); has {
		s.touch(sum)
	}
	return has, err
}

func (s *directorySession) Put(ctx context.Context, sum string, stored io.Reader) (err error) {
	s.removal.RLock()
	defer s.removal.RUnlock()
	if err := s.allowed(ctx); err != nil {
		return err
	}
	s.touch(sum)
	return s.repository.Put(sum, stored)
}

func (s *directorySession) AddSnapshot(ctx context.Context, snapshot Snapshot, manifest []byte,
	sums []string) (err error) {
	s.removal.RLock()
	defer s.removal.RUnlock()
	if err := s.allowed(ctx); err != nil {
		return err
	}
	if err := s.repository.Add(snapshot.Backup, manifest, sums); err != nil {
		return err
	}
	return writeJSON(filepath.Join(s.log, commitName(snapshot.Commit)+refSuffix), snapshot)
}

func (s *directorySession) Append(ctx context.Context, frame []byte) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.allowed(ctx); err != nil {
		return err
	}
	read, err := readFrame(bytes.NewReader(frame))
	if err != nil {
		return err
	}
	if read.Previous != s.last { // a request that was late, after the generation was continued
		return ErrNotContinued
	}
	// Frames without a commit have the number of the next one, and a file of them grows until then.
	path := filepath.Join(s.log, commitName(read.First)+frameSuffix)
	begins := s.size == 0 || s.size >= segmentBytes && path != s.file
	if begins {
		s.file, s.size = path, 0
	}
	if err := s.write(frame); err != nil {
		return err
	}
	s.size, s.last = s.size+int64(len(frame)), read.sum
	if begins {
		return durable.SyncDir(s.log)
	}
	return nil
}

// write appends a frame to the file and reads it back. It replaces a frame that is incomplete.
func (s *directorySession) write(frame []byte) (err error) {
	file, err := os.OpenFile(s.file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err = file.Truncate(s.size); err != nil {
		return err
	}
	if _, err = file.WriteAt(frame, s.size); err != nil {
		return err
	}
	if err = file.Sync(); err != nil {
		return err
	}
	backup.DropCache(file)
	back := make([]byte, len(frame))
	if _, err := file.ReadAt(back, s.size); err != nil {
		return fmt.Errorf("read back what was written: %w", err)
	}
	if sha256.Sum256(back) != sha256.Sum256(frame) {
		return &DamagedError{s.file, "it has another content than was written; the medium is damaged"}
	}
	return nil
}

func (s *directorySession) Beat(ctx context.Context, beat Heartbeat) (err error) {
	if err := s.allowed(ctx); err != nil {
		return err
	}
	return writeJSON(filepath.Join(s.Path, heartbeatName), beat)
}

// segment is a file of frames.
type segment struct {
	last    uint64 // commit
	to      time.Time
	objects []string
}

// commitName returns the beginning of the name of a file of the log.
func commitName(commit uint64) string { return fmt.Sprintf("%016x", commit) }

// readSegment reads the heads of a file of frames.
func readSegment(path string) (*segment, error) {
	frames, _, err := readFrames(path)
	if err != nil {
		return nil, err
	}
	found := new(segment)
	for _, f := range frames {
		found.last = max(found.last, f.Last)
		if f.To.After(found.to) {
			found.to = f.To
		}
		found.objects = append(found.objects, f.Objects...)
	}
	return found, nil
}

// point is a snapshot that can be restored, with the files of frames from it to the next one.
type point struct {
	generation uint64
	path       string // of the file that names the backup
	Snapshot
}

// covered returns the number of first frames that the snapshot has completely. A frame may have the
// last commit of the snapshot and later changes of files. Where the clock was set back, no time
// counts as passed, so that a frame with a later time than the snapshot is not taken for a later
// one. The head of a file without a readable frame is zero, and says nothing about the others.
func (s *Snapshot) covered(frames []head) int {
	age, next := time.Duration(0), s.Time
	for i, frame := range slices.Backward(frames) {
		if frame.Last >= s.Commit || frame.To.IsZero() {
			continue
		}
		if age += max(next.Sub(frame.To), 0); age > fileMargin {
			return i + 1
		}
		next = frame.To
	}
	return 0
}

// badPoint is a file that should name the backup of a snapshot, and is damaged.
type badPoint struct {
	generation uint64
	*DamagedError
}

// points returns the snapshots of all generations, the oldest first, and the damaged ones.
func (d Directory) points() (all []point, bad []badPoint, err error) {
	generations, err := d.generations()
	if err != nil {
		return nil, nil, err
	}
	for _, generation := range generations {
		entries, err := os.ReadDir(d.log(generation))
		if err != nil {
			return nil, nil, err
		}
		for _, entry := range entries {
			if !strings.HasSuffix(entry.Name(), refSuffix) {
				continue
			}
			p := point{generation: generation, path: filepath.Join(d.log(generation), entry.Name())}
			found, err := readJSON(p.path, &p.Snapshot)
			damaged, ok := errors.AsType[*DamagedError](err)
			switch {
			case ok:
				bad = append(bad, badPoint{generation, damaged})
			case err != nil:
				return nil, nil, err
			case found:
				all = append(all, p)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.generation, b.generation), cmp.Compare(a.Commit, b.Commit))
	})
	return all, bad, nil
}

// generations returns the numbers of the generations in order.
func (d Directory) generations() ([]uint64, error) {
	entries, err := os.ReadDir(filepath.Join(d.Path, logName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []uint64
	for _, entry := range entries {
		if number, err := strconv.ParseUint(entry.Name(), 10, 64); err == nil {
			all = append(all, number)
		}
	}
	slices.Sort(all)
	return all, nil
}

// segmentPaths returns the files of frames of a generation in order.
func (d Directory) segmentPaths(generation uint64) ([]string, error) {
	entries, err := os.ReadDir(d.log(generation))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), frameSuffix) {
			all = append(all, filepath.Join(d.log(generation), entry.Name()))
		}
	}
	return all, nil
}

// Prune implements Session. The newest snapshot at the beginning of the kept time stays, with all
// that follows. While another process restores or verifies the replica, nothing is removed.
func (s *directorySession) Prune(ctx context.Context, retention Retention) (usage Usage, err error) {
	s.pruning.Lock()
	defer s.pruning.Unlock()
	if err := s.allowed(ctx); err != nil {
		return Usage{}, err
	}
	unlock, err := s.repository.Lock()
	if errors.Is(err, backup.ErrBusy) {
		return s.usage()
	}
	if err != nil {
		return Usage{}, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	all, _, err := s.points()
	if err != nil {
		return Usage{}, err
	}
	if err := s.readSegments(); err != nil {
		return Usage{}, err
	}
	first := retention.first(all)
	usage, err = s.removeBefore(ctx, all, first)
	for err == nil && retention.Bytes > 0 && usage.Bytes > retention.Bytes && first < len(all)-1 {
		first++
		usage, err = s.removeBefore(ctx, all, first)
		usage.Shortened = true
	}
	s.mu.Lock()
	s.touched, s.before = map[string]bool{}, s.touched
	s.mu.Unlock()
	return usage, err
}

// first returns the index of the oldest snapshot that stays because of its time.
func (r Retention) first(all []point) int {
	age, next := time.Duration(0), r.Now
	for i, p := range slices.Backward(all) {
		age += min(max(next.Sub(p.Time), 0), r.Interval)
		if age >= r.Keep {
			return i
		}
		next = p.Time
	}
	return 0
}

// readSegments reads the heads of the complete files of frames that were not read yet, without a
// lock, so that frames are written meanwhile.
func (s *directorySession) readSegments() error {
	generations, err := s.generations()
	if err != nil {
		return err
	}
	for _, generation := range generations {
		paths, err := s.segmentPaths(generation)
		if err != nil {
			return err
		}
		for _, path := range paths {
			s.mu.Lock()
			open := path == s.file
			s.mu.Unlock()
			if s.segments[path] != nil || open {
				continue
			}
			if s.segments[path], err = readSegment(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// usage returns the size of the replica.
func (s *directorySession) usage() (usage Usage, err error) {
	all, _, err := s.points()
	if err != nil {
		return usage, err
	}
	if usage.Snapshots = len(all); len(all) > 0 {
		usage.Oldest = all[0].Time
	}
	usage.Bytes, err = size(s.Path)
	return usage, err
}

// removeBefore removes the snapshots before one, and the log that only they need.
func (s *directorySession) removeBefore(ctx context.Context, all []point, first int) (Usage, error) {
	if len(all) > 0 {
		if err := s.removeLocked(ctx, all[:first], all[first:]); err != nil {
			return Usage{}, err
		}
	}
	return s.usage()
}

// removeLocked asks twice whether the session may write: the directory may be another disk by now,
// on which other backups and other objects are needed.
func (s *directorySession) removeLocked(ctx context.Context, old, kept []point) error {
	s.removal.Lock()
	defer s.removal.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.allowed(ctx); err != nil {
		return err
	}
	removed, stays := map[string]bool{}, map[string]bool{}
	for _, p := range old {
		if err := os.Remove(p.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		removed[p.Backup] = true
	}
	for _, p := range kept {
		stays[p.Backup] = true
	}
	names, err := s.repository.Names()
	if err != nil {
		return err
	}
	// A backup without a name in the log is of an interrupted snapshot, or the name is damaged.
	// It ages like the others.
	names = slices.DeleteFunc(names, func(name string) bool {
		return stays[name] || !removed[name] && name >= kept[0].Backup
	})
	needed, err := s.removeLogs(kept[0])
	if err != nil {
		return err
	}
	maps.Copy(needed, s.touched)
	maps.Copy(needed, s.before)
	if err := s.allowed(ctx); err != nil {
		return err
	}
	return s.repository.Remove(names, needed)
}

// removeLogs removes the frames before a snapshot. It returns the objects that the others need.
func (s *directorySession) removeLogs(oldest point) (needed map[string]bool, err error) {
	needed = map[string]bool{}
	generations, err := s.generations()
	if err != nil {
		return nil, err
	}
	for _, generation := range generations {
		if generation < oldest.generation {
			if err := os.RemoveAll(s.Directory.log(generation)); err != nil {
				return nil, err
			}
			continue
		}
		paths, err := s.segmentPaths(generation)
		if err != nil {
			return nil, err
		}
		found, heads := make([]*segment, len(paths)), make([]head, len(paths))
		for i, path := range paths {
			if found[i] = s.segments[path]; found[i] == nil { // the open file, and those that were begun meanwhile
				if found[i], err = readSegment(path); err != nil {
					return nil, err
				}
			}
			heads[i] = head{Last: found[i].last, To: found[i].to}
		}
		covered := 0
		if generation == oldest.generation {
			covered = oldest.covered(heads)
		}
		for i, path := range paths {
			if i < covered && s.segments[path] != nil {
				delete(s.segments, path)
				if err := os.Remove(path); err != nil {
					return nil, err
				}
				continue
			}
			for _, sum := range found[i].objects {
				needed[sum] = true
			}
		}
	}
	return needed, nil
}

// size returns the size of all files below a directory.
func size(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	return bytes, err
}

// Claim makes a data directory the owner of a replica. The former owner notices it and refuses to
// serve. It is the decision of a person; see Alive.
func (d Directory) Claim(ctx context.Context, owner Owner) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.present(); err != nil {
		return err
	}
	former, err := ReadOwner(d.Path)
	if err != nil {
		return err
	}
	if former != nil && former.ID != owner.ID {
		owner.Former = former.Name
	}
	generations, err := d.generations()
	if err != nil {
		return err
	}
	if former != nil {
		owner.Generation, owner.Replica = former.Generation, former.Replica
	}
	if len(generations) > 0 {
		owner.Generation = max(owner.Generation, generations[len(generations)-1])
	}
	owner.Generation++
	owner.Since = owner.Since.UTC().Truncate(time.Second)
	path := filepath.Join(d.Path, ownerName)
	if err := writeJSON(path, owner); err != nil {
		return err
	}
	return process.GiveToOwner(d.Path, path)
}
