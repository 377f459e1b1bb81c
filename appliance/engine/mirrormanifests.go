package engine

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/operator"
	"landfall/appliance/mirror"
)

// mirrorManifests are the objects by which the finished cluster keeps to the site's mirror: what
// install-config has no word for, and the mirror's catalogs of operators, with OpenShift's own
// switched off where nothing leads to them. Those in made are there already.
func (p *plan) mirrorManifests(made map[string][]byte) (map[string][]byte, error) {
	version, access := p.row.API.OpenshiftVersion, p.engine.clusterAccess(&p.row.API)
	wanted, err := p.mirror.Manifests(p.mirrorTarget())
	if err != nil {
		return nil, err
	}
	manifests := make(map[string][]byte)
	for _, m := range wanted {
		if !p.brings(m.Kind, m.Object) {
			manifests[filepath.Join(m.Folder, m.Name)] = m.YAML
		}
	}
	if len(p.mirror.RegistriesConf()) == 0 || !p.hasMarketplace() {
		return manifests, nil
	}
	for _, source := range access.Catalogs {
		named := func(n catalogNote) bool { return n.Kind == kindCatalogSource && n.Name == source.Name }
		name := "50_openshift-operators_catalogsource_" + source.Name + ".yaml"
		if made[name] == nil && source.Fits(version) && !slices.ContainsFunc(p.row.Catalogs, named) {
			manifests[filepath.Join("openshift", name)] = source.Document
		}
	}
	const hubName = "50_openshift-operators_operatorhub_cluster.yaml"
	_, leads := mirrored(p.mirror, operator.IndexImage(ownCatalogs[0], version))
	if made[hubName] != nil || leads || slices.ContainsFunc(p.row.Catalogs,
		func(n catalogNote) bool { return n.Kind == kindOperatorHub }) {
		return manifests, nil
	}
	manifests[filepath.Join("openshift",
		hubName)] = []byte("apiVersion: config.openshift.io/v1\nkind: OperatorHub\nmetadata:\n  name: " +
		"cluster\nspec:\n  disableAllDefaultSources: true\n")
	return manifests, nil
}

// MirrorLater returns what came with a cluster's mirror rules and can only be applied when the
// cluster runs, as YAML documents; nothing if there is nothing of that kind.
func (e *Engine) MirrorLater(id string) ([]byte, error) {
	row, err := e.clusterRow(id)
	if err != nil {
		return nil, err
	}
	p := &plan{engine: e, row: row, mirror: e.clusterAccess(&row.API).Mirror}
	var documents []byte
	for _, object := range p.mirror.LaterObjects(p.mirrorTarget()) {
		documents = append(append(documents, "---\n"...), object.YAML...)
	}
	return documents, nil
}

// mirrorTarget is what the cluster's version understands of mirror rules.
func (p *plan) mirrorTarget() mirror.Target {
	version := p.row.API.OpenshiftVersion
	return mirror.Target{
		MirrorSets: inventory.AtLeast(version, 4, 14), SourcePolicy: inventory.AtLeast(version, 4, 21),
		// The operator of OLM v1 brings the kind, on a node; where the bootstrap is the node
		// itself, there is none yet.
		ClusterCatalogs: inventory.AtLeast(version, 4, 18) && !p.singleNode() &&
			p.hasCapability("OperatorLifecycleManagerV1", 4, 18),
	}
}

// brings tells whether the cluster's own manifests have an object.
func (p *plan) brings(kind, name string) bool {
	for _, content := range p.manifests {
		text := string(content)
		if strings.Contains(text, "kind: "+kind+"\n") && strings.Contains(text, "name: "+name+"\n") {
			return true
		}
	}
	return false
}

// hasMarketplace tells whether the cluster gets what knows CatalogSource and OperatorHub. Objects
// of kinds that nobody brings would keep the bootstrap waiting.
func (p *plan) hasMarketplace() bool {
	return p.hasCapability("marketplace", 4, 11) && p.hasCapability("OperatorLifecycleManager", 4, 15)
}

// hasCapability tells whether the cluster gets a capability that there is since a version; before
// it, all clusters had what it stands for, or none.
func (p *plan) hasCapability(capability string, major, minor int) bool {
	var overrides struct {
		Capabilities struct {
			Baseline   string   `json:"baselineCapabilitySet"`
			Additional []string `json:"additionalEnabledCapabilities"`
		} `json:"capabilities"`
	}
	if p.row.API.InstallConfigOverrides == "" {
		return true
	}
	if err := json.Unmarshal([]byte(p.row.API.InstallConfigOverrides), &overrides); err != nil {
		return true // refused elsewhere
	}
	if !inventory.AtLeast(p.row.API.OpenshiftVersion, major, minor) ||
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
