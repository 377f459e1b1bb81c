package medium

import (
	"cmp"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Files of oc-mirror's working directory (oc-mirror, internal/pkg/cli/const.go and
// internal/pkg/operator/common.go).
var (
	imageReferences = regexp.MustCompile(`(?:^|/)working-dir/hold-release/.+/release-manifests/image-references$`)
	filteredDigest  = regexp.MustCompile(
		`(?:^|/)working-dir/operator-catalogs/([^/]+)/([0-9a-f]{64})/filtered-catalogs/([^/]+)/digest$`)
	catalogConfig = regexp.MustCompile(
		`(?:^|/)working-dir/operator-catalogs/[^/]+/[0-9a-f]{64}/filtered-catalogs/[^/]+/catalog-config/`)
	historyFile      = regexp.MustCompile(`(?:^|/)working-dir/\.history/\.history-(.+)$`)
	signatureDir     = regexp.MustCompile(`(?:^|.*/)working-dir/signatures/`)
	imageSet         = regexp.MustCompile(`(?:^|/)isc_([0-9][0-9T:.Z+-]+)(?:\.ya?ml)?$`)
	clusterResources = regexp.MustCompile(`(?:^|/)working-dir/cluster-resources/.+`)
	quotedImage      = regexp.MustCompile(`"?image"?\s*:\s*"?([a-zA-Z0-9.-]+(?::[0-9]+)?/[a-z0-9._/-]+)[@:]`)
)

// readWorkspace reads oc-mirror's working directory: the sources of the images, the filtered
// catalogs, the history and the signatures.
func (r *reader) readWorkspace() error {
	histories := map[string]entry{}
	stale := false
	for _, e := range r.entries {
		if match := historyFile.FindStringSubmatch(e.name); match != nil {
			histories[match[1]] = e
		}
		if at, ok := r.runTime(e); ok {
			r.index.Form = FormOCMirror
			if at.After(r.index.Written) {
				r.index.Written = at
			}
		}
		stale = stale || clusterResources.MatchString(e.name)
		if prefix := signatureDir.FindString(e.name); prefix != "" {
			if err := r.readSignature(e, strings.TrimPrefix(e.name, prefix)); err != nil {
				return err
			}
		}
		if err := r.readSources(e); err != nil {
			return err
		}
	}
	if strings.Contains(r.location.Path, "oc-mirror") || len(histories) > 0 {
		r.index.Form = FormOCMirror
	}
	if match := archiveFile.FindStringSubmatch(path.Base(r.location.Path)); match != nil {
		number, err := strconv.Atoi(match[1])
		if err == nil {
			r.index.Number, r.index.Form = number, FormOCMirror
		}
	}
	if stale {
		r.problem("the mirror rules in working-dir/cluster-resources are for another registry and are not used; the " +
			"appliance makes its own")
	}
	if r.index.Written.IsZero() {
		r.index.Written = r.index.Newest
	}
	if err := r.readHistory(histories); err != nil {
		return err
	}
	return r.readCatalogs()
}

// runTime returns the time of the run in the name of the image set configuration.
func (r *reader) runTime(e entry) (time.Time, bool) {
	match := imageSet.FindStringSubmatch(e.name)
	if match == nil {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, match[1])
	return at, err == nil
}

// readSignature keeps an OpenPGP signature of a release under the name of its file.
func (r *reader) readSignature(e entry, name string) error {
	const largest = 50 << 10 // bytes; see package mirror
	if e.extent.Size == 0 || e.extent.Size > largest {
		return nil
	}
	data, err := r.read1(e)
	if err == nil && r.keep(data) {
		r.index.Signatures[name] = data
	}
	return err
}

// readSources collects the repositories from which images were mirrored. The repositories of an
// archive lack the hosts.
func (r *reader) readSources(e entry) error {
	switch {
	case imageReferences.MatchString(e.name):
		data, err := r.read1(e)
		if err != nil {
			return err
		}
		var stream struct {
			Spec struct {
				Tags []struct {
					From struct{ Name string }
				}
			}
		}
		if err := json.Unmarshal(data, &stream); err != nil {
			return nil // the release was not read completely
		}
		for _, tag := range stream.Spec.Tags {
			r.source(tag.From.Name)
		}
	case catalogConfig.MatchString(e.name):
		data, err := r.read1(e)
		if err != nil {
			return err
		}
		for _, match := range quotedImage.FindAllSubmatch(data, -1) {
			r.source(string(match[1]))
		}
	case imageSet.MatchString(e.name):
		data, err := r.read1(e)
		if err != nil {
			return err
		}
		r.readImageSet(data)
	}
	return nil
}

// readImageSet collects the images in an image set configuration of oc-mirror.
func (r *reader) readImageSet(data []byte) {
	var set struct {
		Mirror struct {
			Operators        []struct{ Catalog string }
			AdditionalImages []struct{ Name string } `yaml:"additionalImages"`
		}
	}
	if err := yaml.Unmarshal(data, &set); err != nil {
		return
	}
	for _, image := range set.Mirror.AdditionalImages {
		r.source(image.Name)
	}
	for _, operator := range set.Mirror.Operators {
		r.source(operator.Catalog)
	}
}

// source notes the repository of an image.
func (r *reader) source(image string) {
	image, digest, _ := strings.Cut(image, "@")
	if colon := strings.LastIndexByte(image, ':'); colon > strings.LastIndexByte(image, '/') {
		image = image[:colon]
	}
	host, rest, ok := strings.Cut(image, "/")
	if !ok || !strings.ContainsAny(host, ".:") || !hostForm.MatchString(host) || !ValidRepository(rest) {
		return
	}
	r.index.Sources = append(r.index.Sources, image)
	if digestForm.MatchString(digest) {
		r.index.Named[digest] = image + "@" + digest
	}
	const enough = 4096
	if len(r.index.Sources) > enough {
		slices.Sort(r.index.Sources)
		r.index.Sources = slices.Compact(r.index.Sources)
	}
}

// readHistory reads what an archive presumes delivered: oc-mirror packs the working directory
// before it adds the archive's own blobs to the history, so the newest history lists the earlier
// blobs.
func (r *reader) readHistory(histories map[string]entry) error {
	newest := ""
	for at := range histories {
		newest = max(newest, at)
	}
	if newest == "" {
		return nil
	}
	data, err := r.read1(histories[newest])
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "sha256:") {
			line = "sha256:" + line
		}
		if digestForm.MatchString(line) {
			r.index.Presumed = append(r.index.Presumed, line)
		}
	}
	return nil
}

// readCatalogs finds the operator catalogs that oc-mirror filtered. A run has the complete catalog
// under the tag of the source, and the filtered one under the hash of the filter. Clusters need the
// filtered one under the tag of the source; the images of the complete one are not on the media.
func (r *reader) readCatalogs() error {
	type written struct {
		Filter
		at time.Time
	}
	var found []written
	for _, e := range r.entries {
		match := filteredDigest.FindStringSubmatch(e.name)
		if match == nil {
			continue
		}
		data, err := r.read1(e)
		if err != nil {
			return err
		}
		digest := "sha256:" + strings.TrimPrefix(strings.TrimSpace(string(data)), "sha256:")
		if digestForm.MatchString(digest) {
			found = append(found, written{Filter{match[1], "sha256:" + match[2], digest, match[3]}, e.modified})
		}
	}
	slices.SortFunc(found, func(a, b written) int {
		return cmp.Or(a.at.Compare(b.at), strings.Compare(a.ID, b.ID))
	})
	for _, f := range found {
		r.index.Filters = append(r.index.Filters, f.Filter)
	}
	return nil
}
