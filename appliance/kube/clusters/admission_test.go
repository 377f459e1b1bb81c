package clusters

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/yaml"

	"landfall/appliance/kube/objects"
)

// requestFor returns an admission request of the API server. held is the stored object; "" for a
// new one.
func requestFor(t *testing.T, kind objects.Kind, fresh, held string) admission.Attributes {
	t.Helper()
	read := func(text string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(text), &u.Object))
		return u
	}
	operation := admission.Create
	var before *unstructured.Unstructured
	if held != "" {
		before, operation = read(held), admission.Update
	}
	gvk := schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}
	if before == nil {
		return admission.NewAttributesRecord(read(fresh), nil, gvk, "site", "one",
			gvk.GroupVersion().WithResource(kind.Resource), "", operation, &metav1.CreateOptions{}, false, nil)
	}
	return admission.NewAttributesRecord(read(fresh), before, gvk, "site", "one",
		gvk.GroupVersion().WithResource(kind.Resource), "", operation, &metav1.UpdateOptions{}, false, nil)
}

func TestAdmission_agentClusterInstall(t *testing.T) {
	install := func(spec, status string) string {
		return "metadata: {name: one, namespace: site}\nspec: {clusterDeploymentRef: {name: one}, " +
			spec + "}\nstatus: {conditions: [" + status + "]}"
	}
	started := "{type: Completed, status: 'False', reason: InstallationInProgress}"
	ended := "{type: Completed, status: 'True', reason: InstallationCompleted}"
	cases := []struct {
		name, fresh, held string
		code              int32
		says              string
	}{
		{"single node with cluster-managed networking",
			install("provisionRequirements: {controlPlaneAgents: 1}, networking: {userManagedNetworking: false}", ""),
			"", http.StatusConflict, "UserManagedNetworking must be set to true with SNO"},
		{"platform with user-managed networking",
			install("platformType: BareMetal, provisionRequirements: {controlPlaneAgents: 3}, networking: "+
				"{userManagedNetworking: true}", ""), "", http.StatusConflict,
			`Platform "baremetal" has cluster-managed networking; set spec.networking.userManagedNetworking to false or ` +
				"choose spec.platformType None."},
		{"single node with a worker", install("provisionRequirements: {controlPlaneAgents: 1, workerAgents: 1}, "+
			"networking: {userManagedNetworking: false}", ""), "", http.StatusConflict,
			workersOfSingleNode},
		{"single node with a worker and a wrong platform",
			install("platformType: BareMetal, provisionRequirements: {controlPlaneAgents: 1, workerAgents: 1}, "+
				"networking: {userManagedNetworking: true}", ""), "", http.StatusConflict,
			`Platform "baremetal" has cluster-managed networking; set spec.networking.userManagedNetworking to false or ` +
				"choose spec.platformType None."},
		{"image set changed", install("imageSetRef: {name: b}, provisionRequirements: {controlPlaneAgents: 3}", ""),
			install("imageSetRef: {name: a}, provisionRequirements: {controlPlaneAgents: 3}", ""),
			http.StatusBadRequest, "Attempted to change AgentClusterInstall.ImageSetRef which is immutable"},
		{"change during the installation", install("sshPublicKey: b, provisionRequirements: {controlPlaneAgents: 3}",
			started), install("sshPublicKey: a, provisionRequirements: {controlPlaneAgents: 3}", started),
			http.StatusBadRequest,
			"Attempted to change AgentClusterInstall.Spec which is immutable after install started, except for " +
				"ClusterMetadata,IgnitionEndpoint fields. Unsupported change: \n\tSSHPublicKey: (a => b)"},
		{"number of hosts during the installation",
			install("provisionRequirements: {controlPlaneAgents: 3, workerAgents: 2}", started),
			install("provisionRequirements: {controlPlaneAgents: 3}", started), http.StatusBadRequest,
			"ProvisionRequirements"},
		{"number of hosts after the installation",
			install("provisionRequirements: {controlPlaneAgents: 3, workerAgents: 2}", ended),
			install("provisionRequirements: {controlPlaneAgents: 3}", ended), 0, ""},
		{"ignition endpoint during the installation",
			install("ignitionEndpoint: {url: b}, provisionRequirements: {controlPlaneAgents: 3}", started),
			install("provisionRequirements: {controlPlaneAgents: 3}", started), 0, ""},
		{"empty list instead of no list", install("apiVIPs: [], provisionRequirements: {controlPlaneAgents: 3}",
			started), install("provisionRequirements: {controlPlaneAgents: 3}", started), 0, ""},
		{"virtual addresses with user-managed networking",
			install("apiVIPs: [192.168.10.4], provisionRequirements: {controlPlaneAgents: 3}, networking: "+
				"{userManagedNetworking: true}", ""), "", 0, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			requireAdmission(t, Admission{}.Validate(t.Context(), requestFor(t, objects.AgentClusterInstalls,
				c.fresh, c.held), nil), c.code, c.says)
		})
	}
}

