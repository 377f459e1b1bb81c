package abi

import (
	"slices"
	"strings"
)

// kind is a kind of document, with the use of each of its fields.
type kind struct {
	name        string // kind of the object; "" for install-config
	apiVersions []string
	file        string // file of a new document
	uses        []use
	several     bool // a directory may contain several documents
}

// use defines how a field of a document and all fields below it are handled.
type use struct {
	path  string
	field Field                  // value that the field sets
	read  func(any) (any, error) // converts the document's form to the value; nil if the value is a string
	write func(any) any          // inverse of read; nil if the document contains the value itself
	// the presence of the field sets this value; the fields below it have their own uses
	is      any
	note    string   // reason why the field has no effect
	only    []string // supported values; others are rejected with the text in refused
	refused string   // reason why the field is not supported
	over    bool     // the field is written to the same path of the install-config override
	ignored bool     // the field never has an effect: a name, a reference, a status
}

func (k *kind) title() string {
	if k.name == "" {
		return "install-config"
	}
	return k.name
}

// find returns the use of a field. above reports whether fields below it have uses.
func (k *kind) find(path string) (found *use, above bool) {
	for i := range k.uses {
		u := &k.uses[i]
		if u.path == path {
			found = u
		}
		if path == "" || strings.HasPrefix(u.path, path+".") || strings.HasPrefix(u.path, path+"[") {
			above = true
		}
	}
	return found, above
}

// References between documents are values as well. If they differ, the installer does not find the
// referenced document.
const (
	refDeployment Field = "ref/ClusterDeployment"
	refInstall    Field = "ref/AgentClusterInstall"
	refImageSet   Field = "ref/ClusterImageSet"
	refSecret     Field = "ref/pull secret"
)

const overrideAnnotation = "agent-install.openshift.io/install-config-overrides"

const (
	noPools     = "hosts are the machines that boot the image; no platform creates them"
	noBMC       = "the appliance does not control these BMCs; boot the image on the hosts yourself"
	inDirectory = "put registries.conf into the directory mirror/ instead"
	asManifests = "the appliance has no ConfigMaps; put the manifests into openshift/"
	byManifest  = "the appliance does not use this field; set the value with a manifest in openshift/ " +
		"(cluster-network-03-config.yml)"
)

// kinds returns all kinds of documents.
func kinds() []*kind {
	return []*kind{installConfigKind(), agentConfigKind(), clusterInstallKind(), deploymentKind(), imageSetKind(),
		infraEnvKind(), secretKind(), networkKind(), namespaceKind()}
}

func kindOf(name string) *kind {
	all := kinds()
	i := slices.IndexFunc(all, func(k *kind) bool { return k.name == name })
	if i < 0 {
		return nil
	}
	return all[i]
}

func metadata(uses ...use) []use {
	return append(uses, use{path: "apiVersion", ignored: true}, use{path: "kind", ignored: true},
		use{path: "metadata", ignored: true}, use{path: "status", ignored: true})
}

