package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"landfall/appliance/fault"
	"landfall/appliance/registry/medium"
	"landfall/appliance/registry/traffic"
	"landfall/store"
)

// addedRows stores the paths of media that administrators added while the appliance ran.
var addedRows = store.NewBucket[time.Time]("registry-added", 1)

// Status describes the registry.
type Status struct {
	Host     string         `json:"host"` // name:port for nodes
	Media    []MediumStatus `json:"media"`
	Unusable []Unusable     `json:"unusable"` // files that look like media, and paths that can't be read
	Added    []string       `json:"added"`    // paths that administrators added, which Remove removes
	Releases []Release      `json:"releases"`
	Gaps     []Gap          `json:"gaps"`
	Notes    []string       `json:"notes"`
	// PushedBytes are those of pushed blobs and uploads, and StagedBytes those of copies of media.
	// Together they are at most LimitBytes; 0 is no limit.
	PushedBytes int64 `json:"pushed_bytes"`
	StagedBytes int64 `json:"staged_bytes"`
	LimitBytes  int64 `json:"limit_bytes"`
	// RoomBytes are what copies of media may still take, which RoomLimit limits.
	RoomBytes int64  `json:"room_bytes"`
	RoomLimit string `json:"room_limit"`
	// Dependents are the clusters whose nodes pull from this registry.
	Dependents []Dependent `json:"dependents"`
	// HandOver is set if a hand-over to a registry of the site was started, even if it ended.
	HandOver bool `json:"hand_over"`
	// SentBytes are those that all clients were sent since the start of the appliance. Clients are
	// the last ones, those with the highest rates first.
	SentBytes int64            `json:"sent_bytes"`
	Clients   []traffic.Client `json:"clients"`
	Verify    Verify           `json:"verify"`
}

// Dependent is a cluster whose nodes pull from the registry.
type Dependent struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Domain string `json:"base_dns_domain"`
	Status string `json:"status"`
}

// NamesOf returns the full names of clusters.
func NamesOf(dependents []Dependent) []string {
	names := make([]string, 0, len(dependents))
	for _, d := range dependents {
		names = append(names, strings.TrimSuffix(d.Name+"."+d.Domain, "."))
	}
	return names
}

// MediumStatus describes a known medium.
type MediumStatus struct {
	Path      string           `json:"path"`
	Label     string           `json:"label"`
	Form      medium.Form      `json:"form"`
	Container medium.Container `json:"container"`
	Present   bool             `json:"present"`
	Since     time.Time        `json:"since"` // present or missing since
	Number    int              `json:"number,omitempty"`
	Written   time.Time        `json:"written"`
	Releases  []Release        `json:"releases"`
	Images    int              `json:"images"`
	Blobs     int              `json:"blobs"`
	Bytes     int64            `json:"bytes"`
	ReadBytes int64            `json:"read_bytes"` // since it is present
	// Presumed are blobs that the medium presumes on earlier archives; Absent of them are nowhere.
	Presumed int      `json:"presumed"`
	Absent   int      `json:"absent"`
	Damaged  []string `json:"damaged"`
	Problems []string `json:"problems"`
	Staging  Staging  `json:"staging"`
}

// Unusable is a path with its problem.
type Unusable struct {
	Path    string    `json:"path"`
	Problem string    `json:"problem"`
	State   PathState `json:"state,omitempty"`
}

// PathState tells why a path has no usable media; "" if something is wrong.
type PathState string

// The states of paths without usable media.
const (
	PathReading PathState = "reading" // the appliance reads what lies there
	PathEmpty   PathState = "empty"   // no medium is plugged in
)

// Gap is an image that can't be pulled completely, because parts of it are on none of the known
// media.
type Gap struct {
	Image   string   `json:"image"` // repository:tag or repository@digest
	Missing []string `json:"missing"`
}

// Verify is the state of the last comparison of all blobs with their digests.
type Verify struct {
	Running  bool     `json:"running"`
	Finished bool     `json:"finished"` // since the start of the process
	Done     int64    `json:"done_bytes"`
	Total    int64    `json:"total_bytes"`
	Damaged  []string `json:"damaged"` // places
	Message  string   `json:"message,omitempty"`
}

