package backup_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/backup"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/hosted/bundle"
	"landfall/store"
)

var bundles = store.NewBucket[bundle.Bundle]("hosted-bundles", 1)

// update changes the store of a source.
func (s *source) update(t *testing.T, changes ...func(tx *store.Tx) error) {
	t.Helper()
	for _, change := range changes {
		require.NoError(t, s.DB.Update(t.Context(), change))
	}
}

func cluster(id, status string) func(tx *store.Tx) error {
	return func(tx *store.Tx) error {
		return record.Clusters.Put(tx, id, &record.Cluster{API: models.Cluster{Name: "cluster-" + id, Status: &status}})
	}
}

func host(id, status string) func(tx *store.Tx) error {
	return func(tx *store.Tx) error {
		return errors.Join(record.Hosts.Put(tx, "env/"+id, &record.Host{API: models.Host{Status: &status}}),
			record.PutReport(tx, "env/"+id, record.PartInventory, `{"hostname": "host-`+id+`"}`))
	}
}

func recorded(id, subscription string) func(tx *store.Tx) error {
	return func(tx *store.Tx) error {
		return outbox.RecordedRows.Put(tx, id, &outbox.Recorded{SubscriptionID: subscription})
	}
}

// describe restores a stream and describes it.
func describe(t *testing.T, stream []byte, change func(content *backup.Content, dir string)) {
	t.Helper()
	to := target(filepath.Join(t.TempDir(), "restored"))
	to.Describe = func(m *backup.Manifest, dir string) error {
		content, err := backup.Describe(t.Context(), m, dir)
		if err == nil {
			change(content, dir)
		}
		return err
	}
	_, err := to.Restore(t.Context(), bytes.NewReader(stream))
	require.NoError(t, err)
}

// sums returns the SHA-256 of all files below a directory.
func sums(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	all := map[string][32]byte{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = sha256.Sum256(text)
		return err
	}))
	return all
}

// TestCompare_withReality changes a site after its backup in each way, and compares the backup with
// the running appliance, with its data directory and with a damaged one without its keys.
func TestCompare_withReality(t *testing.T) {
	s := newSource(t)
	s.update(t, cluster("same", lifecycle.ClusterReady), cluster("changed", lifecycle.ClusterInstalling),
		cluster("deleted", lifecycle.ClusterReady), host("a", lifecycle.HostKnown), host("b", lifecycle.HostKnown),
		recorded("changed", "one"), recorded("same", "two"), func(tx *store.Tx) error {
			return bundles.Put(tx, "1", &bundle.Bundle{ID: "1", Name: "east", Consumer: "mgmt"})
		})
	stream := s.stream(t, true)
	s.update(t, cluster("changed", lifecycle.ClusterInstalled), cluster("new", lifecycle.ClusterReady),
		host("a", lifecycle.HostInstalled), func(tx *store.Tx) error {
			status := lifecycle.HostKnown
			return record.Hosts.Put(tx, "env/b", &record.Host{API: models.Host{RequestedHostname: "host-b",
				Status: &status, StatusInfo: new(string)}})
		}, recorded("changed", "three"), func(tx *store.Tx) error {
			return record.Clusters.Delete(tx, "deleted")
		}, func(tx *store.Tx) error {
			return bundles.Put(tx, "2", &bundle.Bundle{ID: "2", Name: "west", Consumer: "mgmt"})
		})
	type difference struct{ kind, name, how string }
	want := []difference{
		{backup.KindCluster, "cluster-changed", backup.NewerThere},
		{backup.KindCluster, "cluster-deleted", backup.OnlyInBackup},
		{backup.KindCluster, "cluster-new", backup.OnlyThere},
		{backup.KindHost, "host-a", backup.NewerThere},
		{backup.KindHost, "host-b", backup.NewerThere},
		{backup.KindSubscription, "cluster-changed", backup.NewerThere},
		{backup.KindBundle, "west", backup.OnlyThere},
	}
	check := func(content *backup.Content, there *backup.Objects) {
		t.Helper()
		content.CompareWith(there, "reality")
		var got []difference
		for _, d := range content.Comparison.Differences {
			got = append(got, difference{d.Kind, d.Name, d.How})
		}
		require.Equal(t, want, got)
		require.False(t, content.Comparison.Foreign)
		var text strings.Builder
		require.NoError(t, content.Write(&text))
		for _, line := range []string{"compared with reality", "cluster cluster-changed: installing in the backup, " +
			"installed there", "Only there; the restored appliance does not know it:\n  cluster cluster-new: ready",
			"host host-a: known in the backup, installed there", "and 1 more of the kind host",
			"AMS: nothing is sent about cluster-changed until",
			"Management cluster mgmt: nothing is sent to it until a person has decided about the 1 bundles"} {
			require.Contains(t, text.String(), line)
		}
	}
	_, err := backup.ReadObjects(t.Context(), s.dir, t.TempDir(), "")
	require.ErrorContains(t, err, "an appliance uses the data directory")
	service := &backup.Service{Options: backup.Options{DB: s.DB, Clock: clockwork.NewFakeClock()}}
	there, err := service.Objects(t.Context())
	require.NoError(t, err)
	describe(t, stream, func(content *backup.Content, _ string) { check(content, there) })

	old := filepath.Join(t.TempDir(), "old [1") // no pattern
	require.NoError(t, os.CopyFS(old, os.DirFS(s.dir)))
	for _, damage := range []func() error{
		func() error { return nil },
		func() error { return os.Remove(filepath.Join(old, "data.key")) },
		func() error { return os.RemoveAll(filepath.Join(old, "blobs")) },
		func() error { return os.Remove(filepath.Join(old, "seal.key")) },
	} {
		require.NoError(t, damage())
		before := sums(t, old)
		describe(t, stream, func(content *backup.Content, dir string) {
			there, err := backup.ReadObjects(t.Context(), old, t.TempDir(), dir)
			require.NoError(t, err)
			check(content, there)
		})
		require.Equal(t, before, sums(t, old), "the old directory is not changed")
	}
	_, err = backup.ReadObjects(t.Context(), old, t.TempDir(), "")
	require.ErrorContains(t, err, old)

	path := filepath.Join(old, store.FileName)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	copy(text[len(text)/2:], bytes.Repeat([]byte("damaged "), 512))
	require.NoError(t, os.WriteFile(path, text, 0o600))
	describe(t, stream, func(content *backup.Content, dir string) {
		there, err := backup.ReadObjects(t.Context(), old, t.TempDir(), dir)
		require.NoError(t, err)
		require.NotEmpty(t, there.Objects, "what can be read")
	})
}

func TestCompare_sameAndForeign(t *testing.T) {
	one := &backup.Objects{Revision: 3, Objects: []backup.Object{{Kind: backup.KindCluster, ID: "a", Name: "a",
		Revision: 3}}}
	require.Empty(t, backup.Compare(one, one, "there").Differences)
	older := &backup.Objects{Revision: 2, Objects: []backup.Object{{Kind: backup.KindCluster, ID: "a", Name: "a",
		Revision: 2}}}
	require.Equal(t, backup.OlderThere, backup.Compare(one, older, "there").Differences[0].How)
	other := &backup.Objects{Revision: 9, Objects: []backup.Object{{Kind: backup.KindCluster, ID: "b", Name: "b",
		Revision: 9}}}
	require.True(t, backup.Compare(one, other, "there").Foreign)
}
