package appliance_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/backup"
	"landfall/appliance/integrity"
	"landfall/web/console"
)

// TestBackup_restoredApplianceGoesOn backs up a running appliance and starts another one with the
// restored data.
func TestBackup_restoredApplianceGoesOn(t *testing.T) {
	s := newSite(t)
	address, stop := s.start(t)
	kept := create(t, address+apiPath+"/clusters", s.newCluster("kept"))
	saved := call(t, http.MethodGet, address+console.BackupRoute+"?key=true", nil)
	require.Equal(t, http.StatusOK, saved.status)
	create(t, address+apiPath+"/clusters", s.newCluster("later"))
	wrong := call(t, http.MethodGet, address+console.BackupRoute+"?key=maybe", nil)
	requireRefusal(t, wrong, http.StatusBadRequest, "key")
	stop()
	s.config.DataDir = filepath.Join(t.TempDir(), "restored")
	target := &backup.Target{Dir: s.config.DataDir, Now: time.Now}
	target.Describe = func(m *backup.Manifest, dir string) error {
		content, err := backup.Describe(t.Context(), m, dir)
		require.NoError(t, err)
		require.Len(t, content.Clusters, 1)
		require.Equal(t, "kept", content.Clusters[0].Name)
		var text bytes.Buffer
		require.NoError(t, content.Write(&text))
		require.Contains(t, text.String(), "1 cluster and 0 hosts")
		return nil
	}
	_, err := target.Restore(t.Context(), bytes.NewReader(saved.body))
	require.NoError(t, err)
	address, stop = s.start(t)
	var shown []struct{ ID string }
	call(t, http.MethodGet, address+apiPath+"/clusters", nil).read(t, http.StatusOK, &shown)
	require.Len(t, shown, 1)
	require.Equal(t, kept, shown[0].ID)
	var report integrity.Report
	call(t, http.MethodGet, address+console.IntegrityRoute, nil).read(t, http.StatusOK, &report)
	require.True(t, report.Whole, report)
	_, err = os.Stat(filepath.Join(s.config.DataDir, backup.MarkerName))
	require.ErrorIs(t, err, os.ErrNotExist, "the first start has asked for the comparison with AMS")
	stop()
}

// BenchmarkRestore restores a backup of 1,000 clusters with 3,000 hosts.
func BenchmarkRestore(b *testing.B) {
	s := newSite(b)
	s.seed(b, 1000, 3)
	address, stop := s.start(b)
	response, err := http.Get(address + console.BackupRoute + "?key=true")
	require.NoError(b, err)
	saved, err := io.ReadAll(response.Body)
	require.NoError(b, errors.Join(err, response.Body.Close()))
	stop()
	for b.Loop() {
		target := &backup.Target{Dir: filepath.Join(b.TempDir(), "restored"), Now: time.Now}
		_, err := target.Restore(b.Context(), bytes.NewReader(saved))
		require.NoError(b, err)
	}
	b.ReportMetric(float64(len(saved))/1e6, "backup-MB")
}
