package appliance

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/mirror/site"
	"landfall/web/console"
)

// TestMirror_withinTheScope imports mirror rules for the appliance, a cluster and an infra-env, and
// reads them as callers who may use only some clusters.
func TestMirror_withinTheScope(t *testing.T) {
	g := newGuarded(t)
	const rules = "apiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\nmetadata: {name: a}\n" +
		"spec: {imageDigestMirrors: [{source: quay.io/a, mirrors: [secret.site.test/a]}]}\n"
	ofAll, ofCluster, ofEnv := url.Values{}, url.Values{"cluster_id": {g.cluster}}, url.Values{"infra_env_id": {g.env}}
	for name, level := range map[string]url.Values{"all.yaml": ofAll, "cluster.yaml": ofCluster, "env.yaml": ofEnv} {
		w := g.request(t, http.MethodPost, console.MirrorRoute+"?name="+name+"&"+level.Encode(), rules,
			g.callers["admin"])
		require.Equal(t, http.StatusOK, w.Code, w.Body)
	}
	imports := func(caller string, level url.Values) (names []string, status int) {
		w := g.request(t, http.MethodGet, console.MirrorRoute+"?"+level.Encode(), "", g.callers[caller])
		var model site.Model
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &model))
		for _, shown := range model.Imports {
			names = append(names, shown.Name)
		}
		return names, w.Code
	}
	explain := func(caller string, level url.Values) int {
		return g.request(t, http.MethodGet, console.MirrorRoute+"/explain?image=quay.io/a:1&"+level.Encode(), "",
			g.callers[caller]).Code
	}
	for _, caller := range []string{"viewer", "limited"} {
		for _, level := range []url.Values{ofAll, ofCluster, ofEnv} {
			names, status := imports(caller, level)
			require.Equal(t, http.StatusOK, status, caller)
			require.ElementsMatch(t, []string{"all.yaml", "cluster.yaml", "env.yaml"}, names, caller)
			require.Equal(t, http.StatusOK, explain(caller, level), caller)
		}
	}
	names, status := imports("limited to others", ofAll)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, []string{"all.yaml"}, names)
	require.Equal(t, http.StatusOK, explain("limited to others", ofAll))
	for _, level := range []url.Values{ofCluster, ofEnv} {
		names, status = imports("limited to others", level)
		require.Equal(t, http.StatusForbidden, status)
		require.Empty(t, names)
		require.Equal(t, http.StatusForbidden, explain("limited to others", level))
	}
}
