package mirror

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// inputFormats returns the same site in each input format, as far as the format permits.
func inputFormats(t *testing.T) map[string]Sources {
	collected := func(files map[string]string) Sources {
		got, err := CollectPath(writeTree(t, files))
		require.NoError(t, err)
		return got.Sources("import")
	}
	v2 := workspaceV2()
	v2["working-dir/cluster-resources/idms-oc-mirror.yaml"] = strings.Replace(
		v2["working-dir/cluster-resources/idms-oc-mirror.yaml"],
		"    source: quay.io/openshift-release-dev/ocp-release\n",
		"    source: quay.io/openshift-release-dev/ocp-release\n    mirrorSourcePolicy: NeverContactSource\n", 1)
	v2["working-dir/cluster-resources/cc-redhat-operator-index-v4-19.yaml"] = clusterCatalog
	v2["working-dir/cluster-resources/updateService.yaml"] = updateService
	document := func(name, text string) []Document { return []Document{{name, []byte(text)}} }
	return map[string]Sources{
		"registries.conf": {RegistriesConf: document("registries.conf", siteConf)},
		"registries.conf with a drop-in": {RegistriesConf: []Document{{"registries.conf", []byte(siteConf)}, {"registries.conf.d/site.conf", []byte(`[[registry]]
location = "quay.io/team"
blocked = true
[[registry.mirror]]
location = "mirror.site.example:5000/team"
[[registry]]
location = "evil.example.com"
blocked = true
`)}}},
		"ImageContentSourcePolicy": {MirrorSets: document("icsp.yaml", `apiVersion: operator.openshift.io/v1alpha1
kind: ImageContentSourcePolicy
metadata: {name: release}
spec:
  repositoryDigestMirrors:
  - source: quay.io/openshift-release-dev/ocp-release
    mirrors: [mirror.site.example:5000/digests, second.site.example/digests]
  - source: quay.io/team
    mirrors: [mirror.site.example:5000/team]
`)},
		"mirror sets with policies and wildcards": {MirrorSets: document("sets.yaml", `apiVersion: v1
kind: List
items:
- apiVersion: config.openshift.io/v1
  kind: ImageDigestMirrorSet
  metadata: {name: d}
  spec:
    imageDigestMirrors:
    - {source: "*.redhat.io", mirrors: [mirror.site.example:5000/rh], mirrorSourcePolicy: NeverContactSource}
    - {source: quay.io/team, mirrors: [mirror.site.example:5000/team], mirrorSourcePolicy: NeverContactSource}
    - {source: quay.io/open, mirrors: [mirror.site.example:5000/open]}
- apiVersion: config.openshift.io/v1
  kind: ImageTagMirrorSet
  metadata: {name: t}
  spec:
    imageTagMirrors:
    - {source: quay.io/team, mirrors: [mirror.site.example:5000/team-tags], mirrorSourcePolicy: NeverContactSource}
    - {source: quay.io/openshift-release-dev, mirrors: [mirror.site.example:5000/tags]}
`)},
		"what oc adm release mirror prints": {MirrorSets: document("printed.yaml", `imageDigestSources:
- mirrors: [mirror.site.example:5000/digests]
  source: quay.io/openshift-release-dev/ocp-release
  sourcePolicy: NeverContactSource
`)},
		"oc-mirror version 2": collected(v2),
		"oc-mirror version 1": collected(map[string]string{
			"results-1700000000/imageContentSourcePolicy.yaml": "apiVersion: " +
				"operator.openshift.io/v1alpha1\nkind: ImageContentSourcePolicy\nmetadata: {name: " +
				"release-0}\nspec:\n  repositoryDigestMirrors:\n  - {source: " +
				"quay.io/openshift-release-dev/ocp-release, mirrors: [mirror.site.example:5000/v1]}\n",
			"results-1700000000/catalogSource-redhat-operators.yaml":      workspaceV2()["working-dir/cluster-resources/cs-redhat-operator-index-v4-19.yaml"],
			"results-1700000000/updateService.yaml":                       updateService,
			"results-1700000000/release-signatures/signature-sha256.json": workspaceV2()["working-dir/cluster-resources/signature-configmap.json"],
		}),
		"a list by hand": {Lists: document("mirrors.txt",
			"quay.io/team = mirror.site.example:5000/team second.site.example/team\nregistry.redhat.io -> "+
				"mirror.site.example:5000/rh\n")},
	}
}

