package backup

import (
	"archive/tar"
	"bufio"
	"bytes"
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
	"strings"
	"syscall"
	"time"

	"filippo.io/age"

	"landfall/appliance/checksum"
	"landfall/appliance/durable"
)

// Repository is a directory with backups. Each content is stored once.
//
//	objects/<first two digits>/<sha256>   contents, encrypted if there are recipients
//	backups/<time>.json                   the manifest of a backup, encrypted likewise
//	backups/<time>.objects                the names of its objects, one a line
//
// Manifests and lists have a checksum of themselves; see package checksum.
//
// A backup exists when its manifest exists, which is written last. The file "lock" is locked while
// a backup is written or removed: otherwise Prune would remove objects of a backup that has no
// manifest yet.
type Repository struct {
	Dir        string
	Recipients []age.Recipient // who can read the backups; none: they are not encrypted
}

const timeFormat = "20060102T150405.000Z"

// Received says what a backup has added to a repository.
type Received struct {
	*Manifest
	Name  string // of the backup in the repository
	Added int64  // bytes of new objects
	Kept  int64  // bytes of objects that earlier backups have
}

// ErrBusy reports that another process writes or removes backups.
var ErrBusy = errors.New("another backup is being written into the directory; try again when it is complete")

// Lock locks the repository against other writers and against readers, also of other processes. Its
// error is ErrBusy while one of them has the lock. A file system without locks has none.
func (r *Repository) Lock() (unlock func() error, err error) {
	file, err := os.OpenFile(filepath.Join(r.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	switch err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(ErrBusy, file.Close())
	case err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.ENOLCK):
		return nil, errors.Join(fmt.Errorf("lock %s: %w", file.Name(), err), file.Close())
	}
	return file.Close, nil
}

// LockForReading lets other processes remove nothing. A reader may be unable to lock, for example
// on a read-only file system; it then reads what there is.
func (r *Repository) LockForReading() (unlock func() error) {
	file, err := os.Open(filepath.Join(r.Dir, "lock"))
	if err != nil {
		return func() error { return nil }
	}
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH)
	}
	return file.Close
}

