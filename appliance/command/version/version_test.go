package version_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"landfall/appliance/command/remote"
	"landfall/appliance/command/version"
)

func TestFind(t *testing.T) {
	const several = `{"4.9.1":{},"4.20.8":{},"4.20.10":{},"4.20.11-rc.1":{},"4.21.0":{"default":true},"4.21.1":{}}`
	for name, c := range map[string]struct{ known, wanted, found, failure string }{
		"the whole version":        {several, "4.20.8", "4.20.8", ""},
		"highest of a minor":       {several, "4.20", "4.20.10", ""},
		"default of several":       {several, "4.21", "4.21.0", ""},
		"whole numbers only":       {several, "4.2", "", "the appliance has no release 4.2; it has 4.9.1, 4.20.8, "},
		"major version":            {several, "4", "4.21.0", ""},
		"none given":               {several, "", "4.21.0", ""},
		"candidate below release":  {`{"4.20.0-rc.2":{},"4.20.0":{}}`, "4.20", "4.20.0", ""},
		"only one":                 {`{"4.20.8-standin":{}}`, "", "4.20.8-standin", ""},
		"no default":               {`{"4.20.8":{},"4.20.9":{}}`, "", "", "no release is the default"},
		"an appliance without one": {`{}`, "4.20", "", "landfall status shows what is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, "/api/assisted-install/v2/openshift-versions", r.URL.Path)
				_, err := io.WriteString(w, c.known)
				assert.NoError(t, err)
			}))
			defer server.Close()
			found, err := version.Find(t.Context(), remote.At(server.URL), c.wanted)
			if c.failure != "" {
				require.ErrorContains(t, err, c.failure)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.found, found)
		})
	}
}
