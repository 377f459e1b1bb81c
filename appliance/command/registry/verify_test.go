package registry

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"landfall/appliance/command/remote"
	"landfall/appliance/registry"
)

// The command does not take the state after a restart for the result of its comparison.
func TestVerify_interrupted(t *testing.T) {
	running := registry.Verify{Running: true, Done: 10, Total: 20}
	for name, c := range map[string]struct {
		states []registry.Verify
		sound  bool
	}{
		"complete":                  {[]registry.Verify{running, {Done: 20, Total: 20}}, true},
		"nothing to compare":        {[]registry.Verify{{Finished: true}}, true},
		"restart":                   {[]registry.Verify{running, {}}, false},
		"restart before first poll": {[]registry.Verify{{}}, false},
		"restart and another one":   {[]registry.Verify{running, {Running: true, Done: 5, Total: 20}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				status := registry.Status{Verify: running}
				if r.Method == http.MethodGet {
					status.Verify, c.states = c.states[0], c.states[1:]
				}
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(status)
			}))
			defer server.Close()
			out, err := verifyAt(t, server.URL)
			if c.sound {
				require.NoError(t, err)
				require.Contains(t, out, "bytes are sound\n")
				return
			}
			require.ErrorContains(t, err, "run landfall registry verify again")
			require.Empty(t, out)
		})
	}
}

// verifyAt runs the command with an appliance.
func verifyAt(t *testing.T, url string) (string, error) {
	t.Helper()
	appliance, flags := new(remote.Client), pflag.NewFlagSet("", pflag.ContinueOnError)
	appliance.AddFlags(flags)
	require.NoError(t, flags.Set("url", url))
	var out bytes.Buffer
	err := verify(t.Context(), appliance, &out, t.Output())
	return out.String(), err
}

// The line of a damaged blob names the remedy, which depends on the place of the blob.
func TestVerify_damagedOnDisk(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(registry.Status{Verify: registry.Verify{Finished: true, Done: 5, Total: 5,
			Damaged: []string{"sha256:1 among the pushed images; push the image again"}}})
	}))
	defer server.Close()
	out, err := verifyAt(t, server.URL)
	require.EqualError(t, err, "the registry has 1 damaged blob; the lines above say what makes them sound")
	require.Equal(t, "damaged: sha256:1 among the pushed images; push the image again\n", out)
}
