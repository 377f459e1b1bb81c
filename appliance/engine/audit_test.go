package engine

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/engine/audit"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/store"
)

func TestAuditor_installationHasNoViolation(t *testing.T) {
	b := newHarness(t)
	b.auditor = audit.New()
	cluster, _ := b.installed()
	b.pass(time.Hour)
	_, err := b.AllowAddHosts(t.Context(), cluster)
	require.NoError(t, err)
	require.Nil(t, b.sweep())
	require.NoError(t, b.DeregisterCluster(t.Context(), cluster, false))
	require.Nil(t, b.sweep())
	require.Greater(t, b.auditor.Checked(), 200)
}

func TestAuditor_findsEachViolation(t *testing.T) {
	other := "11111111-2222-4333-8444-555555555555"
	type site struct {
		*harness
		cluster string
		h       *testHost
	}
	host := func(tx *store.Tx, s site, change func(*record.Host)) error {
		h, err := record.Hosts.Get(tx, s.h.env+"/"+s.h.id)
		if err != nil {
			return err
		}
		change(h)
		return record.Hosts.Put(tx, s.h.env+"/"+s.h.id, h)
	}
	for name, c := range map[string]struct {
		damage    func(tx *store.Tx, s site) error
		invariant string
	}{
		"a host in two clusters": {func(tx *store.Tx, s site) error {
			return record.ClusterHosts.Add(tx, other+"/"+s.h.env+"/"+s.h.id)
		}, audit.Membership},
		"a host missing in its cluster's list": {func(tx *store.Tx, s site) error {
			return record.ClusterHosts.Remove(tx, s.cluster+"/"+s.h.env+"/"+s.h.id)
		}, audit.Membership},
		"a host in two infra-envs": {func(tx *store.Tx, s site) error {
			return record.HostInfraEnvs.Add(tx, s.h.id+"/"+other)
		}, audit.Membership},
		"unknown state": {func(tx *store.Tx, s site) error {
			return host(tx, s, func(h *record.Host) { h.API.Status = conv.Pointer("lost") })
		}, audit.Events},
		"a state without an event": {func(tx *store.Tx, s site) error {
			return host(tx, s, func(h *record.Host) { h.API.Status = conv.Pointer(lifecycle.HostFailed) })
		}, audit.Events},
		"a missing deadline": {func(tx *store.Tx, s site) error {
			return record.StateDeadlines.Clear(tx,
				record.HostDeadline(s.h.env+"/"+s.h.id))
		}, audit.Deadline},
		"a late deadline": {func(tx *store.Tx, s site) error {
			return record.StateDeadlines.Set(tx, record.HostDeadline(s.h.env+"/"+s.h.id), s.clock.Now().Add(time.Hour))
		}, audit.Deadline},
		"an unhandled deadline": {func(tx *store.Tx, s site) error {
			return record.StateDeadlines.Set(tx, record.HostDeadline(s.h.env+"/"+s.h.id), s.clock.Now().Add(-time.Hour))
		}, audit.Deadline},
		"a deadline without object": {func(tx *store.Tx, s site) error {
			return record.StateDeadlines.Set(tx, record.ClusterDeadline(other), s.clock.Now().Add(time.Hour))
		}, audit.Remains},
		"a preparation in the wrong state": {func(tx *store.Tx, s site) error {
			return record.PendingPreparations.Add(tx, s.cluster)
		},
			audit.Exit},
		"a report without host": {func(tx *store.Tx, s site) error {
			report := json.RawMessage(`"{}"`)
			return record.Reports.Put(tx, s.h.env+"/"+other+"/inventory", &report)
		}, audit.Remains},
		"an index entry of an infra-env without cluster": {func(tx *store.Tx, s site) error {
			return record.ClusterInfraEnvs.Add(tx, other+"/"+s.h.env)
		}, audit.Remains},
		"an index entry without host": {func(tx *store.Tx, s site) error {
			return record.HostInfraEnvs.Add(tx, other+"/"+s.h.env)
		}, audit.Remains},
		"an image code without infra-env": {func(tx *store.Tx, s site) error {
			return record.ImageCodes.Add(tx, "abcdefghijklmnop/"+other)
		}, audit.IDs},
		"outbox entry of an event that did not happen": {func(tx *store.Tx, s site) error {
			held, err := outbox.DesiredRows.Get(tx, s.cluster)
			if err != nil {
				return err
			}
			held.Phase = outbox.Active
			return outbox.PutDesired(tx, s.cluster, held)
		}, audit.Outbox},
		"a missing outbox entry": {func(tx *store.Tx, s site) error {
			return outbox.DesiredRows.Delete(tx, s.cluster)
		},
			audit.Outbox},
		"a duplicate id": {func(tx *store.Tx, s site) error {
			row, err := record.Clusters.Get(tx, s.cluster)
			if err != nil {
				return err
			}
			row.API.OpenshiftClusterID = strfmt.UUID(s.h.id)
			return record.Clusters.Put(tx, s.cluster, row)
		}, audit.IDs},
	} {
		t.Run(name, func(t *testing.T) {
			b := newHarness(t)
			b.auditor = audit.New()
			cluster, env := b.singleNode()
			s := site{b, cluster, b.host(env, 1)}
			require.Nil(t, b.sweep())
			require.NoError(t, b.options.DB.Update(t.Context(), func(tx *store.Tx) error { return c.damage(tx, s) }))
			found := b.sweep()
			require.NotNil(t, found)
			require.Equal(t, c.invariant, found.Invariant, found.Error())
			require.False(t, strings.Contains(found.Error(), "\n"), "one line")
			require.Same(t, found, b.auditor.Violation(), "the first violation is kept")
		})
	}
}

func TestAuditor_eachStateHasAnExit(t *testing.T) {
	b := newHarness(t)
	site := audit.Site{Engine: b.Engine, DB: b.options.DB, Now: b.clock.Now}
	for _, name := range lifecycle.StateNames(lifecycle.HostStates()) {
		if name == lifecycle.HostInstallingInProgress {
			continue // covered by its stage: see TestLifecycles
		}
		by, waitsFor := audit.HostExit(site, &models.Host{Status: &name})
		require.True(t, !by.IsZero() || waitsFor != "", "host state %s", name)
	}
	for _, name := range lifecycle.StateNames(lifecycle.ClusterStates()) {
		by, waitsFor := audit.ClusterExit(site, &models.Cluster{Status: &name})
		require.True(t, !by.IsZero() || waitsFor != "", "cluster state %s", name)
	}
}
