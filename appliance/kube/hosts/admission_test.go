package hosts

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"landfall/appliance/kube/objects"
)

func TestAdmission_immutableFields(t *testing.T) {
	b := newSite(t)
	b.Apply("kind: ClusterDeployment\nmetadata: {namespace: site, name: new}\nspec: {installed: false}\n---\n" +
		"kind: ClusterDeployment\nmetadata: {namespace: site, name: done}\nspec: {installed: true}")
	const immutable, either = "which is immutable after InfraEnv creation.", "should be specified (not both)."
	for name, c := range map[string]struct {
		kind     objects.Kind
		was, is  string // specs; was is "" for a new object
		state    string // of the Agent's host
		sort     string
		says     string
		atStatus bool
	}{
		"cluster and version together": {kind: objects.InfraEnvs,
			is: "{clusterRef: {name: a, namespace: ns}, osImageVersion: '4.20'}", says: either},
		"a version alone": {kind: objects.InfraEnvs, is: "{osImageVersion: '4.20'}"},
		"another cluster": {kind: objects.InfraEnvs,
			was: "{clusterRef: {name: a, namespace: ns}}", is: "{clusterRef: {name: b, namespace: ns}}",
			says: immutable},
		"cluster removed": {kind: objects.InfraEnvs,
			was: "{clusterRef: {name: a, namespace: ns}}", is: "{}", says: immutable},
		"cluster added": {kind: objects.InfraEnvs, was: "{}",
			is: "{clusterRef: {name: a, namespace: ns}}", says: immutable},
		"another architecture": {kind: objects.InfraEnvs, was: "{}", is: "{cpuArchitecture: arm64}",
			says: immutable},
		"default architecture written out": {kind: objects.InfraEnvs, was: "{}", is: "{cpuArchitecture: x86_64}"},
		"version added to an installed cluster": {kind: objects.InfraEnvs,
			was: "{clusterRef: {name: done, namespace: site}}",
			is:  "{clusterRef: {name: done, namespace: site}, osImageVersion: '4.20'}"},
		"version added to a new cluster": {kind: objects.InfraEnvs, was: "{clusterRef: {name: new, namespace: site}}",
			is:   "{clusterRef: {name: new, namespace: site}, osImageVersion: '4.20'}",
			says: "when the cluster is not installed yet."},
		"a disk by id and by path": {kind: objects.Agents, was: "{}",
			is:   "{installation_disk_id: a, installation_disk_path: b}",
			says: "Either InstallationDiskID or InstallationDiskPath can be set, not both."},
		"cluster changed before the installation": {kind: objects.Agents, was: "{}",
			is: "{clusterDeploymentName: {name: a, namespace: ns}}", state: "known-unbound"},
		"cluster changed during the installation": {kind: objects.Agents,
			was: "{clusterDeploymentName: {name: a, namespace: ns}}",
			is:  "{clusterDeploymentName: {name: b, namespace: ns}}", state: "installing",
			says: "immutable during Agent installation."},
		"unbound during the installation": {kind: objects.Agents,
			was: "{clusterDeploymentName: {name: a, namespace: ns}}", is: "{}", state: "preparing-failed",
			says: "immutable during Agent installation."},
		"unbound while joining": {kind: objects.Agents,
			was: "{clusterDeploymentName: {name: a, namespace: ns}}", is: "{}", state: "installing",
			sort: "AddToExistingClusterHost"},
		"status changed during the installation": {kind: objects.Agents,
			was: "{clusterDeploymentName: {name: a, namespace: ns}}", is: "{}", state: "installing", atStatus: true},
		"Go's name of an architecture": {kind: objects.InfraEnvs, is: "{cpuArchitecture: amd64}",
			says: `spec.cpuArchitecture is "amd64"; use x86_64, aarch64, arm64, ppc64le or s390x`},
		"several architectures": {kind: objects.InfraEnvs, is: "{cpuArchitecture: multi}",
			says: `spec.cpuArchitecture is "multi"`},
		"RPM's name of an architecture": {kind: objects.InfraEnvs, is: "{cpuArchitecture: aarch64}"},
		"a classification": {kind: objects.AgentClassifications,
			is: "{labelKey: a, labelValue: b, query: .cpu.count > 4}"},
		"another label": {kind: objects.AgentClassifications,
			was: "{labelKey: a, labelValue: b, query: 'true'}", is: "{labelKey: a, labelValue: c, query: 'true'}",
			says: "may not be modified after creation"},
		"another query": {kind: objects.AgentClassifications,
			was: "{labelKey: a, labelValue: b, query: 'true'}", is: "{labelKey: a, labelValue: b, query: 'false'}"},
		"invalid query": {kind: objects.AgentClassifications,
			is: "{labelKey: a, labelValue: b, query: '.cpu['}", says: "unexpected"},
		"value reserved for errors": {kind: objects.AgentClassifications,
			is: "{labelKey: a, labelValue: QUERYERROR-x, query: 'true'}", says: "reserved"},
		"invalid label value": {kind: objects.AgentClassifications,
			is: "{labelKey: a, labelValue: 'x y', query: 'true'}", says: "spec: Invalid value"},
	} {
		object := func(spec string) *unstructured.Unstructured {
			u := &unstructured.Unstructured{}
			require.NoError(t, yaml.Unmarshal([]byte("{metadata: {namespace: site, name: x}, spec: "+
				spec+", status: {kind: '"+c.sort+"', debugInfo: {state: '"+c.state+"'}}}"), &u.Object))
			return u
		}
		operation, held := admission.Create, (*unstructured.Unstructured)(nil)
		if c.was != "" {
			operation, held = admission.Update, object(c.was)
		}
		subresource := ""
		if c.atStatus {
			subresource = "status"
		}
		rules := Admission{b.Controllers}
		require.True(t, rules.Handles(operation))
		attributes := admission.NewAttributesRecord(object(c.is), held, schema.GroupVersionKind{}, "site", "x",
			schema.GroupVersionResource{Group: c.kind.Group, Version: c.kind.Version, Resource: c.kind.Resource},
			subresource, operation, nil, false, nil)
		err := rules.Validate(t.Context(), attributes, nil)
		if c.says == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.says, name)
		require.True(t, apierrors.IsBadRequest(err), name)
	}
}