const workersOfSingleNode = "A cluster with one control-plane agent is installed without workers and arbiters; set " +
	"workerAgents and arbiterAgents in spec.provisionRequirements to 0, and add workers after the installation."

// recordedWarnings records Landfall's warnings of a request.
type recordedWarnings []string

// AddWarning implements warning.Recorder.
func (r *recordedWarnings) AddWarning(agent, text string) {
	if agent == objects.WarningAgent {
		*r = append(*r, text)
	}
}

func TestAdmission_warnings(t *testing.T) {
	install := func(spec, status string) string {
		return "metadata: {name: one, namespace: site}\nspec: {clusterDeploymentRef: {name: one}, " + spec +
			"}\nstatus: {conditions: [" + status + "]}"
	}
	networks := func(cidr string, hostPrefix int) string {
		return install(fmt.Sprintf("imageSetRef: {name: a}, provisionRequirements: {controlPlaneAgents: 3}, "+
			"networking: {clusterNetwork: [{cidr: %s, hostPrefix: %d}]}", cidr, hostPrefix), "")
	}
	withWorkers := "imageSetRef: {name: a}, provisionRequirements: {controlPlaneAgents: 1, workerAgents: 1}, " +
		"networking: {userManagedNetworking: true}"
	deployment := func(kind string) string {
		return "metadata: {name: one, namespace: site}\nspec: {clusterName: one, platform: {agentBareMetal: {}}, " +
			"clusterInstallRef: {group: extensions.hive.openshift.io, version: v1beta1, kind: " + kind + ", name: one}}"
	}
	cases := []struct {
		name  string
		kind  objects.Kind
		fresh string
		says  []string
	}{
		{"single node with a worker", objects.AgentClusterInstalls, install(withWorkers, ""),
			[]string{workersOfSingleNode}},
		{"single node with an arbiter", objects.AgentClusterInstalls,
			install(strings.Replace(withWorkers, "workerAgents", "arbiterAgents", 1), ""),
			[]string{workersOfSingleNode}},
		{"installed single node with a worker", objects.AgentClusterInstalls,
			install(withWorkers, "{type: Completed, status: 'True', reason: InstallationCompleted}"), nil},
		{"imported single node with a worker", objects.AgentClusterInstalls,
			install(strings.Replace(withWorkers, "imageSetRef: {name: a}, ", "", 1), ""), nil},
		{"single node", objects.AgentClusterInstalls,
			install("imageSetRef: {name: a}, provisionRequirements: {controlPlaneAgents: 1}", ""), nil},
		{"host prefix", objects.AgentClusterInstalls, networks("10.128.0.0/14", 23), nil},
		{"no host prefix", objects.AgentClusterInstalls, networks("10.128.0.0/14", 0), nil},
		{"host prefix for too few hosts", objects.AgentClusterInstalls, networks("10.128.0.0/22", 23),
			[]string{"spec.networking.clusterNetwork: Cluster network 10.128.0.0/22 can be divided into 2 parts of " +
				"/23, but the hosts need 4: use a larger network or a longer host prefix."}},
		{"host prefix of the network's size", objects.AgentClusterInstalls, networks("10.128.0.0/14", 12),
			[]string{"spec.networking.clusterNetwork: The host prefix /12 is shorter than the prefix of the cluster " +
				"network 10.128.0.0/14, which is divided among the hosts: use a longer host prefix."}},
		{"host prefix that leaves no addresses", objects.AgentClusterInstalls, networks("10.128.0.0/14", 30),
			[]string{"spec.networking.clusterNetwork: The host prefix /30 of cluster network 10.128.0.0/14 leaves " +
				"a host fewer than 128 addresses: use /25 or shorter."}},
		{"ignored host prefix", objects.AgentClusterInstalls,
			strings.Replace(networks("10.128.0.0/14", 30), "networking: {", "networking: {networkType: Calico, ", 1),
			nil},
		{"invalid cluster network", objects.AgentClusterInstalls, networks("wide", 30), nil},
		{"install of another kind", objects.ClusterDeployments, deployment("AgentClusterInstal"),
			[]string{"The clusterInstallRef names the kind AgentClusterInstal of extensions.hive.openshift.io, but " +
				"this appliance installs only clusters of the kind AgentClusterInstall of " +
				"extensions.hive.openshift.io. The reference can't be changed: delete the " +
				"ClusterDeployment and apply it with the correct reference."}},
		{"install of the right kind", objects.ClusterDeployments, deployment("AgentClusterInstall"), nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var said recordedWarnings
			ctx := warning.WithWarningRecorder(t.Context(), &said)
			require.NoError(t, Admission{}.Validate(ctx, requestFor(t, c.kind, c.fresh, ""), nil))
			require.Equal(t, c.says, []string(said))
		})
	}
}

