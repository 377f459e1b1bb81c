package operator

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestOperators_table(t *testing.T) {
	rows, err := table()
	require.NoError(t, err)
	_, err = manifestTemplates()
	require.NoError(t, err)
	require.Len(t, rows, 28)
	// OpenShift's own namespace, which has an OperatorGroup
	namespaces := map[string]bool{"openshift-operators": true}
	for _, o := range rows {
		if !o.Namespace.Shared {
			namespaces[o.Namespace.Name] = true
			require.NotNil(t, o.Group, "%s: OLM does not install in a namespace without an OperatorGroup", o.Name)
		}
	}
	for _, o := range rows {
		for _, text := range []string{o.Title, string(o.Feature), o.Namespace.Name, o.Subscription.Name,
			o.Subscription.Package} {
			require.NotEmpty(t, text, o.Name)
		}
		require.Contains(t, indexes, o.Subscription.Catalog, o.Name)
		require.NotZero(t, o.Timeout, o.Name)
		require.NotEmpty(t, o.Images, o.Name)
		require.True(t, namespaces[o.Namespace.Name], "%s: no manifest creates the namespace %s", o.Name,
			o.Namespace.Name)
		for _, name := range slices.Concat(o.Needs, o.NeedsOnSingleNode) {
			_, known := ByName(name)
			require.True(t, known, "%s needs %s", o.Name, name)
		}
		for _, other := range o.Against {
			_, known := ByName(other.Name)
			require.True(t, known, "%s excludes %s", o.Name, other.Name)
		}
		require.NoError(t, o.Requirements.check(), o.Name)
	}
	ocs, _ := ByName("ocs")
	require.Equal(t, "odf", ocs.Name)
}

// The selected operators come first and in order. All dependencies follow, and no other operators.
func TestResolve_transitiveDependencies(t *testing.T) {
	names := Names()
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		selected, single := slices.Clone(names[:random.IntN(6)]), random.IntN(2) == 0
		all := Resolve(append(slices.Clone(selected), "coffee"), single)
		require.Equal(t, selected, append([]string{}, all[:len(selected)]...))
		sorted := slices.Sorted(slices.Values(all))
		require.Len(t, slices.Compact(sorted), len(all), "no repetitions")
		reasons := slices.Clone(selected)
		for _, name := range all {
			o, ok := ByName(name)
			require.True(t, ok)
			reasons = append(reasons, o.Dependencies(single)...)
		}
		for _, name := range reasons {
			require.Contains(t, all, name)
		}
		for _, name := range all {
			require.Contains(t, reasons, name)
		}
		require.ElementsMatch(t, all, Resolve(all, single), "no operator is added twice")
	}
	require.Equal(t, []string{"cluster-observability", "openshift-logging", "loki"},
		Resolve([]string{"cluster-observability"}, false))
	require.Equal(t, []string{"amd-gpu", "node-feature-discovery", "kmm"}, Resolve([]string{"amd-gpu"}, false))
	require.Equal(t, []string{"openshift-ai"}, Resolve([]string{"openshift-ai"}, false))
	require.Equal(t, []string{"openshift-ai", "lvm"}, Resolve([]string{"openshift-ai"}, true))
}

func TestOperator_availabilityByVersion(t *testing.T) {
	lvm, _ := ByName("lvm")
	require.Contains(t, lvm.Unavailable("4.10.3", true), "needs OpenShift 4.11")
	require.Empty(t, lvm.Unavailable("4.11.3", true))
	require.Contains(t, lvm.Unavailable("4.14.9", false), "on several nodes needs OpenShift 4.15")
	require.Empty(t, lvm.Unavailable("4.15.0-rc.1", false))
	require.Equal(t, "odf-lvm-operator", lvm.SubscriptionFor("4.11.4").Package)
	require.Equal(t, "lvms-operator", lvm.SubscriptionFor("4.12.0").Package)
	require.Contains(t, Conflict([]string{"cnv", "lvm"}, "4.11.4"), "from OpenShift 4.12 on")
	require.Empty(t, Conflict([]string{"cnv", "lvm"}, "4.12.0"))
	require.Empty(t, Conflict([]string{"lvm", "coffee"}, "4.11.4"))
}

