package command

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/command/outcome"
	"landfall/appliance/doctor"
	"landfall/appliance/mirror/prover"
	"landfall/appliance/mirror/site"
	"landfall/web/console"
)

// siteManifests describe a cluster whose pull secret is missing.
const siteManifests = `apiVersion: hive.openshift.io/v1
kind: ClusterImageSet
metadata: {name: v4.20}
spec: {releaseImage: "quay.io/r@sha256:1"}
---
apiVersion: hive.openshift.io/v1
kind: ClusterDeployment
metadata: {name: c, namespace: default}
spec: {clusterName: berlin, baseDomain: example.com, pullSecretRef: {name: pull}}
---
apiVersion: extensions.hive.openshift.io/v1beta1
kind: AgentClusterInstall
metadata: {name: c, namespace: default}
spec: {clusterDeploymentRef: {name: c}, imageSetRef: {name: v4.20}, apiVIPs: [10.0.0.1], platformType: None, provisionRequirements: {controlPlaneAgents: 3}}
`

func TestApply_readsManifestsFirst(t *testing.T) {
	file := filepath.Join(t.TempDir(), "site.yaml")
	require.NoError(t, os.WriteFile(file, []byte("a: [\n---\nkind: X\n"), 0o600))
	got := landfall(t, "apply", "-f", file, "--url", "http://127.0.0.1:1")
	require.Equal(t, outcome.Failure, got.code)
	lines := strings.Split(strings.TrimSpace(got.errOut), "\n")
	require.Len(t, lines, 2)
	require.True(t, strings.HasPrefix(lines[0], "landfall: "+file+":1: invalid YAML"), lines[0])
	require.Equal(t, "landfall: "+file+":3: this document has no apiVersion and kind, so it is not a Kubernetes object",
		lines[1])

	require.NoError(t, os.WriteFile(file, []byte(siteManifests), 0o600))
	for command, yes := range map[string][]string{"apply": nil, "delete": {"--yes"}} {
		got = landfall(t, append([]string{command, "-f", file, "--url", "http://127.0.0.1:1"}, yes...)...)
		require.Equal(t, outcome.Failure, got.code)
		require.Equal(t, "landfall: no appliance listens at http://127.0.0.1:1; start one with landfall serve, or "+
			"name its address with --url\n", got.errOut)
		got = landfall(t, command)
		require.Equal(t, outcome.Usage, got.code)
		require.Contains(t, got.errOut, "-f is missing")
	}
}

