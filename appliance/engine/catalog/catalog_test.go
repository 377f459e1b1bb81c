package catalog

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/stretchr/testify/require"

	"landfall/appliance/release"
)

func TestOperatorHub(t *testing.T) {
	text, err := OperatorHub([]Origin{{Catalog: "redhat-operators", Source: "cs-redhat"},
		{Catalog: "certified-operators"}})
	require.NoError(t, err)
	require.Contains(t, string(text), "- name: certified-operators\n          disabled: false")
	require.NotContains(t, string(text), "- name: redhat-operators")
	text, err = OperatorHub([]Origin{{Catalog: "redhat-operators"}})
	require.NoError(t, err)
	require.Nil(t, text)
}

// emptyMirror has catalogs without packages, and no images. It counts the requests for each image.
type emptyMirror map[string]int

func (emptyMirror) Catalog(context.Context, string, authn.Keychain, []string) (*release.Catalog, error) {
	return &release.Catalog{}, nil
}

func (m emptyMirror) Holds(_ context.Context, image string, _ authn.Keychain) error {
	m[image]++
	return errors.New("the mirror has no image " + image)
}

func TestCheck_missingImageOfTwoOperators(t *testing.T) {
	const shared = "quay.io/shared/image:1"
	images := emptyMirror{}
	run := &check{reader: images}
	results := []CheckResult{{Title: "First", Images: []ImageResult{{Image: shared}}},
		{Title: "Second", Images: []ImageResult{{Image: shared}}}}
	run.requestImages(t.Context(), results)
	require.Equal(t, emptyMirror{shared: 1}, images, "requested once")
	for _, result := range results {
		require.Equal(t, "The mirror has no image "+shared+".", result.Images[0].Problem, result.Title)
		require.Len(t, result.Problems, 1, result.Title)
		require.Contains(t, result.Problems[0], "1 of the 1 images of "+result.Title)
	}
}