const clusterCatalog = `apiVersion: olm.operatorframework.io/v1
kind: ClusterCatalog
metadata:
  name: cc-redhat-operator-index-v4-19
spec:
  priority: 0
  source:
    image: {ref: "mirror.example.com:5000/redhat/redhat-operator-index:v4.19"}
    type: Image
`

const updateService = `apiVersion: updateservice.operator.openshift.io/v1
kind: UpdateService
metadata:
  name: update-service-oc-mirror
spec:
  graphDataImage: mirror.example.com:5000/openshift/graph-image@sha256:2222222222222222222222222222222222222222222222222222222222222222
  releases: mirror.example.com:5000/openshift/release-images
  replicas: 2
`

// targets lists the forms of rules that versions of OpenShift support.
var targets = map[string]Target{
	"4.20":           {MirrorSets: true, ClusterCatalogs: true},
	"4.21":           {MirrorSets: true, SourcePolicy: true, ClusterCatalogs: true},
	"4.22, one node": {MirrorSets: true, SourcePolicy: true},
}

// rulesInCluster returns the rules of a cluster after its installation with the written files:
// the mirror sets that openshift-install creates from the install-config, those that replace or
// extend them, and the registries that its Image blocks.
func rulesInCluster(t *testing.T, rules *Rules, target Target) (*Rules, map[string]string) {
	t.Helper()
	files := map[string]string{}
	fragment, err := json.Marshal(map[string]any{"imageDigestSources": rules.InstallConfig(target)})
	require.NoError(t, err)
	files[installersDigestSetFile] = string(fragment)
	manifests, err := rules.Manifests(target)
	require.NoError(t, err)
	var blocked strings.Builder
	for _, m := range manifests {
		files[m.Name] = string(m.YAML)
		if m.Kind == "Image" {
			var image struct {
				Spec struct {
					RegistrySources registrySources `yaml:"registrySources"`
				}
			}
			require.NoError(t, yaml.Unmarshal(m.YAML, &image))
			for _, location := range image.Spec.RegistrySources.Blocked {
				fmt.Fprintf(&blocked, "[[registry]]\nlocation = %q\nblocked = true\n", location)
			}
		}
	}
	sources := Sources{RegistriesConf: []Document{{"image.conf", []byte(blocked.String())}}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sources.MirrorSets = append(sources.MirrorSets, Document{name, []byte(files[name])})
	}
	again, err := Parse(sources)
	require.NoError(t, err)
	return again, files
}

func TestRules_roundTripOfEachFormat(t *testing.T) {
	images := []string{
		"quay.io/openshift-release-dev/ocp-release", "quay.io/openshift-release-dev/ocp-v4.0-art-dev",
		"quay.io/team/app", "quay.io/open/app", "quay.io/other/app",
		"registry.redhat.io/openshift4/x", "registry.redhat.io/ubi9/ubi", "old.example.com/team/app",
		"evil.example.com/app", "docker.io/library/alpine",
	}
	for format, sources := range inputFormats(t) {
		rules, err := Parse(sources)
		require.NoError(t, err, format)
		require.NotEmpty(t, rules.List(), format)
		for version, target := range targets {
			t.Run(format+" for "+version, func(t *testing.T) {
				cluster, files := rulesInCluster(t, rules, target)
				discovery := conf(t, string(rules.RegistriesConf()))
				for _, image := range images {
					for _, kind := range []string{":1", "@" + digest} {
						require.Equal(t, endpoints(t, rules, image+kind), endpoints(t, discovery, image+kind),
							"discovery image: %s", image+kind)
						require.Equal(t, pulled(t, rules, image+kind), pulled(t, cluster, image+kind),
							"cluster: %s by %q", image+kind, files)
					}
				}
				for _, o := range rules.Objects() {
					later := slices.ContainsFunc(rules.LaterObjects(target),
						func(other Object) bool { return other.Kind == o.Kind && other.Name == o.Name })
					written := slices.ContainsFunc(slices.Collect(maps.Values(files)),
						func(text string) bool { return text == string(o.YAML) })
					require.Equal(t, o.Kind != KindCatalogSource && !later, written, "%s %s", o.Kind, o.Name)
					require.Equal(t, o.Kind == KindUpdateService || o.Kind == KindClusterCatalog &&
						!target.ClusterCatalogs, later, "%s %s", o.Kind, o.Name)
				}
			})
		}
	}
}

