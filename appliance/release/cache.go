package release

import (
	"cmp"
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

	"landfall/appliance/durable"
)

// The directories of the cache:
//
//	installers/<key>/openshift-install, openshift-install.sha256   complete and synced
//	installers/.new-<key>/                                         being written
//	partial/<sha256 of a blob>                                     an interrupted download
//	work/<random>/                                                 a run of openshift-install
const (
	installerFile = "openshift-install"
	sumFile       = installerFile + ".sha256"
	newPrefix     = ".new-"
)

// DiskFullError reports that the disk of the cache is full.
type DiskFullError struct{ Err error }

func (e *DiskFullError) Error() string {
	what := "in the cache of installers"
	if failed, ok := errors.AsType[*fs.PathError](e.Err); ok {
		what = failed.Path
	}
	return fmt.Sprintf("no space is left to write %s: free space on its file system, or set a smaller "+
		"limits.installer_cache_bytes, then try again", what)
}

func (e *DiskFullError) Unwrap() error { return e.Err }

// diskError converts errors of a full disk or an exhausted quota to a *DiskFullError.
func diskError(err error) error {
	var full *DiskFullError
	if errors.As(err, &full) {
		return err
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		return &DiskFullError{Err: err}
	}
	return err
}

// removeUnfinished removes unfinished extractions of an earlier process.
func (l *Library) removeUnfinished() error {
	entries, err := os.ReadDir(l.installersDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), newPrefix) {
			if err := os.RemoveAll(filepath.Join(l.installersDir(), e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// cached returns the cached installer of the key if its digest is correct. Otherwise, it removes
// the installer.
func (l *Library) cached(key string) (*Installer, error) {
	dir := filepath.Join(l.installersDir(), key)
	want, err := os.ReadFile(filepath.Join(dir, sumFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	inst := &Installer{Path: filepath.Join(dir, installerFile), SHA256: strings.TrimSpace(string(want))}
	got := ""
	if err == nil {
		got, err = sumOf(inst.Path)
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return nil, err // it says nothing about the file
	}
	if err != nil || got != inst.SHA256 { // a sector that can't be read does not heal
		l.log.Warn("The cached openshift-install was damaged and is extracted again.", "path", inst.Path, "error", err)
		return nil, os.RemoveAll(dir)
	}
	now := l.clock.Now()
	// Older versions stored it with another mode.
	return inst, errors.Join(os.Chmod(inst.Path, installerMode), os.Chtimes(dir, now, now))
}

func sumOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// store syncs the directory of a complete installer and renames it to its key.
func (l *Library) store(dir, key string) error {
	if err := durable.SyncDir(dir); err != nil {
		return err
	}
	if err := os.Rename(dir, filepath.Join(l.installersDir(), key)); err != nil {
		return err
	}
	return durable.SyncDir(l.installersDir())
}

type kept struct {
	path string
	key  string // "" for a download
	used time.Time
	size int64
}

// evict removes the least recently used installers until the cache is within its limit. It keeps
// installers in use, so the cache may exceed the limit. Only the running extraction calls evict,
// after its downloads.
func (l *Library) evict() error {
	if l.limit == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all, err := l.keptFiles()
	if err != nil {
		return fmt.Errorf("determine the size of the release cache: %w", err)
	}
	var total int64
	for _, k := range all {
		total += k.size
	}
	slices.SortFunc(all, func(a, b kept) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.path, b.path)) })
	for _, k := range all {
		if total <= l.limit {
			return nil
		}
		if l.inUse[k.key] > 0 {
			continue
		}
		if err := os.RemoveAll(k.path); err != nil {
			return fmt.Errorf("remove an installer from the release cache: %w", err)
		}
		l.log.Info("Installer removed from the release cache.", "path", k.path, "bytes", k.size)
		total -= k.size
	}
	return nil
}

func (l *Library) keptFiles() ([]kept, error) {
	var all []kept
	for _, parent := range []string{l.installersDir(), l.partialDir()} {
		entries, err := os.ReadDir(parent)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			k := kept{path: filepath.Join(parent, e.Name())}
			if parent == l.installersDir() {
				k.key = strings.TrimPrefix(e.Name(), newPrefix)
			}
			info, err := e.Info()
			if err != nil {
				return nil, err
			}
			k.used = info.ModTime()
			if k.size, err = sizeOf(k.path); err != nil {
				return nil, err
			}
			all = append(all, k)
		}
	}
	return all, nil
}

func sizeOf(path string) (size int64, err error) {
	err = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}
