package installer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Rules of openshift-install's documentation for platforms of virtual machines and for control
// planes of two nodes.

type configVSphere struct {
	APIVIPs        []string              `json:"apiVIPs"`
	IngressVIPs    []string              `json:"ingressVIPs"`
	VCenters       []configVCenter       `json:"vcenters"`
	FailureDomains []configFailureDomain `json:"failureDomains"`
	LoadBalancer   *configLoadBalancer   `json:"loadBalancer"`
	DiskType       string                `json:"diskType"`
}

type configVCenter struct {
	Server      string   `json:"server"`
	Port        int      `json:"port"`
	User        string   `json:"user"`
	Password    string   `json:"password"`
	Datacenters []string `json:"datacenters"`
}

type configFailureDomain struct {
	Name     string         `json:"name"`
	Region   string         `json:"region"`
	Zone     string         `json:"zone"`
	Server   string         `json:"server"`
	Topology configTopology `json:"topology"`
}

type configTopology struct {
	Datacenter     string   `json:"datacenter"`
	ComputeCluster string   `json:"computeCluster"`
	Networks       []string `json:"networks"`
	Datastore      string   `json:"datastore"`
	Folder         string   `json:"folder"`
	ResourcePool   string   `json:"resourcePool"`
	Template       string   `json:"template"`
}

type configNutanix struct {
	APIVIPs       []string            `json:"apiVIPs"`
	IngressVIPs   []string            `json:"ingressVIPs"`
	PrismCentral  configPrism         `json:"prismCentral"`
	PrismElements []configElement     `json:"prismElements"`
	SubnetUUIDs   []string            `json:"subnetUUIDs"`
	LoadBalancer  *configLoadBalancer `json:"loadBalancer"`
}

type configPrism struct {
	Endpoint configEndpoint `json:"endpoint"`
	Username string         `json:"username"`
	Password string         `json:"password"`
}

type configElement struct {
	Endpoint configEndpoint `json:"endpoint"`
	UUID     string         `json:"uuid"`
	Name     string         `json:"name"`
}

type configEndpoint struct {
	Address string `json:"address"`
	Port    int    `json:"port"`
}

type configFencing struct {
	Credentials []configCredential `json:"credentials"`
}

type configCredential struct {
	HostName                string `json:"hostname"`
	MACAddress              string `json:"macAddress"`
	Address                 string `json:"address"`
	Username                string `json:"username"`
	Password                string `json:"password"`
	CertificateVerification string `json:"certificateVerification"`
}

func (e *configExternal) check(p *problems) {
	if e.PlatformName == "" {
		p.required("platform.external.platformName", "must specify a platform name")
	}
	if !slices.Contains([]string{"", "External"}, e.CloudControllerManager) {
		p.invalid("platform.external.cloudControllerManager", e.CloudControllerManager,
			`supported values: "", "External"`)
	}
}

// check allows vSphere without VIPs: a user-managed load balancer then has the addresses.
func (v *configVSphere) check(p *problems) {
	if (len(v.APIVIPs) == 0) != (len(v.IngressVIPs) == 0) {
		p.required("platform.vsphere.apiVIPs", "must specify VIPs for both the API and Ingress")
	}
	var servers []string
	if len(v.VCenters) == 0 {
		p.required("platform.vsphere.vcenters", "must specify at least one vCenter")
	}
	for i, center := range v.VCenters {
		field := fmt.Sprintf("platform.vsphere.vcenters[%d]", i)
		servers = append(servers, center.Server)
		p.demand(field+".server", center.Server, "must be the domain name or IP address of the vCenter")
		p.demand(field+".user", center.User, "must specify the username")
		p.demand(field+".password", center.Password, "must specify the password")
		if len(center.Datacenters) == 0 {
			p.required(field+".datacenters", "must specify at least one datacenter")
		}
	}
	if len(v.FailureDomains) == 0 {
		p.required("platform.vsphere.failureDomains", "must be defined")
	}
	for i, domain := range v.FailureDomains {
		field := fmt.Sprintf("platform.vsphere.failureDomains[%d]", i)
		p.demand(field+".name", domain.Name, "must specify the name")
		p.demand(field+".region", domain.Region, "must specify region tag value")
		p.demand(field+".zone", domain.Zone, "must specify zone tag value")
		p.demand(field+".topology.datacenter", domain.Topology.Datacenter, "must specify a datacenter")
		if !slices.Contains(servers, domain.Server) {
			p.invalid(field+".server", domain.Server, "server does not exist in vcenters")
		}
		if len(domain.Topology.Networks) == 0 {
			p.required(field+".topology.networks", "must specify a network")
		}
		for name, value := range map[string]string{"computeCluster": domain.Topology.ComputeCluster,
			"datastore": domain.Topology.Datastore} {
			if !strings.HasPrefix(value, "/"+domain.Topology.Datacenter+"/") {
				p.invalid(field+".topology."+name, value, "full path must be provided and be in the datacenter")
			}
		}
	}
}