// pulled returns the endpoints that nodes try. A source with another location counts as a mirror.
func pulled(t *testing.T, rules *Rules, image string) []string {
	t.Helper()
	ref, err := name.ParseReference(image)
	require.NoError(t, err)
	places := []string{}
	for _, e := range rules.Endpoints(ref) {
		places = append(places, spell(e.Ref))
	}
	return places
}

func TestManifests_neverContactSourceOnce(t *testing.T) {
	rules := rulesOf(t, "", digestSet("r", releaseRepository, neverContact, "m.example.com/ocp"))
	older, newer := Target{MirrorSets: true}, Target{MirrorSets: true, SourcePolicy: true}

	require.Equal(t, []ImageDigestSource{{Source: releaseRepository, Mirrors: []string{"m.example.com/ocp"},
		SourcePolicy: neverContact, NeverContactSource: true}}, rules.InstallConfig(newer))
	manifests, err := rules.Manifests(newer)
	require.NoError(t, err)
	require.Empty(t, manifests, "the install-config contains it")

	require.Empty(t, rules.InstallConfig(older)[0].SourcePolicy, "the installer would reject it")
	manifests, err = rules.Manifests(older)
	require.NoError(t, err)
	require.Len(t, manifests, 1)
	require.Equal(t, "manifests/image-digest-mirror-set.yaml", manifests[0].Folder+"/"+manifests[0].Name,
		"the manifest replaces the installer's object, because OpenShift rejects two different policies")
	require.Contains(t, string(manifests[0].YAML), "mirrorSourcePolicy: NeverContactSource")

	manifests, err = rules.Manifests(Target{})
	require.NoError(t, err)
	require.Empty(t, manifests, "an ImageContentSourcePolicy has no policy and excludes mirror sets")
}

func TestFollowPolicies(t *testing.T) {
	rules := rulesOf(t, "", digestSet("r", releaseRepository, neverContact, "m.example.com/ocp"))
	followed, err := rules.FollowPolicies([]byte(digestSet("own", releaseRepository, "", "m2.example.com/ocp")),
		[]byte("kind: ImageDigestMirrorSet\n\tno yaml"), []byte("kind: ConfigMap"))
	require.NoError(t, err)
	require.False(t, followed.List()[0].Blocked)
	require.True(t, rules.List()[0].Blocked, "the rules stay unchanged")
	back, err := followed.FollowPolicies([]byte(digestSet("own", releaseRepository, neverContact,
		"m2.example.com/ocp")))
	require.NoError(t, err)
	require.True(t, back.List()[0].Blocked)
	require.Contains(t, string(back.RegistriesConf()), "blocked = true")
}

func TestLayered(t *testing.T) {
	root := newAuthority(t, "Near").pem
	far := rulesOf(t, "", digestSet("all", releaseRepository, neverContact, "m.example.com/ocp"),
		digestSet("all-2", componentRepository, "", "m.example.com/art"), clusterCatalog)
	near, err := Parse(Sources{
		MirrorSets: []Document{{"cluster.yaml", []byte(digestSet("own", releaseRepository, "",
			"near.example.com/ocp"))},
			{"cc.yaml", []byte(strings.Replace(clusterCatalog, "priority: 0", "priority: 7", 1))}},
		CABundle: []Document{{"ca.pem", root}},
	})
	require.NoError(t, err)

	joined, err := Layered(far, nil, &Rules{}, near)
	require.NoError(t, err)
	require.Equal(t, []string{releaseRepository + ":1"}, endpoints(t, joined, releaseRepository+":1"))
	require.Equal(t, []string{"near.example.com/ocp@" + digest, releaseRepository + "@" + digest},
		endpoints(t, joined, releaseRepository+"@"+digest),
		"only the mirrors and the policy of the closer level's rule")
	require.Equal(t, []string{"m.example.com/art@" + digest, componentRepository + "@" + digest},
		endpoints(t, joined, componentRepository+"@"+digest))
	require.Equal(t, string(root), string(joined.CABundle()))
	require.Len(t, joined.Objects(), 1)
	require.Contains(t, string(joined.Objects()[0].YAML), "priority: 7")
	require.Equal(t, "ImageDigestMirrorSet own, over ImageDigestMirrorSet all", joined.List()[0].Origin,
		"the origin names the overridden rule")
	require.Equal(t, []string{"m.example.com/ocp@" + digest}, endpoints(t, far, releaseRepository+"@"+digest),
		"the lower level stays unchanged")
	require.Contains(t, string(far.Objects()[0].YAML), "priority: 0")
}
