package arm

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

var (
	versionForm   = regexp.MustCompile(`^[0-9]{1,2}\.[0-9]{1,3}(\.[0-9]{1,4}(-[a-z0-9.]{1,20})?)?$`)
	prefixForm    = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,13}[a-z0-9])?$`)
	sizeForm      = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	labelForm     = regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	valueForm     = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
	namespaceForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	sourceForm    = regexp.MustCompile(`^[a-z0-9]([a-z0-9.:/_-]{0,253}[a-z0-9])$`)
)

// common are the fields of all resources.
var common = []field{
	{path: "id", when: never}, {path: "name", when: never}, {path: "type", when: never},
	{path: "systemData", kind: free, when: ignored}, {path: "etag", kind: free, when: ignored},
	{path: "properties.provisioningState", when: never},
}

// tracked are the fields of resources with a place.
var tracked = append([]field{
	{path: "location", when: onCreate, required: true, form: sizeForm, formHint: "a name of a place"},
	{path: "tags", kind: textMap}, {path: "identity", kind: free},
}, common...)

// Cluster is the type of hosted clusters.
var Cluster = newKind(checkCluster, append([]field{
	{path: "properties.version.id", form: versionForm, formHint: "a version such as 4.19 or 4.19.7"},
	{path: "properties.version.channelGroup", byItself: "stable",
		values: []string{"stable", "fast", "candidate", "eus", "nightly"}},
	{path: "properties.version.availableUpgrades", kind: free, when: ignored},
	{path: "properties.dns.baseDomainPrefix", when: onCreate, form: prefixForm,
		formHint: "at most 15 lower-case letters, digits and hyphens, with a letter first"},
	{path: "properties.dns.baseDomain", when: never},
	{path: "properties.network.networkType", when: onCreate, byItself: "OVNKubernetes",
		values: []string{"OVNKubernetes", "Other"}},
	{path: "properties.network.podCidr", when: onCreate, network: true},
	{path: "properties.network.serviceCidr", when: onCreate, network: true},
	{path: "properties.network.machineCidr", when: onCreate, network: true},
	{path: "properties.network.hostPrefix", kind: whole, when: onCreate, byItself: int64(23), min: 1, max: 126},
	{path: "properties.api.visibility", byItself: "Public", values: []string{"Public"}},
	{path: "properties.api.authorizedCidrs", kind: texts, network: true},
	{path: "properties.api.url", when: never},
	{path: "properties.console.url", when: never},
	{path: "properties.platform.managedResourceGroup", when: onCreate},
	{path: "properties.platform.subnetId", when: onCreate},
	{path: "properties.platform.vnetIntegrationSubnetId", when: onCreate},
	{path: "properties.platform.networkSecurityGroupId", when: onCreate},
	{path: "properties.platform.outboundType", when: onCreate, values: []string{"LoadBalancer"}},
	{path: "properties.platform.operatorsAuthentication", kind: free, when: onCreate},
	{path: "properties.platform.issuerUrl", when: never},
	{path: "properties.autoscaling.maxNodesTotal", kind: whole, byItself: int64(0), max: 2_000},
	{path: "properties.autoscaling.maxPodGracePeriodSeconds", kind: whole, byItself: int64(podGracePeriod), min: 1,
		max: 86_400},
	{path: "properties.autoscaling.maxNodeProvisionTimeSeconds", kind: whole, byItself: int64(nodeProvisionTime),
		min: 1, max: 86_400},
	{path: "properties.autoscaling.podPriorityThreshold", kind: whole, byItself: int64(podPriority),
		min: -2_000_000_000, max: 2_000_000_000},
	{path: "properties.nodeDrainTimeoutMinutes", kind: whole, max: 10_080},
	{path: "properties.etcd.dataEncryption.keyManagementMode", when: onCreate, byItself: "PlatformManaged",
		values: []string{"PlatformManaged", "CustomerManaged"}},
	{path: "properties.etcd.dataEncryption.customerManaged.encryptionType", when: onCreate, values: []string{"KMS"}},
	{path: "properties.etcd.dataEncryption.customerManaged.kms", kind: free},
	{path: "properties.clusterImageRegistry.state", when: onCreate, byItself: "Enabled",
		values: []string{"Enabled", "Disabled"}},
	{path: "properties.imageDigestMirrors", kind: list},
	{path: "properties.imageDigestMirrors[].source", required: true, form: sourceForm,
		formHint: "a repository such as quay.io/openshift-release-dev/ocp-release"},
	{path: "properties.imageDigestMirrors[].mirrors", kind: texts, required: true, form: sourceForm,
		formHint: "a repository such as registry.example.com/openshift"},
	{path: "properties.imageDigestMirrors[].mirrorSourcePolicy",
		values: []string{"AllowContactingSource", "NeverContactSource"}},
	{path: "properties.cryptoRestrictions", when: onCreate, values: []string{"None", "FIPS"}},
}, tracked...)...)

// NodePool is the type of node pools.
var NodePool = newKind(checkNodePool, append([]field{
	{path: "properties.version.id", form: versionForm, formHint: "a version such as 4.19 or 4.19.7"},
	{path: "properties.version.channelGroup", byItself: "stable",
		values: []string{"stable", "fast", "candidate", "eus", "nightly"}},
	{path: "properties.version.availableUpgrades", kind: free, when: ignored},
	{path: "properties.platform.subnetId", when: onCreate},
	{path: "properties.platform.vmSize", when: onCreate, required: true, form: sizeForm,
		formHint: "the name of a hardware profile of the site"},
	{path: "properties.platform.availabilityZone", when: onCreate, form: sizeForm, formHint: "the name of a zone"},
	{path: "properties.platform.enableEncryptionAtHost", kind: flag, when: onCreate, byItself: false},
	{path: "properties.platform.osDisk.sizeGiB", kind: whole, when: onCreate, byItself: int64(64), min: 1, max: 32_767},
	{path: "properties.platform.osDisk.diskStorageAccountType", when: onCreate, byItself: "Premium_LRS",
		values: []string{"Premium_LRS", "StandardSSD_LRS", "Standard_LRS"}},
	{path: "properties.platform.osDisk.diskType", when: onCreate, byItself: "Managed",
		values: []string{"Managed", "Ephemeral"}},
	{path: "properties.platform.osDisk.encryptionSetId", when: onCreate},
	{path: "properties.replicas", kind: whole, max: 500},
	{path: "properties.autoScaling.min", kind: whole, min: 1, max: 500},
	{path: "properties.autoScaling.max", kind: whole, min: 1, max: 500},
	{path: "properties.autoRepair", kind: flag, when: onCreate, byItself: true},
	{path: "properties.labels", kind: list},
	{path: "properties.labels[].key", required: true, form: labelForm, formHint: "the key of a Kubernetes label"},
	{path: "properties.labels[].value", form: valueForm, formHint: "the value of a Kubernetes label"},
	{path: "properties.taints", kind: list},
	{path: "properties.taints[].effect", required: true, values: []string{"NoSchedule", "PreferNoSchedule",
		"NoExecute"}},
	{path: "properties.taints[].key", required: true, form: labelForm, formHint: "the key of a Kubernetes label"},
	{path: "properties.taints[].value", form: valueForm, formHint: "the value of a Kubernetes label"},
	{path: "properties.nodeDrainTimeoutMinutes", kind: whole, max: 10_080},
}, tracked...)...)

// Confidential is the type of clients of an external auth that have a secret, and RequiredClaim the
// type of the rules for claims.
const (
	Confidential  = "Confidential"
	RequiredClaim = "RequiredClaim"
)

// ExternalAuth is the type of external authentication configurations.
var ExternalAuth = newKind(checkExternalAuth, append([]field{
	{path: "properties.issuer.url", required: true, form: regexp.MustCompile(`^https://[^\s?#]+$`),
		formHint: "an https URL"},
	{path: "properties.issuer.audiences", kind: texts, required: true},
	{path: "properties.issuer.ca"},
	{path: "properties.clients", kind: list},
	{path: "properties.clients[].component.name", required: true},
	{path: "properties.clients[].component.authClientNamespace", required: true, form: namespaceForm,
		formHint: "the name of a namespace"},
	{path: "properties.clients[].clientId", required: true},
	{path: "properties.clients[].extraScopes", kind: texts},
	{path: "properties.clients[].type", required: true, values: []string{Confidential, "Public"}},
	{path: "properties.claim.mappings.username.claim", required: true},
	{path: "properties.claim.mappings.username.prefixPolicy", values: []string{"None", "NoPrefix", "Prefix"}},
	{path: "properties.claim.mappings.username.prefix"},
	{path: "properties.claim.mappings.groups.claim"},
	{path: "properties.claim.mappings.groups.prefix"},
	{path: "properties.claim.validationRules", kind: list},
	{path: "properties.claim.validationRules[].type", byItself: RequiredClaim, values: []string{RequiredClaim}},
	{path: "properties.claim.validationRules[].requiredClaim.claim", required: true},
	{path: "properties.claim.validationRules[].requiredClaim.requiredValue", required: true},
	{path: "properties.condition", kind: free, when: ignored},
}, common...)...)