func installConfigKind() *kind {
	pool := func(path string, count, threadsOf Field) []use {
		return []use{
			{path: path + ".name", ignored: true},
			{path: path + ".replicas", field: count, read: asNumber},
			{path: path + ".hyperthreading", field: threadsOf, read: asOneOf(threads())},
			{path: path + ".architecture", field: Architecture, read: asOneOf(architectureWords())},
			{path: path + ".platform", only: []string{}, refused: noPools},
		}
	}
	balancer := map[string]string{"UserManaged": "user-managed", "OpenShiftManagedDefault": "cluster-managed"}
	uses := []use{
		{path: "apiVersion", ignored: true},
		{path: "metadata.name", field: Name}, {path: "metadata", ignored: true},
		{path: "baseDomain", field: BaseDomain},
		{path: "networking.networkType", field: NetworkType},
		{path: "networking.clusterNetwork", field: ClusterNetworks, read: asClusterNetworks},
		{path: "networking.serviceNetwork", field: ServiceNetworks, read: asCIDRs},
		{path: "networking.machineNetwork", field: MachineNetworks, read: asMachineNetworks, write: machineNetworks},
		{path: "networking.clusterNetworkMTU", refused: byManifest}, {path: "networking.ovnKubernetesConfig",
			refused: byManifest},
		{path: "platform.none", field: Platform, is: "none"},
		{path: "platform.external", field: Platform, is: "external"},
		{path: "platform.external.platformName", field: ExternalName},
		{path: "platform.external.cloudControllerManager", field: ExternalManager},
		{path: "platform.baremetal.provisioningNetwork", only: []string{"Disabled"},
			refused: "hosts boot the appliance's image, and there is no provisioning network"},
		{path: "platform.baremetal.additionalNTPServers", field: NTPSources, read: asJoined, write: split},
		{path: "platform.baremetal.hosts", ignored: true}, // see hosts.go and read.go
		{path: "sshKey", field: SSHKey, read: asTrimmed}, {path: "pullSecret", field: PullSecret, read: asTrimmed},
		{path: "proxy.httpProxy", field: HTTPProxy}, {path: "proxy.httpsProxy", field: HTTPSProxy},
		{path: "proxy.noProxy", field: NoProxy},
		{path: "additionalTrustBundle", field: TrustBundle, read: asTrimmed},
		{path: "imageDigestSources", field: DigestSources, read: asIs}, {path: "imageContentSources",
			field: DigestSources, read: asIs},
		{path: "publish", only: []string{"External"}, refused: "only external publishing is supported"},
		{path: "credentialsMode", refused: "clusters on these platforms have no cloud credentials"},
		{path: "controlPlane.fencing", ignored: true}, // see hosts.go and read.go
	}
	for _, platform := range []string{"baremetal", "vsphere", "nutanix"} {
		at := "platform." + platform
		uses = append(uses, use{path: at, field: Platform, is: platform},
			use{path: at + ".apiVIPs", field: APIVIPs, read: asAddresses}, use{path: at + ".ingressVIPs",
				field: IngressVIPs, read: asAddresses},
			use{path: at + ".apiVIP", field: APIVIPs, read: asAddress, write: first},
			use{path: at + ".ingressVIP", field: IngressVIPs, read: asAddress, write: first},
			use{path: at + ".loadBalancer.type", field: Balancer, read: asOneOf(balancer), write: oneOf(balancer)})
	}
	for _, path := range []string{
		"fips", "additionalTrustBundlePolicy", "cpuPartitioningMode", "capabilities.baselineCapabilitySet",
		"capabilities.additionalEnabledCapabilities",
		"featureSet", "featureGates", "osImageStream", "bootstrapInPlace.installationDisk",
		"platform.baremetal.clusterOSImage", "platform.baremetal.clusterProvisioningIP",
		"platform.baremetal.provisioningNetworkInterface",
		"platform.baremetal.provisioningNetworkCIDR", "platform.baremetal.provisioningDHCPRange",
		"platform.vsphere.vcenters", "platform.vsphere.failureDomains", "platform.vsphere.vCenter",
		"platform.vsphere.username", "platform.vsphere.password",
		"platform.vsphere.datacenter", "platform.vsphere.defaultDatastore", "platform.vsphere.network",
		"platform.vsphere.cluster", "platform.vsphere.folder",
		"platform.vsphere.diskType", "platform.nutanix.prismCentral", "platform.nutanix.prismElements",
		"platform.nutanix.subnetUUIDs",
	} {
		uses = append(uses, use{path: path, over: true})
	}
	uses = append(uses, pool("controlPlane", ControlPlane, MasterThreads)...)
	uses = append(uses, pool("compute[0]", Workers, WorkerThreads)...)
	uses = append(uses, pool("arbiter", Arbiters, ArbiterThreads)...)
	return &kind{file: installConfigFile, apiVersions: []string{"v1"}, uses: uses}
}

func asIs(value any) (any, error) { return value, nil }

func agentConfigKind() *kind {
	return &kind{name: "AgentConfig", apiVersions: []string{"v1beta1", "v1alpha1"}, file: agentConfigFile,
		uses: metadata(
			use{path: "rendezvousIP", note: "hosts register with the appliance, which selects the bootstrap host"},
			use{path: "bootArtifactsBaseURL", note: "the appliance serves the boot artifacts itself"},
			use{path: "ipxeBaseURL", note: "the appliance serves the boot artifacts itself"},
			use{path: "minimalISO", field: MinimalISO, read: asFlag},
			use{path: "additionalNTPSources", field: EnvNTPSources, read: asJoined, write: split},
			use{path: "hosts", ignored: true}, // see hosts.go and read.go
		)}
}

