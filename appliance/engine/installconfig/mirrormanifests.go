package installconfig

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/catalog"
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/operator"
	"landfall/appliance/engine/validation"
	"landfall/appliance/mirror"
)

// mirrorManifests returns the manifests with which the installed cluster uses the site's mirror:
// the rules that an install-config cannot express, and the CatalogSources of the mirror rules. An
// OperatorHub disables OpenShift's own catalogs if no rule maps them to a mirror. Objects that are
// also in the operators' manifests are left out.
func (in *Installation) mirrorManifests(operators map[string][]byte) (map[string][]byte, error) {
	version := in.Cluster.OpenshiftVersion
	objects, err := in.Mirror.Manifests(in.mirrorTarget())
	if err != nil {
		return nil, err
	}
	manifests := make(map[string][]byte)
	for _, m := range objects {
		if !in.hasManifest(m.Kind, m.Object) {
			manifests[path.Join(m.Folder, m.Name)] = m.YAML
		}
	}
	if len(in.Mirror.RegistriesConf()) == 0 || !in.hasMarketplace() {
		return manifests, nil
	}
	for _, source := range in.Catalogs.Sources {
		name := catalogSourceFile(source.Name)
		if operators[name] == nil && source.Fits(version) && !in.Catalogs.HasSource(source.Name) {
			manifests[path.Join("openshift", name)] = source.Document
		}
	}
	_, served := catalog.RuleFor(in.Mirror, operator.IndexImage(catalog.DefaultCatalogs[0], version))
	if operators[operatorHubFile] != nil || served || in.Catalogs.HasOperatorHub() {
		return manifests, nil
	}
	manifests[path.Join("openshift", operatorHubFile)] = []byte(withoutDefaultCatalogs)
	return manifests, nil
}

// operatorHubFile is the file name of the appliance's OperatorHub manifest.
const operatorHubFile = "50_openshift-operators_operatorhub_cluster.yaml"

// withoutDefaultCatalogs disables all of OpenShift's own catalogs.
const withoutDefaultCatalogs = `apiVersion: config.openshift.io/v1
kind: OperatorHub
metadata:
  name: cluster
spec:
  disableAllDefaultSources: true
`

// catalogSourceFile returns the file name of a CatalogSource manifest.
func catalogSourceFile(name string) string {
	return "50_openshift-operators_catalogsource_" + name + ".yaml"
}

// operatorManifests renders the manifests of the cluster's operators and of their catalogs.
func (in *Installation) operatorManifests() (*operator.Manifests, error) {
	cluster := operator.Cluster{
		Version: in.Cluster.OpenshiftVersion, SingleNode: in.singleNode(),
		Operators: operator.Selected(in.Cluster, true), ControllerImage: in.ControllerImage,
		Catalogs: make(map[string]string),
	}
	cluster.Compact, cluster.Disks = validation.Storage(in.Cluster, in.Hosts, in.Requirements)
	origins := in.Catalogs.Origins()
	for _, origin := range origins {
		if origin.Source != "" {
			cluster.Catalogs[origin.Catalog] = origin.Source
		}
	}
	made, err := cluster.Manifests()
	if err != nil {
		return nil, fmt.Errorf("making the manifests of the operators: %w", err)
	}
	for _, origin := range origins {
		if origin.Document != nil {
			made.Install[catalogSourceFile(origin.Source)] = origin.Document
		}
	}
	hub, err := catalog.OperatorHub(origins)
	if err != nil {
		return nil, err
	}
	if hub != nil && !in.Catalogs.HasOperatorHub() {
		made.Install[operatorHubFile] = hub
	}
	return made, nil
}

// LaterObjects returns the objects of the mirror rules that can be created only in a running
// cluster, as YAML documents. It is empty if there are none.
func (in *Installation) LaterObjects() []byte {
	var documents []byte
	for _, object := range in.Mirror.LaterObjects(in.mirrorTarget()) {
		documents = append(append(documents, "---\n"...), object.YAML...)
	}
	return documents
}

// mirrorTarget returns the formats of mirror rules that the cluster supports.
func (in *Installation) mirrorTarget() mirror.Target {
	version := in.Cluster.OpenshiftVersion
	return mirror.Target{
		MirrorSets: inventory.AtLeast(version, 4, 14), SourcePolicy: inventory.AtLeast(version, 4, 21),
		// The operator of OLM v1 creates the kind ClusterCatalog and runs on a node. A single node
		// that is its own bootstrap lacks the kind during the bootstrap.
		ClusterCatalogs: inventory.AtLeast(version, 4, 18) && !in.singleNode() &&
			in.hasCapability("OperatorLifecycleManagerV1", 4, 18),
	}
}

// hasManifest reports whether the users' manifests contain an object.
func (in *Installation) hasManifest(kind, name string) bool {
	for _, content := range in.Manifests {
		text := string(content)
		if strings.Contains(text, "kind: "+kind+"\n") && strings.Contains(text, "name: "+name+"\n") {
			return true
		}
	}
	return false
}

// hasMarketplace reports whether the cluster has the kinds CatalogSource and OperatorHub. In a
// cluster without these kinds, the bootstrap would wait forever to create objects of them.
func (in *Installation) hasMarketplace() bool {
	return in.hasCapability("marketplace", 4, 11) && in.hasCapability("OperatorLifecycleManager", 4, 15)
}

// hasCapability reports whether the cluster has a capability; see [HasCapability].
func (in *Installation) hasCapability(capability string, major, minor int) bool {
	return HasCapability(in.Cluster, capability, major, minor)
}

// HasCapability reports whether a cluster has a capability that OpenShift introduced in the given
// version. In earlier versions, it cannot be disabled.
func HasCapability(cluster *models.Cluster, capability string, major, minor int) bool {
	var overrides struct {
		Capabilities struct {
			Baseline   string   `json:"baselineCapabilitySet"`
			Additional []string `json:"additionalEnabledCapabilities"`
		} `json:"capabilities"`
	}
	if cluster.InstallConfigOverrides == "" {
		return true
	}
	if err := json.Unmarshal([]byte(cluster.InstallConfigOverrides), &overrides); err != nil {
		return true // another check rejects the override
	}
	if !inventory.AtLeast(cluster.OpenshiftVersion, major, minor) ||
		slices.Contains(overrides.Capabilities.Additional, capability) {
		return true
	}
	switch baseline := overrides.Capabilities.Baseline; baseline {
	case "", "vCurrent":
		return true
	case "None":
		return false
	default:
		var since [2]int
		_, err := fmt.Sscanf(baseline, "v%d.%d", &since[0], &since[1])
		return err == nil && (since[0] > major || since[0] == major && since[1] >= minor)
	}
}