// ExternalAuthProperties are the properties of an external auth.
type ExternalAuthProperties struct {
	Issuer struct {
		URL       string   `json:"url"`
		Audiences []string `json:"audiences"`
		CA        string   `json:"ca"` // PEM, or ""
	} `json:"issuer"`
	Clients []ExternalAuthClient `json:"clients"`
	Claim   struct {
		Mappings struct {
			Username ClaimMapping `json:"username"`
			Groups   ClaimMapping `json:"groups"`
		} `json:"mappings"`
		ValidationRules []ClaimRule `json:"validationRules"`
	} `json:"claim"`
}

// ExternalAuthClient is a component of a cluster that requests tokens from an issuer.
type ExternalAuthClient struct {
	Component struct {
		Name      string `json:"name"`
		Namespace string `json:"authClientNamespace"`
	} `json:"component"`
	ClientID    string   `json:"clientId"`
	ExtraScopes []string `json:"extraScopes"`
	Type        string   `json:"type"`
}

// ClaimMapping says how a claim of a token becomes the name of a user or of groups.
type ClaimMapping struct {
	Claim  string `json:"claim"`
	Policy string `json:"prefixPolicy"`
	Prefix string `json:"prefix"`
}

// ClaimRule is a claim that a token must have.
type ClaimRule struct {
	Type          string `json:"type"`
	RequiredClaim struct {
		Claim string `json:"claim"`
		Value string `json:"requiredValue"`
	} `json:"requiredClaim"`
}

