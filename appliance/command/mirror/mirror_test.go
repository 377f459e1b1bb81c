package mirror

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestImport_saysWhatApplianceHas(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"rules":[{}],"authorities":[{}],"catalogs":[],"signatures":["a","b"]}`))
	}))
	t.Cleanup(server.Close)
	t.Setenv("LANDFALL_URL", server.URL)
	file := filepath.Join(t.TempDir(), "registries.conf")
	require.NoError(t, os.WriteFile(file, []byte("[[registry]]\nlocation = \"quay.io\"\n"), 0o600))
	var out bytes.Buffer
	cmd := newImport()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{file})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	require.Equal(t, "registries.conf: imported; the appliance now has 1 rule, 1 CA, 0 catalogs and 2 signatures\n",
		out.String())
}
