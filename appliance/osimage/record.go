package osimage

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"landfall/appliance/architecture"
	"landfall/appliance/durable"
	"landfall/isogen"
)

// Endings of the names of an image's files, after its id.
const (
	isoEnding    = ".iso"  // complete and verified
	partEnding   = ".part" // incomplete
	recordEnding = ".json" // the record
	newEnding    = ".new"  // an unfinished record
)

// record is the stored description of an image.
type record struct {
	Source  Source    `json:"source"`
	Created time.Time `json:"created"`
	Name    string    `json:"name,omitempty"`

	Path       string `json:"path,omitempty"`
	URL        string `json:"url,omitempty"`
	Release    string `json:"release,omitempty"`
	PullSecret string `json:"pull_secret,omitempty"` // removed after the download

	// Values stated in the request or in the configuration.
	OpenshiftVersion string `json:"openshift_version,omitempty"`
	CPUArchitecture  string `json:"cpu_architecture,omitempty"`
	WantSHA256       string `json:"want_sha256,omitempty"`
	TotalBytes       int64  `json:"total_bytes,omitempty"` // 0 while unknown

	// During a transfer: the synced number of bytes of the .part file, and the state of the hash at
	// this offset.
	Offset    int64  `json:"offset,omitempty"`
	HashState []byte `json:"hash_state,omitempty"`
	Validator string `json:"validator,omitempty"` // ETag or Last-Modified of the URL's response

	// The digest of the file with this size and modification time. It makes reading the file at
	// every start unnecessary.
	SHA256     string    `json:"sha256,omitempty"`
	Size       int64     `json:"size,omitempty"`
	Modified   time.Time `json:"modified,omitzero"`
	VerifiedAt time.Time `json:"verified_at,omitzero"`

	Problem string  `json:"problem,omitempty"` // reason why the download failed permanently
	Damage  *damage `json:"damage,omitempty"`  // found by a verification
}

// damage describes a file that must not be served. A file with another size or modification time is
// a replacement.
type damage struct {
	Message    string    `json:"message"`
	Size       int64     `json:"size"`
	Modified   time.Time `json:"modified"`
	Unreadable bool      `json:"unreadable,omitempty"` // the disk reported an error, which may be temporary
	// The version and architecture in the content of the image, because the file is not opened.
	Version      string `json:"openshift_version,omitempty"`
	Architecture string `json:"cpu_architecture,omitempty"`
}

func (d *damage) isOf(info os.FileInfo) bool {
	return d.Size == info.Size() && d.Modified.Equal(info.ModTime())
}

// describes reports whether the digest belongs to the current content of a file.
func (r *record) describes(info os.FileInfo) bool {
	return r.SHA256 != "" && r.Size == info.Size() && r.Modified.Equal(info.ModTime())
}

// configuredEntries returns the entries of the configured images, with their stored records.
func (l *Library) configuredEntries(kept map[string]*record) (entries []*entry) {
	seen := make(map[string]bool)
	for _, c := range l.options.Images {
		source := c.key()
		image := source + " " + Minor(c.OpenshiftVersion) + " " + architecture.Of(c.CPUArchitecture).RPM()
		if seen[image] {
			l.log.Warn("os_images in the configuration contains an image twice. The second entry is ignored.",
				"path", c.Path, "url", redacted(c.URL), "openshift_version", c.OpenshiftVersion)
			continue
		}
		key := source
		if seen[source] {
			key = image // several minor versions can share a live ISO
		}
		seen[source], seen[image] = true, true
		sum := sha256.Sum256([]byte(key))
		entries = append(entries, l.configuredEntry(hex.EncodeToString(sum[:8]), c, kept))
	}
	return entries
}

// key identifies the source of an image.
func (c Configured) key() string {
	switch {
	case c.URL != "":
		return "url " + c.URL + " " + c.SHA256
	case c.Release:
		return "release " + c.OpenshiftVersion + " " + c.CPUArchitecture
	}
	return "file " + c.Path
}

