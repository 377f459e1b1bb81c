package apply

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"landfall/appliance/kube/objects"
)

// A ClusterInstance describes a site for the siteconfig operator, which renders manifests from
// templates. The appliance does not run that operator. Instead, this file renders the manifests of
// the Assisted Installer's templates when it reads a ClusterInstance.

const (
	siteconfigGroup     = "siteconfig.open-cluster-management.io"
	clusterInstanceKind = "ClusterInstance"
	labelOfNetworks     = "nmstate-label" // label with which the InfraEnv selects the NMStateConfigs
	installerTemplates  = "ai-"           // prefix of the names of the templates for the Assisted Installer
)

// The supported fields of a ClusterInstance and of its nodes, and the fields that are accepted but
// have no effect on an appliance. All other fields are reported as problems.
var (
	instanceFields = strings.Fields(`additionalNTPSources apiVIPs baseDomain clusterImageSetNameRef clusterLabels clusterName
		clusterNetwork clusterType cpuArchitecture cpuPartitioningMode extraAnnotations extraLabels
		extraManifestsRefs holdInstallation ignitionConfigOverride ingressVIPs installConfigOverrides
		machineNetwork networkType nodes platformType proxy pruneManifests pullSecretRef serviceNetwork
		sshPublicKey suppressedManifests templateRefs`)
	nodeFields = strings.Fields(`automatedCleaningMode bmcAddress bmcCredentialsName bootMACAddress bootMode extraAnnotations
		extraLabels hostName ignitionConfigOverride installerArgs ironicInspect nodeLabels nodeNetwork
		pruneManifests role rootDeviceHints suppressedManifests templateRefs`)
)

// The fields with a text, a list or a map. A value of another type would have no effect.
var (
	textFields = strings.Fields(`automatedCleaningMode baseDomain bmcAddress bootMACAddress bootMode
		clusterImageSetNameRef clusterName cpuArchitecture cpuPartitioningMode hostName ignitionConfigOverride
		installConfigOverrides installerArgs ironicInspect networkType platformType role sshPublicKey`)
	listFields = strings.Fields(`additionalNTPSources apiVIPs clusterNetwork extraManifestsRefs ingressVIPs
		machineNetwork nodes serviceNetwork suppressedManifests templateRefs`)
	mapFields = strings.Fields(`bmcCredentialsName clusterLabels extraAnnotations extraLabels nodeLabels
		nodeNetwork proxy pullSecretRef rootDeviceHints`)
	nodeRoles = []string{"", "master", "worker", "arbiter"} // "" is master
)

// instance renders a ClusterInstance.
type instance struct {
	*reader
	*Object
	cluster string // name of the cluster, and namespace of its objects
	made    []*Object
}

// render returns the objects of a ClusterInstance.
func (r *reader) render(o *Object) []*Object {
	i := &instance{reader: r, Object: o, cluster: o.text("spec", "clusterName")}
	problems := len(r.problems)
	for _, field := range [][]string{{"clusterName"}, {"baseDomain"}, {"clusterImageSetNameRef"},
		{"pullSecretRef", "name"}} {
		if o.text(append([]string{"spec"}, field...)...) == "" {
			r.problem(o.Source, "%s has no spec.%s", o, strings.Join(field, "."))
		}
	}
	nodes, _ := o.at("spec", "nodes").([]any)
	if len(nodes) == 0 {
		r.problem(o.Source, "%s has no spec.nodes", o)
	}
	i.noteIgnored(o.at("spec"), "spec", instanceFields)
	i.checkTypes(o.at("spec"), "spec")
	i.templates(o.at("spec"))
	i.install(nodes)
	i.rest(!slices.ContainsFunc(nodes, func(node any) bool { return len(interfacesOf(node)) > 0 }))
	for n, node := range nodes {
		i.node(n, node)
	}
	if len(r.problems) > problems {
		return nil
	}
	r.note(o.Source, "%s is rendered as %d objects, as by the siteconfig operator's templates for the "+
		"Assisted Installer", o, len(i.made))
	return i.made
}

// noteIgnored adds a note for each field that has no effect on an appliance.
func (i *instance) noteIgnored(from any, path string, known []string) {
	fields, _ := from.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, name) {
			i.note(i.Source, "%s: %s.%s has no effect here", i.Object, path, name)
		}
	}
}