func (n *configNutanix) check(p *problems) {
	if len(n.APIVIPs) == 0 {
		p.required("platform.nutanix.apiVIPs", "must specify at least one VIP for the API")
	}
	if len(n.IngressVIPs) == 0 {
		p.required("platform.nutanix.ingressVIPs", "must specify at least one VIP for the Ingress")
	}
	p.demand("platform.nutanix.prismCentral.endpoint.address", n.PrismCentral.Endpoint.Address,
		"must specify the Prism Central endpoint address")
	p.demand("platform.nutanix.prismCentral.username", n.PrismCentral.Username,
		"must specify the Prism Central username")
	p.demand("platform.nutanix.prismCentral.password", n.PrismCentral.Password,
		"must specify the Prism Central password")
	p.checkPort("platform.nutanix.prismCentral.endpoint.port", n.PrismCentral.Endpoint.Port)
	if len(n.PrismElements) == 0 {
		p.required("platform.nutanix.prismElements", "must specify one Prism Element")
	}
	for i, element := range n.PrismElements {
		field := fmt.Sprintf("platform.nutanix.prismElements[%d]", i)
		p.demand(field+".uuid", element.UUID, "must specify the Prism Element UUID")
		p.demand(field+".endpoint.address", element.Endpoint.Address, "must specify the Prism Element endpoint address")
		p.checkPort(field+".endpoint.port", element.Endpoint.Port)
	}
	if len(n.SubnetUUIDs) == 0 {
		p.required("platform.nutanix.subnetUUIDs", "must specify at least one subnet")
	}
}

func (p *problems) demand(field, value, why string) {
	if value == "" {
		p.required(field, why)
	}
}

func (p *problems) checkPort(field string, port int) {
	if port < 1 || port > 65535 {
		p.invalid(field, port, "must specify a port between 1 and 65535")
	}
}

// release is the minor version of OpenShift that the program installs.
type release struct{ major, minor int }

func (in *run) release() release {
	parts := strings.SplitN(in.stamp.version, ".", 3)
	if len(parts) < 3 {
		return release{} // a development build has every feature
	}
	major, errMajor := strconv.Atoi(parts[0])
	minor, errMinor := strconv.Atoi(parts[1])
	if errMajor != nil || errMinor != nil {
		return release{}
	}
	return release{major, minor}
}

// before reports whether the release is older than 4.minor.
func (r release) before(minor int) bool { return r.major == 4 && r.minor < minor }

func (c *installConfig) preview() bool {
	return c.FeatureSet == "TechPreviewNoUpgrade" || c.FeatureSet == "CustomNoUpgrade"
}

// checkControlPlane checks the number of control-plane nodes. Two nodes need an arbiter or fencing
// credentials.
func (c *installConfig) checkControlPlane(p *problems, version release) {
	masters, arbiters := c.ControlPlane.count(), c.Arbiter.count()
	var fencing *configFencing
	if c.ControlPlane != nil {
		fencing = c.ControlPlane.Fencing
	}
	if c.Arbiter != nil {
		c.checkArbiter(p, version)
	}
	if fencing != nil {
		c.checkFencing(p, fencing, version)
	}
	switch {
	case masters == 2 && arbiters == 0 && fencing == nil:
		p.invalid("controlPlane.replicas", masters,
			"a control plane of two replicas requires an arbiter or fencing credentials")
	case masters > 5:
		p.invalid("controlPlane.replicas", masters, "supported values: 1, 2, 3, 4, 5")
	case masters > 3 && version.before(18):
		p.invalid("controlPlane.replicas", masters, "supported values: 1, 3")
	}
	for i := range c.Compute {
		if c.Compute[i].Fencing != nil {
			p.invalid(fmt.Sprintf("compute[%d].fencing", i), "<hidden>", "fencing is only valid for control plane")
		}
	}
}

