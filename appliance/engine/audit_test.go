package engine

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/engine/lifecycle"
	"landfall/store"
)

func TestTheAuditorFindsNothingInALife(t *testing.T) {
	b := newBench(t)
	a := NewAuditor(b.Engine)
	cluster, _ := b.installed()
	b.pass(time.Hour)
	_, err := b.AllowAddHosts(t.Context(), cluster)
	require.NoError(t, err)
	require.Nil(t, a.Sweep())
	require.NoError(t, b.DeregisterCluster(t.Context(), cluster))
	require.Nil(t, a.Sweep())
	require.Greater(t, a.Checked(), 200)
}

func TestTheAuditorFindsWhatIsWrong(t *testing.T) {
	other := "11111111-2222-4333-8444-555555555555"
	type site struct {
		*bench
		cluster string
		h       *testHost
	}
	host := func(tx *store.Tx, s site, change func(*hostRecord)) error {
		h, err := hostRows.Get(tx, s.h.env+"/"+s.h.id)
		if err != nil {
			return err
		}
		change(h)
		return hostRows.Put(tx, s.h.env+"/"+s.h.id, h)
	}
	for name, c := range map[string]struct {
		spoil     func(tx *store.Tx, s site) error
		invariant string
	}{
		"a host in two clusters": {func(tx *store.Tx, s site) error {
			return clusterHosts.Add(tx,
				other+"/"+s.h.env+"/"+s.h.id)
		}, invariantPlace},
		"a host that its cluster does not list": {func(tx *store.Tx, s site) error {
			return clusterHosts.Remove(tx,
				s.cluster+"/"+s.h.env+"/"+s.h.id)
		}, invariantPlace},
		"a host in two infra-envs": {func(tx *store.Tx, s site) error {
			return hostPlaces.Add(tx,
				s.h.id+"/"+other)
		}, invariantPlace},
		"a state that nobody knows": {func(tx *store.Tx, s site) error {
			return host(tx, s, func(h *hostRecord) { h.API.Status = conv.Pointer("lost") })
		}, invariantEvents},
		"a state without an event": {func(tx *store.Tx, s site) error {
			return host(tx, s, func(h *hostRecord) { h.API.Status = conv.Pointer(lifecycle.HostFailed) })
		}, invariantEvents},
		"a deadline that is lost": {func(tx *store.Tx, s site) error {
			return lifeDeadlines.Clear(tx,
				hostDeadline(s.h.env+"/"+s.h.id))
		}, invariantDeadline},
		"a deadline that is late": {func(tx *store.Tx, s site) error {
			return lifeDeadlines.Set(tx, hostDeadline(s.h.env+"/"+s.h.id), s.clock.Now().Add(time.Hour))
		}, invariantDeadline},
		"a deadline that was not handled": {func(tx *store.Tx, s site) error {
			return lifeDeadlines.Set(tx, hostDeadline(s.h.env+"/"+s.h.id), s.clock.Now().Add(-time.Hour))
		}, invariantDeadline},
		"a deadline of nothing": {func(tx *store.Tx, s site) error {
			return lifeDeadlines.Set(tx, clusterDeadline(other), s.clock.Now().Add(time.Hour))
		}, invariantRemains},
		"a preparation of no state": {func(tx *store.Tx, s site) error { return pendingWork.Add(tx, s.cluster) },
			invariantExit},
		"a report of no host": {func(tx *store.Tx, s site) error {
			report := json.RawMessage(`"{}"`)
			return reportRows.Put(tx, s.h.env+"/"+other+"/inventory", &report)
		}, invariantRemains},
		"an infra-env's place of no cluster": {func(tx *store.Tx, s site) error {
			return clusterEnvs.Add(tx,
				other+"/"+s.h.env)
		}, invariantRemains},
		"a host's place of no host": {func(tx *store.Tx, s site) error {
			return hostPlaces.Add(tx,
				other+"/"+s.h.env)
		}, invariantRemains},
		"a code of no infra-env": {func(tx *store.Tx, s site) error {
			return imageCodes.Add(tx,
				"abcdefghijklmnop/"+other)
		}, invariantIDs},
		"an outbox that tells of what was not": {func(tx *store.Tx, s site) error {
			held, err := outbox.DesiredRows.Get(tx, s.cluster)
			if err != nil {
				return err
			}
			held.Phase = outbox.Active
			return outbox.PutDesired(tx, s.cluster, held)
		}, invariantOutbox},
		"an outbox without the cluster": {func(tx *store.Tx, s site) error { return outbox.DesiredRows.Delete(tx, s.cluster) },
			invariantOutbox},
		"an id of two": {func(tx *store.Tx, s site) error {
			row, err := clusterRows.Get(tx, s.cluster)
			if err != nil {
				return err
			}
			row.API.OpenshiftClusterID = strfmt.UUID(s.h.id)
			return clusterRows.Put(tx, s.cluster, row)
		}, invariantIDs},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			a := NewAuditor(b.Engine)
			cluster, env := b.singleNode()
			s := site{b, cluster, b.host(env, 1)}
			require.Nil(t, a.Sweep())
			require.NoError(t, b.DB.Update(t.Context(), func(tx *store.Tx) error { return c.spoil(tx, s) }))
			found := a.Sweep()
			require.NotNil(t, found)
			require.Equal(t, c.invariant, found.Invariant, found.Error())
			require.False(t, strings.Contains(found.Error(), "\n"), "it is one sentence")
			require.Same(t, found, a.Violation(), "the first is kept")
		})
	}
}

func TestTheAuditorKnowsAnExitOfEachState(t *testing.T) {
	b := newBench(t)
	a := NewAuditor(b.Engine)
	for _, name := range lifecycle.StateNames(lifecycle.HostStates()) {
		h := &hostRecord{}
		h.API.Status, h.API.Progress = conv.Pointer(name), nil
		if name == lifecycle.HostInstallingInProgress {
			continue // by its stage: see the scenarios
		}
		by, waitsFor := a.hostExit(h)
		require.True(t, !by.IsZero() || waitsFor != "", "host state %s", name)
	}
	for _, name := range lifecycle.StateNames(lifecycle.ClusterStates()) {
		row := &clusterRecord{}
		row.API.Status = conv.Pointer(name)
		by, waitsFor := a.clusterExit(row)
		require.True(t, !by.IsZero() || waitsFor != "", "cluster state %s", name)
	}
}