// ExternalAuthPropertiesOf returns the properties of an external auth. A former version stored any
// value as clients and validation rules; those that OpenShift would refuse are left out.
func ExternalAuthPropertiesOf(document Document) (*ExternalAuthProperties, error) {
	var resource struct {
		Properties ExternalAuthProperties `json:"properties"`
	}
	err := document.Into(&resource)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = nil
	}
	p := &resource.Properties
	p.Clients = slices.DeleteFunc(p.Clients, func(c ExternalAuthClient) bool {
		return c.ClientID == "" || c.Component.Name == "" || c.Component.Namespace == ""
	})
	p.Claim.ValidationRules = slices.DeleteFunc(p.Claim.ValidationRules, func(r ClaimRule) bool {
		return r.RequiredClaim.Claim == "" || r.RequiredClaim.Value == ""
	})
	for i := range p.Claim.ValidationRules {
		p.Claim.ValidationRules[i].Type = RequiredClaim
	}
	return p, err
}

func checkExternalAuth(document Document) []*Error {
	p, err := ExternalAuthPropertiesOf(document)
	if err != nil {
		return []*Error{Fieldf("properties", "The properties can't be read: %s.", err)}
	}
	var errs []*Error
	if p.Issuer.CA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(p.Issuer.CA)) {
		errs = append(errs, Fieldf("properties.issuer.ca", "The field properties.issuer.ca has no CA certificate in "+
			"PEM."))
	}
	if user := p.Claim.Mappings.Username; user.Policy == "Prefix" && user.Prefix == "" {
		errs = append(errs, Fieldf("properties.claim.mappings.username.prefix",
			"The prefix policy Prefix needs the field properties.claim.mappings.username.prefix."))
	}
	seen := map[string]bool{}
	for i, client := range p.Clients {
		at := fmt.Sprintf("properties.clients[%d]", i)
		if !slices.Contains(p.Issuer.Audiences, client.ClientID) {
			errs = append(errs, Fieldf(at+".clientId", "The client ID %s is not in properties.issuer.audiences.",
				client.ClientID))
		}
		component := client.Component.Namespace + "/" + client.Component.Name
		if seen[component] {
			errs = append(errs, Fieldf(at+".component", "The component %s is given twice.", component))
		}
		seen[component] = true
	}
	return errs
}

