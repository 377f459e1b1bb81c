package record

import (
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/fault"
)

func TestHost_updatesByState(t *testing.T) {
	const nothing, labels, everything = "nothing", "labels", "everything"
	allowed := map[string]string{
		lifecycle.HostDiscoveringUnbound: everything, lifecycle.HostInsufficientUnbound: everything,
		lifecycle.HostDisconnectedUnbound: everything, lifecycle.HostKnownUnbound: everything,
		lifecycle.HostDisabledUnbound: everything, lifecycle.HostBinding: everything,
		lifecycle.HostDiscovering: everything, lifecycle.HostPendingForInput: everything,
		lifecycle.HostInsufficient: everything, lifecycle.HostDisconnected: everything,
		lifecycle.HostKnown: everything, lifecycle.HostDisabled: everything, lifecycle.HostUnbinding: everything,
		lifecycle.HostPreparing: nothing, lifecycle.HostPrepared: nothing, lifecycle.HostInstalling: nothing,
		lifecycle.HostInstallingInProgress: nothing, lifecycle.HostPendingUserAction: nothing,
		lifecycle.HostInstalled: nothing, lifecycle.HostPreparingFailed: labels, lifecycle.HostAdded: labels,
		lifecycle.HostFailed: labels, lifecycle.HostCancelled: labels, lifecycle.HostResetting: labels,
		lifecycle.HostResettingPendingUserAction: labels, lifecycle.HostUnbindingPendingUserAction: labels,
		lifecycle.HostReclaiming: labels, lifecycle.HostReclaimingRebooting: labels,
	}
	id := strfmt.UUID("6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31")
	disk := conv.Pointer("/dev/disk/by-id/a")
	for _, state := range lifecycle.StateNames(lifecycle.HostStates()) {
		t.Run(state, func(t *testing.T) {
			h := &Host{API: models.Host{ID: &id, Status: &state}}
			check := func(permitted bool, params *models.HostUpdateParams) {
				t.Helper()
				err := h.CheckUpdate("node-1", params)
				if permitted {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, "can't be changed now")
				require.Equal(t, fault.Conflict, fault.KindOf(err))
			}
			check(allowed[state] != nothing, &models.HostUpdateParams{NodeLabels: []*models.NodeLabelParams{}})
			for _, params := range []*models.HostUpdateParams{
				{HostName: conv.Pointer("node-2")}, {HostRole: conv.Pointer("worker")},
				{DisksSelectedConfig: []*models.DiskConfigParams{{ID: disk}}},
				{DisksSkipFormatting: []*models.DiskSkipFormattingParams{{DiskID: disk}}},
			} {
				check(allowed[state] == everything, params)
			}
		})
	}
}
