package appliance_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/client/operators"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/engine/catalog"
	"landfall/appliance/simulate"
	"landfall/appliance/simulate/registry"
)

// redHatCatalog is a CatalogSource as oc-mirror writes it.
const redHatCatalog = `apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata:
  name: cs-redhat-operator-index-v4-20
  namespace: openshift-marketplace
spec:
  image: mirror.site.test:8443/redhat/redhat-operator-index:v4.20
  sourceType: grpc
`

// simulateHosts runs a group of hosts. The returned function waits until all hosts have finished.
func (d *testAppliance) simulateHosts(env strfmt.UUID, count int, faults string) (ended func()) {
	d.Helper()
	parsed, err := simulate.ParseFaults(faults)
	require.NoError(d, err)
	group := &simulate.HostGroup{URL: d.address, InfraEnvID: env.String(), Count: count, Speed: 1000, Faults: parsed,
		HTTP: d.trusted, Token: d.token}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(d.Context())
	go func() { done <- group.Run(ctx) }()
	d.Cleanup(cancel)
	return func() { require.NoError(d, <-done) }
}

// eventuallySlow is until with a longer limit, for installations of several hosts on a busy
// machine.
func (d *testAppliance) eventuallySlow(cluster strfmt.UUID, status string) *models.Cluster {
	d.Helper()
	var got *models.Cluster
	require.Eventually(d, func() bool {
		got = d.get(cluster)
		return *got.Status == status
	}, 90*time.Second, 50*time.Millisecond, "the cluster is "+status)
	return got
}

// olmOperators returns the cluster's operators that OLM installs, by name.
func (d *testAppliance) olmOperators(cluster strfmt.UUID) map[string]*models.MonitoredOperator {
	d.Helper()
	listed, err := d.Operators.V2ListOfClusterOperators(d.Context(),
		&operators.V2ListOfClusterOperatorsParams{ClusterID: cluster})
	require.NoError(d, err)
	found := make(map[string]*models.MonitoredOperator)
	for _, operator := range listed.Payload {
		if operator.OperatorType == models.OperatorTypeOlm {
			found[operator.Name] = operator
		}
	}
	return found
}

// eventMessages returns the messages of a cluster's events.
func (d *testAppliance) eventMessages(cluster strfmt.UUID) string {
	d.Helper()
	var events []models.Event
	call(d.T, http.MethodGet, d.url+"/events?cluster_id="+cluster.String(), nil).read(d.T, http.StatusOK, &events)
	var text strings.Builder
	for _, event := range events {
		text.WriteString(*event.Message + "\n")
	}
	return text.String()
}

func selected(names ...string) []*models.OperatorCreateParams {
	list := []*models.OperatorCreateParams{}
	for _, name := range names {
		list = append(list, &models.OperatorCreateParams{Name: name})
	}
	return list
}

