package registry

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"landfall/appliance/registry/medium"
)

// content is what all known media hold together, whether they are present or not. It does not
// change; a change of the media makes another one.
type content struct {
	media        []*held
	places       map[string][]*held           // media of each blob, by digest
	manifests    map[string]medium.Manifest   // by digest
	repositories map[string]map[string]tagged // by repository and tag
	referrers    map[string][]medium.Descriptor
	catalogs     []catalog
	sources      []string
	leftOut      map[string]*LeftOutError // images that lists name and no medium has, by digest
	named        map[string]string
	signatures   map[string][]byte
	releases     []Release
	notes        []string
}

// maxNotes limits the notes about missing archives: a file mirror_999999.tar would have a million.
const maxNotes = 100

// tagged is the manifest under a tag, and the medium that decided it.
type tagged struct {
	digest string
	by     *held
}

// merge returns the content of media. Of two media with the same tag, the one of the newer run
// wins, not the one that was plugged in later.
func merge(media []*held) *content {
	c := &content{media: media, places: map[string][]*held{}, manifests: map[string]medium.Manifest{},
		repositories: map[string]map[string]tagged{}, referrers: map[string][]medium.Descriptor{},
		leftOut: map[string]*LeftOutError{}, named: map[string]string{}, signatures: map[string][]byte{}}
	ordered := slices.Clone(media)
	slices.SortStableFunc(ordered, func(a, b *held) int {
		return cmp.Or(a.index.Written.Compare(b.index.Written), cmp.Compare(a.index.Number, b.index.Number))
	})
	var filters []medium.Filter
	for _, m := range ordered {
		for digest := range m.index.Blobs {
			c.places[digest] = append(c.places[digest], m)
		}
		maps.Copy(c.manifests, m.index.Manifests)
		maps.Copy(c.named, m.index.Named)
		maps.Copy(c.signatures, m.index.Signatures)
		c.sources = append(c.sources, m.index.Sources...)
		c.addTags(m)
		filters = append(filters, m.index.Filters...)
	}
	slices.Sort(c.sources)
	c.sources = slices.Compact(c.sources)
	c.addCatalogs(filters)
	c.noteCollisions()
	c.noteMissingArchives()
	c.addReferrers()
	c.releases = c.releasesOn(media...)
	return c
}

// catalog is an operator catalog with the digest to serve under its tag.
type catalog struct{ repository, tag, digest string }

// addCatalogs finds the operator catalogs. The catalogs of a run of oc-mirror and its records of
// filters may be on different media. The filters are in the order of their times.
func (c *content) addCatalogs(filters []medium.Filter) {
	full := map[string]bool{} // repositories of catalogs that the image set configurations name
	for _, source := range c.sources {
		if _, repository, _ := strings.Cut(source, "/"); strings.HasSuffix(repository, "-index") {
			full[repository] = true
		}
	}
	for _, repository := range slices.Sorted(maps.Keys(c.repositories)) {
		tags := c.repositories[repository]
		for _, tag := range slices.Sorted(maps.Keys(tags)) {
			if medium.ValidDigest(tag) {
				continue
			}
			found := slices.DeleteFunc(slices.Clone(filters), func(f medium.Filter) bool {
				return f.Name != path.Base(repository) || f.Source != tags[tag].digest
			})
			switch {
			case len(found) > 0:
				use := found[len(found)-1]
				if slices.ContainsFunc(found, func(f medium.Filter) bool { return f.ID != use.ID }) {
					c.notes = append(c.notes, fmt.Sprintf("the catalog %s:%s was filtered in several ways; the newest "+
						"one (%s) is served under the tag", repository, tag, use.ID))
				}
				tags[tag] = tagged{digest: use.Digest, by: tags[tag].by}
				tags[use.Digest] = tagged{digest: use.Digest}
				c.catalogs = append(c.catalogs, catalog{repository, tag, use.Digest})
			case full[repository] && strings.HasPrefix(tag, "v"):
				c.catalogs = append(c.catalogs, catalog{repository, tag, tags[tag].digest})
			}
		}
	}
}