func TestRequirements_byRoleVersionAndHardware(t *testing.T) {
	for _, c := range []struct {
		operator       string
		role           models.HostRole
		version        string
		single         bool
		disks, devices int
		want           Amounts
	}{
		{"lvm", "worker", "4.12.1", false, 0, 0, Amounts{1, 1200}},
		{"lvm", "worker", "4.13.1", false, 0, 0, Amounts{1, 400}},
		{"lvm", "master", "4.16.1", true, 0, 0, Amounts{1, 100}},
		{"odf", "master", "4.20.1", false, 1, 0, Amounts{8, 24 * 1024}},
		{"odf", "arbiter", "4.20.1", false, 1, 0, Amounts{8, 24 * 1024}},
		{"odf", "worker", "4.20.1", false, 3, 0, Amounts{14, 34 * 1024}},
		{"cnv", "master", "4.20.1", false, 0, 0, Amounts{4, 150}},
		{"cnv", "worker", "4.20.1", false, 0, 2, Amounts{2, 360 + 2048}},
		{"cnv", "master", "4.20.1", true, 0, 1, Amounts{6, 510 + 1024}},
		{"cnv", "arbiter", "4.20.1", false, 0, 0, Amounts{}},
		{"mce", "worker", "4.20.1", false, 0, 0, Amounts{4, 16 * 1024}},
		{"mce", "master", "4.20.1", true, 0, 0, Amounts{8, 32 * 1024}},
		{"mtv", "auto-assign", "4.20.1", false, 0, 0, Amounts{1, 1024}},
		{"openshift-ai", "worker", "4.20.1", false, 0, 0, Amounts{8, 32 * 1024}},
		{"openshift-ai", "master", "4.20.1", false, 0, 0, Amounts{}},
		{"metallb", "worker", "4.20.1", false, 0, 0, Amounts{}},
	} {
		o, _ := ByName(c.operator)
		require.Equal(t, c.want, o.Requirements.Of(c.role, c.version, c.single, c.disks, c.devices), "%+v", c)
	}
	odf, _ := ByName("odf")
	shown := odf.Preflight(odf.Requirements, "4.20.1", false)
	require.Equal(t, []string{"lso"}, shown.Dependencies)
	require.EqualValues(t, 6, shown.Requirements.Master.Quantitative.CPUCores)
	require.EqualValues(t, 8, shown.Requirements.Worker.Quantitative.CPUCores)
	require.NotEmpty(t, shown.Requirements.Worker.Qualitative)
}

