package appliance_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/client/manifests"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

const kernelArguments = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata:\n  name: " +
	"99-kernel-arguments\n  labels: {machineconfiguration.openshift.io/role: master}\nspec:\n  kernelArguments: " +
	"[loglevel=7]\n"

func TestManifests_lifecycle(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster(func(params *models.ClusterCreateParams) {
		params.AdditionalNtpSource = conv.Pointer(
			"10.0.0.1")
	})
	require.Empty(t, d.listManifests(cluster, false))

	added, err := d.addManifest(cluster, "openshift", "99-kernel-arguments.yaml", kernelArguments)
	require.NoError(t, err)
	require.Equal(t, models.Manifest{Folder: "openshift", FileName: "99-kernel-arguments.yaml", ManifestSource: "user"},
		*added)
	inDefault, err := d.addManifest(cluster, "", "two.yml", "a: 1\n---\nb: 2\n")
	require.NoError(t, err)
	require.Equal(t, "manifests", inDefault.Folder)
	_, err = d.addManifest(cluster, "manifests", "three.json", "{}")
	require.NoError(t, err)

	require.Equal(t, []string{"user manifests/three.json", "user manifests/two.yml",
		"user openshift/99-kernel-arguments.yaml"}, d.listManifests(cluster, false))
	require.Contains(t, d.listManifests(cluster, true), "system openshift/50-masters-chrony-configuration.yaml")
	system, err := d.manifest(cluster, "openshift", "50-masters-chrony-configuration.yaml")
	require.NoError(t, err)
	require.Contains(t, system, "kind: MachineConfig")

	content, err := d.manifest(cluster, "openshift", "99-kernel-arguments.yaml")
	require.NoError(t, err)
	require.Equal(t, kernelArguments, content)
	_, err = d.addManifest(cluster, "openshift", "99-kernel-arguments.yaml", kernelArguments+"#again\n")
	require.NoError(t, err, "the same name again is the new content")

	update := func(params *models.UpdateManifestParams) *models.Manifest {
		changed, err := d.Manifests.V2UpdateClusterManifest(t.Context(),
			&manifests.V2UpdateClusterManifestParams{ClusterID: cluster, UpdateManifestParams: params})
		require.NoError(t, err)
		return changed.Payload
	}
	update(&models.UpdateManifestParams{Folder: "manifests", FileName: "two.yml", UpdatedContent: encoded("c: 3\n")})
	renamed := update(&models.UpdateManifestParams{Folder: "manifests", FileName: "two.yml",
		UpdatedFileName: conv.Pointer("four.yaml")})
	require.Equal(t, models.Manifest{Folder: "manifests", FileName: "four.yaml", ManifestSource: "user"}, *renamed)
	update(&models.UpdateManifestParams{Folder: "manifests", FileName: "four.yaml",
		UpdatedFolder: conv.Pointer("openshift")})
	for _, params := range []*models.UpdateManifestParams{
		{Folder: "openshift", FileName: "four.yaml", UpdatedFileName: conv.Pointer("99-kernel-arguments.yaml")},
		{Folder: "openshift", FileName: "four.yaml", UpdatedFileName: conv.Pointer("three.json"),
			UpdatedContent: encoded("{}")},
	} {
		_, err = d.Manifests.V2UpdateClusterManifest(t.Context(),
			&manifests.V2UpdateClusterManifestParams{ClusterID: cluster, UpdateManifestParams: params})
		var refused *manifests.V2UpdateClusterManifestBadRequest
		require.ErrorAs(t, err, &refused)
		require.Contains(t, *refused.Payload.Reason, *params.UpdatedFileName+" in the folder")
	}
	content, err = d.manifest(cluster, "openshift", "99-kernel-arguments.yaml")
	require.NoError(t, err)
	require.Equal(t, kernelArguments+"#again\n", content, "the other manifest stays")
	content, err = d.manifest(cluster, "openshift", "four.yaml")
	require.NoError(t, err)
	require.Equal(t, "c: 3\n", content)
	require.Equal(t, []string{"user manifests/three.json", "user openshift/99-kernel-arguments.yaml",
		"user openshift/four.yaml"}, d.listManifests(cluster, false))

	var usage map[string]models.Usage
	require.NoError(t, json.Unmarshal([]byte(d.get(cluster).FeatureUsage), &usage))
	require.Equal(t, "CUSTOM_MANIFEST", usage["Custom manifest"].ID)
	for _, name := range []string{"four.yaml", "99-kernel-arguments.yaml", "three.json", "three.json"} {
		for _, folder := range []string{"openshift", "manifests"} {
			_, err = d.Manifests.V2DeleteClusterManifest(t.Context(),
				&manifests.V2DeleteClusterManifestParams{ClusterID: cluster, Folder: &folder, FileName: name})
			require.NoError(t, err, "what is not there is no error")
		}
	}
	require.Empty(t, d.listManifests(cluster, false))
	require.NotContains(t, d.get(cluster).FeatureUsage, "Custom manifest")
	require.Subset(t, d.events(cluster), []string{"custom_manifest_added", "custom_manifest_changed",
		"custom_manifest_deleted"})
}