func (l *Library) configuredEntry(id string, c Configured, kept map[string]*record) *entry {
	fresh := record{Source: SourceFile, Path: c.Path, URL: c.URL, Name: filepath.Base(c.Path + c.URL),
		Created: l.options.Clock.Now().UTC()}
	switch {
	case c.URL != "":
		fresh.Source = SourceURL
	case c.Release:
		fresh.Source, fresh.Release = SourcePayload, c.OpenshiftVersion
		fresh.Name = "coreos-" + architecture.Of(c.CPUArchitecture).RPM() + ".iso"
	}
	e := &entry{id: id, record: fresh, configured: true}
	if r, ok := kept[e.id]; ok {
		e.record = *r
		e.record.Problem = "" // retry the download after a restart
	}
	e.record.OpenshiftVersion, e.record.CPUArchitecture, e.record.WantSHA256 = c.OpenshiftVersion, c.CPUArchitecture,
		strings.ToLower(c.SHA256)
	return e
}

// readRecords reads all records. It skips records that cannot be read.
func (l *Library) readRecords() (map[string]*record, error) {
	names, err := filepath.Glob(filepath.Join(escapeGlob(l.options.Dir), "*"+recordEnding))
	if err != nil {
		return nil, fmt.Errorf("list the OS images: %w", err)
	}
	records := make(map[string]*record)
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("list the OS images: %w", err)
		}
		r := new(record)
		if data, err = l.options.Secrets.OpenBytes(data); err == nil {
			err = json.Unmarshal(data, r)
		}
		if err != nil {
			l.log.Warn("The record of an OS image could not be read. The image is ignored.", "path", name, "error", err)
			continue
		}
		records[strings.TrimSuffix(filepath.Base(name), recordEnding)] = r
	}
	return records, nil
}

// escapeGlob escapes a path for filepath.Glob.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// removeStrays removes files without a record, which a killed process left behind.
func (l *Library) removeStrays() error {
	entries, err := os.ReadDir(l.options.Dir)
	if err != nil {
		return fmt.Errorf("list the OS images: %w", err)
	}
	recorded := make(map[string]bool)
	for _, e := range l.entries {
		recorded[e.id] = true
	}
	for _, file := range entries {
		id, ending, _ := strings.Cut(file.Name(), ".")
		stray := ending == "part" && !recorded[id] || strings.HasSuffix(file.Name(), newEnding)
		if !stray {
			continue
		}
		if err := removeFiles(filepath.Join(l.options.Dir, file.Name())); err != nil {
			return fmt.Errorf("remove an unfinished OS image: %w", err)
		}
	}
	return nil
}

// save writes an entry's record atomically and syncs it. The caller must not hold the mutex.
func (l *Library) save(e *entry) error {
	e.saving.Lock()
	defer e.saving.Unlock()
	l.mu.Lock()
	data, err := json.MarshalIndent(e.record, "", "  ")
	l.mu.Unlock()
	if err != nil {
		return err
	}
	// URLs may contain passwords.
	if data, err = l.options.Secrets.SealBytes(data); err != nil {
		return err
	}
	path := l.path(e.id, recordEnding)
	if err := writeSynced(path+newEnding, data); err != nil {
		return spaceError(l.options.Dir, errors.Join(err, removeFiles(path+newEnding)))
	}
	if err := os.Rename(path+newEnding, path); err != nil {
		return err
	}
	return durable.SyncDir(l.options.Dir)
}

func writeSynced(path string, data []byte) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Write(data); err != nil {
		return err
	}
	return file.Sync()
}

// discard removes an entry's files, the record last. After a power failure, the next start finds
// the remaining files by the record.
func (l *Library) discard(e *entry) error {
	if err := removeFiles(l.path(e.id, partEnding), l.path(e.id, copyEnding)); err != nil {
		return err
	}
	if e.record.Source != SourceFile {
		if err := removeFiles(l.path(e.id, isoEnding), isogen.TablePath(l.path(e.id, isoEnding))); err != nil {
			return err
		}
	}
	err := removeFiles(l.path(e.id, recordEnding))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
