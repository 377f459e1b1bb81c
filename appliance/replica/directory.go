package replica

import (
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

	"landfall/appliance/backup"
	"landfall/appliance/durable"
)

// Directory is a replica in an existing directory. The directory may go away and come back, such as
// one on a USB disk.
type Directory struct{ Path string }

// String implements Target.
func (d Directory) String() string { return d.Path }

// Open implements Target.
func (d Directory) Open(_ context.Context, owner Owner) (Session, error) {
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
		owner.Generation, owner.Former, owner.Since = former.Generation, former.Former, former.Since
	}
	owner.Generation++
	s := d.session(owner)
	// The log of the generation is made first: Promote counts the directories of logs.
	// A directory that goes away must not be made again, so only its subdirectories are made.
	for _, dir := range []string{s.repository.Dir, filepath.Dir(s.log), s.log} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	if err := writeJSON(filepath.Join(d.Path, ownerName), owner); err != nil {
		return nil, err
	}
	return s, durable.SyncDir(filepath.Join(d.Path, logName))
}

// Resume implements Target.
func (d Directory) Resume(_ context.Context, owner Owner, generation uint64) (_ Session, last string, err error) {
	owner.Generation = generation
	s := d.session(owner)
	if d.present() == nil && !IsReplica(d.Path) {
		return nil, "", ErrNotContinued // another disk
	}
	if err := s.allowed(); err != nil {
		return nil, "", err
	}
	paths, err := d.segmentPaths(generation)
	if err != nil || len(paths) == 0 {
		return s, "", err
	}
	s.file = paths[len(paths)-1]
	frames, _, err := readFrames(s.file)
	if err != nil {
		return nil, "", err
	}
	if len(frames) > 0 {
		newest := frames[len(frames)-1]
		s.size, last = newest.offset+newest.size, newest.sum
	} else if len(paths) > 1 {
		return nil, "", &DamagedError{s.file, "it has no whole frame"}
	}
	return s, last, os.Truncate(s.file, s.size)
}

func (d Directory) session(owner Owner) *directorySession {
	return &directorySession{Directory: d, owner: owner, log: d.log(owner.Generation),
		repository: &backup.Repository{Dir: filepath.Join(d.Path, snapshotsName)},
		touched:    map[string]bool{}, segments: map[string]*segment{}}
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

	mu   sync.Mutex
	file string // path of the file of frames that is written; "": none
	size int64  // of that file
	// touched and before are the objects that were asked for or written since the last removal and
	// the one before it. Nothing may refer to them yet.
	touched, before map[string]bool
}

func (s *directorySession) Generation() uint64 { return s.owner.Generation }

// allowed returns an error if the session may not write any more.
func (s *directorySession) allowed() error {
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
	if owner.ID != s.owner.ID || owner.Generation != s.owner.Generation {
		return &FencedError{Place: s.Path, Owner: *owner}
	}
	return nil
}

func (s *directorySession) Has(_ context.Context, sum string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.allowed(); err != nil {
		return false, err
	}
	has, err := s.repository.Has(sum)
	if has {
		s.touched[sum] = true
	}
	return has, err
}

func (s *directorySession) Put(_ context.Context, sum string, stored io.Reader) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.allowed(); err != nil {
		return err
	}
	s.touched[sum] = true
	return s.repository.Put(sum, stored)
}

func (s *directorySession) AddSnapshot(_ context.Context, snapshot Snapshot, manifest []byte, sums []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.allowed(); err != nil {
		return err
	}
	if err := s.repository.Add(snapshot.Backup, manifest, sums); err != nil {
		return err
	}
	return writeJSON(filepath.Join(s.log, commitName(snapshot.Commit)+refSuffix), snapshot)
}