func requireAdmission(t *testing.T, err error, code int32, says string) {
	t.Helper()
	if code == 0 {
		require.NoError(t, err)
		return
	}
	status, ok := err.(apierrors.APIStatus)
	require.True(t, ok, "%v", err)
	require.Equal(t, code, status.Status().Code)
	require.Contains(t, status.Status().Message, says)
}

func TestAdmission_defaultUserManagedNetworking(t *testing.T) {
	cases := map[string]bool{
		"provisionRequirements: {controlPlaneAgents: 1}":                                                         true,
		"provisionRequirements: {controlPlaneAgents: 3}":                                                         false,
		"platformType: None, provisionRequirements: {controlPlaneAgents: 3}":                                     true,
		"platformType: BareMetal, provisionRequirements: {controlPlaneAgents: 3}":                                false,
		"platformType: VSphere, provisionRequirements: {controlPlaneAgents: 3}":                                  false,
		"provisionRequirements: {controlPlaneAgents: 1, workerAgents: 1}":                                        false,
		"platformType: External, external: {platformName: acme}, provisionRequirements: {controlPlaneAgents: 3}": true,
	}
	for spec, want := range cases {
		request := requestFor(t, objects.AgentClusterInstalls, "metadata: {name: one, namespace: site}\nspec: {"+
			spec+"}",
			"")
		require.NoError(t, Admission{}.Admit(t.Context(), request, nil))
		filled, found, err := unstructured.NestedBool(request.GetObject().(*unstructured.Unstructured).Object,
			"spec", "networking", "userManagedNetworking")
		require.NoError(t, err)
		require.True(t, found, spec)
		require.Equal(t, want, filled, spec)
	}
}

func TestAdmission_clusterDeployment(t *testing.T) {
	deployment := func(spec string) string { return "metadata: {name: one, namespace: site}\nspec: {" + spec + "}" }
	ref := "clusterInstallRef: {group: extensions.hive.openshift.io, version: v1beta1, kind: AgentClusterInstall, " +
		"name: one}, "
	metal := "platform: {agentBareMetal: {agentSelector: {}}}, "
	cases := []struct {
		name, fresh, held string
		code              int32
		says              string
	}{
		{"valid", deployment(ref + metal + "clusterName: edge"), "", 0, ""},
		{"neither provisioning nor clusterInstallRef", deployment(metal + "clusterName: edge"), "",
			http.StatusBadRequest,
			"must set provisioning or clusterInstallRef"},
		{"provisioning and clusterInstallRef", deployment(ref + metal + "provisioning: {}, clusterName: edge"),
			"", http.StatusForbidden, "cannot set provisioning when clusterInstallRef is set"},
		{"invalid cluster name", deployment(ref + metal + "clusterName: Edge_1"), "", http.StatusBadRequest,
			"Invalid cluster name"},
		{"no platform", deployment(ref + "clusterName: edge"), "", http.StatusBadRequest, "must specify a platform"},
		{"two platforms", deployment(ref + "platform: {agentBareMetal: {}, none: {}}, clusterName: edge"), "",
			http.StatusBadRequest, "only a single type of platform"},
		{"name changed", deployment(ref + metal + "clusterName: other"),
			deployment(ref + metal + "clusterName: edge"), http.StatusBadRequest,
			"Attempted to change ClusterDeployment.Spec which is immutable except for"},
		{"selector changed",
			deployment(ref + "platform: {agentBareMetal: {agentSelector: {matchLabels: {a: b}}}}, clusterName: edge"),
			deployment(ref + metal + "clusterName: edge"), 0, ""},
		{"installed reset to false", deployment(ref + metal + "clusterName: edge"),
			deployment(ref + metal + "installed: true, clusterName: edge"), http.StatusBadRequest,
			"cannot make uninstalled once installed"},
		{"installed without metadata", deployment(ref + metal + "installed: true, clusterName: edge"),
			deployment(ref + metal + "clusterName: edge"), http.StatusBadRequest, "clusterMetadata"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			requireAdmission(t, Admission{}.Validate(t.Context(), requestFor(t, objects.ClusterDeployments,
				c.fresh, c.held), nil), c.code, c.says)
		})
	}
}

func TestAdmission_protectedDelete(t *testing.T) {
	held := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "one",
		"annotations": map[string]any{annotationProtected: "true"}}}}
	gvk := schema.GroupVersionKind{Group: objects.ClusterDeployments.Group, Version: "v1", Kind: "ClusterDeployment"}
	request := admission.NewAttributesRecord(nil, held, gvk, "site", "one",
		gvk.GroupVersion().WithResource("clusterdeployments"), "", admission.Delete, &metav1.DeleteOptions{},
		false, nil)
	requireAdmission(t, Admission{}.Validate(t.Context(), request, nil), http.StatusForbidden,
		"remove the annotation first")
}