func TestOperators_clusterInstallsThem(t *testing.T) {
	for name, c := range map[string]struct {
		hosts     int
		operators []string
		faults    string
		installed map[string]models.OperatorStatus
		contains  string
		applied   map[string][]string // kinds by operator
	}{
		"LVM on a single node": {
			hosts: 1, operators: []string{"lvm"}, installed: map[string]models.OperatorStatus{"lvm": "available"},
			contains: "The cluster is installed.",
			applied:  map[string][]string{"lvm": {"LVMCluster"}},
		},
		"ODF and virtualization on three nodes, one of which fails": {
			hosts: 3, operators: []string{"odf", "cnv"}, faults: "operator-fails=cnv",
			installed: map[string]models.OperatorStatus{"odf": "available", "lso": "available", "cnv": "failed"},
			contains:  "The cluster is installed but degraded. Failed OLM operators: cnv.",
			applied: map[string][]string{"odf": {"StorageCluster"}, "lso": {"LocalVolumeSet"},
				"cnv": {"HyperConverged"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startAppliance(t)
			ctx := t.Context()
			cluster := d.cluster(func(params *models.ClusterCreateParams) {
				params.ControlPlaneCount, params.OlmOperators = conv.Pointer[int64](int64(c.hosts)),
					selected(c.operators...)
				if c.hosts > 1 {
					params.APIVips, params.IngressVips = []*models.APIVip{{IP: "192.168.100.4"}},
						[]*models.IngressVip{{IP: "192.168.100.5"}}
				}
			})
			_, err := d.addManifest(cluster, "openshift", "cs-redhat-operator-index-v4-20.yaml", redHatCatalog)
			require.NoError(t, err)
			ended := d.simulateHosts(d.infraEnv(&cluster), c.hosts, c.faults)
			d.eventuallySlow(cluster, models.ClusterStatusReady)
			_, err = d.Installer.V2InstallCluster(ctx, &installer.V2InstallClusterParams{ClusterID: cluster})
			require.NoError(t, err)
			installed := d.eventuallySlow(cluster, models.ClusterStatusInstalled)
			require.Equal(t, c.contains, *installed.StatusInfo)
			ended()

			found := d.olmOperators(cluster)
			require.Len(t, found, len(c.installed))
			for name, status := range c.installed {
				require.Equal(t, status, found[name].Status, name)
			}
			require.Equal(t, c.applied, d.customResources(cluster))
			bootstrap := d.files(cluster, "bootstrap.ign")
			for name := range c.installed {
				require.Contains(t, bootstrap["/opt/openshift/openshift/50_openshift-"+name+"_subscription.yaml"],
					"source: cs-redhat-operator-index-v4-20")
			}
			require.Contains(t, bootstrap["/opt/openshift/openshift/50_openshift-operators_operatorhub_cluster.yaml"],
				"disableAllDefaultSources: true")
			if eventMessages := d.eventMessages(cluster); c.faults != "" {
				require.Contains(t, eventMessages, "operator cnv is failed: InstallComponentFailed")
				require.Contains(t, eventMessages, "is degraded. Failed OLM operators: cnv.")
			}
		})
	}
}

// customResources returns the kinds of the resources that the controller applies, by operator.
func (d *testAppliance) customResources(cluster strfmt.UUID) map[string][]string {
	d.Helper()
	var text bytes.Buffer
	_, err := d.Installer.V2DownloadClusterFiles(d.Context(),
		&installer.V2DownloadClusterFilesParams{ClusterID: cluster, FileName: "custom_manifests.json"}, &text)
	require.NoError(d, err)
	var entries []struct{ Name, Content string }
	require.NoError(d, json.Unmarshal(text.Bytes(), &entries))
	kinds := make(map[string][]string)
	for _, entry := range entries {
		content, err := base64.StdEncoding.DecodeString(entry.Content)
		require.NoError(d, err)
		for document := range strings.SplitSeq(string(content), "---\n") {
			var object struct{ Kind string }
			require.NoError(d, yaml.Unmarshal([]byte(document), &object))
			kinds[entry.Name] = append(kinds[entry.Name], object.Kind)
		}
	}
	return kinds
}

// The checks without hosts share an appliance.
func TestOperators_ofClusters(t *testing.T) {
	d := startAppliance(t)
	for name, check := range map[string]func(*testing.T, *testAppliance){
		"they are chosen with what they depend on":                  testDependenciesAreSelected,
		"a bundle chooses its operators":                            testBundleSelectsOperators,
		"those that a cluster can't have are refused":               testUnsupportedOperatorsAreRejected,
		"a catalog that the mirror lacks holds the installation up": testMissingCatalogBlocksInstallation,
		"required images are listed":                                testRequiredImagesAreListed,
	} {
		t.Run(name, func(t *testing.T) { check(t, &testAppliance{t, d.AssistedInstall, d.connection, d.site, d.url}) })
	}
}

func testDependenciesAreSelected(t *testing.T, d *testAppliance) {
	cluster := d.cluster(func(params *models.ClusterCreateParams) {
		params.ControlPlaneCount, params.OlmOperators = nil, selected("ocs", "cluster-observability")
	})
	found := d.olmOperators(cluster)
	require.Len(t, found, 5)
	for name, dependency := range map[string]bool{"odf": false, "lso": true, "cluster-observability": false,
		"openshift-logging": true, "loki": true} {
		require.Equal(t, dependency, found[name].DependencyOnly, name)
		require.NotEmpty(t, found[name].Namespace+found[name].SubscriptionName, name)
		require.NotZero(t, found[name].TimeoutSeconds, name)
	}
	require.Contains(t, d.get(cluster).FeatureUsage, `"CLUSTER-OBSERVABILITY"`)

	changed, err := d.update(cluster, &models.V2ClusterUpdateParams{OlmOperators: selected("lso", "mtv")})
	require.NoError(t, err)
	require.Len(t, changed.MonitoredOperators, 5, "with console and cvo")
	found = d.olmOperators(cluster)
	require.False(t, found["lso"].DependencyOnly)
	require.True(t, found["cnv"].DependencyOnly)
	require.NotContains(t, changed.FeatureUsage, "ODF")
	_, err = d.update(cluster, &models.V2ClusterUpdateParams{Name: conv.Pointer("renamed")})
	require.NoError(t, err)
	require.Len(t, d.olmOperators(cluster), 3, "what is left out stays")
	_, err = d.update(cluster, &models.V2ClusterUpdateParams{OlmOperators: selected()})
	require.NoError(t, err)
	require.Empty(t, d.olmOperators(cluster))
	require.Contains(t, d.eventMessages(cluster),
		"the operators that are installed with it are odf, cluster-observability, lso, openshift-logging, loki.")
}

func testBundleSelectsOperators(t *testing.T, d *testAppliance) {
	cluster := d.cluster()
	change := func(body string) answer {
		return call(t, http.MethodPatch, d.url+"/clusters/"+cluster.String(), body)
	}
	require.Equal(t, 201,
		change(
			`{"operator_bundles": [{"id": "openshift-ai", "optional_operators": ["nvidia-gpu"]}], "olm_operators": [{"name": "metallb"}]}`).status)
	found := d.olmOperators(cluster)
	require.Len(t, found, 5)
	for name, dependency := range map[string]bool{"metallb": false, "openshift-ai": false, "lvm": false,
		"nvidia-gpu": false, "node-feature-discovery": true} {
		require.Equal(t, dependency, found[name].DependencyOnly, name)
	}
	require.Equal(t, 201, change(`{"operator_bundles": []}`).status)
	require.Empty(t, d.olmOperators(cluster))
	requireRefusal(t, change(`{"operator_bundles": [{"id": "coffee"}]}`), 400, `no bundle "coffee"`)
	requireRefusal(t, change(`{"operator_bundles": [{"id": "openshift-ai", "optional_operators": ["odf"]}]}`),
		400, `no optional operator "odf"`)
	requireRefusal(t, change(`{"operator_bundles": [null]}`), 422, "operator_bundles.0 in body is null")
	several := d.site.newCluster("several").with(object{"control_plane_count": 3,
		"operator_bundles": []object{{"id": "virtualization"}}})
	var made models.Cluster
	call(t, http.MethodPost, d.url+"/clusters", several).read(t, 201, &made)
	require.Len(t, made.MonitoredOperators, 2+13)
}

func testUnsupportedOperatorsAreRejected(t *testing.T, d *testAppliance) {
	several, single := d.cluster(func(params *models.ClusterCreateParams) { params.ControlPlaneCount = nil }),
		d.cluster()
	for name, c := range map[string]struct {
		cluster   strfmt.UUID
		operators []*models.OperatorCreateParams
		contains  string
	}{
		"one that there is not": {several, selected("coffee"), `There is no operator \"coffee\"`},
		"no name":               {several, selected(""), `There is no operator \"\"`},
		"a property that it lacks": {several, []*models.OperatorCreateParams{{Name: "lso",
			Properties: `{"size": 1}`}}, `Operator lso has no property \"size\"`},
		"properties that are no object": {several, []*models.OperatorCreateParams{{Name: "lso", Properties: "big"}},
			"are not a JSON object"},
		"two that keep the same volumes": {several, selected("odf", "lvm"),
			"Logical Volume Manager Storage and OpenShift Data Foundation can't be used together"},
		"storage for several nodes": {single, selected("odf"), "can't be used together"},
		"health checks of one node": {single, selected("self-node-remediation"), "can't be used together"},
	} {
		body, err := json.Marshal(map[string]any{"olm_operators": c.operators})
		require.NoError(t, err)
		requireRefusal(t, call(t, http.MethodPatch, d.url+"/clusters/"+c.cluster.String(), bytes.NewReader(body)),
			400, strings.ReplaceAll(c.contains, `\"`, `"`))
		require.Empty(t, d.olmOperators(c.cluster), name)
	}
	_, err := d.update(several, &models.V2ClusterUpdateParams{OlmOperators: []*models.OperatorCreateParams{{Name: "lso",
		Properties: "{}"}}})
	require.NoError(t, err)
	_, err = d.Installer.V2RegisterCluster(t.Context(),
		&installer.V2RegisterClusterParams{NewClusterParams: &models.ClusterCreateParams{
			Name: conv.Pointer("more"), OpenshiftVersion: conv.Pointer(d.site.release.Version),
			PullSecret: conv.Pointer(pullSecret), OlmOperators: selected("coffee"),
		}})
	refused(t, err, 400)
}

func testMissingCatalogBlocksInstallation(t *testing.T, d *testAppliance) {
	cluster := d.cluster(func(params *models.ClusterCreateParams) { params.OlmOperators = selected("lvm") })
	missing := "no mirror rule maps registry.redhat.io/redhat/redhat-operator-index:v4.20 to a mirror"
	require.Contains(t, d.get(cluster).ValidationsInfo, missing)
	_, err := d.addManifest(cluster, "openshift", "catalog.yaml", redHatCatalog)
	require.NoError(t, err)
	require.NotContains(t, d.get(cluster).ValidationsInfo, missing)
	require.Contains(t, d.listManifests(cluster, true), "system openshift/50_openshift-lvm_subscription.yaml")
	text, err := d.manifest(cluster, "openshift", "50_openshift-lvm_subscription.yaml")
	require.NoError(t, err)
	require.Contains(t, text, "source: cs-redhat-operator-index-v4-20")
}

func testRequiredImagesAreListed(t *testing.T, d *testAppliance) {
	cluster := d.cluster(func(params *models.ClusterCreateParams) { params.OlmOperators = selected("openshift-ai") })
	base := strings.TrimSuffix(d.url, apiPath) + "/api/landfall/v1"
	var all []catalog.Availability
	call(t, http.MethodGet, base+"/operators?openshift_version=4.18", nil).read(t, http.StatusOK, &all)
	require.Len(t, all, 28)
	for _, supply := range all {
		require.Regexp(t, "^registry.redhat.io/redhat/(redhat|certified)-operator-index:v4.18$", supply.Image)
		require.NotEmpty(t, supply.Package)
		require.Contains(t, supply.Missing, "no mirror rule maps "+supply.Image+" to a mirror")
		require.False(t, supply.Selected)
		for _, image := range supply.Images {
			require.Contains(t, image.Missing, "No mirror rule maps images of "+image.Repository)
		}
	}
	_, err := d.addManifest(cluster, "openshift", "catalog.yaml", redHatCatalog)
	require.NoError(t, err)
	var own []catalog.Availability
	call(t, http.MethodGet, base+"/clusters/"+cluster.String()+"/operators", nil).read(t, http.StatusOK, &own)
	for _, supply := range own {
		require.Equal(t, slices.Contains([]string{"openshift-ai", "lvm"}, supply.Name), supply.Selected, supply.Name)
		require.Equal(t, supply.Name == "lvm", supply.Dependency, supply.Name)
		if supply.Catalog == "redhat-operators" {
			require.Equal(t, "cs-redhat-operator-index-v4-20", supply.Source)
			require.Equal(t, "mirror.site.test:8443/redhat/redhat-operator-index:v4.20", supply.Image)
			require.Empty(t, supply.Missing)
		}
	}
	var imageSet bytes.Buffer
	require.Equal(t, http.StatusOK, download(t, base+"/clusters/"+cluster.String()+"/operators/imageset-config.yaml",
		&imageSet))
	require.Contains(t, imageSet.String(), "name: lvms-operator")
	require.Contains(t, imageSet.String(), "name: rhods-operator")

	requireRefusal(t, call(t, http.MethodGet, base+"/operators", nil), 400, "openshift_version")
	requireRefusal(t, call(t, http.MethodGet, base+"/operators?openshift_version=latest", nil), 400,
		`"latest" is invalid`)
	requireRefusal(t, call(t, http.MethodGet, base+"/clusters/"+missingID().String()+"/operators", nil),
		404, "There is no cluster")
	requireRefusal(t, call(t, http.MethodGet, base+"/clusters/"+missingID().String()+"/operators/imageset-config.yaml",
		nil), 404, "There is no cluster")
}

func TestOperatorCatalog_requestsEachImage(t *testing.T) {
	mirror, err := registry.New(t.Context(), "127.0.0.1:0", nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mirror.Close()) })
	const version = "4.20"
	resources, err := registry.PushCatalog(t.Context(), mirror.Addr, registry.Catalog{Index: "redhat-operator-index",
		Version: version, Packages: []registry.CatalogPackage{
			{Name: "lvms-operator", Images: []string{"registry.redhat.io/lvms4"}, Held: true},
			{Name: "kubevirt-hyperconverged", Channel: "candidate"},
			{Name: "metallb-operator", Images: []string{"registry.redhat.io/openshift4"}},
		}})
	require.NoError(t, err)
	s := newSite(t)
	file := filepath.Join(t.TempDir(), "cs.yaml")
	require.NoError(t, os.WriteFile(file, resources, 0o600))
	s.config.Mirror.IDMSFiles = append(s.config.Mirror.IDMSFiles, file)
	d := s.connect(t).appliance(t, s)
	cluster := d.cluster(func(params *models.ClusterCreateParams) {
		params.OlmOperators = selected("lvm", "cnv", "metallb", "loki", "nvidia-gpu")
	})

	var found []catalog.CheckResult
	checked := d.address + "/api/landfall/v1/clusters/" + cluster.String() + "/operators/check"
	call(t, http.MethodPost, checked, nil).read(t, http.StatusOK, &found)
	by := make(map[string]catalog.CheckResult)
	for _, one := range found {
		by[one.Name] = one
	}
	require.Empty(t, by["lvm"].Problems)
	require.Equal(t, []string{"lvms-operator.v1.0.0", "stable"}, []string{by["lvm"].Bundle, by["lvm"].Channel})
	require.Len(t, by["lvm"].Images, 2, "the bundle's and one that it needs")
	require.Contains(t, by["cnv"].Problems[0], `has no channel "stable"`)
	require.Contains(t, by["cnv"].Problems[0], "candidate")
	require.Contains(t, by["metallb"].Problems[0], "2 of the 2 images of MetalLB are not available")
	require.Contains(t, by["metallb"].Images[1].Problem, "registry.redhat.io/openshift4/metallb-operator@sha256:")
	require.Contains(t, by["loki"].Problems[0], "lacks the package loki-operator")
	require.Contains(t, by["nvidia-gpu"].Problems[0],
		"No mirror rule maps registry.redhat.io/redhat/certified-operator-index:v"+version)
	require.Len(t, by["nvidia-gpu"].Problems, 2, "and nobody serves it")
	requireRefusal(t, call(t, http.MethodPost, strings.Replace(checked, cluster.String(), missingID().String(), 1),
		nil),
		404, "There is no cluster")
}

// download writes the response body into a buffer and returns the status.
func download(t *testing.T, address string, into *bytes.Buffer) int {
	t.Helper()
	response, err := http.Get(address)
	require.NoError(t, err)
	defer response.Body.Close()
	_, err = into.ReadFrom(response.Body)
	require.NoError(t, err)
	return response.StatusCode
}