// ClusterProperties are the properties of a hosted cluster that its manifests need.
type ClusterProperties struct {
	Version struct {
		ID           string `json:"id"`
		ChannelGroup string `json:"channelGroup"`
	} `json:"version"`
	DNS struct {
		BaseDomainPrefix string `json:"baseDomainPrefix"`
	} `json:"dns"`
	Network Network `json:"network"`
	API     struct {
		Visibility      string   `json:"visibility"`
		AuthorizedCIDRs []string `json:"authorizedCidrs"`
	} `json:"api"`
	Autoscaling             Autoscaling `json:"autoscaling"`
	NodeDrainTimeoutMinutes int64       `json:"nodeDrainTimeoutMinutes"`
	ClusterImageRegistry    struct {
		State string `json:"state"`
	} `json:"clusterImageRegistry"`
	ImageDigestMirrors []ImageMirror `json:"imageDigestMirrors"`
}

// Autoscaling limits the cluster autoscaler of a hosted cluster.
type Autoscaling struct {
	MaxNodesTotal               int64 `json:"maxNodesTotal"` // 0: no limit
	MaxPodGracePeriodSeconds    int64 `json:"maxPodGracePeriodSeconds"`
	MaxNodeProvisionTimeSeconds int64 `json:"maxNodeProvisionTimeSeconds"`
	PodPriorityThreshold        int64 `json:"podPriorityThreshold"`
}

// The defaults of [Autoscaling], as those of the cluster autoscaler: two times in seconds, and a
// priority.
const (
	podGracePeriod    = 600
	nodeProvisionTime = 900
	podPriority       = -10
)

// IsDefault reports whether the cluster autoscaler has these limits by itself.
func (a Autoscaling) IsDefault() bool {
	return a == Autoscaling{MaxPodGracePeriodSeconds: podGracePeriod, MaxNodeProvisionTimeSeconds: nodeProvisionTime,
		PodPriorityThreshold: podPriority}
}

// Network is the networks of a hosted cluster.
type Network struct {
	Type        string `json:"networkType"`
	PodCIDR     string `json:"podCidr"`
	ServiceCIDR string `json:"serviceCidr"`
	MachineCIDR string `json:"machineCidr"`
	HostPrefix  int64  `json:"hostPrefix"`
}

// ImageMirror is a source of images and its mirrors.
type ImageMirror struct {
	Source  string   `json:"source"`
	Mirrors []string `json:"mirrors"`
}

// NodePoolProperties are the properties of a node pool that its manifests need.
type NodePoolProperties struct {
	Version struct {
		ID           string `json:"id"`
		ChannelGroup string `json:"channelGroup"`
	} `json:"version"`
	Platform struct {
		VMSize           string `json:"vmSize"`
		AvailabilityZone string `json:"availabilityZone"`
		OSDisk           struct {
			SizeGiB int64 `json:"sizeGiB"`
		} `json:"osDisk"`
	} `json:"platform"`
	Replicas    int64 `json:"replicas"`
	AutoScaling *struct {
		Min int64 `json:"min"`
		Max int64 `json:"max"`
	} `json:"autoScaling"`
	AutoRepair bool `json:"autoRepair"`
	Labels     []struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	} `json:"labels"`
	Taints []struct {
		Effect string `json:"effect"`
		Key    string `json:"key"`
		Value  string `json:"value"`
	} `json:"taints"`
	NodeDrainTimeoutMinutes *int64 `json:"nodeDrainTimeoutMinutes"` // nil: that of the cluster
}

// DrainTimeoutMinutes returns the time to drain a node; 0: no limit.
func (p *NodePoolProperties) DrainTimeoutMinutes(of *ClusterProperties) int64 {
	if p.NodeDrainTimeoutMinutes != nil {
		return *p.NodeDrainTimeoutMinutes
	}
	return of.NodeDrainTimeoutMinutes
}

// ClusterPropertiesOf returns the properties of a hosted cluster.
func ClusterPropertiesOf(document Document) (*ClusterProperties, error) {
	var resource struct {
		Properties ClusterProperties `json:"properties"`
	}
	err := document.Into(&resource)
	return &resource.Properties, err
}

// NodePoolPropertiesOf returns the properties of a node pool.
func NodePoolPropertiesOf(document Document) (*NodePoolProperties, error) {
	var resource struct {
		Properties NodePoolProperties `json:"properties"`
	}
	err := document.Into(&resource)
	return &resource.Properties, err
}

// NamedNetwork is a network and the name by which an error refers to it.
type NamedNetwork struct {
	Name string
	CIDR string
}

// Networks returns the networks of a cluster with the paths of their fields.
func (n Network) Networks() []NamedNetwork {
	return []NamedNetwork{{"properties.network.podCidr", n.PodCIDR}, {"properties.network.serviceCidr", n.ServiceCIDR},
		{"properties.network.machineCidr", n.MachineCIDR}}
}