// Status returns the state of the registry.
func (r *Registry) Status() Status {
	c := r.current.Load()
	status := Status{Media: []MediumStatus{}, Unusable: []Unusable{}, Added: []string{}, Releases: c.releases,
		Gaps: r.gaps(c), Dependents: []Dependent{}, SentBytes: r.Traffic.Total(), Clients: r.Traffic.Clients(),
		Notes: append([]string{}, c.notes...)}
	for _, m := range c.media {
		of := m.status(c, r.local)
		of.Label, of.Staging, of.Releases = r.labelOf(m), r.stagingOf(m), c.releasesOn(m)
		status.Media = append(status.Media, of)
	}
	for _, p := range r.allPacked() {
		if of := r.packedStatus(p); of != nil {
			status.Media = append(status.Media, *of)
		}
	}
	r.mu.Lock()
	for _, path := range slices.Sorted(maps.Keys(r.problems)) {
		for _, problem := range r.problems[path] {
			status.Unusable = append(status.Unusable, Unusable{Path: path, Problem: problem})
		}
	}
	for _, path := range r.paths {
		if !slices.Contains(r.options.Media, path) {
			status.Added = append(status.Added, path)
		}
		_, reading := r.reading[path]
		found := slices.ContainsFunc(status.Media, func(m MediumStatus) bool { return m.Path == path })
		switch {
		case reading && r.hangs(path):
			status.Unusable = append(status.Unusable, Unusable{Path: path,
				Problem: "does not answer; what lies there counts as absent until it does"})
		case reading:
			status.Unusable = append(status.Unusable, Unusable{path, "is being read", PathReading})
		case !found && len(r.problems[path]) == 0:
			status.Unusable = append(status.Unusable, Unusable{path, "has no media; plug one in", PathEmpty})
		}
	}
	removed := slices.Sorted(maps.Keys(r.removed))
	status.Verify = r.verify
	r.mu.Unlock()
	status.Notes = append(status.Notes, r.notesOf(c, removed)...)
	status.Verify.Damaged = append([]string{}, status.Verify.Damaged...)
	status.PushedBytes, status.StagedBytes, status.LimitBytes = r.Overlay.Used(), r.staging.Used()+r.unpacked.Used(),
		r.quota.Limit()
	var err error
	if status.RoomBytes, status.RoomLimit, err = r.quota.Room(); err != nil {
		status.RoomLimit = fault.Reason(err)
	}
	return status
}

// notesOf returns notes about pushed blobs that were damaged and removed, and that images need.
func (r *Registry) notesOf(c *content, removed []string) (notes []string) {
	if len(removed) == 0 {
		return nil
	}
	needed, err := r.Overlay.Needed()
	for _, digest := range removed {
		if (err != nil || needed[digest]) && !r.local(digest) && len(c.places[digest]) == 0 {
			notes = append(notes, fmt.Sprintf("%s was damaged on the disk and is removed; push its images again",
				digest))
		}
	}
	return notes
}