// checkTypes reports values whose type is wrong.
func (i *instance) checkTypes(from any, path string) {
	fields, _ := from.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		var fits bool
		expected := ""
		switch value := fields[name]; {
		case value == nil:
			continue
		case slices.Contains(textFields, name):
			_, fits = value.(string)
			expected = "a text"
		case slices.Contains(listFields, name):
			_, fits = value.([]any)
			expected = "a list"
		case slices.Contains(mapFields, name):
			_, fits = value.(map[string]any)
			expected = "an object"
		default:
			continue
		}
		if !fits {
			i.problem(i.Source, "%s has %s.%s of a wrong type; expected %s", i.Object, path, name, expected)
		}
	}
}

// textsIn returns a text of each item of a list in the spec, for example the cidr of each network.
func (i *instance) textsIn(field, key string) (all []string) {
	for n, item := range list(i.at("spec", field)) {
		text := textAt(item, key)
		if text == "" {
			i.problem(i.Source, "%s has no spec.%s[%d].%s", i.Object, field, n, key)
		}
		all = append(all, text)
	}
	return all
}

func (i *instance) templates(from any) {
	refs, _ := valueAt(from, "templateRefs").([]any)
	for _, ref := range refs {
		if name := textAt(ref, "name"); !strings.HasPrefix(name, installerTemplates) {
			i.problem(i.Source, "%s specifies the templates %q, but only those of the Assisted Installer "+
				"(ai-cluster-templates-v1, ai-node-templates-v1) are supported; apply the rendered manifests instead",
				i.Object,
				name)
		}
	}
}

// add adds an object unless its owner suppresses it. The owner is the spec or a node of the
// ClusterInstance.
func (i *instance) add(owner any, kind objects.Kind, name string, labels, annotations, spec map[string]any) {
	for _, suppressed := range texts(valueAt(owner, "suppressedManifests"), i.at("spec", "suppressedManifests")) {
		if suppressed == kind.Kind {
			return
		}
	}
	labels = i.extra(owner, "extraLabels", kind.Kind, labels)
	annotations = i.extra(owner, "extraAnnotations", kind.Kind, annotations)
	metadata := filled(map[string]any{"name": name, "labels": labels, "annotations": annotations})
	made := &Object{APIVersion: kind.APIVersion(), Kind: kind.Kind, Name: name, Source: i.Source}
	if kind.Namespaced {
		made.Namespace, metadata["namespace"] = i.cluster, i.cluster
	}
	made.Content = map[string]any{"apiVersion": made.APIVersion, "kind": made.Kind, "metadata": metadata,
		"spec": filled(spec)}
	i.made = append(i.made, made)
}

// extra adds the labels or annotations that users specify for all objects of a kind. Existing
// values are not overwritten.
func (i *instance) extra(owner any, field, kind string, there map[string]any) map[string]any {
	all := map[string]any{}
	for _, from := range []any{i.at("spec"), owner} {
		given, _ := valueAt(from, field, kind).(map[string]any)
		for key, value := range given {
			all[key] = plainText(value)
		}
	}
	maps.Copy(all, there)
	return all
}

