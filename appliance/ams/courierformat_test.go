package ams

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/outbox"
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

// An interruption may truncate the last line anywhere, the header too. Two further pushes then read
// the complete lines and the updates between them.
func TestCourierFormat_truncatedProgressContinues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	content, err := os.ReadFile(oldProgress)
	require.NoError(t, err)
	file := readCourierFile(t, oldExport, Export)
	cluster := file.Entries[0].ClusterID
	for size := 0; size < len(content); size += 41 {
		require.NoError(t, os.WriteFile(path, content[:size], 0o600))
		for _, id := range []string{"first", "second"} {
			progress, err := openProgress(path, file)
			require.NoError(t, err, "%s push after %d bytes", id, size)
			if id == "second" {
				require.Equal(t, "first", progress.entries[cluster].Recorded.SubscriptionID)
			}
			require.NoError(t, progress.Modify(t.Context(), cluster, Note{},
				func(_ *outbox.Desired, r *outbox.Recorded) error {
					r.SubscriptionID = id
					return nil
				}))
			require.NoError(t, progress.close())
		}
		written, err := os.ReadFile(path)
		require.NoError(t, err)
		whole := content[:bytes.LastIndexByte(content[:size], '\n')+1]
		require.Equal(t, whole, written[:len(whole)], "complete lines are kept")
		require.Contains(t, string(written), file.Header.Export)
	}
}

// A file without a line is not the progress of a push unless it is the beginning of its first line.
// It is not overwritten.
func TestCourierFormat_otherFileIsNotProgress(t *testing.T) {
	file := readCourierFile(t, oldExport, Export)
	for _, content := range []string{"a token in one line", `{"export_id":"` + file.Header.Export + `", "more": 1}`} {
		path := filepath.Join(t.TempDir(), "token")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := openProgress(path, file)
		require.ErrorContains(t, err, "--progress")
		held, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(held))
	}
}