// Receive writes the backup in a stream to the repository, and reads it back. Its error is ErrBusy
// if another process writes. After an error, the objects of the new backup stay for the next
// attempt, unless the medium is full.
func (r *Repository) Receive(stream io.Reader) (_ *Received, err error) {
	defer func() { err = ExplainMedium("backup", r.Dir, err) }()
	result := new(Received)
	for _, dir := range []string{"objects", "backups"} {
		if err := makeAll(filepath.Join(r.Dir, dir)); err != nil {
			return nil, err
		}
	}
	unlock, err := r.Lock()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	defer func() {
		if isFull(err) {
			_, rest := r.remove(nil, nil)
			err = errors.Join(err, rest)
		}
	}()
	var sums []string
	manifest, err := Read(stream, func(_ string, size int64, content io.Reader) error {
		sum, added, err := r.put(content)
		sums = append(sums, sum)
		if added {
			result.Added += size
		} else {
			result.Kept += size
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	result.Manifest, result.Name = manifest, manifest.Name()
	text, err := checksum.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	var stored bytes.Buffer
	if err := r.encrypt(&stored, bytes.NewReader(text)); err != nil {
		return nil, err
	}
	return result, r.Add(result.Name, stored.Bytes(), sums)
}

func (r *Repository) encrypt(to io.Writer, content io.Reader) error {
	return Encrypt(to, content, r.Recipients...)
}

// Encrypt copies a content for the recipients; without recipients, in clear. Decrypt reads both.
func Encrypt(to io.Writer, content io.Reader, recipients ...age.Recipient) error {
	if len(recipients) == 0 {
		_, err := io.Copy(to, content)
		return err
	}
	encrypted, err := age.Encrypt(to, recipients...)
	if err != nil {
		return fmt.Errorf("encrypt: %w", err)
	}
	_, err = io.Copy(encrypted, content)
	return errors.Join(err, encrypted.Close())
}

func (r *Repository) object(sum string) string {
	return filepath.Join(r.Dir, "objects", sum[:2], sum)
}

// put stores a content under its hash, and reads back what the repository then has. An encrypted
// object of an earlier backup can't be compared with the content, so the new copy replaces it.
func (r *Repository) put(content io.Reader) (sum string, added bool, err error) {
	file, err := os.CreateTemp(filepath.Join(r.Dir, "objects"), ".new-*")
	if err != nil {
		return "", false, err
	}
	defer func() {
		if rest := os.Remove(file.Name()); rest != nil && !errors.Is(rest, fs.ErrNotExist) {
			err = errors.Join(err, rest)
		}
	}()
	clear, stored := sha256.New(), sha256.New()
	err = r.encrypt(io.MultiWriter(file, stored), io.TeeReader(content, clear))
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = readBack(file, stored.Sum(nil))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", false, err
	}
	sum = hex.EncodeToString(clear.Sum(nil))
	known, err := r.Has(sum)
	if err != nil || known && len(r.Recipients) == 0 && r.verify(sum) == nil {
		return sum, false, err
	}
	return sum, !known, r.publish(file.Name(), sum)
}

// verify reads an object that is not encrypted.
func (r *Repository) verify(sum string) (err error) {
	file, err := os.Open(r.object(sum))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	want, err := hex.DecodeString(sum)
	if err != nil {
		return err
	}
	return readBack(file, want)
}

// Has reports whether the repository has an object.
func (r *Repository) Has(sum string) (bool, error) {
	_, err := os.Stat(r.object(sum))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Put stores an object, which is encrypted already if there are recipients, and reads it back. sum
// is the SHA-256 of its clear content.
func (r *Repository) Put(sum string, stored io.Reader) (err error) {
	if err := makeBelow(filepath.Join(r.Dir, "objects")); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Join(r.Dir, "objects"), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if rest := os.Remove(file.Name()); rest != nil && !errors.Is(rest, fs.ErrNotExist) {
			err = errors.Join(err, rest)
		}
	}()
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(file, hash), stored)
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = readBack(file, hash.Sum(nil))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return r.publish(file.Name(), sum)
}

// makeBelow makes a directory in an existing one, unless it exists. The directory of a disk that
// was unplugged must not be made again on another disk.
func makeBelow(dir string) error {
	switch err := os.Mkdir(dir, 0o700); {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return durable.SyncDir(filepath.Dir(dir))
}

// makeAll makes a directory with its missing parents.
func makeAll(dir string) error {
	_, err := os.Stat(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makeAll(filepath.Dir(dir)); err != nil {
		return err
	}
	return makeBelow(dir)
}

// publish gives a complete object its name.
func (r *Repository) publish(temporary, sum string) error {
	path := r.object(sum)
	if err := makeBelow(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

// Open opens the clear content of an object.
func (r *Repository) Open(sum string, identities ...age.Identity) (io.ReadCloser, error) {
	if !checksum.ValidSum(sum) {
		return nil, &IncompleteError{Reason: fmt.Sprintf("%q is no name of an object", sum)}
	}
	file, err := os.Open(r.object(sum))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &IncompleteError{fmt.Sprintf("the object %s is missing", sum), err}
	}
	if err != nil {
		return nil, err
	}
	content, err := Decrypt(file, identities...)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{content, file}, nil
}

// Add adds a backup whose objects are all stored. manifest is encrypted already, if there are
// recipients.
func (r *Repository) Add(name string, manifest []byte, sums []string) error {
	if _, err := time.Parse(timeFormat, name); err != nil {
		return fmt.Errorf("%q is no name of a backup", name)
	}
	if err := makeBelow(filepath.Join(r.Dir, "backups")); err != nil {
		return err
	}
	sums = slices.Clone(sums)
	slices.Sort(sums)
	base := filepath.Join(r.Dir, "backups", name)
	if err := durable.WriteFile(base+".objects", checksum.List(slices.Compact(sums)), 0o600); err != nil {
		return err
	}
	return durable.WriteFile(base+".json", manifest, 0o600)
}

// Name returns the name of a backup in a repository.
func (m *Manifest) Name() string { return m.Time.UTC().Format(timeFormat) }

// readBack compares a written file with the hash of what was written.
func readBack(file *os.File, want []byte) error {
	DropCache(file)
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, bufio.NewReaderSize(file, 1<<20)); err != nil {
		return fmt.Errorf("read back what was written: %w", err)
	}
	if !bytes.Equal(hash.Sum(nil), want) {
		return fmt.Errorf("the file %s has another content than was written; the medium is damaged", file.Name())
	}
	return nil
}

// Names returns the names of the complete backups, the newest last.
func (r *Repository) Names() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(r.Dir, "backups"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), ".json")
		if _, err := time.Parse(timeFormat, name); ok && err == nil {
			names = append(names, name)
		}
	}
	return names, err
}

// Restore makes a data directory from a backup of the repository. The identities decrypt it.
func (r *Repository) Restore(ctx context.Context, name string, target *Target,
	identities ...age.Identity) (*Manifest, error) {
	return Pipe(func(to *io.PipeWriter) error { return r.Stream(name, to, identities...) },
		func(from io.Reader) (*Manifest, error) { return target.Restore(ctx, from) })
}

