package kube_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestYAML_aliases(t *testing.T) {
	maps := overHTTP(t, newSite(t)) + "/api/v1/namespaces/default/configmaps"
	large := "{l: &l " + strings.Repeat("x", 1000) + ", m: &m [" + strings.Repeat("*l,", 300) + "], n: [" +
		strings.Repeat("*m,", 30) + "]}"
	for name, c := range map[string]struct {
		text    string
		status  int
		message string
	}{
		"small": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: &n small}\ndata: {a: *n}\n",
			http.StatusCreated, ""},
		"no alias": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: none}\ndata: {a: 'a & b * c'}\n",
			http.StatusCreated, ""},
		"large": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: large}\nother: " + large + "\n",
			http.StatusBadRequest, "aliases in the YAML make it too large"},
		"in itself": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: self}\nother: &o [*o]\n",
			http.StatusBadRequest, "aliases in the YAML make it too large"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, request := range []struct{ method, url, form string }{
				{http.MethodPost, maps, "application/yaml"},
				{http.MethodPatch, maps + "/a?fieldManager=x&force=true&dryRun=All", "application/apply-patch+yaml"},
			} {
				if request.method == http.MethodPatch && c.status == http.StatusCreated {
					continue // its text has another name
				}
				r, err := http.NewRequestWithContext(t.Context(), request.method, request.url,
					strings.NewReader(c.text))
				require.NoError(t, err)
				r.Header.Set("Content-Type", request.form)
				got, err := http.DefaultClient.Do(r)
				require.NoError(t, err)
				body, err := io.ReadAll(got.Body)
				require.NoError(t, err)
				require.NoError(t, got.Body.Close())
				require.Equal(t, c.status, got.StatusCode, string(body))
				require.Contains(t, string(body), c.message)
			}
		})
	}
}