// install adds the ClusterDeployment and the AgentClusterInstall.
func (i *instance) install(nodes []any) {
	spec := i.at("spec")
	ref := map[string]any{"name": i.cluster}
	i.add(spec, objects.ClusterDeployments, i.cluster, nil, nil, map[string]any{
		"baseDomain": valueAt(spec, "baseDomain"), "clusterName": i.cluster, "pullSecretRef": valueAt(spec,
			"pullSecretRef"),
		"clusterInstallRef": map[string]any{"group": "extensions.hive.openshift.io", "kind": "AgentClusterInstall",
			"name": i.cluster, "version": "v1beta1"},
		"platform": map[string]any{"agentBareMetal": map[string]any{"agentSelector": map[string]any{
			"matchLabels": map[string]any{"cluster-name": i.cluster}}}},
	})
	roles := map[string]int{}
	for _, node := range nodes {
		role := textAt(node, "role")
		if role == "" {
			role = "master"
		}
		roles[role]++
	}
	count := func(role string) json.Number { return json.Number(strconv.Itoa(roles[role])) }
	required := map[string]any{"controlPlaneAgents": count("master"), "workerAgents": count("worker")}
	if roles["arbiter"] > 0 {
		required["arbiterAgents"] = count("arbiter")
	}
	var services []any
	for _, cidr := range i.textsIn("serviceNetwork", "cidr") {
		services = append(services, cidr)
	}
	var manifests []any
	for _, name := range i.textsIn("extraManifestsRefs", "name") {
		manifests = append(manifests, map[string]any{"name": name})
	}
	annotations := map[string]any{}
	if overrides := i.overrides(); overrides != "" {
		annotations["agent-install.openshift.io/install-config-overrides"] = overrides
	}
	i.add(spec, objects.AgentClusterInstalls, i.cluster, nil, annotations, map[string]any{
		"clusterDeploymentRef": ref, "imageSetRef": map[string]any{"name": valueAt(spec, "clusterImageSetNameRef")},
		"holdInstallation": valueAt(spec, "holdInstallation"), "apiVIPs": valueAt(spec, "apiVIPs"),
		"ingressVIPs": valueAt(spec, "ingressVIPs"),
		"networking": filled(map[string]any{
			"clusterNetwork": valueAt(spec, "clusterNetwork"), "machineNetwork": valueAt(spec, "machineNetwork"),
			"serviceNetwork": services,
			"networkType":    valueAt(spec, "networkType"),
		}),
		"provisionRequirements": required, "proxy": valueAt(spec, "proxy"), "sshPublicKey": valueAt(spec,
			"sshPublicKey"),
		"manifestsConfigMapRefs": manifests, "platformType": valueAt(spec, "platformType"),
	})
}

// overrides returns the ClusterInstance's install-config overrides, extended by its CPU
// partitioning mode.
func (i *instance) overrides() string {
	text := strings.TrimSpace(i.text("spec", "installConfigOverrides"))
	mode := i.text("spec", "cpuPartitioningMode")
	if mode == "" || mode == "None" {
		return text
	}
	fields := map[string]any{}
	if text != "" {
		value, err := decode([]byte(text))
		known, ok := value.(map[string]any)
		if err != nil || !ok {
			i.problem(i.Source, "%s has spec.installConfigOverrides that are not a JSON object", i.Object)
			return ""
		}
		fields = known
	}
	fields["cpuPartitioningMode"] = mode
	joined, err := encode(fields)
	if err != nil {
		i.problem(i.Source, "%s has spec.installConfigOverrides that can't be written: %v", i.Object, err)
	}
	return strings.TrimSpace(string(joined))
}

// rest adds the InfraEnv and the objects with which a hub manages the cluster.
func (i *instance) rest(withoutNetworks bool) {
	spec := i.at("spec")
	i.add(spec, objects.InfraEnvs, i.cluster, nil, nil, map[string]any{
		"clusterRef":       map[string]any{"name": i.cluster, "namespace": i.cluster},
		"sshAuthorizedKey": valueAt(spec, "sshPublicKey"),
		"proxy":            valueAt(spec, "proxy"), "pullSecretRef": valueAt(spec, "pullSecretRef"),
		"ignitionConfigOverride":     valueAt(spec, "ignitionConfigOverride"),
		"nmStateConfigLabelSelector": map[string]any{"matchLabels": map[string]any{labelOfNetworks: i.cluster}},
		"additionalNTPSources":       valueAt(spec, "additionalNTPSources"), "cpuArchitecture": i.architecture(),
	})
	for _, made := range i.made {
		made.withoutNetworks = withoutNetworks && made.Is(objects.InfraEnvs)
	}
	labels := map[string]any{}
	given, _ := valueAt(spec, "clusterLabels").(map[string]any)
	for key, value := range given {
		labels[key] = plainText(value)
	}
	i.add(spec, objects.ManagedClusters, i.cluster, labels, nil, map[string]any{"hubAcceptsClient": true})
	enabled := func(is bool) map[string]any { return map[string]any{"enabled": is} }
	i.add(spec, objects.KlusterletAddonConfigs, i.cluster, nil, nil, map[string]any{
		"clusterName": i.cluster, "clusterNamespace": i.cluster, "clusterLabels": map[string]any{"cloud": "auto-detect",
			"vendor": "auto-detect"},
		"applicationManager": enabled(false), "certPolicyController": enabled(false),
		"iamPolicyController": enabled(false),
		"policyController":    enabled(true), "searchCollector": enabled(false),
	})
}