// Stream writes a backup of the repository as a stream. The identities decrypt it.
func (r *Repository) Stream(name string, to io.Writer, identities ...age.Identity) error {
	text, err := os.ReadFile(filepath.Join(r.Dir, "backups", name+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return &IncompleteError{fmt.Sprintf("there is no backup %s in %s", name, r.Dir), err}
	}
	if err != nil {
		return err
	}
	clear, err := Decrypt(bytes.NewReader(text), identities...)
	if err != nil {
		return err
	}
	manifest, err := io.ReadAll(clear)
	if err != nil {
		return err
	}
	m, err := ParseManifest(manifest)
	if err != nil {
		return fmt.Errorf("read the manifest of the backup %s in %s: %w", name, r.Dir, err)
	}
	archive := tar.NewWriter(to)
	for _, entry := range m.Entries {
		if err := r.copyEntry(archive, entry, identities); err != nil {
			return err
		}
	}
	if err := archive.WriteHeader(&tar.Header{Name: manifestName, Size: int64(len(manifest)),
		Mode: 0o600}); err != nil {
		return err
	}
	_, err = archive.Write(manifest)
	return errors.Join(err, archive.Close())
}

func (r *Repository) copyEntry(to *tar.Writer, entry Entry, identities []age.Identity) (err error) {
	content, err := r.Open(entry.SHA256, identities...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	if err := to.WriteHeader(&tar.Header{Name: entry.Name, Size: entry.Size, Mode: 0o600}); err != nil {
		return err
	}
	if _, err = io.Copy(to, content); errors.Is(err, tar.ErrWriteTooLong) {
		return &IncompleteError{fmt.Sprintf("the object %s is damaged", entry.SHA256), err}
	}
	return err
}

// until returns the names of the complete backups up to a time, the newest last. A backup with a
// later time is from a clock that was wrong, or the clock is wrong now.
func (r *Repository) until(now time.Time) ([]string, error) {
	names, err := r.Names()
	return slices.DeleteFunc(names, func(name string) bool { return name > now.UTC().Format(timeFormat) }), err
}

// Last returns the name of the backup that a restore takes without a choice of a person, and the
// names of the later ones: the newest one up to a time. If all are later, the clock is wrong, and
// it is the newest one of all. The name is "" if there is no backup.
func (r *Repository) Last(now time.Time) (name string, later []string, err error) {
	names, err := r.Names()
	if err != nil || len(names) == 0 {
		return "", nil, err
	}
	count, _ := slices.BinarySearch(names, now.UTC().Add(time.Millisecond).Format(timeFormat))
	if count == 0 {
		count = len(names)
	}
	return names[count-1], names[count:], nil
}

// newest returns the time of the newest backup up to a time, or the zero time.
func (r *Repository) newest(now time.Time) (time.Time, error) {
	names, err := r.until(now)
	if err != nil || len(names) == 0 {
		return time.Time{}, err
	}
	return time.Parse(timeFormat, names[len(names)-1])
}

// Prune removes all but the newest backups, and the objects that only removed backups have. It
// neither counts nor removes backups with a time after now, so that a clock that was wrong does not
// cost the backups of right times. A repetition after an error removes the objects that stayed.
func (r *Repository) Prune(keep int, now time.Time) (removed int, err error) {
	names, err := r.until(now)
	if err != nil || keep <= 0 || len(names) == 0 {
		return 0, err
	}
	unlock, err := r.Lock()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return r.remove(names[:max(len(names)-keep, 0)], nil)
}

// Remove removes backups, and the objects that neither another backup nor needed has. No other
// process may write to the repository.
func (r *Repository) Remove(names []string, needed map[string]bool) error {
	_, err := r.remove(names, needed)
	return err
}

// Objects returns the names of the objects of a backup.
func (r *Repository) Objects(name string) ([]string, error) {
	path := filepath.Join(r.Dir, "backups", name+".objects")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	sums, err := checksum.ReadList(text)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; remove it and %s.json, and with them this backup", path, err, name)
	}
	return sums, nil
}

func (r *Repository) remove(old []string, others map[string]bool) (removed int, err error) {
	for _, name := range old {
		for _, suffix := range []string{".json", ".objects"} { // without a manifest there is no backup
			if err := os.Remove(filepath.Join(r.Dir, "backups", name+suffix)); err != nil &&
				!errors.Is(err, fs.ErrNotExist) {
				return removed, err
			}
		}
		removed++
	}
	left, err := r.Names()
	if err != nil {
		return removed, err
	}
	needed := make(map[string]bool)
	for _, name := range left {
		sums, err := r.Objects(name)
		if err != nil {
			return removed, fmt.Errorf("no object is removed, because the list of a backup can't be read: %w", err)
		}
		for _, sum := range sums {
			needed[sum] = true
		}
	}
	remove := func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || needed[entry.Name()] || others[entry.Name()] {
			return err
		}
		return os.Remove(path)
	}
	return removed, filepath.WalkDir(filepath.Join(r.Dir, "objects"), remove)
}
