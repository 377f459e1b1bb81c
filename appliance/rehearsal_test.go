package appliance_test

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall/appliance/rehearsal"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

// rehearse rehearses the installation of a cluster and returns the report.
func (c *connection) rehearse(t *testing.T, cluster string, wanted object) *rehearsal.Rehearsal {
	t.Helper()
	path := "/api/landfall/v1/clusters/" + cluster + "/rehearsals"
	report := new(rehearsal.Rehearsal)
	c.call(t, http.MethodPost, path, wanted).read(t, http.StatusAccepted, report)
	requireRefusal(t, c.call(t, http.MethodPost, path, wanted), http.StatusConflict,
		"is already running; wait until it has ended")
	eventuallySlow(t, "the rehearsal ends", func() bool {
		now := new(rehearsal.Rehearsal)
		c.call(t, http.MethodGet, path+"/"+report.ID, nil).read(t, http.StatusOK, now)
		report = now
		return report.State == "done"
	})
	return report
}

// stepsOf returns the steps of a rehearsal with their results. It omits the step "site", whose
// result depends on the machine.
func stepsOf(report *rehearsal.Rehearsal) string {
	var steps []string
	for _, step := range report.Steps[1:] {
		steps = append(steps, step.Name+" "+step.Result)
	}
	return strings.Join(steps, ", ")
}

func TestRehearsal_leavesNothing(t *testing.T) {
	openAndAuthenticated(t, func(t *testing.T, s *site) { rehearseTwice(t, s, s.throughProxy(t)) })
}

func rehearseTwice(t *testing.T, s *site, g *registryProxy) {
	c := s.connect(t)
	id := c.create(t, "/clusters", s.newCluster("stage").with(object{
		"control_plane_count": 3, "api_vips": []object{{"ip": "192.168.100.10"}},
		"ingress_vips": []object{{"ip": "192.168.100.11"}},
	}))
	p := &plantedSecrets{T: t}
	require.Equal(t, http.StatusCreated, c.call(t, http.MethodPatch, apiPath+"/clusters/"+id+"/install-config",
		`"{\"fips\": true, \"proxy\": {\"httpProxy\": \"http://user:`+p.secret("proxy")+
			`@proxy.site.test:3128\"}}"`).status)
	manifest := "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: " + p.secret("manifest") + "}\n"
	require.Equal(t, http.StatusCreated, c.call(t, http.MethodPost, apiPath+"/clusters/"+id+"/manifests", object{
		"folder": "manifests", "file_name": "secret.yaml",
		"content": base64.StdEncoding.EncodeToString([]byte(manifest))}).status)
	requireNoSecrets := func(report *rehearsal.Rehearsal) {
		text, err := json.Marshal(report)
		require.NoError(t, err)
		p.requireNone("the report", text)
	}
	readState := func() (string, *models.Cluster) {
		return c.events(t, "cluster_id="+id), c.cluster(t, id)
	}
	eventsBefore, before := readState()

	report := c.rehearse(t, id, object{"control_planes": 3, "workers": 1})
	require.Equal(t, "site", report.Steps[0].Name)
	require.Equal(t, "description proven, discovery image proven, hosts proven, mirror proven, openshift-install "+
		"proven, generated files proven, installation proven", stepsOf(report), report.Steps)
	require.Equal(t, "4 hosts, by numbers", report.Shape)
	requireNoSecrets(report)
	require.Contains(t, report.Steps[6].Message, "7 ignition configs are valid")

	_, etcd, _ := strings.Cut(s.release.Images["etcd"], "@")
	g.setHandler(respondNotFound("/manifests/"+etcd, "MANIFEST_UNKNOWN"))
	report = c.rehearse(t, id, object{})
	requireNoSecrets(report)
	require.False(t, report.Passed)
	require.Equal(t, "description proven, discovery image proven, hosts proven, mirror failed", stepsOf(report))
	require.Contains(t, report.Steps[4].Message, "1 of 13 images are not available")
	require.Contains(t, report.Steps[4].Advice, "landfall mirror prove --cluster "+id)

	eventsAfter, after := readState()
	require.Equal(t, eventsBefore, eventsAfter)
	require.Equal(t, before, after)
	_, err := os.Stat(filepath.Join(s.config.DataDir, "rehearsals"))
	require.ErrorIs(t, err, os.ErrNotExist)
	requireRefusal(t, c.call(t, http.MethodPost, "/api/landfall/v1/clusters/none/rehearsals", object{}),
		http.StatusNotFound, "There is no cluster none")
	requireRefusal(t, c.call(t, http.MethodPost, "/api/landfall/v1/clusters/"+id+"/rehearsals",
		object{"workers": 300}), http.StatusBadRequest, "1 to 200 hosts")
	for _, wrong := range []struct {
		workers int
		problem string
	}{{-1, "role worker is -1; expected 0 to 200"}, {201, "1 to 200 hosts"}, {math.MaxInt, "1 to 200 hosts"}} {
		requireRefusal(t, c.call(t, http.MethodPost, "/api/landfall/v1/clusters/"+id+"/rehearsals",
			object{"workers": wrong.workers}), http.StatusBadRequest, wrong.problem)
	}
	requireRefusal(t, c.call(t, http.MethodPost, "/api/landfall/v1/clusters/"+id+"/rehearsals",
		object{"control_planes": 1}), http.StatusBadRequest, "has 3 control-plane nodes, not 1")
	requireRefusal(t, c.call(t, http.MethodGet, "/api/landfall/v1/clusters/"+id+"/rehearsals/none", nil),
		http.StatusNotFound, "The rehearsal none")
}