func clusterInstallKind() *kind {
	balancer := map[string]string{"UserManaged": "user-managed", "ClusterManaged": "cluster-managed"}
	pool := func(path string, threadsOf Field) []use {
		return []use{
			{path: path + ".name", ignored: true},
			{path: path + ".hyperthreading", field: threadsOf, read: asOneOf(threads())},
			{path: path + ".architecture", field: Architecture, read: asOneOf(architectureWords())},
		}
	}
	uses := metadata(
		use{path: "metadata.name", field: refInstall},
		use{path: field("metadata.annotations", overrideAnnotation), ignored: true}, // see hosts.go and read.go
		use{path: field("metadata.annotations", "agent-install.openshift.io/ignored-cluster-validations"),
			refused: "ignore validations in the appliance when they fail"},
		use{path: field("metadata.annotations", "agent-install.openshift.io/ignored-host-validations"),
			refused: "ignore validations in the appliance when they fail"},
		use{path: field("metadata.labels", "agentclusterinstalls.agent-install.openshift.io/consumer"), field: Tags},
		use{path: "spec.clusterDeploymentRef.name", field: refDeployment},
		use{path: "spec.imageSetRef.name", field: refImageSet},
		use{path: "spec.networking.networkType", field: NetworkType},
		use{path: "spec.networking.clusterNetwork", field: ClusterNetworks, read: asClusterNetworks},
		use{path: "spec.networking.serviceNetwork", field: ServiceNetworks, read: asCIDRs},
		use{path: "spec.networking.machineNetwork", field: MachineNetworks, read: asMachineNetworks,
			write: machineNetworks},
		use{path: "spec.networking.userManagedNetworking", field: UserNetworking, read: asFlag},
		use{path: "spec.provisionRequirements.controlPlaneAgents", field: ControlPlane, read: asNumber},
		use{path: "spec.provisionRequirements.workerAgents", field: Workers, read: asNumber},
		use{path: "spec.provisionRequirements.arbiterAgents", field: Arbiters, read: asNumber},
		use{path: "spec.apiVIPs", field: APIVIPs, read: asAddresses}, use{path: "spec.apiVIP", field: APIVIPs,
			read: asAddress, write: first},
		use{path: "spec.ingressVIPs", field: IngressVIPs, read: asAddresses}, use{path: "spec.ingressVIP",
			field: IngressVIPs, read: asAddress, write: first},
		use{path: "spec.sshPublicKey", field: SSHKey, read: asTrimmed},
		use{path: "spec.ntpSources", field: NTPSources, read: asJoined, write: split},
		use{path: "spec.platformType", field: Platform, read: asOneOf(platformWords()), write: oneOf(platformWords())},
		use{path: "spec.external.platformName", field: ExternalName}, use{path: "spec.external.cloudControllerManager",
			field: ExternalManager},
		use{path: "spec.mastersSchedulable", field: Schedulable, read: asFlag},
		use{path: "spec.loadBalancer.type", field: Balancer, read: asOneOf(balancer), write: oneOf(balancer)},
		use{path: "spec.diskEncryption", field: Encryption, read: asEncryption},
		use{path: "spec.proxy.httpProxy", field: HTTPProxy}, use{path: "spec.proxy.httpsProxy", field: HTTPSProxy},
		use{path: "spec.proxy.noProxy", field: NoProxy},
		use{path: "spec.holdInstallation", note: "the installation starts with the button Install"},
		use{path: "spec.manifestsConfigMapRef", refused: asManifests}, use{path: "spec.manifestsConfigMapRefs",
			refused: asManifests},
		use{path: "spec.mirrorRegistryRef", refused: inDirectory},
		use{path: "spec.ignitionEndpoint",
			refused: "the field describes hosts that join an installed cluster, which a directory cannot describe"},
		use{path: "spec.clusterMetadata", refused: "the cluster is already installed; import it on the page instead"},
	)
	uses = append(uses, pool("spec.controlPlane", MasterThreads)...)
	uses = append(uses, pool("spec.compute[0]", WorkerThreads)...)
	uses = append(uses, pool("spec.arbiter", ArbiterThreads)...)
	return &kind{
		name: "AgentClusterInstall", apiVersions: []string{"extensions.hive.openshift.io/v1beta1"},
		file: clusterDirectory + "agent-cluster-install.yaml", uses: uses,
	}
}

func deploymentKind() *kind {
	return &kind{name: "ClusterDeployment", apiVersions: []string{"hive.openshift.io/v1"},
		file: clusterDirectory + "cluster-deployment.yaml", uses: metadata(
			use{path: "metadata.name", field: refDeployment},
			use{path: "spec.clusterName", field: Name}, use{path: "spec.baseDomain", field: BaseDomain},
			use{path: "spec.clusterInstallRef.name", field: refInstall}, use{path: "spec.clusterInstallRef.group",
				ignored: true},
			use{path: "spec.clusterInstallRef.kind", only: []string{"AgentClusterInstall"},
				refused: "the agent-based installer supports no other kind"},
			use{path: "spec.clusterInstallRef.version", ignored: true},
			use{path: "spec.pullSecretRef.name", field: refSecret},
			use{path: "spec.platform.agentBareMetal", ignored: true},
			use{path: "spec.installed", only: []string{"false"},
				refused: "the cluster is already installed; import it on the page instead"},
			use{path: "spec.controlPlaneConfig", note: "serving certificates are set in the installed cluster"},
			use{path: "spec.ingress", note: "the ingress is configured in the installed cluster"},
			use{path: "spec.certificateBundles",
				note: "certificate bundles are configured in the installed cluster"},
			use{path: "spec.preserveOnDelete", ignored: true}, use{path: "spec.powerState", ignored: true},
			use{path: "spec.hibernateAfter", ignored: true},
			use{path: "spec.installAttemptsLimit", note: "a user resets a failed installation"},
			use{path: "spec.manageDNS", note: "the appliance does not manage the site's DNS"},
		)}
}

