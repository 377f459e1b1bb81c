package appliance_test

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"landfall/appliance/mirror"
	mirrorsite "landfall/appliance/mirror/site"
	"landfall/appliance/simulate"
	"landfall/ignition"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

const mirrorPath = "/api/landfall/v1/mirror"

// importMirror imports a document under a name.
func importMirror(t *testing.T, address, name string, document []byte) (status int, answer string) {
	t.Helper()
	response, err := http.Post(address+mirrorPath+"?name="+name, "application/octet-stream", bytes.NewReader(document))
	require.NoError(t, err)
	var body bytes.Buffer
	_, err = body.ReadFrom(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, body.String()
}

func TestMirrorImport_reachesHostsAndSurvivesRestart(t *testing.T) {
	s := newSite(t)
	rules, err := os.ReadFile(s.config.Mirror.IDMSFiles[0])
	require.NoError(t, err)
	s.config.Mirror.IDMSFiles = nil
	address, stop := s.start(t)

	status, answer := importMirror(t, address, "idms.yaml", rules)
	require.Equal(t, http.StatusOK, status, answer)
	var env models.InfraEnv
	call(t, http.MethodPost, address+apiPath+"/infra-envs", s.newInfraEnv("east")).read(t, http.StatusCreated, &env)
	requireDiscoveryISO(t, env.DownloadURL)
	stop()

	address, _ = s.start(t)
	var model mirrorsite.Model
	call(t, http.MethodGet, address+mirrorPath, nil).read(t, http.StatusOK, &model)
	require.Len(t, model.Rules, 2)
	require.Equal(t, "idms.yaml", model.Imports[0].Name)
	require.Equal(t, http.StatusNoContent, call(t, http.MethodDelete, address+mirrorPath+"/imports/idms.yaml",
		nil).status)
	model = mirrorsite.Model{}
	call(t, http.MethodGet, address+mirrorPath, nil).read(t, http.StatusOK, &model)
	require.Empty(t, model.Rules)
	requireRefusal(t, call(t, http.MethodDelete, address+mirrorPath+"/imports/idms.yaml", nil), http.StatusNotFound,
		"has no import with the name")
}

func TestMirrorImport_contradictionIsRejected(t *testing.T) {
	s := newSite(t)
	rules, err := os.ReadFile(s.config.Mirror.IDMSFiles[0])
	require.NoError(t, err)
	offlineRules := string(rules)
	require.Contains(t, offlineRules, "NeverContactSource")
	address, _ := s.start(t)

	status, answer := importMirror(t, address, "open.yaml", []byte(strings.ReplaceAll(offlineRules,
		"NeverContactSource",
		"AllowContactingSource")))
	require.Equal(t, http.StatusUnprocessableEntity, status, answer)
	require.Contains(t, answer, "use the same policy in both")
	status, answer = importMirror(t, address, "page.html", []byte("<html>not found</html>"))
	require.Equal(t, http.StatusUnprocessableEntity, status, answer)
	var model mirrorsite.Model
	call(t, http.MethodGet, address+mirrorPath, nil).read(t, http.StatusOK, &model)
	require.Empty(t, model.Imports)
}

// A cluster with its own mirror rules is discovered, proven and installed by them.
func TestMirrorImport_rulesOfOneCluster(t *testing.T) {
	s := newSite(t)
	rules, err := os.ReadFile(s.config.Mirror.IDMSFiles[0])
	require.NoError(t, err)
	s.config.Mirror.IDMSFiles = nil
	address, _ := s.start(t)
	id := create(t, address+apiPath+"/clusters", s.newCluster("line"))
	env := create(t, address+apiPath+"/infra-envs", s.newInfraEnv("line").with(object{"cluster_id": id}))
	other := create(t, address+apiPath+"/infra-envs", s.newInfraEnv("other"))

	status, answer := importMirror(t, address, "idms.yaml&cluster_id="+id, rules)
	require.Equal(t, http.StatusOK, status, answer)
	near := "[[registry]]\nlocation = \"quay.io/near\"\n[[registry.mirror]]\nlocation = \"near.example.com/near\"\n"
	status, answer = importMirror(t, address, "near.conf&infra_env_id="+env, []byte(near))
	require.Equal(t, http.StatusOK, status, answer)

	image := s.release.Images["etcd"]
	mirrors := func(query string) int {
		var explained mirror.Explanation
		call(t, http.MethodGet, address+mirrorPath+"/explain?image="+url.QueryEscape(image)+query, nil).read(t,
			http.StatusOK, &explained)
		return len(slices.DeleteFunc(explained.Steps, func(step mirror.Step) bool { return step.Image == image }))
	}
	require.Equal(t, 0, mirrors(""), "only the source")
	require.Equal(t, 1, mirrors("&cluster_id="+id))
	require.Equal(t, 0, mirrors("&infra_env_id="+other))
	require.Contains(t, discoveryRegistries(t, address, env), "quay.io/openshift-release-dev/ocp-release")
	require.Contains(t, discoveryRegistries(t, address, env), "near.example.com/near")
	requireRefusal(t, call(t, http.MethodGet, address+mirrorPath+"?cluster_id="+id+"&infra_env_id="+env, nil),
		http.StatusBadRequest, "not both")
	status, answer = importMirror(t, address, "idms.yaml&cluster_id=00000000-0000-4000-8000-000000000000", rules)
	require.Equal(t, http.StatusNotFound, status, answer)

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- (&simulate.HostGroup{URL: address, InfraEnvID: env, Count: 1, Speed: 1000}).Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	pressInstall(t, address, id)
	requireStatus(t, address, id, models.ClusterStatusInstalled)
	var events []models.Event
	call(t, http.MethodGet, address+apiPath+"/events?cluster_id="+id, nil).read(t, http.StatusOK, &events)
	require.True(t, slices.ContainsFunc(events, func(e models.Event) bool {
		return strings.Contains(*e.Message,
			"The mirror holds all")
	}), "the proof used the cluster's rules")
	config := call(t, http.MethodGet, address+apiPath+"/clusters/"+id+"/downloads/files?file_name=install-config.yaml",
		nil)
	require.Contains(t, string(config.body), `"source": "quay.io/openshift-release-dev/ocp-release"`)

	var model mirrorsite.Model
	call(t, http.MethodGet, address+mirrorPath, nil).read(t, http.StatusOK, &model)
	require.Empty(t, model.Rules, "the appliance has no rules")
	require.Len(t, model.Imports, 2)
	require.Equal(t, id, model.Imports[0].Cluster)
	require.Equal(t, http.StatusNoContent, call(t, http.MethodDelete, address+apiPath+"/clusters/"+id, nil).status)
	eventually(t, "the rules of the deleted cluster and of its infra-env are deleted", func() bool {
		model = mirrorsite.Model{}
		call(t, http.MethodGet, address+mirrorPath, nil).read(t, http.StatusOK, &model)
		return len(model.Imports) == 0
	})
}

// discoveryRegistries returns the registries.conf in an infra-env's discovery config.
func discoveryRegistries(t *testing.T, address, infraEnv string) string {
	t.Helper()
	got := call(t, http.MethodGet, address+apiPath+"/infra-envs/"+infraEnv+"/downloads/files?file_name=discovery.ign",
		nil)
	require.Equal(t, http.StatusOK, got.status, "%s", got.body)
	read, err := ignition.ReadDiscovery(got.body)
	require.NoError(t, err)
	return string(read.RegistriesConf)
}
