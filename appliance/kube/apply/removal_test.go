package apply

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClustersToRemove(t *testing.T) {
	f := newFakeAPI(t)
	deployments := "/apis/hive.openshift.io/v1/namespaces/"
	f.set(t, deployments+"sno/clusterdeployments/one",
		`{"metadata":{"name":"one","namespace":"sno"},"spec":{"clusterInstallRef":{"name":"install"}}}`)
	f.set(t, deployments+"sno/clusterdeployments/two",
		`{"metadata":{"name":"two","namespace":"sno"},"spec":{"clusterInstallRef":{"name":"two"}}}`)
	f.set(t, "/apis/hive.openshift.io/v1/clusterdeployments/all", // as in the list of all namespaces
		`{"metadata":{"name":"all","namespace":"default"}}`)
	one, two := ClusterName{"sno", "one"}, ClusterName{"sno", "two"}
	const definition = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: "
	for name, c := range map[string]struct {
		manifest string
		options  Options
		want     []ClusterName
	}{
		"a ClusterDeployment": {manifest: "{apiVersion: hive.openshift.io/v1, kind: ClusterDeployment, " +
			"metadata: {name: one, namespace: sno}}", want: []ClusterName{one}},
		"a ClusterDeployment in the namespace of -n": {manifest: "{apiVersion: hive.openshift.io/v1, " +
			"kind: ClusterDeployment, metadata: {name: one}}", options: Options{Namespace: "sno"},
			want: []ClusterName{one}},
		"a ClusterDeployment that does not exist": {manifest: "{apiVersion: hive.openshift.io/v1, " +
			"kind: ClusterDeployment, metadata: {name: one}}"},
		"an AgentClusterInstall of another name": {manifest: "{apiVersion: extensions.hive.openshift.io/v1beta1, " +
			"kind: AgentClusterInstall, metadata: {name: install, namespace: sno}}", want: []ClusterName{one}},
		"a namespace": {manifest: "{apiVersion: v1, kind: Namespace, metadata: {name: sno}}",
			want: []ClusterName{one, two}},
		"an empty namespace": {manifest: "{apiVersion: v1, kind: Namespace, metadata: {name: other}}"},
		"the definition of clusters": {manifest: definition + "clusterdeployments.hive.openshift.io}}",
			want: []ClusterName{{"default", "all"}}},
		"the definition of installations": {manifest: definition +
			"agentclusterinstalls.extensions.hive.openshift.io}}", want: []ClusterName{{"default", "all"}}},
		"another definition": {manifest: definition + "agents.agent-install.openshift.io}}"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ClustersToRemove(t.Context(), f.Server, site(t, c.manifest), c.options)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestClustersToRemove_refused(t *testing.T) {
	f := newFakeAPI(t)
	list := site(t, "{apiVersion: v1, kind: Namespace, metadata: {name: sno}}")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := discovery(r.URL.Path); ok {
			f.ServeHTTP(w, r)
			return
		}
		refuse(w, http.StatusForbidden, "Forbidden", "you may not list them")
	}))
	defer server.Close()
	f.URL = server.URL
	_, err := ClustersToRemove(t.Context(), f.Server, list, Options{})
	require.EqualError(t, err, "list the clusters that the deletion removes: you may not list them")
}
