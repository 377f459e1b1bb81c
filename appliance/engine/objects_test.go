package engine

import (
	"errors"
	"testing"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/appliance/fault"
	"landfall/store"
)

// recordingProjector records the changes that it is called with. If inspect is set, it is called
// during the transaction.
type recordingProjector struct {
	touched []Touched
	failure error
	inspect func(Touched) error
}

func (p *recordingProjector) Project(_ *store.Tx, touched Touched) error {
	if p.inspect != nil {
		if err := p.inspect(touched); err != nil {
			return err
		}
	}
	if p.failure == nil {
		p.touched = append(p.touched, touched)
	}
	return p.failure
}

func (p *recordingProjector) last() Touched { return p.touched[len(p.touched)-1] }

func (b *harness) rows(read func(view.Rows)) {
	b.Helper()
	require.NoError(b, b.options.DB.View(func(tx *store.Tx) error { read(b.Rows(tx)); return nil }))
}

func TestProjector_seesEachUncommittedChange(t *testing.T) {
	b := newHarness(t)
	p := &recordingProjector{}
	b.options.Projector = p
	p.inspect = func(touched Touched) error {
		for _, row := range touched.Clusters {
			if row.Deleted {
				_, err := touched.Rows.Cluster(row.ID)
				require.Equal(t, fault.NotFound, fault.KindOf(err))
				continue
			}
			view, err := touched.Rows.Cluster(row.ID)
			require.NoError(t, err)
			require.Equal(t, row.Object, view.Object)
		}
		return nil
	}
	cluster, env := b.singleNode()
	require.Equal(t, []TouchedRow{{ID: cluster}}, p.touched[0].Clusters)
	require.Equal(t, []TouchedRow{{ID: env}}, p.last().InfraEnvs)
	h := b.host(env, 1)
	h.require(lifecycle.HostKnown)
	require.Equal(t, []TouchedRow{{ID: env + "/" + h.id}}, p.last().Hosts)
	require.Equal(t, []TouchedRow{{ID: cluster}}, p.last().Clusters, "a change of a host also touches its cluster")

	require.NoError(t, b.DeregisterCluster(t.Context(), cluster, false))
	require.Equal(t, []TouchedRow{{ID: cluster, Deleted: true}}, p.last().Clusters)
	require.Equal(t, []TouchedRow{{ID: env, Deleted: true}}, p.last().InfraEnvs)
	require.Equal(t, []TouchedRow{{ID: env + "/" + h.id, Deleted: true}}, p.last().Hosts)
}

func TestProjector_failureRollsBack(t *testing.T) {
	b := newHarness(t)
	b.options.Projector = &recordingProjector{failure: errors.New("the disk is full")}
	_, err := b.RegisterCluster(t.Context(), &models.ClusterCreateParams{
		Name: conv.Pointer("bench"), BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20.8"),
		PullSecret: conv.Pointer(testPullSecret),
	}, record.Object{Key: "site/bench"})
	require.ErrorContains(t, err, "the disk is full")
	b.rows(func(rows view.Rows) {
		ids, err := rows.ClusterIDs()
		require.NoError(t, err)
		require.Empty(t, ids)
		id, err := rows.ClusterOf("site/bench")
		require.NoError(t, err)
		require.Empty(t, id)
	})
}

