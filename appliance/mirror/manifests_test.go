package mirror

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestManifests(t *testing.T) {
	rules, err := Parse(Sources{
		RegistriesConf: []Document{{"registries.conf", []byte(`[[registry]]
location = "quay.io/team"
[[registry.mirror]]
location = "mirror.example.com:5000/team"
insecure = true
[[registry]]
location = "blocked.example.com"
blocked = true
`)}},
		MirrorSets: []Document{{"signatures.yaml",
			[]byte(workspaceV2()["working-dir/cluster-resources/signature-configmap.yaml"])},
			{"itms.yaml", []byte(workspaceV2()["working-dir/cluster-resources/itms-oc-mirror.yaml"])}},
	})
	require.NoError(t, err)
	manifests, err := rules.Manifests(Target{MirrorSets: true})
	require.NoError(t, err)
	texts := map[string]string{}
	for _, m := range manifests {
		texts[m.Name] = string(m.YAML)
	}
	require.Len(t, texts, 3)
	require.Equal(t, `apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata:
    name: landfall-tags
spec:
    imageTagMirrors:
        - source: quay.io/team
          mirrors:
            - mirror.example.com:5000/team
        - source: registry.redhat.io/ubi9
          mirrors:
            - mirror.example.com:5000/ubi9
`, texts["99_mirror_itms.yaml"])
	require.Equal(t, `apiVersion: config.openshift.io/v1
kind: Image
metadata:
    name: cluster
spec:
    registrySources:
        insecureRegistries:
            - mirror.example.com:5000
        blockedRegistries:
            - blocked.example.com
`, texts["99_mirror_image.yaml"])
	require.Contains(t, texts["99_mirror_signatures_mirrored-release-signatures.yaml"], "sha256-1111")

	// The written rules lead to the same mirrors when they are read again.
	again, err := Parse(Sources{MirrorSets: []Document{{"itms.yaml", []byte(texts["99_mirror_itms.yaml"])},
		{"s.yaml", []byte(texts["99_mirror_signatures_mirrored-release-signatures.yaml"])}}})
	require.NoError(t, err)
	require.Equal(t, []ImageDigestSource{{Source: "quay.io/team", Mirrors: []string{"mirror.example.com:5000/team"}},
		{Source: "registry.redhat.io/ubi9", Mirrors: []string{"mirror.example.com:5000/ubi9"}}},
		again.ImageTagSources())
	require.Equal(t, rules.Signatures(), again.Signatures())

	none, err := rulesOf(t, "", digestSet("r", releaseRepository, "", "m.example.com/ocp")).
		Manifests(Target{MirrorSets: true})
	require.NoError(t, err)
	require.Empty(t, none, "the install-config contains all rules")
}