// Overlaps returns an error for each of the networks that overlaps one of the others.
func Overlaps(networks, others []NamedNetwork) (errs []*Error) {
	for _, one := range networks {
		for _, other := range others {
			a, errA := netip.ParsePrefix(one.CIDR)
			b, errB := netip.ParsePrefix(other.CIDR)
			if errA == nil && errB == nil && a.Overlaps(b) {
				errs = append(errs, Fieldf(one.Name, "The network %s of %s overlaps %s, %s; choose another network.",
					one.CIDR, one.Name, other.CIDR, other.Name))
			}
		}
	}
	return errs
}

func checkCluster(document Document) []*Error {
	p, err := ClusterPropertiesOf(document)
	if err != nil {
		return []*Error{Fieldf("properties", "The properties can't be read: %s.", err)}
	}
	networks := p.Network.Networks()
	var errs []*Error
	for i := range networks {
		errs = append(errs, Overlaps(networks[i:i+1], networks[i+1:])...)
	}
	errs = append(errs, checkPods(p.Network)...)
	managed := lookup(document, "properties.etcd.dataEncryption.customerManaged")
	if mode := document.Text("properties.etcd.dataEncryption.keyManagementMode"); mode == "PlatformManaged" &&
		managed != nil {
		errs = append(errs, Fieldf("properties.etcd.dataEncryption.customerManaged",
			"The field customerManaged belongs to the key management mode CustomerManaged."))
	}
	return errs
}

func checkPods(n Network) (errs []*Error) {
	pods, err := netip.ParsePrefix(n.PodCIDR)
	if err != nil { // the request has no pod network
		return nil
	}
	const hostPrefix = "properties.network.hostPrefix"
	switch longest := int64(pods.Addr().BitLen()); {
	case n.HostPrefix <= int64(pods.Bits()):
		errs = append(errs, Fieldf(hostPrefix, "The host prefix /%d is not longer than that of the pod network %s.",
			n.HostPrefix, n.PodCIDR))
	case n.HostPrefix > longest:
		errs = append(errs, Fieldf(hostPrefix, "The host prefix /%d is longer than an address of the pod network %s, "+
			"/%d.", n.HostPrefix, n.PodCIDR, longest))
	}
	services, err := netip.ParsePrefix(n.ServiceCIDR)
	if err == nil && services.Addr().Is4() != pods.Addr().Is4() {
		errs = append(errs, Fieldf("properties.network.serviceCidr", "The service network %s and the pod network %s "+
			"must both be IPv4 or both IPv6.", n.ServiceCIDR, n.PodCIDR))
	}
	return errs
}

func checkNodePool(document Document) []*Error {
	p, err := NodePoolPropertiesOf(document)
	if err != nil {
		return []*Error{Fieldf("properties", "The properties can't be read: %s.", err)}
	}
	var errs []*Error
	if scaling := p.AutoScaling; scaling != nil {
		if lookup(document, "properties.replicas") != nil {
			errs = append(errs, Fieldf("properties.replicas", "A node pool has either replicas or autoScaling, not "+
				"both."))
		}
		for _, path := range []string{"properties.autoScaling.min", "properties.autoScaling.max"} {
			if lookup(document, path) == nil {
				return append(errs, Fieldf(path, "The field %s is missing.", path))
			}
		}
		if scaling.Min > scaling.Max {
			errs = append(errs, Fieldf("properties.autoScaling.min", "The smallest number of nodes, %d, is above the "+
				"largest, %d.", scaling.Min, scaling.Max))
		}
	}
	seen := map[string]bool{}
	for i, label := range p.Labels {
		if seen[label.Key] {
			errs = append(errs, Fieldf(fmt.Sprintf("properties.labels[%d].key", i), "The label %s is given twice.",
				label.Key))
		}
		seen[label.Key] = true
	}
	tainted := map[string]bool{}
	for i, taint := range p.Taints {
		name := taint.Key + ":" + taint.Effect
		if tainted[name] {
			errs = append(errs, Fieldf(fmt.Sprintf("properties.taints[%d]", i), "The taint %s is given twice.", name))
		}
		tainted[name] = true
	}
	return errs
}

// IsNodePoolType reports whether a type of child resources is that of node pools.
func IsNodePoolType(childType string) bool { return strings.EqualFold(childType, NodePools) }
