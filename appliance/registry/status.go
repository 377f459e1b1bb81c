package registry

import (
	"cmp"
	"fmt"
	"maps"
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
	for _, p := range slices.SortedFunc(slices.Values(r.paths), func(a, b *mediaPath) int {
		return cmp.Compare(a.path, b.path)
	}) {
		for _, problem := range p.problems {
			status.Unusable = append(status.Unusable, Unusable{Path: p.path, Problem: problem})
		}
	}
	for _, p := range r.paths {
		if !slices.Contains(r.options.Media, p.path) {
			status.Added = append(status.Added, p.path)
		}
		found := slices.ContainsFunc(status.Media, func(m MediumStatus) bool { return m.Path == p.path })
		switch {
		case p.hangs(r.options.Clock.Now()):
			status.Unusable = append(status.Unusable, Unusable{Path: p.path,
				Problem: "does not answer; what lies there counts as absent until it does"})
		case p.isExpected():
			status.Unusable = append(status.Unusable, Unusable{p.path, "is being read", PathReading})
		case !found && len(p.problems) == 0:
			status.Unusable = append(status.Unusable, Unusable{p.path, "has no media; plug one in", PathEmpty})
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
