package abi

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Compose returns a new directory for a cluster that was not created from one: cluster-manifests,
// mirror, openshift and agent-config.yaml.
func Compose(now Values, hosts []Host, manifests []File) ([]File, error) {
	now = withoutDefaults(now)
	name := get[string](now, Name)
	site := &Site{places: map[Field][]place{}, Values: Values{}}
	for _, file := range skeleton(name) {
		found, err := documents(file)
		if err != nil {
			return nil, err
		}
		for _, d := range found {
			if d.node == nil {
				continue
			}
			kindName, _ := d.plain["kind"].(string)
			d.kind = kindOf(kindName)
			site.documents, site.Files = append(site.documents, d), append(site.Files, file)
		}
	}
	written := map[Field]bool{}
	for _, d := range site.documents {
		for _, u := range d.kind.uses {
			value, there := now[u.field]
			if u.field == "" || !there || written[u.field] || u.is != nil || strings.HasSuffix(u.path,
				".architecture") {
				continue
			}
			if u.write != nil {
				value = u.write(value)
			}
			if err := d.set(u.path, value); err != nil {
				return nil, err
			}
			written[u.field] = true
		}
	}
	if d := site.document("AgentClusterInstall"); d != nil {
		for at, pool := range map[string]string{"spec.controlPlane": "master", "spec.compute[0]": "worker",
			"spec.arbiter": "arbiter"} {
			if nodeAt(d.node, at) == nil {
				continue
			}
			if err := d.set(field(at, "name"), pool); err != nil {
				return nil, err
			}
		}
	}
	if d := site.document("AgentConfig"); d != nil && len(hosts) > 0 {
		if err := d.set("hosts", agentHosts(hosts)); err != nil {
			return nil, err
		}
	}
	files, _, err := site.Write(Values{}, onlyOverrides(now), manifests)
	if err != nil {
		return nil, err
	}
	networks, err := composeNetworks(name, now)
	if err != nil {
		return nil, err
	}
	if len(networks) > 0 {
		files = append(files, File{networkKind().file, networks})
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

// withoutDefaults removes values that equal the default.
func withoutDefaults(v Values) Values {
	selected := Values{}
	for f, value := range v {
		written := text(value)
		switch {
		case written == `""` || written == "null" || strings.HasPrefix(string(f), "ref/"):
		case f == Balancer && value == "cluster-managed", f == Schedulable && value == false,
			f == MinimalISO && value == false:
		case f == Encryption && value.(DiskEncryption).EnableOn == "none":
		case slices.Contains([]Field{MasterThreads, WorkerThreads, ArbiterThreads}, f) &&
			v[MasterThreads] == "Enabled" && v[WorkerThreads] == "Enabled":
		case (f == ExternalName || f == ExternalManager) && v[Platform] != "external":
		default:
			selected[f] = value
		}
	}
	return selected
}

// onlyOverrides returns the values that are not written field by field.
func onlyOverrides(v Values) Values {
	selected := Values{}
	for f, value := range v {
		if strings.HasPrefix(string(f), overridePrefix) || f == RegistriesConf || f == CABundle {
			selected[f] = value
		}
	}
	return selected
}

// skeleton returns the documents of a directory, with the references between them.
func skeleton(name string) []File {
	install, deployment, images, env, secret := clusterInstallKind().file, deploymentKind().file, imageSetKind().file,
		infraEnvKind().file, secretKind().file
	object := func(apiVersion, kind, name, rest string) []byte {
		return fmt.Appendf(nil, "apiVersion: %s\nkind: %s\nmetadata:\n  name: %s\n%s", apiVersion, kind, name, rest)
	}
	return []File{
		{deployment, object("hive.openshift.io/v1", "ClusterDeployment", name, fmt.Sprintf(`  namespace: %[1]s
spec:
  clusterInstallRef:
    group: extensions.hive.openshift.io
    kind: AgentClusterInstall
    name: %[1]s
    version: v1beta1
  platform:
    agentBareMetal:
      agentSelector: {}
  pullSecretRef:
    name: %[1]s-pull-secret
`, name))},
		{install, object("extensions.hive.openshift.io/v1beta1", "AgentClusterInstall", name, fmt.Sprintf(`  namespace: %[1]s
spec:
  clusterDeploymentRef:
    name: %[1]s
  imageSetRef:
    name: %[1]s
`, name))},
		{images, object("hive.openshift.io/v1", "ClusterImageSet", name, "spec: {}\n")},
		{env, object("agent-install.openshift.io/v1beta1", "InfraEnv", name, fmt.Sprintf(`  namespace: %[1]s
spec:
  clusterRef:
    name: %[1]s
    namespace: %[1]s
  pullSecretRef:
    name: %[1]s-pull-secret
  nmStateConfigLabelSelector:
    matchLabels:
      infraenvs.agent-install.openshift.io: %[1]s
`, name))},
		{secret, object("v1", "Secret", name+"-pull-secret",
			fmt.Sprintf("  namespace: %s\ntype: kubernetes.io/dockerconfigjson\n", name))},
		{agentConfigFile, object("v1beta1", "AgentConfig", name, "")},
	}
}

// agentHosts returns hosts in the format of agent-config.yaml.
func agentHosts(hosts []Host) any {
	type agentHost struct {
		Hostname   string         `yaml:"hostname,omitempty"`
		Role       string         `yaml:"role,omitempty"`
		Hints      map[string]any `yaml:"rootDeviceHints,omitempty"`
		Interfaces []Interface    `yaml:"interfaces"`
	}
	var list []agentHost
	for _, h := range hosts {
		nics := []Interface{}
		for i, mac := range h.MACs {
			name := fmt.Sprintf("eth%d", i)
			if i < len(h.NICs) {
				name = h.NICs[i]
			}
			nics = append(nics, Interface{name, mac})
		}
		list = append(list, agentHost{h.Hostname, h.Role, h.Hints, nics})
	}
	return list
}

func composeNetworks(name string, now Values) ([]byte, error) {
	var networks []Field
	for f := range now {
		if strings.HasPrefix(string(f), networkPrefix) {
			networks = append(networks, f)
		}
	}
	slices.Sort(networks)
	var out []byte
	for i, f := range networks {
		network := get[Network](now, f)
		document := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, part := range []struct {
			path  string
			value any
		}{
			{"apiVersion", networkKind().apiVersions[0]}, {"kind", networkKind().name},
			{"metadata.name", fmt.Sprintf("%s-%d", name, i)}, {"metadata.namespace", name},
			{field("metadata.labels", "infraenvs.agent-install.openshift.io"), name},
			{"spec.interfaces", network.Interfaces}, {"spec.config", nmstate(network)},
		} {
			if err := set(document, part.path, part.value); err != nil {
				return nil, err
			}
		}
		text, err := yaml.Marshal(document)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, "---\n"...)
		}
		out = append(out, text...)
	}
	return out, nil
}
