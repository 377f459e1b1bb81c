package bmc

import (
	"errors"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/kube/kubetest"
	"landfall/store"
)

const hostID = "0a5d0f3e-0000-4000-8000-000000000002"

// storedHost stores a host with an inventory and returns what a manager reads of it.
func storedHost(t *testing.T, s *kubetest.Site, api models.Host) Host {
	t.Helper()
	id := strfmt.UUID(hostID)
	api.ID, api.InfraEnvID = &id, infraEnv
	h := &record.Host{API: api}
	s.Update(func(tx *store.Tx) error {
		return errors.Join(record.Hosts.Put(tx, record.HostKey(h), h),
			record.PutReport(tx, record.HostKey(h), "inventory", `{"hostname": "edge-0", "cpu": {}, "memory": {}}`))
	})
	host, found, err := NewInfraEnvs(s.Engine, nil, nil).Host(HostRef{infraEnv, hostID})
	require.NoError(t, err)
	require.True(t, found)
	return host
}

// Only a host that booted the image again is restarted from its disk. A host that takes long for
// its reboot waits in the same state.
func TestInfraEnvs_wrongBoot(t *testing.T) {
	s := kubetest.New(t)
	s.OpenEngine(engine.Options{Releases: struct{ engine.Releases }{}})
	for info, wrong := range map[string]bool{
		lifecycle.WrongBootOrder + ". Set its boot order to the disk and restart it.": true,
		lifecycle.RebootTimedOut + " the configuration files from its cluster.":       false,
	} {
		host := storedHost(t, s, models.Host{StatusInfo: &info,
			Status:   new(models.HostStatusInstallingPendingUserAction),
			Progress: &models.HostProgressInfo{CurrentStage: models.HostStageRebooting}})
		require.Equal(t, wrong, host.WrongBoot, info)
	}
}

// A host may have been created by a clock that was ahead, and have registered again since.
func TestInfraEnvs_lastRegistration(t *testing.T) {
	s := kubetest.New(t)
	s.OpenEngine(engine.Options{Releases: struct{ engine.Releases }{}})
	created, registered := kubetest.Morning, kubetest.Morning.Add(-time.Hour)
	host := storedHost(t, s, models.Host{Status: new(models.HostStatusKnown), CreatedAt: created,
		RegisteredAt: strfmt.DateTime(registered)})
	require.True(t, registered.Equal(host.Registered), "%s", host.Registered)
	host = storedHost(t, s, models.Host{Status: new(models.HostStatusKnown), CreatedAt: created})
	require.True(t, created.Equal(host.Registered), "%s", host.Registered)
}
