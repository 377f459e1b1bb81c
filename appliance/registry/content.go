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
	catalogs     []medium.Catalog
	sources      []string
	leftOut      map[string]*LeftOutError // images that lists name and no medium has, by digest
	named        map[string]string
	signatures   map[string][]byte
	releases     []Release
	notes        []string
}

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
	catalogs := map[string]medium.Catalog{}
	for _, m := range ordered {
		for digest := range m.index.Blobs {
			c.places[digest] = append(c.places[digest], m)
		}
		maps.Copy(c.manifests, m.index.Manifests)
		maps.Copy(c.named, m.index.Named)
		maps.Copy(c.signatures, m.index.Signatures)
		c.sources = append(c.sources, m.index.Sources...)
		c.addTags(m)
		for _, catalog := range m.index.Catalogs {
			catalogs[catalog.Repository+":"+catalog.Tag] = catalog
		}
	}
	for _, name := range slices.Sorted(maps.Keys(catalogs)) {
		catalog := catalogs[name]
		c.catalogs = append(c.catalogs, catalog)
		if under := c.repositories[catalog.Repository]; under != nil {
			under[catalog.Tag] = tagged{digest: catalog.Digest, by: under[catalog.Tag].by}
			under[catalog.Digest] = tagged{digest: catalog.Digest}
		}
	}
	slices.Sort(c.sources)
	c.sources = slices.Compact(c.sources)
	c.noteCollisions()
	c.addReferrers()
	c.releases = c.releasesOn(media...)
	return c
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
