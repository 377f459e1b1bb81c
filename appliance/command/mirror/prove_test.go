package mirror

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/mirror/courier"
	"landfall/appliance/mirror/prover"
	"landfall/appliance/mirror/site"
	"landfall/appliance/sitekey"
)

func TestWrite_countsOfImages(t *testing.T) {
	report := &prover.ReleaseReport{Report: prover.Report{Faults: []prover.Fault{
		{Text: "mirror.example.com does not answer.", Images: 1},
		{Text: "The certificate of other.example.com expired.", Images: 2},
	}}}
	out := new(bytes.Buffer)
	require.NoError(t, Write(out, &site.Proof{Report: report}))
	require.Contains(t, out.String(), "FAULT mirror.example.com does not answer. (1 image)\n")
	require.Contains(t, out.String(), "FAULT The certificate of other.example.com expired. (2 images)\n")
}

func TestProve_completeMirrorRemovesEarlierList(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id":"1","state":"done","complete":true}`))
	}))
	t.Cleanup(server.Close)
	t.Setenv("LANDFALL_URL", server.URL)
	file := filepath.Join(t.TempDir(), "missing.txt")
	key, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	for _, format := range []func(*courier.List, *sitekey.Key) ([]byte, error){(*courier.List).Text,
		(*courier.List).CSV, (*courier.List).ImageSet} {
		earlier, err := format(&courier.List{Release: "quay.io/a/b:c"}, key)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, earlier, 0o600))
		require.Contains(t, prove(t, file), "nothing is missing; the earlier list "+file+" was removed")
		require.NoFileExists(t, file)
	}
	require.NotContains(t, prove(t, file), "removed", "there is no list")

	require.NoError(t, os.WriteFile(file, []byte("notes"), 0o600))
	require.NotContains(t, prove(t, file), "removed")
	require.FileExists(t, file, "it is not a list")
}

// prove runs landfall mirror prove --list and returns what it reports.
func prove(t *testing.T, list string) string {
	t.Helper()
	var errOut bytes.Buffer
	cmd := newProve()
	cmd.SetOut(new(bytes.Buffer))
	cmd.SetErr(&errOut)
	cmd.SetArgs([]string{"--release", "4.20", "--list", list})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	return errOut.String()
}
