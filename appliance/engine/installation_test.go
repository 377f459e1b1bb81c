package engine

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/appliance/mirror"
)

const neverContactSets = `apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: d}
spec:
  imageDigestMirrors:
  - {source: quay.io/team, mirrors: [mirror.example.com/team], mirrorSourcePolicy: NeverContactSource}
---
apiVersion: olm.operatorframework.io/v1
kind: ClusterCatalog
metadata: {name: cc-redhat}
spec: {source: {type: Image, image: {ref: "mirror.example.com/redhat/redhat-operator-index:v4.21"}}}
---
apiVersion: updateservice.operator.openshift.io/v1
kind: UpdateService
metadata: {name: update-service-oc-mirror}
spec: {replicas: 2}
`

func TestMirrorLater_objectsForARunningCluster(t *testing.T) {
	b := newHarness(t)
	rules, err := mirror.Parse(mirror.Sources{MirrorSets: []mirror.Document{{Name: "sets.yaml",
		Data: []byte(neverContactSets)}}})
	require.NoError(t, err)
	b.Engine.options.AccessAt = func(level mirror.Level) ImageAccess {
		return ImageAccess{Mirror: rules,
			Releases: b.Engine.options.Releases}
	}
	single, _ := b.singleNode()
	later, err := b.MirrorLater(single)
	require.NoError(t, err)
	require.Contains(t, string(later), "---\napiVersion: updateservice.operator.openshift.io/v1\n")
	require.Contains(t, string(later), "kind: ClusterCatalog")
	three, _ := b.threeNodes(true)
	later, err = b.MirrorLater(three)
	require.NoError(t, err)
	require.NotContains(t, string(later), "kind: ClusterCatalog", "the catalog is in the manifests")
	_, err = b.MirrorLater("00000000-0000-4000-8000-000000000000")
	b.requireRejected(err, fault.NotFound, "no cluster")
}

func TestInstallConfig_trustBundleHasEachCAOnce(t *testing.T) {
	first, second := testCertificate(t), testCertificate(t)
	b := newHarness(t)
	authority := func(text string) *mirror.Rules {
		rules, err := mirror.Parse(mirror.Sources{CABundle: []mirror.Document{{Name: "ca.pem", Data: []byte(text)}}})
		require.NoError(t, err)
		return rules
	}
	b.Engine.options.AccessAt = func(level mirror.Level) ImageAccess {
		rules := authority(first)
		if level.InfraEnv != "" {
			rules = authority(first + second)
		}
		return ImageAccess{Mirror: rules, Releases: b.Engine.options.Releases}
	}
	cluster, env := b.singleNode()
	b.host(env, 1)
	text, err := b.InstallConfig(cluster)
	require.NoError(t, err)
	var config struct{ AdditionalTrustBundle, AdditionalTrustBundlePolicy string }
	require.NoError(t, json.Unmarshal([]byte(text), &config))
	require.Equal(t, "Always", config.AdditionalTrustBundlePolicy)
	require.Equal(t, strings.TrimSpace(first)+"\n"+strings.TrimSpace(second)+"\n", config.AdditionalTrustBundle,
		"only the CA of the infra-env is added; each CA occurs once, and no text follows the last one")
}