func imageSetKind() *kind {
	return &kind{name: "ClusterImageSet", apiVersions: []string{"hive.openshift.io/v1"},
		file: clusterDirectory + "cluster-image-set.yaml", uses: metadata(
			use{path: "metadata.name", field: refImageSet}, use{path: "spec.releaseImage", field: ReleaseImage},
		)}
}

func infraEnvKind() *kind {
	images := map[string]bool{"minimal-iso": true, "full-iso": false}
	return &kind{name: "InfraEnv", apiVersions: []string{"agent-install.openshift.io/v1beta1"},
		file: clusterDirectory + "infraenv.yaml", uses: metadata(
			use{path: "spec.clusterRef.name", field: refDeployment}, use{path: "spec.clusterRef.namespace",
				ignored: true},
			use{path: "spec.pullSecretRef.name", field: refSecret},
			use{path: "spec.sshAuthorizedKey", field: EnvSSHKey, read: asTrimmed},
			use{path: "spec.additionalNTPSources", field: EnvNTPSources, read: asJoined, write: split},
			use{path: "spec.ntpSources", field: EnvNTPSources, read: asJoined, write: split},
			use{path: "spec.proxy.httpProxy", field: EnvHTTPProxy}, use{path: "spec.proxy.httpsProxy",
				field: EnvHTTPSProxy}, use{path: "spec.proxy.noProxy", field: EnvNoProxy},
			use{path: "spec.cpuArchitecture", field: Architecture, read: asOneOf(architectureWords()),
				write: rpmArchitecture},
			use{path: "spec.additionalTrustBundle", field: TrustBundle, read: asTrimmed},
			use{path: "spec.ignitionConfigOverride", field: IgnitionPatch, read: asTrimmed},
			use{path: "spec.kernelArguments", field: KernelArguments, read: asKernelArguments},
			use{path: "spec.imageType", field: MinimalISO, read: func(value any) (any, error) {
				word, err := asOneOf(map[string]string{"minimal-iso": "minimal-iso", "full-iso": "full-iso"})(value)
				if err != nil {
					return nil, err
				}
				return images[word.(string)], nil
			}, write: func(value any) any {
				if value == true {
					return "minimal-iso"
				}
				return "full-iso"
			}},
			use{path: "spec.nmStateConfigLabelSelector.matchLabels", ignored: true}, // see hosts.go
			use{path: "spec.nmStateConfigLabelSelector.matchExpressions",
				refused: "the agent-based installer supports matchLabels only"},
			use{path: "spec.mirrorRegistryRef", refused: inDirectory},
			use{path: "spec.osImageVersion", note: "the live ISO of the release is used"},
			use{path: "spec.agentLabels", note: "the appliance creates no Agent objects for it"},
			use{path: "spec.agentApproval",
				note: "hosts need no approval"},
			use{path: "spec.ipxeScriptType", note: "the page has scripts of both types"},
			use{path: "spec.networkDiscoveryDelaySeconds", note: "hosts report their network changes continuously"},
		)}
}

func rpmArchitecture(value any) any {
	if value == "arm64" {
		return "aarch64"
	}
	return value
}

func secretKind() *kind {
	return &kind{name: "Secret", apiVersions: []string{"v1"}, file: clusterDirectory + "pull-secret.yaml",
		uses: metadata(
			use{path: "metadata.name", field: refSecret}, use{path: "type", ignored: true},
			use{path: field("stringData", ".dockerconfigjson"), field: PullSecret, read: asTrimmed},
			use{path: field("data", ".dockerconfigjson"), field: PullSecret, read: asBase64, write: base64Of},
		)}
}

func networkKind() *kind {
	return &kind{name: "NMStateConfig", apiVersions: []string{"agent-install.openshift.io/v1beta1"},
		file: clusterDirectory + "nmstateconfig.yaml", several: true, uses: metadata(
			use{path: "spec.interfaces", ignored: true}, use{path: "spec.config", ignored: true}, // see hosts.go
		)}
}

func namespaceKind() *kind {
	return &kind{name: "Namespace", apiVersions: []string{"v1"}, file: clusterDirectory + "namespace.yaml",
		uses: metadata(use{path: "spec", ignored: true})}
}
