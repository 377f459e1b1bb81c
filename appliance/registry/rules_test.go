package registry

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/mirror"
)

// Nodes use only the rule with the longest source. It must lead to the registry for digests and for
// tags, with the mirror sets of a registry with TLS and with the registries.conf of one without.
func TestRules_leadDigestsAndTagsToTheRegistry(t *testing.T) {
	images := map[string]string{ // a source, and the repository that has it
		"docker.io/rocm/amd-gpu-operator": "rocm/amd-gpu-operator",
		"docker.io/rocm/kept":             "docker.io/rocm/kept",
		"nvcr.io/nvidia/cloud/driver":     "nvidia/cloud/driver",
		"quay.io/single":                  "single",
	}
	c := merge(nil)
	for source, repository := range images {
		c.sources = append(c.sources, source)
		c.repositories[repository] = map[string]tagged{"v1": {}}
	}
	r := new(Registry)
	r.current.Store(c)
	for _, plain := range []bool{false, true} {
		sources, err := r.Rules(Place{Host: "mirror.test:5000", Plain: plain})
		require.NoError(t, err)
		rules, err := mirror.Parse(sources)
		require.NoError(t, err)
		for source, repository := range images {
			for _, reference := range []string{":v1", "@sha256:" + strings.Repeat("1", 64)} {
				explained, err := rules.Explain(source + reference)
				require.NoError(t, err)
				require.NotEmpty(t, explained.Steps)
				require.Equal(t, "mirror.test:5000/"+repository+reference, explained.Steps[0].Image, explained)
			}
		}
	}
}