func TestObjects_foundByKey(t *testing.T) {
	b := newHarness(t)
	p := &recordingProjector{}
	b.options.Projector = p
	created, err := b.RegisterCluster(t.Context(), &models.ClusterCreateParams{
		Name: conv.Pointer("bench"), BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20.8"),
		PullSecret:        conv.Pointer(testPullSecret),
		ControlPlaneCount: conv.Pointer[int64](1),
	}, record.Object{Key: "site/bench", Generation: 1})
	require.NoError(t, err)
	id := created.ID.String()
	_, err = b.UpdateCluster(t.Context(), id, &models.V2ClusterUpdateParams{Tags: conv.Pointer("a")},
		record.Object{Generation: 2, Digest: "d"})
	require.NoError(t, err)
	env, err := b.RegisterInfraEnv(t.Context(), &models.InfraEnvCreateParams{
		Name: conv.Pointer("bench"), ClusterID: created.ID, PullSecret: conv.Pointer(testPullSecret),
		OpenshiftVersion: "4.20.8",
	}, record.Object{Key: "site/env", Generation: 7})
	require.NoError(t, err)
	_, err = b.UpdateInfraEnv(t.Context(), env.ID.String(), &models.InfraEnvUpdateParams{},
		record.Object{Generation: 8})
	require.NoError(t, err, "an object is recorded even if nothing else changes")
	h := b.host(env.ID.String(), 1)
	_, err = b.UpdateHost(t.Context(), h.env, h.id, &models.HostUpdateParams{HostName: conv.Pointer("one")},
		record.Object{Key: "site/" + h.id, Generation: 3})
	require.NoError(t, err)

	b.rows(func(rows view.Rows) {
		found, err := rows.ClusterOf("site/bench")
		require.NoError(t, err)
		require.Equal(t, id, found)
		view, err := rows.Cluster(id)
		require.NoError(t, err)
		require.Equal(t, record.Object{Key: "site/bench", Generation: 2, Digest: "d"}, view.Object)
		secret, err := rows.ClusterPullSecret(view)
		require.NoError(t, err)
		require.Equal(t, testPullSecret, secret)

		found, err = rows.InfraEnvOf("site/env")
		require.NoError(t, err)
		require.Equal(t, env.ID.String(), found)
		infraEnv, err := rows.InfraEnv(found)
		require.NoError(t, err)
		require.Equal(t, record.Object{Key: "site/env", Generation: 8}, infraEnv.Object)

		found, err = rows.HostOf("site/" + h.id)
		require.NoError(t, err)
		require.Equal(t, h.env+"/"+h.id, found)
		host, err := rows.Host(found)
		require.NoError(t, err)
		require.Equal(t, record.Object{Key: "site/" + h.id, Generation: 3}, host.Object)
		require.Equal(t, "one", host.Named)
		require.NotEmpty(t, host.Inventory)
	})

	require.NoError(t, b.options.DB.Update(t.Context(), func(tx *store.Tx) error {
		return record.NoteClusterObject(tx, id, record.Object{Key: "other/bench"})
	}))
	b.rows(func(rows view.Rows) {
		found, err := rows.ClusterOf("site/bench")
		require.NoError(t, err)
		require.Empty(t, found, "the former key was removed")
	})

	require.NoError(t, b.DeregisterCluster(t.Context(), id, false))
	require.Equal(t, record.Object{Key: "other/bench"}, p.last().Clusters[0].Object,
		"the projector gets the object of a deleted row")
	require.Equal(t, "site/env", p.last().InfraEnvs[0].Object.Key)
	require.Equal(t, "site/"+h.id, p.last().Hosts[0].Object.Key)
	b.rows(func(rows view.Rows) {
		for _, of := range []func(string) (string, error){rows.ClusterOf, rows.InfraEnvOf, rows.HostOf} {
			for _, key := range []string{"other/bench", "site/env", "site/" + h.id} {
				found, err := of(key)
				require.NoError(t, err)
				require.Empty(t, found)
			}
		}
	})
}

func TestFiles_readInTheirTransaction(t *testing.T) {
	b := newSealingHarness(t)
	p := &recordingProjector{}
	b.options.Projector = p
	seen := map[string]string{}
	p.inspect = func(touched Touched) error {
		for _, row := range touched.Clusters {
			view, err := touched.Rows.Cluster(row.ID)
			if err != nil || !view.Prepared {
				continue
			}
			for _, name := range []string{fileKubeconfigNoIngress, fileKubeadminPassword, fileKubeconfig} {
				content, err := touched.Rows.ClusterFile(row.ID, name)
				if fault.KindOf(err) == fault.NotFound {
					continue
				}
				require.NoError(t, err)
				seen[name] = string(content)
			}
			require.Equal(t, view.Complete, seen[fileKubeconfig] != "")
		}
		return nil
	}
	cluster, env := b.singleNode()
	b.host(env, 1)
	b.startInstallation(cluster)
	b.prepareAll()
	require.Contains(t, seen[fileKubeconfigNoIngress], "clusters:")
	require.Equal(t, "aaaaa-bbbbb-ccccc-ddddd", seen[fileKubeadminPassword])
	require.NoError(t, b.UploadIngressCert(t.Context(), cluster, b.authority))
	require.NotEmpty(t, seen[fileKubeconfig])
}
