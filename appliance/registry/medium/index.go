package medium

import (
	"cmp"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Extent is a range of bytes in a file of a medium.
type Extent struct {
	File         int // index in Index.Files
	Offset, Size int64
}

// Blob is where a blob lies on a medium. It has several parts if a file could not hold it.
type Blob []Extent

// Size returns the size of the blob in bytes.
func (b Blob) Size() int64 {
	var size int64
	for _, part := range b {
		size += part.Size
	}
	return size
}

// Manifest is a manifest with its bytes.
type Manifest struct {
	MediaType string
	Data      []byte
}

// Problem is something about a medium that a person should know. Its text is a sentence without a
// period at its end.
type Problem struct {
	Text    string
	Cut     bool // the end of the file is missing, as while it is being copied
	Damaged bool // the file has wrong bytes
}

// Version is that of the indexes of this program. It changes with what a scan finds, so that known
// media are scanned again. Since version 2, problems tell whether a medium has wrong bytes.
const Version = 2

// Cut reports whether the end of the medium is missing.
func (i *Index) Cut() bool {
	return slices.ContainsFunc(i.Problems, func(p Problem) bool { return p.Cut })
}

// Damaged reports whether the scan found wrong or missing bytes.
func (i *Index) Damaged() bool {
	return slices.ContainsFunc(i.Problems, func(p Problem) bool { return p.Cut || p.Damaged })
}

// Contains reports whether a medium has all blobs, manifests, tags and signatures of another one.
func (i *Index) Contains(other *Index) bool {
	for repository, tags := range other.Repositories {
		if !hasKeys(i.Repositories[repository], tags) {
			return false
		}
	}
	return hasKeys(i.Blobs, other.Blobs) && hasKeys(i.Manifests, other.Manifests) &&
		hasKeys(i.Signatures, other.Signatures)
}

func hasKeys[A any](large, small map[string]A) bool {
	for key := range small {
		if _, ok := large[key]; !ok {
			return false
		}
	}
	return true
}

// Index is the content of a medium. It does not change after the scan.
type Index struct {
	Version int // of the scan; see [Version]
	Form    Form
	// Identity is a hash of all headers. Two media with the same identity have the same content.
	Identity string
	// Fingerprint recognizes the medium without a scan; see [Fingerprint].
	Fingerprint string
	// Files are the files that extents name: paths in a folder, or the single "".
	Files     []string
	Blobs     map[string]Blob     // by digest
	Manifests map[string]Manifest // by digest
	// Repositories has the manifests of each repository by their tags; a manifest without a tag has
	// its digest as the key.
	Repositories map[string]map[string]string
	// Number is the number of an oc-mirror archive, or 0.
	Number int
	// Written is the time of the run that wrote the medium: it decides between two media that have
	// the same tag. Newest is the newest time on the medium; the present is not before it.
	Written, Newest time.Time
	// Presumed are the blobs that an archive presumes on earlier ones.
	Presumed []string
	// Sources are the repositories from which the images were mirrored, as host/path.
	Sources []string
	// Named are images whose full name the medium has, by digest.
	Named map[string]string
	// Signatures are OpenPGP signatures of releases, by the names of their files.
	Signatures map[string][]byte
	// Filters are the operator catalogs that oc-mirror filtered, the oldest first.
	Filters  []Filter
	Problems []Problem
}

// Filter is a record of oc-mirror about a catalog that it filtered.
type Filter struct {
	Name   string // of the catalog: the end of its repository
	Source string // digest of the complete catalog
	Digest string // of the filtered one
	ID     string // of the filter
}

// Encode writes the index.
func (i *Index) Encode(out io.Writer) error { return gob.NewEncoder(out).Encode(i) }

// Decode reads an index that Encode wrote.
func Decode(in io.Reader) (*Index, error) {
	index := new(Index)
	if err := gob.NewDecoder(in).Decode(index); err != nil {
		return nil, fmt.Errorf("read the index of a medium: %w", err)
	}
	return index, nil
}

// registryPath is the root of a distribution registry's storage.
const registryPath = "docker/registry/v2"

// reader makes an index of a listing.
type reader struct {
	*listing
	ctx      context.Context
	location Location
	index    *Index
	byName   map[string]entry
	kept     int64 // bytes of manifests and signatures in the index
	leftOut  int   // manifests and signatures for which the index has no room
}

func (l *listing) index(ctx context.Context, location Location) (*Index, error) {
	r := &reader{listing: l, ctx: ctx, location: location, byName: make(map[string]entry, len(l.entries)),
		index: &Index{Version: Version, Identity: l.identity, Files: l.files, Problems: l.problems,
			Blobs: map[string]Blob{}, Manifests: map[string]Manifest{}, Repositories: map[string]map[string]string{},
			Named: map[string]string{}, Signatures: map[string][]byte{}}}
	for _, e := range l.entries {
		r.byName[e.name] = e // of two entries with one name, tar extracts the last
		if e.modified.After(r.index.Newest) {
			r.index.Newest = e.modified
		}
	}
	if err := r.read(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.leftOut > 0 {
		r.index.Problems = append(r.index.Problems, Problem{Text: fmt.Sprintf("%s has more than %d MiB of manifests "+
			"and signatures, and %d of them were left out. Put the images on several media",
			path.Base(location.Path), maxKept>>20, r.leftOut)})
	}
	slices.Sort(r.index.Sources)
	r.index.Sources = slices.Compact(r.index.Sources)
	return r.index, nil
}

// keep reports whether the index has room for a manifest or a signature. It counts its bytes.
func (r *reader) keep(data []byte) bool {
	if r.kept+int64(len(data)) > maxKept {
		r.leftOut++
		return false
	}
	r.kept += int64(len(data))
	return true
}

func (r *reader) read() error {
	prefix, isRegistry := r.registryPrefix()
	_, isLayout := r.byName["oci-layout"]
	_, hasIndex := r.byName["index.json"]
	_, isBundle := r.byName["bundle.json"]
	_, isDocker := r.byName["manifest.json"]
	switch {
	case isRegistry, r.isLastPart():
		return r.readRegistry(prefix)
	case isLayout && hasIndex:
		return r.readLayout()
	case isBundle:
		return r.readCourier()
	case r.hasImageFiles():
		return r.readImageFiles()
	case isDocker:
		return &UnusableError{Path: r.location.Path, Problem: "is a docker-archive. It has the layers unpacked and " +
			"no manifests, so the digests that nodes ask for are lost; write it again with skopeo copy " +
			"docker://IMAGE oci-archive:FILE"}
	case len(r.index.Problems) > 0 && len(r.entries) == 0:
		return &UnusableError{Path: r.location.Path, Problem: "can't be read: " + r.index.Problems[0].Text}
	}
	return &UnusableError{Path: r.location.Path, Problem: "has no images in a known form; expected an archive of " +
		"oc-mirror version 2, a folder docker/registry/v2, an OCI layout, a folder of landfall courier fill or one " +
		"of oc image mirror"}
}

// registryPrefix returns what precedes docker/registry/v2 in the names of entries.
func (r *reader) registryPrefix() (prefix string, ok bool) {
	for _, e := range r.entries {
		if at := strings.Index(e.name, registryPath+"/"); at == 0 || at > 0 && e.name[at-1] == '/' {
			return e.name[:at] + registryPath + "/", true
		}
		if strings.HasPrefix(e.name, "blobs/sha256/") && strings.HasSuffix(e.name, "/data") {
			return "", true // the folder v2 itself
		}
	}
	return "", false
}

// isLastPart reports whether the medium has only the working directory of a run of oc-mirror, whose
// other archives were full.
func (r *reader) isLastPart() bool {
	return archiveFile.MatchString(path.Base(r.location.Path)) && slices.ContainsFunc(r.entries, func(e entry) bool {
		return strings.HasPrefix(e.name, "working-dir/") || imageSet.MatchString(e.name)
	})
}

var (
	blobName     = regexp.MustCompile(`^blobs/sha256/[0-9a-f]{2}/([0-9a-f]{64})/data$`)
	revisionLink = regexp.MustCompile(`^repositories/(.+)/_manifests/revisions/sha256/([0-9a-f]{64})/link$`)
	layerLink    = regexp.MustCompile(`^repositories/.+/_layers/sha256/([0-9a-f]{64})/link$`)
	tagLink      = regexp.MustCompile(`^repositories/(.+)/_manifests/tags/([^/]+)/current/link$`)
	archiveFile  = regexp.MustCompile(`^mirror_(\d{6})\.tar$`)
	digestForm   = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// readRegistry reads the storage of a distribution registry, which oc-mirror's archives and its
// cache contain, and oc-mirror's working directory.
func (r *reader) readRegistry(prefix string) error {
	r.index.Form = FormRegistry
	revisions := map[string][]string{}
	linked := map[string]bool{}
	for _, e := range r.entries {
		name, ok := strings.CutPrefix(e.name, prefix)
		if !ok {
			continue
		}
		if match := blobName.FindStringSubmatch(name); match != nil {
			r.blob("sha256:"+match[1], e)
		} else if match := revisionLink.FindStringSubmatch(name); match != nil {
			revisions[match[1]] = append(revisions[match[1]], "sha256:"+match[2])
			linked["sha256:"+match[2]] = true
		} else if match := layerLink.FindStringSubmatch(name); match != nil {
			linked["sha256:"+match[1]] = true
		} else if match := tagLink.FindStringSubmatch(name); match != nil {
			if err := r.readLink(e, match[1], match[2]); err != nil {
				return err
			}
		}
	}
	if err := r.readManifests(slices.Concat(slices.Collect(maps.Values(revisions))...)); err != nil {
		return err
	}
	for repository, digests := range revisions {
		for _, digest := range digests {
			r.tag(repository, digest, digest)
		}
	}
	if err := r.readUnlinked(linked); err != nil {
		return err
	}
	return r.readWorkspace()
}

// readUnlinked reads the manifests to which no link of the medium leads. The links of a run of
// oc-mirror are in its first archive, and its manifests in any of them. Configs and layers have
// another form, and a digest makes each of them what it is.
func (r *reader) readUnlinked(linked map[string]bool) error {
	var unlinked []string
	for digest, blob := range r.index.Blobs {
		if _, known := r.index.Manifests[digest]; !known && !linked[digest] && blob.Size() <= maxUnlinked {
			unlinked = append(unlinked, digest)
		}
	}
	slices.SortFunc(unlinked, func(a, b string) int { return r.position(a) - r.position(b) })
	for _, digest := range unlinked {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		isJSON, err := r.startsWith(r.index.Blobs[digest], '{')
		if err == nil && !isJSON {
			continue
		}
		var data []byte
		if err == nil {
			data, err = r.readParts(r.index.Blobs[digest])
		}
		if err != nil {
			return fmt.Errorf("read the blob %s in %s: %w", digest, r.location.Path, err)
		}
		parsed, err := ParseManifest(data)
		if err != nil || parsed.SchemaVersion != 2 || parsed.Config == nil && parsed.Manifests == nil ||
			digestOf(data) != digest || !r.keep(data) {
			continue
		}
		r.index.Manifests[digest] = Manifest{MediaType: parsed.MediaType, Data: data}
	}
	return nil
}

// readLink reads the link of a tag.
func (r *reader) readLink(e entry, repository, tag string) error {
	data, err := r.read1(e)
	if err != nil {
		return err
	}
	digest := strings.TrimSpace(string(data))
	if !digestForm.MatchString(digest) {
		r.problem("the tag %s:%s has an invalid link; mirror the image again", repository, tag)
		return nil
	}
	r.tag(repository, tag, digest)
	return nil
}

// read1 reads a small entry. An entry that is too large is a problem of the medium and empty.
func (r *reader) read1(e entry) ([]byte, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	e = r.follow(e)
	if e.extent.Size > maxSmall {
		r.problem("%s has %d bytes, which is too large for such a file; it was left out", e.name, e.extent.Size)
		return nil, nil
	}
	data, err := r.listing.read(e)
	if err != nil {
		return nil, fmt.Errorf("read %s in %s: %w", e.name, r.location.Path, err)
	}
	return data, nil
}

// follow returns the entry with the content of a link, or an empty one if there is none.
func (r *reader) follow(e entry) entry {
	for range 8 { // links to links; more are a circle
		if e.link == "" {
			return e
		}
		target, ok := r.byName[e.link]
		if !ok {
			break
		}
		e = target
	}
	return entry{name: e.name}
}

// emptyDigest is the digest of no bytes.
var emptyDigest = digestOf(nil)

// blob notes a blob that lies in entries. An empty file, which a copy to a full disk leaves, and a
// link to nothing are none.
func (r *reader) blob(digest string, parts ...entry) {
	var blob Blob
	for _, part := range parts {
		blob = append(blob, r.follow(part).extent)
	}
	if blob.Size() == 0 && digest != emptyDigest {
		r.problem("%s in %s is empty; copy the medium again", parts[0].name, path.Base(r.location.Path))
		return
	}
	r.index.Blobs[digest] = blob
}

func (r *reader) problem(format string, args ...any) {
	const enough = 100
	if len(r.index.Problems) < enough {
		r.index.Problems = append(r.index.Problems, Problem{Text: fmt.Sprintf(format, args...)})
	}
}

// tag notes a manifest of a repository by a tag or its digest. Only names that the distribution
// specification permits are served.
func (r *reader) tag(repository, tag, digest string) {
	if !ValidRepository(repository) || !ValidTag(tag) && !ValidDigest(tag) || !ValidDigest(digest) {
		return
	}
	if r.index.Repositories[repository] == nil {
		r.index.Repositories[repository] = map[string]string{}
	}
	r.index.Repositories[repository][tag] = digest
}

var (
	repositoryForm = regexp.MustCompile(
		`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$`)
	hostForm = regexp.MustCompile(`^[a-zA-Z0-9.-]+(?::[0-9]+)?$`)
	tagForm  = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)
)

// ValidRepository reports whether a name is that of a repository (OCI distribution specification,
// section "Pulling manifests").
func ValidRepository(name string) bool { return len(name) <= 255 && repositoryForm.MatchString(name) }

// ValidTag reports whether a text is a tag.
func ValidTag(tag string) bool { return tagForm.MatchString(tag) }

// ValidDigest reports whether a text is a SHA-256 digest.
func ValidDigest(digest string) bool { return digestForm.MatchString(digest) }

// readManifests reads the manifests with the given digests in the order in which they lie on the
// medium, and the manifests that their indexes name. A manifest that is damaged or absent is not
// read.
func (r *reader) readManifests(digests []string) error {
	for len(digests) > 0 {
		slices.SortFunc(digests, func(a, b string) int { return r.position(a) - r.position(b) })
		var children []string
		for _, digest := range slices.Compact(digests) {
			blob, ok := r.index.Blobs[digest]
			if _, done := r.index.Manifests[digest]; !ok || done {
				continue
			}
			if blob.Size() > maxSmall {
				r.problem("the manifest %s has %d bytes, which is too large for one; it was left out",
					digest, blob.Size())
				continue
			}
			if err := r.ctx.Err(); err != nil {
				return err
			}
			data, err := r.readParts(blob)
			if err != nil {
				return fmt.Errorf("read the manifest %s in %s: %w", digest, r.location.Path, err)
			}
			if digestOf(data) != digest {
				r.problem("the manifest %s is damaged at byte %d: its content does not have this digest. Copy the "+
					"medium again", digest, blob[0].Offset)
				continue
			}
			parsed, err := ParseManifest(data)
			if err != nil {
				r.problem("the manifest %s can't be read: %v", digest, err)
				continue
			}
			if !r.keep(data) {
				continue
			}
			r.index.Manifests[digest] = Manifest{MediaType: parsed.MediaType, Data: data}
			for _, child := range parsed.Manifests {
				children = append(children, child.Digest)
			}
		}
		digests = children
	}
	return nil
}

// position returns a number by which blobs are in the order of the medium.
func (r *reader) position(digest string) int {
	blob := r.index.Blobs[digest]
	if len(blob) == 0 {
		return -1
	}
	return blob[0].File<<40 | int(blob[0].Offset)
}

// Parsed is the part of a manifest that a registry reads.
type Parsed struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	ArtifactType  string            `json:"artifactType"`
	Config        *Descriptor       `json:"config"`
	Layers        []Descriptor      `json:"layers"`
	Manifests     []Descriptor      `json:"manifests"`
	Blobs         []Descriptor      `json:"blobs"`
	Subject       *Descriptor       `json:"subject"`
	Annotations   map[string]string `json:"annotations"`
}

// Descriptor names content (OCI image specification, descriptor.md).
type Descriptor struct {
	MediaType    string            `json:"mediaType"`
	Digest       string            `json:"digest"`
	Size         int64             `json:"size"`
	ArtifactType string            `json:"artifactType,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	URLs         []string          `json:"urls,omitempty"`
	Platform     *Platform         `json:"platform,omitempty"`
}

// Platform is that of an image in an index.
type Platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
}

// Foreign reports whether the content is not meant to be in a registry.
func (d Descriptor) Foreign() bool {
	return len(d.URLs) > 0 || strings.Contains(d.MediaType, "nondistributable") ||
		strings.Contains(d.MediaType, "rootfs.foreign")
}

// Parts returns the config and the layers.
func (p *Parsed) Parts() []Descriptor {
	parts := slices.Concat(p.Layers, p.Blobs)
	if p.Config != nil {
		parts = append([]Descriptor{*p.Config}, parts...)
	}
	return slices.DeleteFunc(parts, Descriptor.Foreign)
}

// Media types of manifests.
const (
	TypeOCIManifest    = "application/vnd.oci.image.manifest.v1+json"
	TypeOCIIndex       = "application/vnd.oci.image.index.v1+json"
	TypeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
)

// ParseManifest parses a manifest or an index. Its media type is the stated one, or that of its
// form.
func ParseManifest(data []byte) (*Parsed, error) {
	var parsed Parsed
	if err := json.Unmarshal(data, &parsed); err != nil {
		return nil, errors.New("it is not JSON of a manifest")
	}
	for _, list := range [][]Descriptor{parsed.Manifests, parsed.Parts()} {
		for _, part := range list {
			if !strings.Contains(part.Digest, ":") {
				return nil, errors.New("it names content without a digest")
			}
		}
	}
	if parsed.MediaType == "" {
		parsed.MediaType = TypeOCIManifest
		if parsed.Manifests != nil {
			parsed.MediaType = TypeOCIIndex
		}
	}
	return &parsed, nil
}

// ReferrerOf returns the descriptor by which a list of referrers names a manifest.
func ReferrerOf(digest string, manifest Manifest, parsed *Parsed) Descriptor {
	descriptor := Descriptor{MediaType: manifest.MediaType, Digest: digest, Size: int64(len(manifest.Data)),
		ArtifactType: parsed.ArtifactType, Annotations: parsed.Annotations}
	if descriptor.ArtifactType == "" && parsed.Config != nil {
		descriptor.ArtifactType = parsed.Config.MediaType
	}
	return descriptor
}

// readLayout reads an OCI image layout (OCI image specification, image-layout.md).
func (r *reader) readLayout() error {
	r.index.Form = FormOCI
	for _, e := range r.entries {
		if hex, ok := strings.CutPrefix(e.name, "blobs/sha256/"); ok && digestForm.MatchString("sha256:"+hex) {
			r.blob("sha256:"+hex, e)
		}
	}
	data, err := r.read1(r.byName["index.json"])
	if err != nil {
		return err
	}
	parsed, err := ParseManifest(data)
	if err != nil {
		return &UnusableError{Path: r.location.Path, Problem: "has an index.json that can't be read: " + err.Error()}
	}
	var digests []string
	for _, image := range parsed.Manifests {
		digests = append(digests, image.Digest)
		name := image.Annotations["org.opencontainers.image.ref.name"]
		if full := image.Annotations["io.containerd.image.name"]; full != "" {
			name = full
		}
		repository, tag := r.layoutName(name)
		r.tag(repository, image.Digest, image.Digest)
		if tag != "" {
			r.tag(repository, tag, image.Digest)
		}
	}
	return r.readManifests(digests)
}

var notOfName = regexp.MustCompile(`[^a-z0-9]+`)

// layoutName returns the repository and the tag of an image in an OCI layout. A full name, such as
// quay.io/team/image:1, keeps its host as the first part of the repository. An image that has only
// a tag is in a repository with the name of the layout.
func (r *reader) layoutName(name string) (repository, tag string) {
	base := strings.ToLower(path.Base(r.location.Path))
	base = strings.Trim(notOfName.ReplaceAllString(strings.TrimSuffix(base, ".tar"), "-"), "-")
	name, _, _ = strings.Cut(name, "@")
	if !strings.Contains(name, "/") {
		if before, after, ok := strings.Cut(name, ":"); ok {
			return before, after
		}
		return cmp.Or(base, "images"), name
	}
	if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, '/') {
		name, tag = name[:colon], name[colon+1:]
	}
	if host, rest, _ := strings.Cut(name, "/"); strings.ContainsAny(host, ".:") && hostForm.MatchString(host) {
		r.source(name)
		return HostPath(host) + "/" + rest, tag
	}
	return name, tag
}

// HostPath returns a host as the first element of a repository's name, in which a port can't occur.
func HostPath(host string) string { return strings.ToLower(strings.ReplaceAll(host, ":", "-")) }

// readCourier reads a folder of landfall courier fill; see package courier.
func (r *reader) readCourier() error {
	r.index.Form = FormCourier
	for _, e := range r.entries {
		name, ok := strings.CutPrefix(e.name, "blobs/")
		if !ok {
			continue
		}
		digest := "sha256:" + name // other names are those of further parts, and of partial files
		if !digestForm.MatchString(digest) {
			continue
		}
		parts := []entry{e}
		for n := 1; ; n++ {
			next, ok := r.byName[fmt.Sprintf("%s.%d", e.name, n)]
			if !ok {
				break
			}
			parts = append(parts, next)
		}
		r.blob(digest, parts...)
	}
	data, err := r.read1(r.byName["bundle.json"])
	if err != nil {
		return err
	}
	type item struct{ Source, Destination, Digest string }
	var bundle struct {
		Version            int
		Release            string
		Items, Attachments []item
	}
	if err := json.Unmarshal(data, &bundle); err != nil || bundle.Version != 1 {
		return &UnusableError{Path: r.location.Path, Problem: "has a bundle.json that landfall courier fill of this " +
			"release did not write; fill the folder again"}
	}
	var digests []string
	for _, item := range slices.Concat(bundle.Items, bundle.Attachments) {
		repository, tag := bundleName(item.Destination)
		if tag != "" {
			r.tag(repository, tag, item.Digest)
		}
		r.tag(repository, item.Digest, item.Digest)
		digests = append(digests, item.Digest)
		if strings.Contains(item.Source, "@") {
			r.source(item.Source)
		}
	}
	if err := r.readManifests(digests); err != nil {
		return err
	}
	for _, e := range r.entries {
		if name, ok := strings.CutPrefix(e.name, "signatures/"); ok {
			if err := r.readSignature(e, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// bundleName returns the repository and the tag of a destination host/repository:tag.
func bundleName(destination string) (repository, tag string) {
	_, repository, _ = strings.Cut(destination, "/")
	if colon := strings.LastIndexByte(repository, ':'); colon >= 0 {
		repository, tag = repository[:colon], repository[colon+1:]
	}
	return repository, tag
}

var (
	filesManifest = regexp.MustCompile(`^v2/(.+)/manifests/([^/]+)$`)
	filesBlob     = regexp.MustCompile(`^v2/(?:.+)/blobs/sha256[:-]([0-9a-f]{64})$`)
)

func (r *reader) hasImageFiles() bool {
	return slices.ContainsFunc(r.entries, func(e entry) bool { return filesManifest.MatchString(e.name) })
}

// readImageFiles reads a folder of oc image mirror (oc, pkg/cli/image/imagesource/file.go).
// Manifests lie under their digests, and tags are links to them.
func (r *reader) readImageFiles() error {
	r.index.Form = FormImageFiles
	type tagged struct {
		repository, tag string
		from            entry
	}
	var tags []tagged
	var digests []string
	for _, e := range r.entries {
		if match := filesBlob.FindStringSubmatch(e.name); match != nil {
			r.blob("sha256:"+match[1], e)
			continue
		}
		match := filesManifest.FindStringSubmatch(e.name)
		if match == nil {
			continue
		}
		digest := strings.Replace(match[2], "sha256-", "sha256:", 1)
		if !digestForm.MatchString(digest) {
			tags = append(tags, tagged{match[1], match[2], e})
			continue
		}
		r.blob(digest, e)
		r.tag(match[1], digest, digest)
		digests = append(digests, digest)
	}
	if err := r.readManifests(digests); err != nil {
		return err
	}
	for _, t := range tags {
		if digest := strings.Replace(path.Base(t.from.link), "sha256-", "sha256:", 1); digestForm.MatchString(digest) {
			r.tag(t.repository, t.tag, digest)
			continue
		}
		data, err := r.read1(t.from) // a copy instead of a link
		if err != nil {
			return err
		}
		digest := digestOf(data)
		if parsed, err := ParseManifest(data); err == nil && r.keep(data) {
			r.blob(digest, t.from)
			r.index.Manifests[digest] = Manifest{MediaType: parsed.MediaType, Data: data}
			r.tag(t.repository, t.tag, digest)
		}
	}
	return nil
}
