package registry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/command/terminaltest"
	"landfall/web/console"
)

// TestGC_showsProgressOnTerminal removes blobs while a person watches: the answer comes after the
// state was asked for.
func TestGC_showsProgressOnTerminal(t *testing.T) {
	terminal, control := terminaltest.Open(t, 80)
	asked := make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == console.RegistryGCRoute {
			<-asked
			<-asked
			fmt.Fprint(w, `{"files": 2, "bytes": 3000000}`)
			return
		}
		fmt.Fprint(w, `{"pushed_bytes": 5000000}`)
		asked <- struct{}{}
	}))
	defer server.Close()
	t.Setenv("LANDFALL_URL", server.URL)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	cmd := New()
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(terminal)
	cmd.SetArgs([]string{"gc"})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	require.Contains(t, out.String(), "removed 2 files, 2.9 MiB")
	shown := make([]byte, 4096)
	n, err := control.Read(shown)
	require.NoError(t, err)
	require.Contains(t, string(shown[:n]), "gc")
}
