package installconfig

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/catalog"
	"landfall/appliance/engine/operator"
	"landfall/appliance/mirror"
)

const tagMirrorSets = `apiVersion: config.openshift.io/v1
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

const catalogSource = `apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: cs-redhat-operator-index-v4-19, namespace: openshift-marketplace}
spec: {image: "mirror.example.com/redhat/redhat-operator-index:v4.19", sourceType: grpc}
`

func TestMirrorManifests(t *testing.T) {
	const (
		tags       = "openshift/99_mirror_itms.yaml"
		signatures = "openshift/99_mirror_signatures_mirrored-release-signatures.yaml"
		source     = "openshift/50_openshift-operators_catalogsource_cs-redhat-operator-index-v4-19.yaml"
		hub        = "openshift/50_openshift-operators_operatorhub_cluster.yaml"

		digests        = "manifests/image-digest-mirror-set.yaml"
		clusterCatalog = "openshift/99_mirror_clustercatalog_cc-redhat.yaml"
	)
	for _, c := range []struct {
		name, version, overrides string
		nodes                    int64 // number of control-plane nodes; 0 means three
		sets                     string
		operators, own           map[string][]byte
		objects                  []catalog.ManifestObject
		want                     []string
	}{
		{name: "everything", version: "4.19.3", sets: tagMirrorSets, want: []string{source, hub, tags, signatures}},
		{name: "without rules", version: "4.19.3"},
		{name: "catalog of another version", version: "4.18.9", sets: tagMirrorSets,
			want: []string{hub, tags, signatures}},
		{name: "version without tag mirror sets", version: "4.12.1", sets: tagMirrorSets,
			want: []string{hub, signatures}},
		{name: "version in which tag mirror sets exclude those of install-config", version: "4.13.1",
			sets: tagMirrorSets, want: []string{hub, signatures}},
		{name: "blocked source, install-config without a source policy", version: "4.20.1",
			sets: neverContactSets, want: []string{digests, hub, clusterCatalog}},
		{name: "blocked source, install-config with a source policy", version: "4.21.0", sets: neverContactSets,
			want: []string{hub, clusterCatalog}},
		{name: "user's own policy for the same source", version: "4.20.1", sets: neverContactSets,
			own: map[string][]byte{"manifests/own.yaml": []byte("apiVersion: config.openshift.io/v1\nkind: " +
				"ImageTagMirrorSet\nmetadata: {name: own}\nspec:\n  imageTagMirrors:\n  - {source: quay.io/team, " +
				"mirrors: [m.example.com/t]}\n")},
			want: []string{hub, clusterCatalog}},
		{name: "single node without OLM v1 during bootstrap", version: "4.21.0", nodes: 1,
			sets: neverContactSets, want: []string{hub}},
		{name: "version before OLM v1", version: "4.17.0", sets: neverContactSets, want: []string{digests, hub}},
		{name: "without OLM v1", version: "4.21.0", sets: neverContactSets,
			overrides: `{"capabilities":{"baselineCapabilitySet":"v4.17"}}`, want: []string{hub}},
		{name: "without the marketplace", version: "4.19.3", sets: tagMirrorSets,
			overrides: `{"capabilities":{"baselineCapabilitySet":"None"}}`, want: []string{tags, signatures}},
		{name: "baseline older than the OLM capability", version: "4.19.3", sets: tagMirrorSets,
			overrides: `{"capabilities":{"baselineCapabilitySet":"v4.14"}}`, want: []string{tags, signatures}},
		{name: "both capabilities enabled", version: "4.19.3", sets: tagMirrorSets,
			overrides: `{"capabilities":{"baselineCapabilitySet":"None","additionalEnabledCapabilities":["marketplace","OperatorLifecycleManager"]}}`, want: []string{source, hub, tags, signatures}},
		{name: "objects of the operators' manifests", version: "4.19.3", sets: tagMirrorSets,
			operators: map[string][]byte{"50_openshift-operators_catalogsource_cs-redhat-operator-index-v4-19.yaml": {},
				"50_openshift-operators_operatorhub_cluster.yaml": {}}, want: []string{tags, signatures}},
		{name: "objects of the users' manifests", version: "4.19.3", sets: tagMirrorSets,
			own: map[string][]byte{"manifests/a.yaml": []byte("kind: ImageTagMirrorSet\nmetadata:\n  name: " +
				"landfall-tags\n")},
			objects: []catalog.ManifestObject{{Kind: "OperatorHub"}, {Kind: "CatalogSource",
				Name: "cs-redhat-operator-index-v4-19"}}, want: []string{signatures}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules, err := mirror.Parse(mirror.Sources{MirrorSets: []mirror.Document{{Name: "sets.yaml",
				Data: []byte(c.sets)}}})
			require.NoError(t, err)
			followed, err := rules.FollowPolicies(slices.Collect(maps.Values(c.own))...)
			require.NoError(t, err)
			cluster := &models.Cluster{OpenshiftVersion: c.version, InstallConfigOverrides: c.overrides,
				ControlPlaneCount: cmp.Or(c.nodes, 3)}
			in := &Installation{Cluster: cluster, Mirror: followed, Manifests: c.own, Catalogs: catalog.Cluster{
				API: cluster, Objects: c.objects, Sources: operator.Sources([]byte(catalogSource)), Mirror: rules,
			}}
			got, err := in.mirrorManifests(c.operators)
			require.NoError(t, err)
			require.Equal(t, c.want, slices.Sorted(maps.Keys(got)))
		})
	}
}