func (s *directorySession) Append(_ context.Context, frame []byte) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.allowed(); err != nil {
		return err
	}
	read, err := readFrame(strings.NewReader(string(frame)))
	if err != nil {
		return err
	}
	begins := s.file == "" || s.size >= segmentBytes || s.size == 0
	if begins {
		s.file, s.size = filepath.Join(s.log, commitName(read.First)+frameSuffix), 0
	}
	if err := s.write(frame); err != nil {
		return err
	}
	s.size += int64(len(frame))
	if begins {
		return durable.SyncDir(s.log)
	}
	return nil
}

// write appends a frame to the file and reads it back.
func (s *directorySession) write(frame []byte) (err error) {
	file, err := os.OpenFile(s.file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
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

func (s *directorySession) Beat(_ context.Context, beat Heartbeat) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.allowed(); err != nil {
		return err
	}
	return writeJSON(filepath.Join(s.Path, heartbeatName), beat)
}

// segment is a file of frames.
type segment struct {
	last    uint64 // commit
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

// points returns the snapshots of all generations, the oldest first.
func (d Directory) points() ([]point, error) {
	generations, err := d.generations()
	if err != nil {
		return nil, err
	}
	var all []point
	for _, generation := range generations {
		entries, err := os.ReadDir(d.log(generation))
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			if !strings.HasSuffix(entry.Name(), refSuffix) {
				continue
			}
			p := point{generation: generation, path: filepath.Join(d.log(generation), entry.Name())}
			if found, err := readJSON(p.path, &p.Snapshot); err != nil {
				return nil, err
			} else if found {
				all = append(all, p)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.generation, b.generation), cmp.Compare(a.Commit, b.Commit))
	})
	return all, nil
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
// that follows.
func (s *directorySession) Prune(_ context.Context, retention Retention) (Usage, error) {
	s.pruning.Lock()
	defer s.pruning.Unlock()
	if err := s.allowed(); err != nil {
		return Usage{}, err
	}
	all, err := s.points()
	if err != nil {
		return Usage{}, err
	}
	if err := s.readSegments(); err != nil {
		return Usage{}, err
	}
	first := 0
	for i, p := range all {
		if !p.Time.After(retention.Now.Add(-retention.Keep)) {
			first = i
		}
	}
	usage, err := s.removeBefore(all, first)
	for err == nil && retention.Bytes > 0 && usage.Bytes > retention.Bytes && first < len(all)-1 {
		first++
		usage, err = s.removeBefore(all, first)
		usage.Shortened = true
	}
	s.mu.Lock()
	s.touched, s.before = map[string]bool{}, s.touched
	s.mu.Unlock()
	return usage, err
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

// removeBefore removes the snapshots before one, and the log that only they need.
func (s *directorySession) removeBefore(all []point, first int) (Usage, error) {
	usage := Usage{Snapshots: len(all) - first}
	if len(all) == 0 {
		return usage, nil
	}
	usage.Oldest = all[first].Time
	if err := s.removeLocked(all[:first], all[first]); err != nil {
		return usage, err
	}
	var err error
	usage.Bytes, err = size(s.Path)
	return usage, err
}

func (s *directorySession) removeLocked(old []point, oldest point) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, p := range old {
		if err := os.Remove(p.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		names = append(names, p.Backup)
	}
	needed, err := s.removeLogs(oldest)
	if err != nil {
		return err
	}
	maps.Copy(needed, s.touched)
	maps.Copy(needed, s.before)
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
		for _, path := range paths {
			found := s.segments[path]
			if found == nil { // the open file, and those that were begun meanwhile
				if found, err = readSegment(path); err != nil {
					return nil, err
				}
			} else if generation == oldest.generation && found.last <= oldest.Commit {
				delete(s.segments, path)
				if err := os.Remove(path); err != nil {
					return nil, err
				}
				continue
			}
			for _, sum := range found.objects {
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
func (d Directory) Claim(owner Owner) error {
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
		owner.Generation = former.Generation
	}
	if len(generations) > 0 {
		owner.Generation = max(owner.Generation, generations[len(generations)-1])
	}
	owner.Generation++
	owner.Since = owner.Since.UTC().Truncate(time.Second)
	return writeJSON(filepath.Join(d.Path, ownerName), owner)
}