// addTags adds the tags of a medium, which is newer than those before it.
func (c *content) addTags(m *held) {
	for repository, tags := range m.index.Repositories {
		under := c.repositories[repository]
		if under == nil {
			under = map[string]tagged{}
			c.repositories[repository] = under
		}
		for tag, digest := range tags {
			if before, ok := under[tag]; ok && before.digest != digest && before.by != nil {
				c.notes = append(c.notes, fmt.Sprintf("%s:%s is %s on %s and %s on %s; the tag has the one of %s, "+
					"which is newer, and both are served by their digests", repository, tag, short(before.digest),
					before.by.location.Label(), short(digest), m.location.Label(), m.location.Label()))
			}
			under[tag] = tagged{digest, m}
		}
	}
	slices.Sort(c.notes)
}

func short(digest string) string { return digest[:min(len(digest), len("sha256:")+12)] }

// noteCollisions notes sources of two hosts that have one repository in an archive of oc-mirror,
// which leaves out the hosts.
func (c *content) noteCollisions() {
	hosts := map[string][]string{}
	for _, source := range c.sources {
		host, rest, _ := strings.Cut(source, "/")
		hosts[rest] = append(hosts[rest], host)
	}
	for _, repository := range slices.Sorted(maps.Keys(hosts)) {
		if len(hosts[repository]) > 1 && c.repositories[repository] != nil {
			c.notes = append(c.notes, fmt.Sprintf("%s holds images of %s; each is served by its digest, but its tags "+
				"may be those of either", repository, strings.Join(hosts[repository], " and ")))
		}
	}
}

// noteMissingArchives notes the numbers of archives that are on no known medium, although a medium
// has a higher number: oc-mirror numbers the archives of a run from 1.
func (c *content) noteMissingArchives() {
	known, highest := map[int]bool{}, 0
	for _, m := range c.media {
		known[m.index.Number], highest = true, max(highest, m.index.Number)
	}
	for number := 1; number < highest && len(c.notes) < maxNotes; number++ {
		if !known[number] {
			c.notes = append(c.notes, fmt.Sprintf("the archive mirror_%06d.tar is on none of the known media, "+
				"although one with a higher number is; plug it in", number))
		}
	}
}

// addReferrers finds the manifests that refer to another one (OCI distribution specification,
// section "Listing Referrers"), and the images that lists name although they were not mirrored:
// oc-mirror leaves out architectures that nobody wants.
func (c *content) addReferrers() {
	for _, digest := range slices.Sorted(maps.Keys(c.manifests)) {
		parsed, err := medium.ParseManifest(c.manifests[digest].Data)
		if err != nil {
			continue
		}
		if parsed.Subject != nil {
			c.referrers[parsed.Subject.Digest] = append(c.referrers[parsed.Subject.Digest],
				medium.ReferrerOf(digest, c.manifests[digest], parsed))
		}
		for _, child := range parsed.Manifests {
			if len(c.places[child.Digest]) == 0 && child.Platform != nil {
				c.leftOut[child.Digest] = &LeftOutError{List: digest, Digest: child.Digest,
					Architecture: child.Platform.Architecture}
			}
		}
	}
}

// spellings returns the repositories under which the content of a requested repository may be: the
// name itself; without a leading host, because the repositories of oc-mirror lack it; and where
// oc-mirror puts the images of a release.
func spellings(repository string) []string {
	names := []string{repository}
	host, rest, ok := strings.Cut(repository, "/")
	if !ok || !strings.Contains(host, ".") {
		return names
	}
	switch {
	case path.Base(rest) == path.Base(releaseSource):
		names = append(names, releaseRepository)
	case path.Base(rest) == path.Base(componentSource):
		names = append(names, componentRepository)
	}
	return append(names, rest)
}

// Repositories of releases and where oc-mirror puts their images (oc-mirror,
// internal/pkg/release/const.go).
const (
	releaseSource       = "quay.io/openshift-release-dev/ocp-release"
	componentSource     = "quay.io/openshift-release-dev/ocp-v4.0-art-dev"
	releaseRepository   = "openshift/release-images"
	componentRepository = "openshift/release"
)

// resolve returns the digest under a tag.
func (c *content) resolve(repository, tag string) (digest string, known bool) {
	for _, name := range spellings(repository) {
		under, ok := c.repositories[name]
		known = known || ok
		if found, ok := under[tag]; ok {
			return found.digest, true
		}
	}
	return "", known
}

// tags returns the sorted tags of a repository, without the digests.
func (c *content) tags(repository string) (tags []string, known bool) {
	for _, name := range spellings(repository) {
		under, ok := c.repositories[name]
		known = known || ok
		for tag := range under {
			if !medium.ValidDigest(tag) {
				tags = append(tags, tag)
			}
		}
	}
	slices.Sort(tags)
	return slices.Compact(tags), known
}