func TestParseOverrides(t *testing.T) {
	overrides, err := ParseOverrides(
		[]byte(`{"mce": {"single_node": {"cpu_cores": 6}}, "odf": {"disk_gb": 100, "per_disk": {"ram_mib": 4096}}}`))
	require.NoError(t, err)
	mce, _ := ByName("mce")
	odf, _ := ByName("odf")
	lvm, _ := ByName("lvm")
	require.Equal(t, Amounts{6, 32 * 1024}, *overrides.For(mce).SingleNode)
	require.EqualValues(t, 8, mce.Requirements.SingleNode.CPUCores, "the table does not change")
	require.EqualValues(t, 100, overrides.For(odf).DiskGB)
	require.Equal(t, Amounts{2, 4096}, overrides.For(odf).PerDisk)
	require.Equal(t, lvm.Requirements, overrides.For(lvm))
	var none *Overrides
	require.Equal(t, odf.Requirements, none.For(odf))

	for text, want := range map[string]string{
		`[]`:                                   "not a map",
		`{`:                                    "not a map",
		`{"coffee": {}}`:                       `unknown operator "coffee"`,
		`{"odf": {"size": 1}}`:                 "operator odf: ",
		`{"odf": {"master": {"cpu": 1}}}`:      "field cpu not found",
		`{"odf": {"disk_gb": "big"}}`:          "big",
		`{"odf": {"disk_gb": -1}}`:             "disk_gb is -1",
		`{"odf": {"hosts": -1}}`:               "hosts is -1",
		`{"odf": {"on": "moon"}}`:              `on is "moon"`,
		`{"mce": {"worker": {"ram_mib": -1}}}`: "worker has a negative amount",
		`{"mce": {"single_node": {"cpu_cores": -1}}}`: "single_node has a negative amount",
	} {
		_, err := ParseOverrides([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

// kinds returns the kinds of YAML documents. It requires that oc can apply each of them.
func kinds(t *testing.T, text []byte) []string {
	t.Helper()
	var found []string
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var object struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string
			Metadata   struct{ Name string }
		}
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err, "%s", text)
		require.NotEmpty(t, object.APIVersion, "%s", text)
		require.NotEmpty(t, object.Metadata.Name, "%s", text)
		found = append(found, object.Kind)
	}
}

func TestManifests_kindsForEachOperator(t *testing.T) {
	custom := map[string][]string{
		"lso": {"LocalVolumeSet"}, "odf": {"StorageCluster"}, "lvm": {"LVMCluster"}, "mce": {"MultiClusterEngine"},
		"mtv": {"ForkliftController"},
		"osc": {"KataConfig"}, "cnv": {"HyperConverged"}, "nvidia-gpu": {"ClusterPolicy"},
		"amd-gpu": {"DeviceConfig", "MachineConfig", "MachineConfig"},
		"node-feature-discovery": {"NodeFeatureDiscovery", "NodeFeatureRule", "NodeFeatureRule", "NodeFeatureRule",
			"NodeFeatureRule"},
		"openshift-ai": {"DataScienceCluster", "DSCInitialization"}, "nmstate": {"NMState"},
		"node-healthcheck": {"NodeHealthCheck"},
		"kube-descheduler": {"KubeDescheduler"}, "cluster-observability": {"MonitoringStack", "ThanosQuerier"},
		"numaresources": {"NUMAResourcesOperator"},
		"oadp":          {"DataProtectionApplication"}, "metallb": {"MetalLB"},
	}
	for _, o := range All() {
		made, err := Cluster{Version: "4.20.1", Operators: []string{o.Name},
			ControllerImage: "quay.io/controller:1"}.Manifests()
		require.NoError(t, err, o.Name)
		want := []string{"ConfigMap", "Subscription"}
		if !o.Namespace.Shared {
			want = append(want, "Namespace")
		}
		if o.Group != nil {
			want = append(want, "OperatorGroup")
		}
		switch o.Name {
		case "lso", "amd-gpu", "numaresources":
			want = append(want, "Role", "RoleBinding")
		case "cnv":
			want = append(want, "MachineConfig", "MachineConfig")
		}
		var found []string
		for name, text := range made.Install {
			found = append(found, kinds(t, text)...)
			require.Equal(t, ".yaml", filepath.Ext(name))
		}
		require.ElementsMatch(t, want, found, o.Name)
		require.Equal(t, custom[o.Name], appliedKinds(t, made.Controller)[o.Name], o.Name)
	}
	none, err := Cluster{Version: "4.20.1"}.Manifests()
	require.NoError(t, err)
	require.Empty(t, none.Install)
	require.Nil(t, none.Controller, "a cluster without operators has nothing for the controller")
	_, err = Cluster{Version: "4.20.1", Operators: []string{"coffee"}}.Manifests()
	require.ErrorContains(t, err, `unknown operator "coffee"`)
}

func appliedKinds(t *testing.T, controller []byte) map[string][]string {
	t.Helper()
	var entries []controllerManifest
	require.NoError(t, json.Unmarshal(controller, &entries))
	found := make(map[string][]string)
	for _, entry := range entries {
		text, err := base64.StdEncoding.DecodeString(entry.Content)
		require.NoError(t, err)
		found[entry.Name] = append(found[entry.Name], kinds(t, text)...)
	}
	return found
}

// The golden files hold all manifests for several kinds of clusters. The flag -update rewrites
// them.
func TestManifests_golden(t *testing.T) {
	several := slices.DeleteFunc(Names(), func(name string) bool { return name == "lvm" })
	for name, cluster := range map[string]Cluster{
		"several-nodes-4.20": {Version: "4.20.4", Operators: several, Compact: true, Disks: 3},
		"workers-4.18": {Version: "4.18.2", Operators: []string{"odf", "lso", "cnv", "kube-descheduler"},
			Disks: 6},
		"single-node-4.19": {Version: "4.19.1", SingleNode: true, Operators: []string{"lvm", "cnv",
			"mce", "openshift-ai"}, Catalogs: map[string]string{"redhat-operators": "cs-redhat-operator-index-v4-19"}},
		"single-node-4.11": {Version: "4.11.9", SingleNode: true, Operators: []string{"lvm"}},
		"host-path-4.11":   {Version: "4.11.9", SingleNode: true, Operators: []string{"cnv"}},
		"workers-4.16":     {Version: "4.16.9", Operators: []string{"cnv", "kube-descheduler"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster.ControllerImage = "registry.site.test/controller@sha256:1234"
			made, err := cluster.Manifests()
			require.NoError(t, err)
			var text strings.Builder
			for _, file := range slices.Sorted(maps.Keys(made.Install)) {
				if file != "olm_operator_manifests.yaml" { // equal to the controller's file, see below
					fmt.Fprintf(&text, "# openshift/%s\n%s", file, made.Install[file])
				}
			}
			var entries []controllerManifest
			require.NoError(t, json.Unmarshal(made.Controller, &entries))
			for _, entry := range entries {
				content, err := base64.StdEncoding.DecodeString(entry.Content)
				require.NoError(t, err)
				fmt.Fprintf(&text, "# applied when %s is there\n%s", entry.Name, content)
			}
			path := filepath.Join("testdata", name+".yaml")
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
			}
			golden, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(golden), text.String())
		})
	}
}