func (m *held) status(c *content, local func(digest string) bool) MediumStatus {
	s := MediumStatus{Path: m.path, Label: m.location.Label(), Form: m.index.Form, Container: m.location.Container,
		Number: m.index.Number, Written: m.index.Written, Images: len(m.index.Manifests), Blobs: len(m.index.Blobs),
		Presumed: len(m.index.Presumed), Damaged: []string{}, Problems: []string{}}
	for _, blob := range m.index.Blobs {
		s.Bytes += blob.Size()
	}
	for _, digest := range m.index.Presumed {
		if len(c.places[digest]) == 0 && !local(digest) {
			s.Absent++
		}
	}
	for _, problem := range m.index.Problems {
		s.Problems = append(s.Problems, problem.Text)
	}
	if s.Absent > 0 {
		s.Problems = append(s.Problems, fmt.Sprintf("the archive presumes %d blobs of earlier archives, and %d of "+
			"them are on none of the known media", s.Presumed, s.Absent))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Present, s.Since = m.reader != nil, m.since
	if m.reader != nil {
		s.ReadBytes = m.reader.Bytes.Load()
	}
	s.Damaged = append(s.Damaged, slices.Sorted(maps.Keys(m.damaged))...)
	return s
}

// gaps returns the images with parts that are nowhere, and the tags without a manifest.
func (r *Registry) gaps(c *content) []Gap {
	gaps := []Gap{}
	seen := map[string]bool{} // digests
	for _, repository := range slices.Sorted(maps.Keys(c.repositories)) {
		tags := c.repositories[repository]
		for _, tag := range slices.Sorted(maps.Keys(tags)) {
			digest := tags[tag].digest
			if seen[digest] {
				continue
			}
			seen[digest] = true
			name := repository + ":" + tag
			if medium.ValidDigest(tag) {
				name = repository + "@" + tag
			}
			if missing := r.missing(c, digest); len(missing) > 0 {
				gaps = append(gaps, Gap{Image: name, Missing: missing})
			}
		}
	}
	return gaps
}

// missing returns the parts of an image that are nowhere, or the image itself.
func (r *Registry) missing(c *content, digest string) (missing []string) {
	manifest, ok := c.manifests[digest]
	if !ok {
		return []string{digest}
	}
	parsed, err := medium.ParseManifest(manifest.Data)
	if err != nil {
		return nil
	}
	return r.missingParts(parsed)
}

// Add adds a path of media, reads it, and records that the caller named its releases. For a known
// path, it does so for the releases that are there now.
func (r *Registry) Add(ctx context.Context, path string) error {
	if !filepath.IsAbs(path) {
		return fault.New(fault.Invalid, "%q is not an absolute path of the appliance's machine.", path)
	}
	path = filepath.Clean(path)
	if err := r.checkPlace(path); err != nil {
		return err
	}
	found, unusable, err := r.search(path)
	switch {
	case err != nil:
		return fault.New(fault.Invalid, "%s can't be read on the appliance's machine: %v.", path, errors.Unwrap(err))
	case len(found) == 0 && len(unusable) > 0:
		return fault.New(fault.Invalid, "%s.", unusable[0].Error())
	case len(found) == 0:
		return fault.New(fault.Invalid, "%s has no media: no archive of oc-mirror, no OCI layout, no folder of "+
			"landfall courier or of oc image mirror.", path)
	}
	if !slices.Contains(r.options.Media, path) {
		if err := r.options.DB.Update(ctx, func(tx *store.Tx) error {
			now := r.options.Clock.Now().UTC()
			return addedRows.Put(tx, path, &now)
		}); err != nil {
			return fmt.Errorf("record a path of media: %w", err)
		}
	}
	if err := r.awaitLook(ctx, path); err != nil {
		return err
	}
	if err := r.nameMedia(ctx, path); err != nil {
		return err
	}
	r.notify()
	return nil
}

// checkPlace returns an error for a path whose folders are not those of a medium: each look would
// read the file systems of the kernel, or the registry's own files.
func (r *Registry) checkPlace(path string) error {
	place, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil // the search says why
	}
	const instead = "Name the archive, or the folder where the medium is mounted."
	if place == "/" {
		return fault.New(fault.Invalid, "%s can't be a medium, because all file systems are there. %s", path, instead)
	}
	own, err := filepath.EvalSymlinks(r.options.Dir)
	if err == nil {
		own, err = filepath.Abs(own)
	}
	if err != nil {
		return fmt.Errorf("find the registry's own files: %w", err)
	}
	info, err := os.Stat(place)
	switch {
	case err != nil || !info.IsDir():
		return nil
	case isWithin(place, own):
		return fault.New(fault.Invalid, "%s can't be a medium, because the appliance's own images are in %s. %s", path,
			own, instead)
	}
	for _, system := range []string{"/proc", "/sys", "/dev"} {
		if isWithin(place, system) {
			return fault.New(fault.Invalid, "%s can't be a medium, because the kernel makes the files in %s. %s", path,
				system, instead)
		}
	}
	return nil
}

// search returns the media at a path, without the registry's own files. The path may be that of a
// stick with the data directory and media.
func (r *Registry) search(path string) ([]medium.Location, []*medium.UnusableError, error) {
	own, err := os.Stat(r.options.Dir)
	if err != nil {
		own = nil // the registry has no files
	}
	return medium.Find(path, own)
}

// isWithin reports whether a path is a folder or lies in it.
func isWithin(path, folder string) bool {
	relative, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(relative)
}

// awaitLook waits until Run has read a path. Run begins after the call, so it reads what is there
// now.
func (r *Registry) awaitLook(ctx context.Context, path string) error {
	r.mu.Lock()
	if !slices.Contains(r.paths, path) {
		r.paths = append(slices.Clip(r.paths), path)
	}
	asked := r.asked[path]
	if asked == nil {
		asked = make(chan struct{})
		r.asked[path] = asked
	}
	r.reading[path] = r.options.Clock.Now()
	r.mu.Unlock()
	r.Look()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-asked:
		return nil
	}
}
