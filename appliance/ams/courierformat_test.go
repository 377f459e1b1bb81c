package ams

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The files in testdata were written by the first version of the courier format: an export of two
// clusters, the progress of its push, and the receipts of the push.
const (
	oldExport   = "testdata/export-v1.lfc"
	oldProgress = "testdata/push-v1.progress"
	oldReceipts = "testdata/receipts-v1.lfc"
)

func readCourierFile(t *testing.T, path string, kind CourierKind) *CourierFile {
	t.Helper()
	content, err := os.Open(path)
	require.NoError(t, err)
	defer content.Close()
	file, err := ReadCourier(content, kind, nil)
	require.NoError(t, err)
	require.Len(t, file.Entries, 2)
	return file
}

func TestCourierFormat_oldExportIsRead(t *testing.T) {
	for _, entry := range readCourierFile(t, oldExport, Export).Entries {
		require.NotEmpty(t, entry.Desired.DisplayName)
		require.Positive(t, entry.Desired.Generation)
		require.NotNil(t, entry.Recorded.Lease)
	}
}

func TestCourierFormat_oldReceiptsAreRead(t *testing.T) {
	for _, entry := range readCourierFile(t, oldReceipts, Receipts).Entries {
		require.Equal(t, "sent", entry.Outcome)
		require.NotEmpty(t, entry.Recorded.SubscriptionID)
		require.Equal(t, entry.Desired.Generation, entry.Recorded.Generation)
		require.Equal(t, "Reserved", entry.Recorded.AckedStatus)
	}
}

func TestCourierFormat_oldProgressContinues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	content, err := os.ReadFile(oldProgress)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	progress, err := openProgress(path, readCourierFile(t, oldExport, Export))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, progress.close()) })
	former := 0
	for _, entry := range progress.entries {
		former += len(entry.Recorded.Former)
	}
	require.Equal(t, 1, former, "the ID of the subscription that the push found missing")
}