// The ConfigMap for controllers without access to the appliance has the same content as the file
// for other controllers.
func TestManifests_configMapEqualsControllerFile(t *testing.T) {
	made, err := Cluster{Version: "4.11.9", SingleNode: true, Operators: []string{"lvm", "mce",
		"pipelines"}}.Manifests()
	require.NoError(t, err)
	var configMap struct {
		Metadata struct{ Name, Namespace string }
		Data     map[string]string
	}
	require.NoError(t, yaml.Unmarshal(made.Install["olm_operator_manifests.yaml"], &configMap))
	require.Equal(t, "assisted-installer/olm-operator-manifests", configMap.Metadata.Namespace+"/"+
		configMap.Metadata.Name)
	found := make(map[string][]string)
	for key, text := range configMap.Data {
		name, ok := strings.CutSuffix(key, ".metadata.yaml")
		if !ok {
			continue
		}
		var about struct {
			Namespace        string
			SubscriptionName string `yaml:"subscriptionName"`
			Manifests        []string
		}
		require.NoError(t, yaml.Unmarshal([]byte(text), &about))
		o, _ := ByName(name)
		require.Equal(t, []string{o.Namespace.Name, o.SubscriptionFor("4.11.9").Name},
			[]string{about.Namespace, about.SubscriptionName})
		for _, manifest := range about.Manifests {
			content, err := base64.StdEncoding.DecodeString(configMap.Data[manifest])
			require.NoError(t, err)
			found[name] = append(found[name], kinds(t, content)...)
		}
	}
	require.Equal(t, appliedKinds(t, made.Controller), found)
	require.Equal(t, []string{"LVMCluster", "AgentServiceConfig"}, found["lvm"],
		"the engine's volumes need the storage")
}