func (c *installConfig) checkArbiter(p *problems, version release) {
	switch {
	case c.Arbiter.Name != "arbiter":
		p.invalid("arbiter.name", c.Arbiter.Name, `supported values: "arbiter"`)
	case version.before(19), version.before(20) && !c.preview():
		p.invalid("arbiter", c.Arbiter.count(),
			"this field is protected by the HighlyAvailableArbiter feature gate which must be enabled through either "+
				"the TechPreviewNoUpgrade or CustomNoUpgrade feature set")
	case c.Arbiter.count() < 1:
		p.invalid("arbiter.replicas", c.Arbiter.count(), "number of arbiter replicas must be positive")
	case c.ControlPlane.count() < 2:
		p.invalid("controlPlane.replicas", c.ControlPlane.count(),
			"number of control plane replicas must be at least 2 for an arbiter cluster")
	case c.Platform.BareMetal == nil && (c.Platform.None == nil || version.before(22)):
		p.invalid("platform", c.platformType(), "an arbiter is supported on the platform baremetal only")
	case c.Arbiter.Fencing != nil:
		p.invalid("arbiter.fencing", "<hidden>", "fencing is only valid for control plane")
	}
}

func (c *installConfig) checkFencing(p *problems, fencing *configFencing, version release) {
	const field = "controlPlane.fencing"
	switch {
	case version.before(20), version.before(22) && !c.preview():
		p.invalid(field, "<hidden>",
			"this field is protected by the DualReplica feature gate which must be enabled through either the "+
				"TechPreviewNoUpgrade or CustomNoUpgrade feature set")
	case c.Arbiter.count() > 0:
		p.invalid(field, "<hidden>", "fencing is mutually exclusive with an arbiter")
	case c.ControlPlane.count() != 2:
		p.invalid("controlPlane.replicas", c.ControlPlane.count(), "fencing requires a control plane of two replicas")
	case len(fencing.Credentials) != 2:
		p.invalid(field+".credentials", len(fencing.Credentials),
			"there should be exactly two fencing credentials to support the two node cluster")
	case c.Platform.BareMetal == nil && c.Platform.None == nil:
		p.invalid("platform", c.platformType(), "fencing is supported on the platforms baremetal and none only")
	}
	seen := map[string]bool{}
	for i, credential := range fencing.Credentials {
		at := fmt.Sprintf("%s.credentials[%d]", field, i)
		if credential.HostName == "" && credential.MACAddress == "" {
			p.required(at+".hostname", "missing Hostname")
		}
		p.demand(at+".address", credential.Address, "missing Address")
		p.demand(at+".username", credential.Username, "missing Username")
		p.demand(at+".password", credential.Password, "missing Password")
		if !slices.Contains([]string{"", "Enabled", "Disabled"}, credential.CertificateVerification) {
			p.invalid(at+".certificateVerification", credential.CertificateVerification,
				`supported values: "Enabled", "Disabled"`)
		}
		for _, value := range []string{credential.Address, "host " + credential.HostName + credential.MACAddress} {
			if seen[value] {
				p.duplicate(at, value)
			}
			seen[value] = true
		}
	}
}

// machineManifests returns the manifests with which a cluster on virtual machines creates its
// machines.
func machineManifests(c *installConfig, infraID string) map[string]object {
	all := map[string]object{}
	if c.Platform.VSphere == nil && c.Platform.Nutanix == nil {
		return all
	}
	const api, namespace = "machine.openshift.io/v1beta1", "openshift-machine-api"
	for i := range c.ControlPlane.count() {
		name := fmt.Sprintf("%s-master-%d", infraID, i)
		all[fmt.Sprintf("openshift/99_openshift-cluster-api_master-machines-%d.yaml", i)] = Object(api, "Machine",
			namespace, name, object{"spec": object{}})
	}
	all["openshift/99_openshift-cluster-api_worker-machineset-0.yaml"] = Object(api, "MachineSet", namespace,
		infraID+"-worker",
		object{"spec": object{"replicas": c.computeCount()}})
	all["openshift/99_openshift-machine-api_master-control-plane-machine-set.yaml"] = Object(
		"machine.openshift.io/v1", "ControlPlaneMachineSet", namespace, "cluster",
		object{"spec": object{"replicas": c.ControlPlane.count()}})
	return all
}