// TestAdmission_configMapsOfTheSite writes ConfigMaps whose names an AgentServiceConfig has.
func TestAdmission_configMapsOfTheSite(t *testing.T) {
	b := newSite(t)
	groups := map[string][]string{"operator": {"landfall:operator"}, "admin": {"landfall:admin", "system:masters"}}
	write := func(caller string, operation admission.Operation, namespace, name string) bool {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		held, asked := runtime.Object(object), name
		switch operation {
		case admission.Create:
			held, asked = nil, "" // the name may be generated
		case admission.Delete:
			object, asked = nil, ""
		}
		var fresh runtime.Object
		if object != nil {
			fresh = object
		}
		rules := Admission{b.Controllers}
		require.True(t, rules.Handles(operation))
		attributes := admission.NewAttributesRecord(fresh, held, schema.GroupVersionKind{}, namespace, asked,
			schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "", operation, nil, false,
			&user.DefaultInfo{Groups: groups[caller]})
		err := rules.Validate(t.Context(), attributes, nil)
		require.True(t, err == nil || apierrors.IsForbidden(err), "%v", err)
		return err == nil
	}
	require.True(t, write("operator", admission.Create, "site", "mirrors"), "no AgentServiceConfig names it")
	b.Apply(serviceConfigManifest + "  mirrorRegistryRef: {name: mirrors}\n  OSImageCACertRef: {name: ca}\n")
	for _, operation := range []admission.Operation{admission.Create, admission.Update, admission.Delete} {
		for _, name := range []string{"mirrors", "ca"} {
			for _, namespace := range []string{"site", "multicluster-engine", "open-cluster-management"} {
				require.False(t, write("operator", operation, namespace, name), "%s %s/%s", operation, namespace, name)
				require.True(t, write("admin", operation, namespace, name))
			}
		}
		require.True(t, write("operator", operation, "site", "others"))
	}
	b.Apply("kind: ConfigMap\nmetadata: {namespace: assisted-installer, name: mirrors}\ndata: {}")
	require.False(t, write("operator", admission.Update, "assisted-installer", "mirrors"))
	require.False(t, write("operator", admission.Create, "multicluster-engine", "mirrors"), "it would come first")
	require.True(t, write("operator", admission.Create, "site", "mirrors"), "the one of the hub's operator comes first")
}

// TestAdmission_namespaceOfTheSite deletes namespaces with ConfigMaps that an AgentServiceConfig
// names. A deleted namespace takes its ConfigMaps with it.
func TestAdmission_namespaceOfTheSite(t *testing.T) {
	b := newSite(t)
	b.Apply(serviceConfigManifest + "  mirrorRegistryRef: {name: mirrors}\n  OSImageCACertRef: {name: ca}\n---\n" +
		"kind: ConfigMap\nmetadata: {namespace: assisted-installer, name: mirrors}\n---\n" +
		"kind: ConfigMap\nmetadata: {namespace: site, name: mirrors}\n---\n" +
		"kind: ConfigMap\nmetadata: {namespace: other, name: ca}")
	remove := func(namespace string, groups ...string) error {
		held := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		return Admission{b.Controllers}.Validate(t.Context(), admission.NewAttributesRecord(nil, held,
			schema.GroupVersionKind{}, namespace, "",
			schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", admission.Delete, nil, false,
			&user.DefaultInfo{Groups: groups}), nil)
	}
	for namespace, name := range map[string]string{"assisted-installer": "mirrors", "other": "ca"} {
		err := remove(namespace, "landfall:operator")
		require.True(t, apierrors.IsForbidden(err), "%s: %v", namespace, err)
		require.ErrorContains(t, err, name)
		require.NoError(t, remove(namespace, "landfall:admin", user.SystemPrivilegedGroup))
	}
	require.NoError(t, remove("site", "landfall:operator"), "the one of the hub's operator comes first")
	require.NoError(t, remove("empty", "landfall:operator"))
}