func TestManifests_invalidAreRejected(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster()
	good := object{"folder": "openshift", "file_name": "a.yaml", "content": *encoded("a: 1\n")}
	_, err := d.addManifest(cluster, "manifests", "taken.yaml", "a: 1\n")
	require.NoError(t, err)
	at := d.url + "/clusters/" + cluster.String() + "/manifests"

	for name, wrong := range map[string]struct {
		changes  object
		status   int
		contains []string
	}{
		"no content":    {object{"content": nil}, 422, []string{"content in body is required"}},
		"empty content": {object{"content": " "}, 400, []string{"has no content"}},
		"nothing but blanks": {object{"content": *encoded(" \n")}, 400,
			[]string{"openshift/a.yaml is empty"}},
		"content that is not base64": {object{"content": "?"}, 400, []string{"not base64"}},
		"YAML that is none": {object{"content": *encoded("a: [1")}, 400,
			[]string{"openshift/a.yaml is not YAML", "line 1"}},
		"a second document that isn't": {object{"content": *encoded("a: 1\n---\nb: }")}, 400, []string{"is not YAML"}},
		"JSON that is none": {object{"file_name": "a.json", "content": *encoded("a: 1")},
			400, []string{"openshift/a.json is not JSON"}},
		"a patch that is no list": {object{"file_name": "a.yaml.patch_1", "content": *encoded("a: 1")}, 400,
			[]string{"The patch openshift/a.yaml.patch_1 can't be used", "RFC 6902"}},
		"a patch of no known op": {object{"file_name": "a.yaml.patch",
			"content": *encoded("- {op: turn, path: /a}")}, 400, []string{`operation 1 has the op "turn"`}},
		"more than a MiB": {object{"content": *encoded("a: " + strings.Repeat("x", 1<<20))}, 400,
			[]string{"at most 1048576 are allowed"}},
		"an unknown folder":         {object{"folder": "etc"}, 422, []string{"folder in body should be one of"}},
		"an extension that is none": {object{"file_name": "a.txt"}, 422, []string{"file_name in body should match"}},
		"a path outside the folder": {object{"file_name": "../a.yaml"}, 422, []string{"file_name"}},
		"a space":                   {object{"file_name": "a b.yaml"}, 422, []string{`"a b.yaml" has a space`}},
		"only an extension": {object{"file_name": ".yaml"}, 422,
			[]string{`".yaml" has nothing before its extension`}},
		"a leading dot": {object{"file_name": ".a.yaml"}, 422, []string{"begins with a dot"}},
		"a name of the other folder": {object{"file_name": "taken.yaml"}, 400,
			[]string{"taken.yaml in the folder manifests already", "installer merges both folders"}},
		"a field that is not known": {object{"kind": "x"}, 400, []string{`the unknown field "kind"`}},
	} {
		t.Run(name, func(t *testing.T) {
			requireRefusal(t, call(t, http.MethodPost, at, good.with(wrong.changes)), wrong.status, wrong.contains...)
		})
	}
	require.Equal(t, []string{"user manifests/taken.yaml"}, d.listManifests(cluster, false))

	requireRefusal(t, call(t, http.MethodPatch, at, object{"folder": "openshift", "file_name": "gone.yaml",
		"updated_file_name": "b.yaml"}), 404, "no manifest gone.yaml in the folder openshift")
	requireRefusal(t, call(t, http.MethodPatch, at, object{"folder": "manifests", "file_name": "taken.yaml",
		"updated_content": *encoded("{")}), 400, "not YAML")
	requireRefusal(t, call(t, http.MethodPatch, at, object{"folder": "manifests", "file_name": "taken.yaml",
		"updated_file_name": "taken.json"}), 400, "not JSON")
	requireRefusal(t, call(t, http.MethodGet, at+"/files?folder=openshift&file_name=gone.yaml", nil),
		404, "no manifest gone.yaml")
	requireRefusal(t, call(t, http.MethodGet, at+"/files?folder=openshift", nil), 422, "file_name in query is required")
	requireRefusal(t, call(t, http.MethodGet, at+"/files?folder=etc&file_name=a.yaml", nil),
		422, `folder in query is "etc"`)
	requireRefusal(t, call(t, http.MethodGet, at+"/files?file_name=x%2Fa.yaml", nil), 422, "has a slash")
	requireRefusal(t, call(t, http.MethodDelete, at+"?file_name=.a.yaml", nil), 422, "begins with a dot")
}

func TestManifests_unknownClusterIs404(t *testing.T) {
	d := startAppliance(t)
	folder, name := "openshift", "a.yaml"
	_, err := d.addManifest(missingID(), folder, name, "a: 1")
	refused(t, err, 404)
	_, err = d.Manifests.V2UpdateClusterManifest(t.Context(),
		&manifests.V2UpdateClusterManifestParams{ClusterID: missingID(),
			UpdateManifestParams: &models.UpdateManifestParams{Folder: folder, FileName: name}})
	refused(t, err, 404)
	_, err = d.Manifests.V2ListClusterManifests(t.Context(),
		&manifests.V2ListClusterManifestsParams{ClusterID: missingID()})
	refused(t, err, 404)
	_, err = d.manifest(missingID(), folder, name)
	refused(t, err, 404)
	_, err = d.Manifests.V2DeleteClusterManifest(t.Context(),
		&manifests.V2DeleteClusterManifestParams{ClusterID: missingID(), FileName: name})
	refused(t, err, 404)
}
