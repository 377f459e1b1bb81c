package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/web/api"
)

// owned refuses the changes of hosts to some values.
type owned struct{}

func (owned) refuse(infraEnvID, hostID string, refused bool) error {
	if refused {
		return fault.New(fault.Conflict, "%s/%s has an owner.", infraEnvID, hostID)
	}
	return nil
}

func (o owned) CheckUpdate(infraEnvID, hostID string, params *models.HostUpdateParams) error {
	return o.refuse(infraEnvID, hostID, *params.HostName == "refused")
}

func (o owned) CheckIgnition(infraEnvID, hostID, override string) error {
	return o.refuse(infraEnvID, hostID, override == "{}")
}

func (o owned) CheckInstallerArgs(infraEnvID, hostID string, args []string) error {
	return o.refuse(infraEnvID, hostID, len(args) == 1)
}

func (o owned) CheckBinding(infraEnvID, hostID, clusterID string) error {
	return o.refuse(infraEnvID, hostID, clusterID == "" || clusterID == refusedCluster)
}

const refusedCluster = "00000000-0000-0000-0000-000000000003"

func TestHostChanges_refusedByItsObject(t *testing.T) {
	s := newServed(t, func(service *api.Service) { service.HostChanges = owned{} })
	const path = "/v2/infra-envs/00000000-0000-0000-0000-000000000001/hosts/00000000-0000-0000-0000-000000000002"
	for name, c := range map[string]struct {
		method, path      string
		refused, accepted any // accepted: nil if all are refused
	}{
		"update": {http.MethodPatch, "", map[string]any{"host_name": "refused"},
			map[string]any{"host_name": "accepted"}},
		"ignition": {http.MethodPatch, "/ignition", map[string]any{"config": "{}"}, map[string]any{"config": ""}},
		"arguments": {http.MethodPatch, "/installer-args", map[string]any{"args": []string{"-n"}},
			map[string]any{"args": nil}},
		"bind": {http.MethodPost, "/actions/bind", map[string]any{"cluster_id": refusedCluster},
			map[string]any{"cluster_id": "00000000-0000-0000-0000-000000000004"}},
		"unbind": {http.MethodPost, "/actions/unbind", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			send := func(body any) *httptest.ResponseRecorder {
				text, err := json.Marshal(body)
				require.NoError(t, err)
				return s.send(c.method, path+c.path, nil, text)
			}
			refused := send(c.refused)
			require.Equal(t, http.StatusConflict, refused.Code, refused.Body)
			require.Contains(t, refused.Body.String(),
				"00000000-0000-0000-0000-000000000001/00000000-0000-0000-0000-000000000002 has an owner.")
			if c.accepted != nil {
				require.Equal(t, http.StatusNotFound, send(c.accepted).Code)
			}
		})
	}
}