func TestApply_dryRunReportsMissing(t *testing.T) {
	respond := func(w http.ResponseWriter, value any) { require.NoError(t, json.NewEncoder(w).Encode(value)) }
	var proofRequest site.ProofRequest
	mux := http.NewServeMux()
	kinds := map[string][2]string{"/apis/hive.openshift.io/v1": {"ClusterImageSet", "ClusterDeployment"},
		"/apis/extensions.hive.openshift.io/v1beta1": {"AgentClusterInstall", "X"}, "/api/v1": {"Secret", "Y"}}
	for root, names := range kinds {
		mux.HandleFunc("GET "+root, func(w http.ResponseWriter, _ *http.Request) {
			var list []map[string]any
			for _, name := range names {
				list = append(list, map[string]any{"kind": name, "name": strings.ToLower(name) + "s",
					"namespaced": name != "ClusterImageSet"})
			}
			respond(w, map[string]any{"kind": "APIResourceList", "resources": list})
		})
	}
	mux.HandleFunc("GET /", http.NotFound)
	mux.HandleFunc("PATCH /apis/", func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "All", r.URL.Query().Get("dryRun"))
		w.WriteHeader(http.StatusCreated)
		respond(w, map[string]any{})
	})
	mux.HandleFunc("POST "+console.MirrorProofsRoute, func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, json.NewDecoder(r.Body).Decode(&proofRequest))
		report := &prover.ReleaseReport{Version: "4.20.1"}
		report.Results = []prover.Result{{Status: "missing", Text: "The image etcd is missing."}}
		respond(w, &site.Proof{Release: proofRequest.Release, State: site.ProofDone, Gaps: 1,
			Message: "1 image is missing.", Report: report})
	})
	mux.HandleFunc("GET "+console.DoctorRoute, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "api_vip=10.0.0.1&base_domain=example.com&name=berlin&names_needed=true", r.URL.RawQuery)
		respond(w, &doctor.Report{Findings: []doctor.Finding{
			{Subject: "api.berlin.example.com", Status: doctor.Red, Result: "the name does not exist",
				Advice: "Add a DNS record."}, {Subject: "*.berlin", Status: doctor.Green},
		}})
	})
	appliance := httptest.NewServer(mux)
	defer appliance.Close()
	file := filepath.Join(t.TempDir(), "site.yaml")
	require.NoError(t, os.WriteFile(file, []byte(siteManifests), 0o600))

	got := landfall(t, "apply", "--dry-run", "-f", file, "--url", appliance.URL)
	require.Equal(t, outcome.Failure, got.code)
	require.Equal(t, "quay.io/r@sha256:1", proofRequest.Release)
	require.Equal(t, []string{
		"clusterimageset.hive.openshift.io/v4.20 created (server dry run)",
		"clusterdeployment.hive.openshift.io/c created (server dry run)",
		"agentclusterinstall.extensions.hive.openshift.io/c created (server dry run)",
		"quay.io/r@sha256:1 4.20.1", "GAP missing: The image etcd is missing.",
	}, strings.Split(got.out, "\n")[:5])
	require.Contains(t, got.out, "MISSING api.berlin.example.com: the name does not exist. Add a DNS record.\n")
	require.NotContains(t, got.out, "*.berlin")
	require.Equal(t, "landfall: "+file+
		":6: clusterdeployment.hive.openshift.io/c names the Secret pull in spec.pullSecretRef, which is neither "+
		"in the manifests nor on the appliance; add it\n", got.errOut)
}

func TestDelete_namespaceWithCluster(t *testing.T) {
	respond := func(w http.ResponseWriter, value any) { require.NoError(t, json.NewEncoder(w).Encode(value)) }
	kinds := func(kind, name string, namespaced bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			respond(w, map[string]any{"kind": "APIResourceList", "resources": []map[string]any{
				{"kind": kind, "name": name, "namespaced": namespaced}}})
		}
	}
	deleted := 0
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", http.NotFound)
	mux.HandleFunc("GET /api/v1", kinds("Namespace", "namespaces", false))
	mux.HandleFunc("GET /apis/hive.openshift.io/v1", kinds("ClusterDeployment", "clusterdeployments", true))
	mux.HandleFunc("GET /apis/hive.openshift.io/v1/namespaces/site/clusterdeployments",
		func(w http.ResponseWriter, _ *http.Request) {
			respond(w, map[string]any{"items": []any{map[string]any{
				"metadata": map[string]any{"name": "berlin", "namespace": "site"}}}})
		})
	mux.HandleFunc("DELETE /api/v1/namespaces/site", func(w http.ResponseWriter, _ *http.Request) {
		deleted++
		respond(w, map[string]any{})
	})
	appliance := httptest.NewServer(mux)
	defer appliance.Close()
	file := filepath.Join(t.TempDir(), "namespace.yaml")
	require.NoError(t, os.WriteFile(file, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: site}}\n"), 0o600))

	got := landfall(t, "delete", "-f", file, "--url", appliance.URL)
	require.Equal(t, outcome.Usage, got.code)
	require.Contains(t, got.errOut, "this command needs --yes: The appliance removes what it has of these clusters, "+
		"with their kubeconfigs, passwords and logs: site/berlin.")
	require.Zero(t, deleted)
	got = landfall(t, "delete", "-f", file, "--url", appliance.URL, "--yes")
	require.Zero(t, got.code, got.errOut)
	require.Equal(t, "namespace/site deleted\n", got.out)
	require.Equal(t, 1, deleted)
}
