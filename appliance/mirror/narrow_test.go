package mirror

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNarrow_keepsOnlyUsableEntries(t *testing.T) {
	const secret = `{"auths":{"cloud.openshift.com":{"auth":"YTph"},"quay.io":{"auth":"YTpi"},` +
		`"registry.redhat.io":{"auth":"YTpj"},"mirror.site:5000":{"auth":"YTpk"},` +
		`"mirror.site:5000/other":{"auth":"YTpl"},"https://index.docker.io/v1/":{"auth":"YTpm"},` +
		`"agents.site/team":{"auth":"YTpu"}}}`
	const rule = `
[[registry]]
prefix = "quay.io/openshift-release-dev"
location = "quay.io/openshift-release-dev"
blocked = %s
[[registry.mirror]]
location = "mirror.site:5000/ocp"
`
	const digest = "@sha256:0123456789012345678901234567890123456789012345678901234567890123"
	all := []string{"agents.site/team", "https://index.docker.io/v1/", "mirror.site:5000", "mirror.site:5000/other",
		"quay.io", "registry.redhat.io"}
	for name, c := range map[string]struct {
		conf   string
		images []string
		want   []string
	}{
		"no rules":           {"", nil, all},
		"source is possible": {fmt.Sprintf(rule, "false"), nil, []string{"mirror.site:5000", "quay.io"}},
		"mirror only":        {fmt.Sprintf(rule, "true"), nil, []string{"mirror.site:5000"}},
		"an image of the release": {fmt.Sprintf(rule, "true"),
			[]string{"quay.io/openshift-release-dev/ocp" + digest, ""}, []string{"mirror.site:5000"}},
		"an image without a rule": {fmt.Sprintf(rule, "true"), []string{"agents.site/team/agent:1", "checked"},
			[]string{"agents.site/team", "https://index.docker.io/v1/", "mirror.site:5000"}},
		"all subdomains": {"[[registry]]\nprefix = \"*.redhat.io\"\n", nil, []string{"registry.redhat.io"}},
	} {
		t.Run(name, func(t *testing.T) {
			rules := rulesOf(t, c.conf)
			text, err := rules.Narrow(secret, c.images...)
			require.NoError(t, err)
			var file struct {
				Auths map[string]any `json:"auths"`
			}
			require.NoError(t, json.Unmarshal([]byte(text), &file))
			require.Equal(t, c.want, slices.Sorted(maps.Keys(file.Auths)))
			again, err := rules.Narrow(text, c.images...)
			require.NoError(t, err)
			require.Equal(t, text, again, "a pull secret without other entries stays unchanged")
		})
	}
	_, err := (*Rules)(nil).Narrow("no JSON")
	require.Error(t, err)
}
