package engine

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/operator"
	"landfall/appliance/mirror"
)

const mirrorSetsOfTest = `apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: t}
spec:
  imageTagMirrors:
  - source: registry.redhat.io/ubi9
    mirrors: [mirror.example.com/ubi9]
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: mirrored-release-signatures
  namespace: openshift-config-managed
  labels: {release.openshift.io/verification-signatures: ""}
binaryData: {sha256-11-1: c2ln}
`

const sealedOfTest = `apiVersion: config.openshift.io/v1
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

const catalogOfTest = `apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: cs-redhat-operator-index-v4-19, namespace: openshift-marketplace}
spec: {image: "mirror.example.com/redhat/redhat-operator-index:v4.19", sourceType: grpc}
`

func TestWhatAClusterCanOnlyBeGivenLaterIsKeptForIt(t *testing.T) {
	b := newBench(t, nil)
	rules, err := mirror.Parse(mirror.Sources{MirrorSets: []mirror.Document{{Name: "sets.yaml",
		Data: []byte(sealedOfTest)}}})
	require.NoError(t, err)
	b.Engine.AccessAt = func(level mirror.Level) Access { return Access{Mirror: rules, Releases: b.Engine.Releases} }
	single, _ := b.singleNode()
	later, err := b.MirrorLater(single)
	require.NoError(t, err)
	require.Contains(t, string(later), "---\napiVersion: updateservice.operator.openshift.io/v1\n")
	require.Contains(t, string(later), "kind: ClusterCatalog")
	three, _ := b.threeNodes(true)
	later, err = b.MirrorLater(three)
	require.NoError(t, err)
	require.NotContains(t, string(later), "kind: ClusterCatalog", "it is among the manifests")
	_, err = b.MirrorLater("00000000-0000-4000-8000-000000000000")
	b.requireRefused(err, NotFound, "no cluster")
}

func TestCAsOfAllWhomTheNodesTrustAreInTheClusterOnce(t *testing.T) {
	first, second := testCertificate(t), testCertificate(t)
	b := newBench(t, nil)
	authority := func(text string) *mirror.Rules {
		rules, err := mirror.Parse(mirror.Sources{CABundle: []mirror.Document{{Name: "ca.pem", Data: []byte(text)}}})
		require.NoError(t, err)
		return rules
	}
	b.Engine.AccessAt = func(level mirror.Level) Access {
		rules := authority(first)
		if level.InfraEnv != "" {
			rules = authority(first + second)
		}
		return Access{Mirror: rules, Releases: b.Engine.Releases}
	}
	cluster, env := b.singleNode()
	b.host(env, 1)
	plan, err := b.planInstallation(cluster)
	require.NoError(t, err)
	var config struct{ AdditionalTrustBundle, AdditionalTrustBundlePolicy string }
	require.NoError(t, json.Unmarshal(plan.installConfig(), &config))
	require.Equal(t, "Always", config.AdditionalTrustBundlePolicy)
	require.Equal(t, strings.TrimSpace(first)+"\n"+strings.TrimSpace(second)+"\n", config.AdditionalTrustBundle,
		"that of the infra-env alone, too; each once, and nothing behind")
	require.Equal(t, "no PEM\n"+strings.TrimSpace(first)+"\n", string(joinBundles("no PEM ", first+"# a comment\n\n",
		first)))
}

func TestTheFinishedClusterIsToldOfTheMirror(t *testing.T) {
	const (
		tags       = "openshift/99_mirror_itms.yaml"
		signatures = "openshift/99_mirror_signatures_mirrored-release-signatures.yaml"
		catalog    = "openshift/50_openshift-operators_catalogsource_cs-redhat-operator-index-v4-19.yaml"
		hub        = "openshift/50_openshift-operators_operatorhub_cluster.yaml"

		digests        = "manifests/image-digest-mirror-set.yaml"
		clusterCatalog = "openshift/99_mirror_clustercatalog_cc-redhat.yaml"
	)
	for _, c := range []struct {
		name, version, overrides string
		nodes                    int64 // of the control plane; 0: three
		sets                     string
		made, own                map[string][]byte
		notes                    []catalogNote
		want                     []string
	}{
		{name: "all of it", version: "4.19.3", sets: mirrorSetsOfTest, want: []string{catalog, hub, tags, signatures}},
		{name: "without rules", version: "4.19.3"},
		{name: "another version's catalog", version: "4.18.9", sets: mirrorSetsOfTest,
			want: []string{hub, tags, signatures}},
		{name: "a version that does not know mirror sets of tags", version: "4.12.1", sets: mirrorSetsOfTest,
			want: []string{hub, signatures}},
		{name: "a version in which they don't go together with what install-config makes", version: "4.13.1",
			sets: mirrorSetsOfTest, want: []string{hub, signatures}},
		{name: "a source that is never contacted, of a version whose install-config can't say so", version: "4.20.1",
			sets: sealedOfTest, want: []string{digests, hub, clusterCatalog}},
		{name: "the same of one that can", version: "4.21.0", sets: sealedOfTest, want: []string{hub, clusterCatalog}},
		{name: "a person's own policy of the same source", version: "4.20.1", sets: sealedOfTest,
			own: map[string][]byte{"manifests/own.yaml": []byte("apiVersion: config.openshift.io/v1\nkind: " +
				"ImageTagMirrorSet\nmetadata: {name: own}\nspec:\n  imageTagMirrors:\n  - {source: quay.io/team, " +
				"mirrors: [m.example.com/t]}\n")},
			want: []string{hub, clusterCatalog}},
		{name: "one node, which has no OLM v1 while it is the bootstrap", version: "4.21.0", nodes: 1,
			sets: sealedOfTest, want: []string{hub}},
		{name: "a version before OLM v1", version: "4.17.0", sets: sealedOfTest, want: []string{digests, hub}},
		{name: "without OLM v1", version: "4.21.0", sets: sealedOfTest,
			overrides: `{"capabilities":{"baselineCapabilitySet":"v4.17"}}`, want: []string{hub}},
		{name: "without the marketplace", version: "4.19.3", sets: mirrorSetsOfTest,
			overrides: `{"capabilities":{"baselineCapabilitySet":"None"}}`, want: []string{tags, signatures}},
		{name: "with a baseline before OLM was a capability", version: "4.19.3", sets: mirrorSetsOfTest,
			overrides: `{"capabilities":{"baselineCapabilitySet":"v4.14"}}`, want: []string{tags, signatures}},
		{name: "with both capabilities named", version: "4.19.3", sets: mirrorSetsOfTest,
			overrides: `{"capabilities":{"baselineCapabilitySet":"None","additionalEnabledCapabilities":["marketplace","OperatorLifecycleManager"]}}`, want: []string{catalog, hub, tags, signatures}},
		{name: "what operators brought", version: "4.19.3", sets: mirrorSetsOfTest,
			made: map[string][]byte{"50_openshift-operators_catalogsource_cs-redhat-operator-index-v4-19.yaml": {},
				"50_openshift-operators_operatorhub_cluster.yaml": {}}, want: []string{tags, signatures}},
		{name: "what people wrote", version: "4.19.3", sets: mirrorSetsOfTest,
			own: map[string][]byte{"manifests/a.yaml": []byte("kind: ImageTagMirrorSet\nmetadata:\n  name: " +
				"landfall-tags\n")},
			notes: []catalogNote{{Kind: kindOperatorHub}, {Kind: kindCatalogSource,
				Name: "cs-redhat-operator-index-v4-19"}}, want: []string{signatures}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules, err := mirror.Parse(mirror.Sources{MirrorSets: []mirror.Document{{Name: "sets.yaml",
				Data: []byte(c.sets)}}})
			require.NoError(t, err)
			e := &Engine{Options: Options{Mirror: rules,
				Catalogs: func() []operator.Source { return operator.Sources([]byte(catalogOfTest)) }}}
			followed, err := rules.FollowPolicies(slices.Collect(maps.Values(c.own))...)
			require.NoError(t, err)
			cluster := models.Cluster{OpenshiftVersion: c.version, InstallConfigOverrides: c.overrides,
				ControlPlaneCount: cmp.Or(c.nodes, 3)}
			p := &plan{engine: e, mirror: followed, manifests: c.own, row: &clusterRecord{API: cluster,
				Catalogs: c.notes}}
			got, err := p.mirrorManifests(c.made)
			require.NoError(t, err)
			require.Equal(t, c.want, slices.Sorted(maps.Keys(got)))
		})
	}
}
