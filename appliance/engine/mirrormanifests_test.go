package engine

import (
	"maps"
	"slices"
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

const catalogOfTest = `apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: cs-redhat-operator-index-v4-19, namespace: openshift-marketplace}
spec: {image: "mirror.example.com/redhat/redhat-operator-index:v4.19", sourceType: grpc}
`

func TestTheFinishedClusterIsToldOfTheMirror(t *testing.T) {
	const (
		tags       = "openshift/99_mirror_itms.yaml"
		signatures = "openshift/99_mirror_signatures_mirrored-release-signatures.yaml"
		catalog    = "openshift/50_openshift-operators_catalogsource_cs-redhat-operator-index-v4-19.yaml"
		hub        = "openshift/50_openshift-operators_operatorhub_cluster.yaml"
	)
	for _, c := range []struct {
		name, version, overrides string
		sets                     string
		made, own                map[string][]byte
		notes                    []catalogNote
		want                     []string
	}{
		{name: "all of it", version: "4.19.3", sets: mirrorSetsOfTest, want: []string{catalog, hub, tags, signatures}},
		{name: "without rules", version: "4.19.3"},
		{name: "another version's catalog", version: "4.18.9", sets: mirrorSetsOfTest, want: []string{hub, tags, signatures}},
		{name: "a version that does not know mirror sets of tags", version: "4.12.1", sets: mirrorSetsOfTest, want: []string{hub, signatures}},
		{name: "without the marketplace", version: "4.19.3", sets: mirrorSetsOfTest, overrides: `{"capabilities":{"baselineCapabilitySet":"None"}}`, want: []string{tags, signatures}},
		{name: "with a baseline before OLM was a capability", version: "4.19.3", sets: mirrorSetsOfTest, overrides: `{"capabilities":{"baselineCapabilitySet":"v4.14"}}`, want: []string{tags, signatures}},
		{name: "with both capabilities named", version: "4.19.3", sets: mirrorSetsOfTest,
			overrides: `{"capabilities":{"baselineCapabilitySet":"None","additionalEnabledCapabilities":["marketplace","OperatorLifecycleManager"]}}`, want: []string{catalog, hub, tags, signatures}},
		{name: "what operators brought", version: "4.19.3", sets: mirrorSetsOfTest,
			made: map[string][]byte{"50_openshift-operators_catalogsource_cs-redhat-operator-index-v4-19.yaml": {}, "50_openshift-operators_operatorhub_cluster.yaml": {}}, want: []string{tags, signatures}},
		{name: "what people wrote", version: "4.19.3", sets: mirrorSetsOfTest,
			own:   map[string][]byte{"manifests/a.yaml": []byte("kind: ImageTagMirrorSet\nmetadata:\n  name: landfall-tags\n")},
			notes: []catalogNote{{Kind: kindOperatorHub}, {Kind: kindCatalogSource, Name: "cs-redhat-operator-index-v4-19"}}, want: []string{signatures}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules, err := mirror.Parse(mirror.Sources{MirrorSets: []mirror.Document{{Name: "sets.yaml", Data: []byte(c.sets)}}})
			require.NoError(t, err)
			e := &Engine{Options: Options{Mirror: rules, Catalogs: func() []operator.Source { return operator.Sources([]byte(catalogOfTest)) }}}
			p := &plan{engine: e, manifests: c.own, row: &clusterRecord{API: models.Cluster{OpenshiftVersion: c.version, InstallConfigOverrides: c.overrides}, Catalogs: c.notes}}
			got, err := p.mirrorManifests(c.made)
			require.NoError(t, err)
			require.Equal(t, c.want, slices.Sorted(maps.Keys(got)))
		})
	}
}
