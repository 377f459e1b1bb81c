package prover

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

const (
	tagListLimit  = 8 << 20 // maximum size of a list of tags, bytes
	likelyTagsMax = 4       // tags that are requested for each image
)

// findOtherDigests checks whether the mirror has a missing image under a tag with another digest.
// The cause is a multi-architecture list that was copied for one architecture, or a filtered
// catalog. The copy is complete, but no node can pull it by the original digest.
func (s *session) findOtherDigests(ctx context.Context, results []Result) {
	lists := map[string][]string{} // by repository
	for i := range results {
		result := &results[i]
		if result.Status != MissingManifest || result.Elsewhere != "" {
			continue
		}
		wanted, err := name.NewDigest(result.Ref)
		if err != nil {
			continue
		}
		r := s.repositoryNamed(repositoryOf(result.Endpoint))
		if r == nil {
			continue
		}
		tags, known := lists[r.name()]
		if !known {
			tags = r.tags(ctx)
			lists[r.name()] = tags
		}
		for _, tag := range likelyTags(tags, result.Names) {
			digest := r.digestOf(ctx, tag)
			if digest == "" || digest == wanted.DigestStr() {
				continue
			}
			result.Text = fmt.Sprintf("%s has no %s, but its tag %s has the digest %s. The digest changes if a "+
				"list of several architectures is copied for one architecture, or if the image is rebuilt; mirror the "+
				"image by its original digest, with all architectures.",
				r.name(), describe(result.Image), tag, digest)
			break
		}
	}
}

func (s *session) repositoryNamed(wanted string) *repository {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.repositories {
		if r.name() == wanted {
			return r
		}
	}
	return nil
}

// likelyTags returns the tags that mirror tools usually give an image: VERSION-ARCH-COMPONENT, and
// VERSION-ARCH for the release image.
func likelyTags(tags, names []string) []string {
	var likely []string
	for _, tag := range tags {
		if strings.HasPrefix(tag, "sha256-") || len(likely) == likelyTagsMax {
			continue
		}
		if slices.ContainsFunc(names, func(name string) bool {
			return name == ReleaseImageName ||
				strings.HasSuffix(tag, "-"+name)
		}) {
			likely = append(likely, tag)
		}
	}
	return likely
}

// tags returns the repository's tags. It returns none if the registry does not list them.
func (r *repository) tags(ctx context.Context) []string {
	response, failed := r.sendRetrying(ctx, http.MethodGet, "tags/list", nil)
	if failed != nil {
		return nil
	}
	var list struct{ Tags []string }
	err := json.NewDecoder(io.LimitReader(response.Body, tagListLimit)).Decode(&list)
	if closeErr := response.Body.Close(); err != nil || closeErr != nil {
		return nil
	}
	return list.Tags
}

// digestOf returns the digest of a tag's manifest, or "" if the registry does not report it.
func (r *repository) digestOf(ctx context.Context, tag string) string {
	response, failed := r.sendRetrying(ctx, http.MethodHead, "manifests/"+tag, http.Header{"Accept": {acceptManifests}})
	if failed != nil {
		return ""
	}
	if err := response.Body.Close(); err != nil {
		return ""
	}
	return response.Header.Get("Docker-Content-Digest")
}
