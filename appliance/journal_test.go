package appliance_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/engine"
	"landfall/appliance/journal"
)

// logOf returns a log in a journal.
func logOf(t *testing.T, file []byte, name string) string {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(file))
	require.NoError(t, err)
	archive := tar.NewReader(unzipped)
	for {
		header, err := archive.Next()
		require.NoError(t, err, "%s is missing", name)
		if header.Name != name {
			continue
		}
		text, err := io.ReadAll(archive)
		require.NoError(t, err)
		return string(text)
	}
}

func TestJournal_runningAndStoppedApplianceAgree(t *testing.T) {
	s := newSite(t)
	address, stop := s.startLogging(t, slog.New(slog.DiscardHandler))
	rawClient := dial(t, address)
	var ids []string
	for _, name := range []string{"mine", "other"} {
		body := fmt.Sprintf(`{"name":%q,"base_dns_domain":"site.test","openshift_version":%q,"pull_secret":%q}`,
			name, s.release.Version, pullSecret)
		status, answer, err := rawClient.do(http.MethodPost, apiPath+"/clusters", []byte(body))
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, status, string(answer))
		var made struct{ ID string }
		require.NoError(t, json.Unmarshal(answer, &made))
		ids = append(ids, made.ID)
	}
	status, answer, err := rawClient.do(http.MethodPost, apiPath+"/clusters/"+ids[0]+"/actions/install", []byte("{}"))
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, status, string(answer))

	response, err := http.Get(address + "/api/landfall/v1/clusters/" + ids[0] + "/journal")
	require.NoError(t, err)
	file, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "application/gzip", response.Header.Get("Content-Type"))
	require.Regexp(t, `^attachment; filename=mine-\d{8}T\d{6}Z\.journal$`, response.Header.Get("Content-Disposition"))
	running, err := journal.Read(bytes.NewReader(file))
	require.NoError(t, err)
	log := logOf(t, file, "logs/appliance.log")
	require.Contains(t, log, "Cluster mine was created.")
	require.Contains(t, log, "status=409", "the log has the rejected request")
	require.NotContains(t, log, ids[1])

	status, answer, err = rawClient.do(http.MethodGet,
		"/api/landfall/v1/clusters/00000000-0000-4000-8000-000000000000/journal", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, string(answer), "no history of a deleted cluster with this ID")
	stop()

	var again bytes.Buffer
	require.NoError(t, journal.FromDirectory(t.Context(), s.config.DataDir, engine.JournalLayout(), "mine", "test",
		func(name string, content func(io.Writer) error) error {
			require.Regexp(t, `^mine-.*\.journal$`, name)
			return content(&again)
		}))
	stopped, err := journal.Read(&again)
	require.NoError(t, err)
	require.Equal(t, running.Manifest.State, stopped.Manifest.State, "the same state")
	require.Equal(t, running.Manifest.Key, stopped.Manifest.Key)
	require.Equal(t, running.Recording.Steps, stopped.Recording.Steps)
	require.Equal(t, "v2RegisterCluster", running.Recording.Steps[0].Operation)
	for _, archive := range []*journal.Archive{running, stopped} {
		replayer, err := journal.NewReplayer(&archive.Recording)
		require.NoError(t, err)
		require.NoError(t, replayer.Finish())
	}
}
