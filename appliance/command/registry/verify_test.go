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
			appliance, flags := new(remote.Client), pflag.NewFlagSet("", pflag.ContinueOnError)
			appliance.AddFlags(flags)
			require.NoError(t, flags.Set("url", server.URL))
			var out bytes.Buffer
			err := verify(t.Context(), appliance, &out, t.Output())
			if c.sound {
				require.NoError(t, err)
				require.Contains(t, out.String(), "bytes are sound\n")
				return
			}
			require.ErrorContains(t, err, "run landfall registry verify again")
			require.Empty(t, out.String())
		})
	}
}