func TestSources_pickForACatalog(t *testing.T) {
	sources := Sources([]byte(`apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: cs-redhat-operator-index-v4-19}
spec: {image: "mirror:8443/oc/redhat/redhat-operator-index:v4.19"}
---
kind: ImageDigestMirrorSet
metadata: {name: idms}
`), []byte("kind: List\nitems:\n- {kind: CatalogSource, metadata: {name: certified-operators}, spec: {image: 'mirror/certs@sha256:12'}}\n"), []byte("}"), nil)
	require.Len(t, sources, 2)
	found, ok := Pick("redhat-operators", sources)
	require.True(t, ok)
	require.Equal(t, "cs-redhat-operator-index-v4-19", found.Name)
	require.Contains(t, string(found.Document), "kind: CatalogSource")
	found, ok = Pick("certified-operators", sources)
	require.True(t, ok, "the name of the source has precedence over its image")
	require.Equal(t, "certified-operators", found.Name)
	_, ok = Pick("community-operators", sources)
	require.False(t, ok)
	for image, fits := range map[string]bool{
		"mirror:8443/redhat/redhat-operator-index:v4.19": true, "mirror:8443/redhat/redhat-operator-index:v4.18": false,
		"mirror/index:site":      true,
		"mirror/index@sha256:12": true, "mirror:8443/index": true, "": true, "mirror/index:v4.18.2-1": true,
	} {
		require.Equal(t, fits, Source{Image: image}.Fits("4.19.3"), image)
	}
	require.Equal(t, "registry.redhat.io/redhat/redhat-operator-index:v4.19", IndexImage("redhat-operators", "4.19.3"))
	require.Equal(t, "registry.redhat.io/redhat/certified-operator-index:v4.20",
		IndexImage("certified-operators", "4.20-rc.1"))
}

func TestImageSet(t *testing.T) {
	text, err := ImageSet(Resolve([]string{"odf", "cnv", "amd-gpu", "coffee"}, false), "4.17.3")
	require.NoError(t, err)
	var set imageSet
	require.NoError(t, yaml.Unmarshal(text, &set))
	require.Len(t, set.Mirror.Operators, 2)
	require.Equal(t, "registry.redhat.io/redhat/redhat-operator-index:v4.17", set.Mirror.Operators[0].Catalog)
	require.Contains(t, set.Mirror.Operators[0].Packages, imageSetPackage{Name: "kubevirt-hyperconverged",
		Channels: []imageSetChannel{{"stable"}}})
	require.Contains(t, set.Mirror.Operators[0].Packages, imageSetPackage{Name: "cephcsi-operator"})
	require.Contains(t, set.Mirror.Operators[0].Packages, imageSetPackage{Name: "local-storage-operator"})
	require.NotContains(t, string(text), "odf-dependencies", "4.17 lacks the package")
	require.Equal(t, "registry.redhat.io/redhat/certified-operator-index:v4.17", set.Mirror.Operators[1].Catalog)
	require.Len(t, set.Mirror.Images, 2)
}

func TestBundles_byTopology(t *testing.T) {
	several, single := Bundles(false), Bundles(true)
	require.Equal(t, []string{"authorino", "odf", "openshift-ai", "pipelines", "serverless", "servicemesh"},
		several[1].Operators)
	require.Equal(t, []string{"lvm", "openshift-ai"}, single[1].Operators)
	require.Equal(t, []string{"amd-gpu", "nvidia-gpu"}, several[1].Optional)
	require.Equal(t, []string{
		"cluster-observability", "cnv", "fence-agents-remediation", "kube-descheduler", "loki", "metallb", "mtv",
		"nmstate",
		"node-healthcheck", "node-maintenance", "numaresources", "oadp", "openshift-logging",
	}, several[0].Operators)
	require.Equal(t, several[0], single[0])
}
