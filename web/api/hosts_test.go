package api_test

import (
	"net/http"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/web/api"
)

func TestUpdateHost_refusedByItsObject(t *testing.T) {
	s := newServed(t, func(service *api.Service) {
		service.CheckHostUpdate = func(infraEnvID, hostID string, params *models.HostUpdateParams) error {
			if *params.HostName == "refused" {
				return fault.New(fault.Conflict, "%s/%s has an owner.", infraEnvID, hostID)
			}
			return nil
		}
	})
	const path = "/v2/infra-envs/00000000-0000-0000-0000-000000000001/hosts/00000000-0000-0000-0000-000000000002"
	require.Contains(t, string(s.patch(path, map[string]any{"host_name": "refused"}, http.StatusConflict)),
		"00000000-0000-0000-0000-000000000001/00000000-0000-0000-0000-000000000002 has an owner.")
	s.patch(path, map[string]any{"host_name": "accepted"}, http.StatusNotFound)
}
