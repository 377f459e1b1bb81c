package appliance_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/kube/acm"
	"landfall/appliance/kube/apply"
)

// singleNodeDirectory writes the manifests of a single node as a kustomization.
func (d *hub) singleNodeDirectory(t *testing.T, bmc string) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join("testdata", "sites", "single-node.yaml"))
	require.NoError(t, err)
	var filled bytes.Buffer
	require.NoError(t, template.Must(template.New("site").Parse(string(text))).Execute(&filled,
		siteValues{bmc, pullSecret}))
	for name, text := range map[string]string{
		"site.yaml": filled.String(),
		"base.yaml": "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: sno1\n---\napiVersion: " +
			"hive.openshift.io/v1\nkind: ClusterImageSet\nmetadata:\n  name: openshift-release\nspec:\n  " +
			"releaseImage: to be patched\n",
		"kustomization.yaml": "resources: [site.yaml, base.yaml]\npatches:\n- target: {kind: ClusterImageSet}\n  " +
			"patch: '[{\"op\": \"replace\", \"path\": \"/spec/releaseImage\", \"value\": \"" + d.release.Release +
			"\"}]'\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func (d *hub) kubernetes() *apply.Server {
	return &apply.Server{URL: d.address, Token: d.token, HTTP: d.trusted}
}

// applied applies objects, all of which must be accepted, and counts the results.
func (d *hub) applied(t *testing.T, list []*apply.Object, options apply.Options) map[string]int {
	t.Helper()
	results := map[string]int{}
	require.NoError(t, apply.Apply(t.Context(), d.kubernetes(), list, options, func(o apply.Result) {
		require.NoError(t, o.Err, o.Object)
		results[o.Text]++
	}))
	return results
}

// stableFiles returns a directory's files without those that contain the last state of a host.
func stableFiles(f *acm.Directory) map[string]string {
	files := map[string]string{}
	for _, file := range f.Files {
		if !strings.HasPrefix(file.Name, "baremetalhost-") {
			files[file.Name] = string(file.Data)
		}
	}
	return files
}

// TestManifestsOfSite_applyInstallTakeOver manages a site with the landfall command in place of
// kubectl.
func TestManifestsOfSite_applyInstallTakeOver(t *testing.T) {
	openAndAuthenticated(t, manageSite)
}

func manageSite(t *testing.T, s *site) {
	d := s.openHub(t)
	server := newMachine(t, "dell-idrac9", "sno1", "94:40:c9:1f:bf:64")
	read, err := apply.Read(apply.Sources{Paths: []string{d.singleNodeDirectory(t, server.address)}})
	require.NoError(t, err)
	list, all := read.Objects, len(read.Objects)
	require.Equal(t, map[string]int{apply.Created: all}, d.applied(t, list, apply.Options{DryRun: true}))
	missing, err := apply.Missing(t.Context(), d.kubernetes(), list, apply.Options{})
	require.NoError(t, err)
	require.Empty(t, missing)
	require.Equal(t, map[string]int{apply.Created: all}, d.applied(t, list, apply.Options{}))
	_, err = acm.Export(t.Context(), d.kubernetes(), "sno1", acm.Options{})
	require.ErrorContains(t, err, "the cluster sno1 is not installed")

	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	var last apply.State
	require.NoError(t, apply.Follow(ctx, d.kubernetes(), clockwork.NewRealClock(), list, apply.Options{},
		func(s apply.State) { last = s }))
	require.Equal(t, apply.State{Percent: 100, Text: "sno1: The installation has completed: Cluster is installed"},
		last)
	d.wait(t, "sno1", "clusterdeployment/sno1", "jsonpath={.spec.installed}=true")
	d.wait(t, "sno1", "baremetalhost/sno1", "jsonpath={.status.operationalStatus}=detached")
	require.Equal(t, map[string]int{apply.Unchanged: all}, d.applied(t, list, apply.Options{}),
		"applying again does not conflict with the installation")

	whole := acm.Options{PullSecret: true, BMCCredentials: true}
	directory, err := acm.Export(t.Context(), d.kubernetes(), "sno1", whole)
	require.NoError(t, err)
	require.Empty(t, directory.LeftOut)
	archive := filepath.Join(t.TempDir(), "sno1.tar")
	require.NoError(t, directory.Write(archive, time.Now()))

	other := newSite(t).openHub(t)
	brought, err := acm.Read(archive)
	require.NoError(t, err)
	chosen, notes, err := acm.Adoption(brought.Objects)
	require.NoError(t, err)
	require.Empty(t, notes)
	other.applied(t, chosen, apply.Options{})
	eventually(t, "the other appliance can add hosts to the cluster", func() bool {
		var clusters []models.Cluster
		other.call(t, http.MethodGet, apiPath+"/clusters", nil).read(t, 200, &clusters)
		return len(clusters) == 1 && *clusters[0].Status == models.ClusterStatusAddingHosts
	})
	again, err := acm.Export(t.Context(), other.kubernetes(), "sno1", whole)
	require.NoError(t, err)
	require.Equal(t, stableFiles(directory), stableFiles(again))

	require.NoError(t, apply.Delete(t.Context(), d.kubernetes(), list, apply.Options{},
		func(o apply.Result) { require.NoError(t, o.Err) }))
	require.NoError(t, apply.AwaitGone(ctx, d.kubernetes(), clockwork.NewRealClock(), list, apply.Options{}))
	eventually(t, "the cluster and its objects are deleted", func() bool {
		var clusters []models.Cluster
		d.call(t, http.MethodGet, apiPath+"/clusters", nil).read(t, 200, &clusters)
		return len(clusters) == 0
	})
}
