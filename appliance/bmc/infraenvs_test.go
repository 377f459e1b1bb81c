package bmc

import (
	"errors"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/kube/kubetest"
	"landfall/store"
)

// Only a host that booted the image again is restarted from its disk. A host that takes long for
// its reboot waits in the same state.
func TestInfraEnvs_wrongBoot(t *testing.T) {
	const hostID = "0a5d0f3e-0000-4000-8000-000000000002"
	s := kubetest.New(t)
	s.OpenEngine(engine.Options{Releases: struct{ engine.Releases }{}})
	infraEnvs := NewInfraEnvs(s.Engine, nil, nil)
	for info, wrong := range map[string]bool{
		lifecycle.WrongBootOrder + ". Set its boot order to the disk and restart it.": true,
		lifecycle.RebootTimedOut + " the configuration files from its cluster.":       false,
	} {
		id := strfmt.UUID(hostID)
		h := &record.Host{API: models.Host{ID: &id, InfraEnvID: infraEnv, StatusInfo: &info,
			Status:   new(models.HostStatusInstallingPendingUserAction),
			Progress: &models.HostProgressInfo{CurrentStage: models.HostStageRebooting}}}
		s.Update(func(tx *store.Tx) error {
			return errors.Join(record.Hosts.Put(tx, record.HostKey(h), h),
				record.PutReport(tx, record.HostKey(h), "inventory", `{"hostname": "edge-0", "cpu": {}, "memory": {}}`))
		})
		host, found, err := infraEnvs.Host(HostRef{infraEnv, hostID})
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, wrong, host.WrongBoot, info)
	}
}
