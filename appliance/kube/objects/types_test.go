package objects_test

import (
	"encoding/json"
	"testing"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	hive "github.com/openshift/hive/apis/hive/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

// A user's manifest keeps all fields through its Go type and the store.
func TestTypes_roundTrip(t *testing.T) {
	cases := []struct {
		kind     objects.Kind
		typed    any
		manifest string
	}{
		{objects.Namespaces, &corev1.Namespace{}, `{"metadata":{"name":"one"}}`},
		{objects.Secrets, &corev1.Secret{},
			`{"metadata":{"name":"one","namespace":"site"},"data":{"password":"Y2FsdmluCg=="}}`},
		{objects.ConfigMaps, &corev1.ConfigMap{},
			`{"metadata":{"name":"one","namespace":"site"},"data":{"a.yaml":"a: b\n"}}`},
		{objects.ClusterImageSets, &hive.ClusterImageSet{},
			`{"metadata":{"name":"one"},"spec":{"releaseImage":"registry.site/release:4.18"}}`},
		{objects.ClusterDeployments, &hive.ClusterDeployment{},
			`{"metadata":{"name":"one","namespace":"site"},"spec":{"clusterName":"one","baseDomain":"site.example","platform":{"agentBareMetal":{"agentSelector":{"matchLabels":{"a":"b"}}}},"clusterInstallRef":{"group":"extensions.hive.openshift.io","version":"v1beta1","kind":"AgentClusterInstall","name":"one"},"pullSecretRef":{"name":"pull"}}}`},
		{objects.AgentClusterInstalls, &hiveext.AgentClusterInstall{},
			`{"metadata":{"name":"one","namespace":"site"},"spec":{"clusterDeploymentRef":{"name":"one"},"imageSetRef":{"name":"one"},"networking":{"clusterNetwork":[{"cidr":"10.128.0.0/14","hostPrefix":23}]},"provisionRequirements":{"controlPlaneAgents":3}}}`},
		{objects.InfraEnvs, &agentinstall.InfraEnv{},
			`{"metadata":{"name":"one","namespace":"site"},"spec":{"clusterRef":{"name":"one","namespace":"site"},"pullSecretRef":{"name":"pull"},"kernelArguments":[{"operation":"append","value":"quiet"}]}}`},
		{objects.NMStateConfigs, &agentinstall.NMStateConfig{},
			`{"metadata":{"name":"one","namespace":"site","labels":{"a":"b"}},"spec":{"interfaces":[{"name":"eth0","macAddress":"02:00:00:00:00:01"}],"config":{"interfaces":[{"name":"eth0","type":"ethernet"}]}}}`},
		{objects.Agents, &agentinstall.Agent{},
			`{"metadata":{"name":"one","namespace":"site"},"spec":{"approved":true,"role":"master","installation_disk_id":"/dev/sda"}}`},
		{objects.AgentClassifications, &agentinstall.AgentClassification{},
			`{"metadata":{"name":"one","namespace":"site"},"spec":{"labelKey":"size","labelValue":"big","query":".cpu.count > 8"}}`},
		{objects.AgentServiceConfigs, &agentinstall.AgentServiceConfig{},
			`{"metadata":{"name":"agent"},"spec":{"osImages":[{"openshiftVersion":"4.18","version":"4.18.1","url":"http://site/rhcos.iso","cpuArchitecture":"x86_64"}]}}`},
		{objects.BareMetalHosts, &metal3.BareMetalHost{},
			`{"metadata":{"name":"one","namespace":"site"},"spec":{"online":true,"bootMACAddress":"02:00:00:00:00:01","bmc":{"address":"redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1","credentialsName":"bmc","disableCertificateVerification":true}}}`},
		{objects.ManagedClusters, &clusterv1.ManagedCluster{},
			`{"metadata":{"name":"one","labels":{"cloud":"BareMetal"}},"spec":{"hubAcceptsClient":true}}`},
	}
	db, o := open(t), objects.New(nil, nil)
	for _, c := range cases {
		t.Run(c.kind.Kind, func(t *testing.T) {
			require.NoError(t, json.Unmarshal([]byte(c.manifest), c.typed))
			u, err := objects.From(c.kind, c.typed)
			require.NoError(t, err)
			update(t, db, func(tx *store.Tx) error { return o.Create(tx, c.kind, u, noon) })
			read := &unstructured.Unstructured{}
			require.NoError(t, db.View(func(tx *store.Tx) error {
				return o.Get(tx, c.kind, u.GetNamespace(),
					u.GetName(), read)
			}))
			var want map[string]any
			require.NoError(t, json.Unmarshal([]byte(c.manifest), &want))
			for _, field := range []string{"spec", "data"} {
				if want[field] == nil {
					continue
				}
				got, err := json.Marshal(read.Object[field])
				require.NoError(t, err)
				wanted, err := json.Marshal(want[field])
				require.NoError(t, err)
				var holds map[string]any
				require.NoError(t, json.Unmarshal(got, &holds))
				requireHolds(t, holds, want[field].(map[string]any), string(wanted))
			}
			require.Equal(t, c.kind.Kind, read.GetKind())
			require.Equal(t, c.kind.APIVersion(), read.GetAPIVersion())
		})
	}
}

// requireHolds requires every field of want in got. got may have more fields.
func requireHolds(t *testing.T, got, want map[string]any, message string) {
	t.Helper()
	for key, value := range want {
		if inner, ok := value.(map[string]any); ok {
			held, ok := got[key].(map[string]any)
			require.True(t, ok, "%s: %s", message, key)
			requireHolds(t, held, inner, message)
			continue
		}
		require.Equal(t, value, got[key], "%s: %s", message, key)
	}
}
