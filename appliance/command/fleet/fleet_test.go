package fleet

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/command/remote"
	"landfall/appliance/fleet/membership"
)

// Without etcd, a member may know only some of the members, or none after its start. The stored
// login keeps those that commands can ask instead of it.
func TestStatus_keepsStoredMembersWithoutEtcd(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, name := range []string{"LANDFALL_TOKEN", "LANDFALL_URL", "LANDFALL_CA", "LANDFALL_DATA_DIR"} {
		t.Setenv(name, "")
	}
	status := membership.Status{Fleet: "f1", Member: "one"}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := json.NewEncoder(w).Encode(status); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	contexts, err := remote.LoadContexts()
	require.NoError(t, err)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	two := "https://192.0.2.2:8090"
	contexts.Put(remote.Context{Name: "site", URL: server.URL, CA: string(authority), Members: []string{two}})
	contexts.Current = "site"
	require.NoError(t, contexts.Save())
	show := func() (out string, members []string) {
		var text bytes.Buffer
		cmd := newStatus()
		cmd.SetArgs(nil)
		cmd.SetOut(&text)
		require.NoError(t, cmd.ExecuteContext(t.Context()))
		contexts, err := remote.LoadContexts()
		require.NoError(t, err)
		return text.String(), contexts.All[0].Members
	}

	status.Problem = "Etcd does not answer."
	out, members := show()
	require.Contains(t, out, "It is not known which member leads.")
	require.Equal(t, []string{two}, members)

	three := "https://192.0.2.3:8090"
	status.Problem, status.Members = "", []membership.Member{{Name: "three", URL: three}}
	_, members = show()
	require.Equal(t, []string{three}, members)
}
