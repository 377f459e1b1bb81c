package appliance_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/web/console"
)

// rehearse plays the installation of a cluster and returns the report.
func rehearse(t *testing.T, address, cluster string, wanted object) *console.Rehearsal {
	t.Helper()
	path := address + "/api/landfall/v1/clusters/" + cluster + "/rehearsals"
	played := new(console.Rehearsal)
	ask(t, http.MethodPost, path, wanted).read(t, http.StatusAccepted, played)
	requireRefusal(t, ask(t, http.MethodPost, path, wanted), http.StatusConflict, "is under way; wait for its end")
	patiently(t, "the rehearsal ends", func() bool {
		now := new(console.Rehearsal)
		ask(t, http.MethodGet, path+"/"+played.ID, nil).read(t, http.StatusOK, now)
		played = now
		return played.State == "done"
	})
	return played
}

// stepsOf are the steps of a rehearsal with their verdicts, without that of the site, which is
// another on each machine.
func stepsOf(played *console.Rehearsal) string {
	var steps []string
	for _, step := range played.Steps[1:] {
		steps = append(steps, step.Name+" "+step.Verdict)
	}
	return strings.Join(steps, ", ")
}

func TestAnInstallationIsRehearsedAndLeavesNothing(t *testing.T) {
	s, g := newGatedSite(t)
	address, _ := s.start(t)
	id := create(t, address+apiPath+"/clusters", s.newCluster("stage").with(object{
		"control_plane_count": 3, "api_vips": []object{{"ip": "192.168.100.10"}},
		"ingress_vips": []object{{"ip": "192.168.100.11"}},
	}))
	require.Equal(t, http.StatusCreated, ask(t, http.MethodPatch, address+apiPath+"/clusters/"+id+"/install-config",
		`"{\"fips\": true}"`).status)
	look := func() (string, *models.Cluster) {
		var events []models.Event
		ask(t, http.MethodGet, address+apiPath+"/events?cluster_id="+id, nil).read(t, http.StatusOK, &events)
		var told []string
		for _, event := range events {
			told = append(told, *event.Message)
		}
		return strings.Join(told, "\n"), clusterAt(t, address, id)
	}
	eventsBefore, before := look()

	played := rehearse(t, address, id, object{"control_planes": 3, "workers": 1})
	require.Equal(t, "site", played.Steps[0].Name)
	require.Equal(t, "description proven, discovery image proven, hosts proven, mirror proven, openshift-install "+
		"proven, generated files proven, installation proven", stepsOf(played), played.Steps)
	require.Equal(t, "4 hosts, by numbers", played.Shape)
	require.Contains(t, played.Steps[6].Said, "7 ignition configs are valid")

	_, etcd, _ := strings.Cut(s.release.Images["etcd"], "@")
	g.answer(lack("/manifests/"+etcd, "MANIFEST_UNKNOWN"))
	played = rehearse(t, address, id, object{})
	require.False(t, played.Passed)
	require.Equal(t, "description proven, discovery image proven, hosts proven, mirror failed", stepsOf(played))
	require.Contains(t, played.Steps[4].Said, "1 of 13 images can't be had")
	require.Contains(t, played.Steps[4].Do, "landfall mirror prove --cluster "+id)

	eventsAfter, after := look()
	require.Equal(t, eventsBefore, eventsAfter)
	require.Equal(t, before, after)
	_, err := os.Stat(filepath.Join(s.config.DataDir, "rehearsals"))
	require.ErrorIs(t, err, os.ErrNotExist)
	requireRefusal(t, ask(t, http.MethodPost, address+"/api/landfall/v1/clusters/none/rehearsals", object{}),
		http.StatusNotFound, "There is no cluster none")
	requireRefusal(t, ask(t, http.MethodPost, address+"/api/landfall/v1/clusters/"+id+"/rehearsals",
		object{"workers": 300}), http.StatusBadRequest, "1 to 200 hosts")
	requireRefusal(t, ask(t, http.MethodPost, address+"/api/landfall/v1/clusters/"+id+"/rehearsals",
		object{"control_planes": 1}), http.StatusBadRequest, "has 3 control-plane nodes, not 1")
	requireRefusal(t, ask(t, http.MethodGet, address+"/api/landfall/v1/clusters/"+id+"/rehearsals/none", nil),
		http.StatusNotFound, "There is no rehearsal none")
}
