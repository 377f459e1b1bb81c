//go:build etcd

package appliance_test

import (
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kind "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"landfall/porttest"
	"landfall/randtest"
)

var (
	fleetNamespaces = kind.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	fleetSecrets    = kind.GroupVersionResource{Version: "v1", Resource: "secrets"}
	fleetInfraEnvs  = kind.GroupVersionResource{Group: "agent-install.openshift.io", Version: "v1beta1",
		Resource: "infraenvs"}
)

// objects returns a client of the Kubernetes API at a member.
func (m *fleetMember) objects(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(&rest.Config{Host: m.kubernetesURL()})
	require.NoError(t, err)
	return client
}

// kubernetesURL returns the URL of the Kubernetes API at a member.
func (m *fleetMember) kubernetesURL() string {
	if m.kubernetes != "" {
		return "http://" + m.kubernetes
	}
	return m.address
}

// TestFleetKubernetes uses the Kubernetes API through members that do not lead. A watch that ended
// with the leader goes on at the next one, from the last version that the client has seen.
func TestFleetKubernetes(t *testing.T) {
	for name, own := range map[string]bool{"main listener": false, "own listener": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testFleetKubernetes(t, own)
		})
	}
}

func testFleetKubernetes(t *testing.T, own bool) {
	f := newFleetTest(t, randtest.New(t, 0), func(s *site) {
		s.config.Kubernetes.Enabled = true
		if own {
			s.config.Kubernetes.Listen = porttest.Reserve(t)
		}
	})
	leader := f.leader(t)
	followers := slices.DeleteFunc(slices.Clone(f.members), func(m *fleetMember) bool { return m == leader })
	one, two := followers[0].objects(t), followers[1].objects(t)
	create := func(of kind.GroupVersionResource, namespace string, object unstructured.Unstructured) {
		_, err := one.Resource(of).Namespace(namespace).Create(t.Context(), &object, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	create(fleetNamespaces, "", manifest("v1", "Namespace", "hall", object{}))
	create(fleetSecrets, "hall", manifest("v1", "Secret", "pull", object{"type": "kubernetes.io/dockerconfigjson",
		"stringData": object{".dockerconfigjson": pullSecret}}))
	create(fleetInfraEnvs, "hall", manifest("agent-install.openshift.io/v1beta1", "InfraEnv", "rack",
		object{"spec": object{"pullSecretRef": object{"name": "pull"}}}))
	for _, m := range f.members {
		soon(t, m.name+" shows the URL of the image", func() bool {
			env, err := m.objects(t).Resource(fleetInfraEnvs).Namespace("hall").Get(t.Context(), "rack",
				metav1.GetOptions{})
			require.NoError(t, err)
			url, _, err := unstructured.NestedString(env.Object, "status", "isoDownloadURL")
			require.NoError(t, err)
			return url != ""
		})
	}

	// The watch begins with the list, as that of an informer.
	list, err := two.Resource(fleetInfraEnvs).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	version := list.GetResourceVersion()
	label := func(at dynamic.Interface, value string) {
		_, err := at.Resource(fleetInfraEnvs).Namespace("hall").Patch(t.Context(), "rack", types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"walk":"`+value+`"}}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	awaitLabel := func(at dynamic.Interface, value string) {
		changes, err := at.Resource(fleetInfraEnvs).Watch(t.Context(), metav1.ListOptions{ResourceVersion: version})
		require.NoError(t, err)
		defer changes.Stop()
		for event := range changes.ResultChan() {
			require.Equal(t, watch.Modified, event.Type)
			env := event.Object.(*unstructured.Unstructured)
			if version = env.GetResourceVersion(); env.GetLabels()["walk"] == value {
				return
			}
		}
		t.Fatalf("the watch ended before the label was %s", value)
	}
	label(one, "first")
	awaitLabel(two, "first")

	leader.kill(t)
	f.resign(t)
	f.leaderBesides(t, leader)
	f.leader(t)
	label(one, "second")
	label(two, "third")
	awaitLabel(one, "third")
	leader.start(t)
	label(leader.objects(t), "fourth")
	awaitLabel(leader.objects(t), "fourth")

	infraEnvs := "/apis/agent-install.openshift.io/v1beta1/infraenvs"
	if own {
		answer, err := http.Get(followers[0].address + infraEnvs)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusNotFound, answer.StatusCode, "only its own listener has the API")
	}
	for _, m := range f.members {
		answer, err := http.Get(m.kubernetesURL() + infraEnvs)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.NotEmpty(t, answer.Header.Get("Landfall-Revision"), "the next read at the member has the change")
	}
}

// manifest returns an object of the Kubernetes API.
func manifest(version, of, name string, fields object) unstructured.Unstructured {
	content := map[string]any{"apiVersion": version, "kind": of, "metadata": map[string]any{"name": name}}
	maps.Copy(content, plain(fields))
	return unstructured.Unstructured{Object: content}
}

// plain returns an object whose values are of the types of decoded JSON.
func plain(of object) map[string]any {
	copied := map[string]any{}
	for key, value := range of {
		if inner, ok := value.(object); ok {
			value = plain(inner)
		}
		copied[key] = value
	}
	return copied
}
