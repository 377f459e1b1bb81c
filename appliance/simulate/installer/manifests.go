package installer

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// object is a Kubernetes object before its encoding as YAML.
type object = map[string]any

// Object returns a Kubernetes object with metadata and additional fields.
func Object(apiVersion, kind, namespace, name string, more object) object {
	metadata := object{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	all := object{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
	maps.Copy(all, more)
	return all
}

// manifests returns the files of create manifests: the most significant files of the real program,
// with the same names.
func (in *run) manifests(state *installState) (map[string][]byte, error) {
	all := map[string]object{}
	maps.Copy(all, clusterManifests(state))
	maps.Copy(all, trustManifests(state))
	maps.Copy(all, in.openshiftManifests(state))
	maps.Copy(all, machineManifests(state.config, state.ClusterID.InfraID))
	if b := state.config.Platform.BareMetal; b != nil {
		maps.Copy(all, bareMetalManifests(b))
	}
	files := make(map[string][]byte, len(all))
	for name, o := range all {
		data, err := yaml.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
		files[name] = data
	}
	return files, nil
}

func clusterManifests(state *installState) map[string]object {
	c := state.config
	var clusterNetwork []object
	for _, n := range c.Networking.ClusterNetwork {
		clusterNetwork = append(clusterNetwork, object{"cidr": n.CIDR, "hostPrefix": n.HostPrefix})
	}
	topology := func(nodes int) string {
		if nodes == 1 {
			return "SingleReplica"
		}
		return "HighlyAvailable"
	}
	controlPlane := topology(c.ControlPlane.count())
	switch {
	case c.Arbiter.count() > 0:
		controlPlane = "HighlyAvailableArbiter"
	case c.ControlPlane.Fencing != nil:
		controlPlane = "DualReplica"
	}
	workers := c.computeCount()
	if workers == 0 {
		workers = c.ControlPlane.count()
	}
	return map[string]object{
		"manifests/cvo-overrides.yaml": Object("config.openshift.io/v1", "ClusterVersion",
			"openshift-cluster-version", "version",
			object{"spec": object{"clusterID": state.ClusterID.UUID, "channel": "stable"}}),
		"manifests/cluster-config.yaml": Object("v1", "ConfigMap", "kube-system", "cluster-config-v1",
			object{"data": object{"install-config": redactedConfig(c)}}),
		"manifests/cluster-infrastructure-02-config.yml": Object("config.openshift.io/v1", "Infrastructure",
			"", "cluster", object{
				"spec": object{"platformSpec": object{"type": c.platformType()}},
				"status": object{
					"infrastructureName": state.ClusterID.InfraID, "platform": c.platformType(),
					"apiServerURL":           "https://api." + c.domain() + ":6443",
					"apiServerInternalURI":   "https://api-int." + c.domain() + ":6443",
					"controlPlaneTopology":   controlPlane,
					"infrastructureTopology": topology(workers), "etcdDiscoveryDomain": "",
				}}),
		"manifests/cluster-network-02-config.yml": Object("config.openshift.io/v1", "Network", "", "cluster",
			object{
				"spec": object{"clusterNetwork": clusterNetwork, "serviceNetwork": c.Networking.ServiceNetwork,
					"networkType": c.Networking.NetworkType}}),
		"manifests/cluster-dns-02-config.yml": Object("config.openshift.io/v1", "DNS", "", "cluster",
			object{"spec": object{"baseDomain": c.domain()}}),
		"manifests/cluster-ingress-02-config.yml": Object("config.openshift.io/v1", "Ingress", "", "cluster",
			object{"spec": object{"domain": "apps." + c.domain()}}),
		"manifests/cluster-scheduler-02-config.yml": Object("config.openshift.io/v1", "Scheduler", "", "cluster",
			object{"spec": object{"mastersSchedulable": c.computeCount() == 0, "policy": object{"name": ""}}}),
		"manifests/openshift-config-secret-pull-secret.yaml": Object("v1", "Secret", "openshift-config",
			"pull-secret", object{
				"type": "kubernetes.io/dockerconfigjson",
				"data": object{".dockerconfigjson": base64.StdEncoding.EncodeToString([]byte(c.PullSecret))}}),
	}
}

// redactedConfig returns the install-config as stored in the cluster, without secrets.
func redactedConfig(c *installConfig) string {
	return fmt.Sprintf("apiVersion: v1\nbaseDomain: %s\nmetadata:\n  name: %s\npullSecret: \"\"\n", c.BaseDomain,
		c.Metadata.Name)
}

func (c *installConfig) platformType() string {
	switch {
	case c.Platform.BareMetal != nil:
		return "BareMetal"
	case c.Platform.External != nil:
		return "External"
	case c.Platform.VSphere != nil:
		return "VSphere"
	case c.Platform.Nutanix != nil:
		return "Nutanix"
	}
	return "None"
}

func trustManifests(state *installState) map[string]object {
	c := state.config
	all := map[string]object{
		"manifests/kube-system-configmap-root-ca.yaml": Object("v1", "ConfigMap", "kube-system", "root-ca",
			object{"data": object{"ca.crt": string(state.RootCA.Cert)}}),
	}
	proxy := object{}
	if p := c.Proxy; p != nil {
		proxy = object{"httpProxy": p.HTTPProxy, "httpsProxy": p.HTTPSProxy, "noProxy": p.NoProxy}
	}
	if c.AdditionalTrustBundle != "" {
		all["manifests/user-ca-bundle-config.yaml"] = Object("v1", "ConfigMap", "openshift-config",
			"user-ca-bundle",
			object{"data": object{"ca-bundle.crt": c.AdditionalTrustBundle}})
		if c.Proxy != nil || c.AdditionalTrustBundlePolicy == "Always" {
			proxy["trustedCA"] = object{"name": "user-ca-bundle"}
		}
	}
	all["manifests/cluster-proxy-01-config.yaml"] = Object("config.openshift.io/v1", "Proxy", "", "cluster",
		object{"spec": proxy})
	if len(c.mirrors()) > 0 {
		var sources []object
		for _, m := range c.mirrors() {
			source := object{"source": m.Source, "mirrors": m.Mirrors}
			if m.SourcePolicy != "" {
				source["mirrorSourcePolicy"] = m.SourcePolicy
			}
			sources = append(sources, source)
		}
		all["manifests/image-digest-mirror-set.yaml"] = Object("config.openshift.io/v1", "ImageDigestMirrorSet",
			"", "image-digest-mirror",
			object{"spec": object{"imageDigestMirrors": sources}})
	}
	return all
}

func (in *run) openshiftManifests(state *installState) map[string]object {
	c := state.config
	invoker := in.env[envInvoker]
	if invoker == "" {
		invoker = "user"
	}
	all := map[string]object{
		"manifests/openshift-install.yaml": Object("v1", "ConfigMap", "openshift-config", "openshift-install",
			object{"data": object{"invoker": invoker, "version": in.stamp.version}}),
	}
	for _, role := range c.roles() {
		all["openshift/99_openshift-cluster-api_"+role+"-user-data-secret.yaml"] = Object("v1", "Secret",
			"openshift-machine-api", role+"-user-data",
			object{"type": "Opaque", "data": object{"disableTemplating": "dHJ1ZQo=",
				"userData": base64.StdEncoding.EncodeToString([]byte(pointerConfig(state, role)))}})
		if c.SSHKey == "" {
			continue
		}
		config := Object("machineconfiguration.openshift.io/v1", "MachineConfig", "", "99-"+role+"-ssh",
			object{"spec": object{"config": object{
				"ignition": object{"version": ignitionVersion},
				"passwd":   object{"users": []object{{"name": "core", "sshAuthorizedKeys": sshKeys(c.SSHKey)}}},
			}}})
		config["metadata"] = object{"name": "99-" + role + "-ssh",
			"labels": object{"machineconfiguration.openshift.io/role": role}}
		all["openshift/99_openshift-machineconfig_99-"+role+"-ssh.yaml"] = config
	}
	return all
}

// roles returns the roles of the cluster's nodes.
func (c *installConfig) roles() []string {
	roles := []string{"master", "worker"}
	if c.Arbiter.count() > 0 {
		roles = append(roles, "arbiter")
	}
	return roles
}

// bareMetalManifests returns a BareMetalHost for each host, masters first, with an empty status
// like that of the real program.
func bareMetalManifests(b *configBareMetal) map[string]object {
	hosts := slices.Clone(b.Hosts)
	slices.SortStableFunc(hosts, func(x, y configHost) int {
		order := map[string]int{"master": 0, "": 1, "arbiter": 2, "worker": 3}
		return order[x.Role] - order[y.Role]
	})
	all := map[string]object{}
	for i, h := range hosts {
		spec := object{"online": true, "bootMACAddress": h.BootMACAddress, "bmc": object{"address": h.BMC.Address,
			"credentialsName": h.Name + "-bmc-secret"}}
		if h.Role == "master" {
			spec["consumerRef"] = object{"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
				"namespace": "openshift-machine-api", "name": h.Name}
			spec["externallyProvisioned"] = true
		}
		kind := "hosts"
		if h.Role == "arbiter" {
			kind = "arbiter_hosts"
		}
		all[fmt.Sprintf("openshift/99_openshift-cluster-api_%s-%d.yaml", kind, i)] = Object("metal3.io/v1alpha1",
			"BareMetalHost", "openshift-machine-api", h.Name,
			object{"spec": spec, "status": object{"errorCount": 0, "errorMessage": "", "goodCredentials": object{},
				"hardwareProfile":   "",
				"operationalStatus": "", "poweredOn": false, "provisioning": object{"ID": "",
					"image": object{"url": ""}, "state": ""}, "triedCredentials": object{}}})
	}
	return all
}