// architecture returns the architecture of the InfraEnv's image; "" (the default) for a
// multi-architecture cluster.
func (i *instance) architecture() string {
	if name := i.text("spec", "cpuArchitecture"); name != "multi" {
		return name
	}
	return ""
}

// node adds the BareMetalHost and the NMStateConfig of a node.
func (i *instance) node(n int, node any) {
	path := fmt.Sprintf("spec.nodes[%d]", n)
	for _, field := range [][]string{{"hostName"}, {"bmcAddress"}, {"bmcCredentialsName", "name"}, {"bootMACAddress"}} {
		if textAt(node, field...) == "" {
			i.problem(i.Source, "%s has no %s.%s", i.Object, path, strings.Join(field, "."))
		}
	}
	i.noteIgnored(node, path, nodeFields)
	i.checkTypes(node, path)
	if role := textAt(node, "role"); !slices.Contains(nodeRoles, role) {
		i.problem(i.Source, "%s has %s.role %q; expected master, worker or arbiter", i.Object, path, role)
	}
	i.templates(node)
	name := textAt(node, "hostName")
	or := func(field, other string) string {
		if text := textAt(node, field); text != "" {
			return text
		}
		return other
	}
	annotations := filled(map[string]any{
		"inspect.metal3.io": textAt(node, "ironicInspect"), "bmac.agent-install.openshift.io/hostname": name,
		"bmac.agent-install.openshift.io/role":           or("role", "master"),
		"bmac.agent-install.openshift.io/installer-args": textAt(node, "installerArgs"),
		"bmac.agent-install.openshift.io/ignition-config-overrides": strings.TrimSpace(textAt(node,
			"ignitionConfigOverride")),
	})
	labels, _ := valueAt(node, "nodeLabels").(map[string]any)
	for key, value := range labels {
		annotations["bmac.agent-install.openshift.io.node-label."+key] = plainText(value)
	}
	i.add(node, objects.BareMetalHosts, name, map[string]any{"infraenvs.agent-install.openshift.io": i.cluster},
		annotations, map[string]any{
			"bootMode": or("bootMode", "UEFI"), "bootMACAddress": textAt(node, "bootMACAddress"),
			"automatedCleaningMode": or("automatedCleaningMode", "disabled"), "online": true,
			"bmc": map[string]any{
				"address": textAt(node, "bmcAddress"), "credentialsName": textAt(node, "bmcCredentialsName", "name"),
				"disableCertificateVerification": true,
			},
			"rootDeviceHints": valueAt(node, "rootDeviceHints"),
		})
	interfaces := interfacesOf(node)
	if network, _ := valueAt(node, "nodeNetwork").(map[string]any); len(network) > 0 && len(interfaces) == 0 {
		i.problem(i.Source, "%s has no list %s.nodeNetwork.interfaces; add it, or remove nodeNetwork", i.Object, path)
	}
	if len(interfaces) > 0 {
		i.add(node, objects.NMStateConfigs, name, map[string]any{labelOfNetworks: i.cluster}, nil, map[string]any{
			"config": valueAt(node, "nodeNetwork", "config"), "interfaces": interfaces,
		})
	}
}

// filled removes nil values and empty strings, lists and maps.
func filled(fields map[string]any) map[string]any {
	maps.DeleteFunc(fields, func(_ string, value any) bool {
		switch value := value.(type) {
		case nil:
			return true
		case string:
			return value == ""
		case []any:
			return len(value) == 0
		case map[string]any:
			return len(value) == 0
		}
		return false
	})
	return fields
}

// interfacesOf returns the interfaces of a node with a static network.
func interfacesOf(node any) []any { return list(valueAt(node, "nodeNetwork", "interfaces")) }

func list(value any) []any {
	items, _ := value.([]any)
	return items
}

func texts(values ...any) (all []string) {
	for _, value := range values {
		for _, item := range list(value) {
			if text, ok := item.(string); ok {
				all = append(all, text)
			}
		}
	}
	return all
}

// plainText returns a label's value as a string, because unquoted YAML values such as true and 5
// are not decoded as strings.
func plainText(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}
