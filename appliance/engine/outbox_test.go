package engine

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

func TestOutbox_writtenWithTheCluster(t *testing.T) {
	b := newHarness(t)
	watcher := b.options.DB.Watch(t.Context(), b.options.DB.Revision(), record.Clusters.Prefix(),
		outbox.DesiredRows.Prefix())
	written := func() (keys []string) {
		for _, change := range <-watcher.C() {
			keys = append(keys, change.Key)
		}
		return keys
	}
	created, err := b.RegisterCluster(t.Context(), &models.ClusterCreateParams{
		Name: conv.Pointer("one"), OpenshiftVersion: conv.Pointer("4.20.8"), PullSecret: conv.Pointer(testPullSecret),
		ControlPlaneCount: conv.Pointer[int64](1),
	})
	require.NoError(t, err)
	id := created.ID.String()
	both := []string{record.Clusters.Prefix() + id, outbox.DesiredRows.Prefix() + id}
	require.ElementsMatch(t, both, written(), "one transaction, one sync of the disk")
	_, err = b.UpdateCluster(t.Context(), id, &models.V2ClusterUpdateParams{Name: conv.Pointer("two")})
	require.NoError(t, err)
	require.ElementsMatch(t, both, written())
	require.NoError(t, b.DeregisterCluster(t.Context(), id, false))
	require.ElementsMatch(t, both, written())
	require.NoError(t, b.options.DB.View(func(tx *store.Tx) error {
		waiting, err := outbox.AllWaiting(tx)
		require.Empty(t, waiting, "the entry is never sent")
		return err
	}))
}

func TestOutbox_resendOnRequest(t *testing.T) {
	b := newHarness(t)
	cluster, _ := b.singleNode()
	edit := func(fields outbox.Fields) {
		require.NoError(t, b.RecordSubscription(t.Context(), cluster, "", "AMS was updated.", false,
			func(tx *store.Tx) error {
				held, err := outbox.DesiredRows.Get(tx, cluster)
				if err != nil {
					return err
				}
				held.Edited, held.Fields = fields, held.Fields.Over(fields)
				return outbox.PutDesired(tx, cluster, held)
			}))
	}
	edit(outbox.Fields{DisplayName: "the northern pier"})
	require.Equal(t, "the northern pier", b.subscriptionOf(cluster).DisplayName)
	_, err := b.UpdateCluster(t.Context(), cluster, &models.V2ClusterUpdateParams{Name: conv.Pointer("pier")})
	require.NoError(t, err)
	require.Equal(t, "the northern pier", b.subscriptionOf(cluster).DisplayName, "the user's value survives changes")
	edit(outbox.Fields{})
	require.Equal(t, "pier", b.subscriptionOf(cluster).DisplayName)
}

// inClear reports whether a file of the database's directory contains the pull secret in clear
// text.
func inClear(t *testing.T, dir string) bool {
	found := false
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	for _, name := range files {
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			found = found || bytes.Contains(text, []byte("dXNlcjpwYXNz"))
		}
	}
	return found
}

func TestPullSecret_isSealed(t *testing.T) {
	b := newHarness(t)
	_, box := testBox(t)
	open := func(data string) {
		db, err := store.Open(t.Context(), data, store.Options{Clock: b.clock})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		b.Engine = b.engineOver(db)
	}

	sealed := t.TempDir()
	b.secrets = box
	open(sealed)
	cluster, hosts := b.threeNodes(true)
	b.startInstallation(cluster)
	b.prepareAll()
	require.False(t, inClear(t, sealed))
	file, info, err := b.OpenFile(cluster, fileBootstrap)
	require.NoError(t, err)
	text, err := io.ReadAll(file)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	require.EqualValues(t, info.Size, len(text))
	require.True(t, bytes.HasPrefix(text, []byte("{")), "the reader gets clear text")
	recipe, err := b.Recipe(t.Context(), hosts[0].env)
	require.NoError(t, err)
	require.Contains(t, string(recipe.Ignition), "ignition")

	plain := t.TempDir()
	b.secrets = nil
	open(plain)
	old, env := b.singleNode()
	require.True(t, inClear(t, plain), "as written by an earlier release")
	b.secrets = box
	b.Engine = b.engineOver(b.options.DB)
	_, err = b.Recipe(t.Context(), env)
	require.NoError(t, err, "clear text is readable")
	_, err = b.UpdateCluster(t.Context(), old, &models.V2ClusterUpdateParams{Name: conv.Pointer("renamed")})
	require.NoError(t, err)
	row, err := record.ReadCluster(b.options.DB, old)
	require.NoError(t, err)
	require.NotContains(t, row.PullSecret, "auths", "sealed at the next write")
	secret, err := record.OpenSecret(box, row.PullSecret)
	require.NoError(t, err)
	require.Equal(t, testPullSecret, secret)
	_, err = record.OpenSecret(nil, row.PullSecret)
	b.requireRejected(err, fault.Conflict, "sealed with another key")
}
