package description

import (
	"cmp"
	"slices"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/architecture"
	"landfall/appliance/engine/validation"
)

// Cluster is the description of a cluster.
type Cluster struct {
	API        models.Cluster // without hosts and validations
	PullSecret string
	// MachineNetworkDerived reports that the machine network was derived from the VIPs or hosts,
	// because no request set a machine network.
	MachineNetworkDerived bool
	// VIPsReset is set by an update that changed the source of the cluster's VIPs. The previous
	// addresses and leases are no longer valid.
	VIPsReset bool
}

// The fields of clusters, by group and as one list. They are built once, because every creation and
// update reads them. They are not changed.
var (
	clusterGroups = newClusterGroups()
	clusterFields = slices.Concat(clusterGroups[names], clusterGroups[secrets], clusterGroups[texts],
		clusterGroups[proxies], clusterGroups[settings])
)

// newClusterGroups returns the fields of clusters by group. Requests are checked in groups, see
// [checkCluster]. Fields are set in the order of the table.
func newClusterGroups() map[group][]Field[Cluster] {
	api := func(at func(*models.Cluster) *string) func(*Cluster) *string {
		return func(d *Cluster) *string { return at(&d.API) }
	}
	return map[group][]Field[Cluster]{
		names: {
			text("Name", api(func(c *models.Cluster) *string { return &c.Name }), CheckName),
			text("BaseDNSDomain", api(func(c *models.Cluster) *string { return &c.BaseDNSDomain }), checkBaseDomain),
		},
		secrets: {pullSecretField()},
		texts: {
			text("SSHPublicKey", api(func(c *models.Cluster) *string { return &c.SSHPublicKey }), CheckSSHKeys),
			text("AdditionalNtpSource", api(func(c *models.Cluster) *string { return &c.AdditionalNtpSource }),
				CheckTimeServers),
			text("NoProxy", api(func(c *models.Cluster) *string { return &c.NoProxy }), CheckNoProxy),
			text("Tags", api(func(c *models.Cluster) *string { return &c.Tags }), checkTags),
		},
		proxies: {
			text("HTTPProxy", api(func(c *models.Cluster) *string { return &c.HTTPProxy }), CheckProxy),
			text("HTTPSProxy", api(func(c *models.Cluster) *string { return &c.HTTPSProxy }), CheckProxy),
		},
		settings: {
			vipDHCPField(), // before the VIPs
			text("Hyperthreading", api(func(c *models.Cluster) *string { return &c.Hyperthreading }), nil),
			pointer("SchedulableMasters", func(d *Cluster) **bool { return &d.API.SchedulableMasters }),
			pointer("NetworkType", func(d *Cluster) **string { return &d.API.NetworkType }),
			apiAddressField(),
			controlPlaneField(),
			diskEncryptionField(), ignitionEndpointField(), loadBalancerField(),
			value("ClusterNetworks", func(d *Cluster) *[]*models.ClusterNetwork { return &d.API.ClusterNetworks }),
			value("ServiceNetworks", func(d *Cluster) *[]*models.ServiceNetwork { return &d.API.ServiceNetworks }),
			machineNetworksField(),
			value("APIVips", func(d *Cluster) *[]*models.APIVip { return &d.API.APIVips }),
			value("IngressVips", func(d *Cluster) *[]*models.IngressVip { return &d.API.IngressVips }),
			{Name: "Platform"}, {Name: "UserManagedNetworking"}, // set together, see setPlatform and updatePlatform
			{Name: "OlmOperators"}, // set by the engine, see package operator
		},
	}
}

// group is a group of fields whose values are checked together.
type group int

const (
	names group = iota
	secrets
	texts
	proxies
	settings // fields without a check, or with a check that needs other fields
)

// ClusterFields returns all fields of clusters. Callers must not change the list.
func ClusterFields() []Field[Cluster] { return clusterFields }

// checkCluster checks each field of a request on its own, in the order of the groups.
func checkCluster(request any, order ...group) error {
	for _, g := range order {
		if err := checkAll(clusterGroups[g], request); err != nil {
			return err
		}
	}
	return nil
}

func pullSecretField() Field[Cluster] {
	return Field[Cluster]{Name: "PullSecret",
		check: func(value any) error { return checkPullSecret(value.(string)) },
		set: func(d *Cluster, value any) error {
			d.PullSecret, d.API.PullSecretSet = value.(string), true
			return nil
		}}
}

// vipDHCPField is the field vip_dhcp_allocation. A change clears the VIPs and the machine network,
// because the addresses then come from another source.
func vipDHCPField() Field[Cluster] {
	f := pointer("VipDhcpAllocation", func(d *Cluster) **bool { return &d.API.VipDhcpAllocation })
	set := f.set
	f.set = func(d *Cluster, value any) error {
		if value.(bool) != conv.Value(d.API.VipDhcpAllocation) {
			d.API.APIVips, d.API.IngressVips = []*models.APIVip{}, []*models.IngressVip{}
			d.API.MachineNetworks, d.MachineNetworkDerived = []*models.MachineNetwork{}, false
			d.VIPsReset = true
		}
		return set(d, value)
	}
	return f
}

func controlPlaneField() Field[Cluster] {
	return Field[Cluster]{Name: "ControlPlaneCount",
		set: func(d *Cluster, value any) error {
			count := value.(int64)
			if !validation.AddingHosts(&d.API) {
				if err := checkControlPlane(d.API.OpenshiftVersion, count,
					conv.Value(d.API.HighAvailabilityMode)); err != nil {
					return err
				}
			}
			d.API.ControlPlaneCount = count
			return nil
		},
		get:        func(d *Cluster) (any, error) { return d.API.ControlPlaneCount, nil },
		changeOnly: true}
}

func machineNetworksField() Field[Cluster] {
	f := value("MachineNetworks", func(d *Cluster) *[]*models.MachineNetwork { return &d.API.MachineNetworks })
	set := f.set
	f.set = func(d *Cluster, value any) error {
		d.MachineNetworkDerived = false
		return set(d, value)
	}
	return f
}

// NewCluster returns the description of a new cluster. The engine then adds the operators and its
// own fields, and calls [CheckFeatures].
func NewCluster(site *Site, params *models.ClusterCreateParams,
	newID func() strfmt.UUID) (*Cluster, error) {
	if err := checkPullSecret(conv.Value(params.PullSecret)); err != nil { // also if the request has none
		return nil, err
	}
	if err := CheckName(conv.Value(params.Name)); err != nil {
		return nil, err
	}
	if err := checkCluster(params, names, proxies, texts); err != nil {
		return nil, err
	}
	release, err := site.FindRelease(conv.Value(params.OpenshiftVersion), params.CPUArchitecture,
		params.OcpReleaseImage)
	if err != nil {
		return nil, err
	}
	if release.CPUArchitecture == MultiCPU {
		if err := site.CheckMultiCPU(); err != nil {
			return nil, err
		}
	}
	controlPlanes, mode := controlPlane(params.ControlPlaneCount, params.HighAvailabilityMode)
	if err := checkControlPlane(release.OpenshiftVersion, controlPlanes, mode); err != nil {
		return nil, err
	}
	id := newID()
	d := &Cluster{API: models.Cluster{
		ID: &id, OpenshiftVersion: release.OpenshiftVersion, OcpReleaseImage: release.URL,
		CPUArchitecture: release.CPUArchitecture, ControlPlaneCount: controlPlanes, HighAvailabilityMode: &mode,
		VipDhcpAllocation: conv.Pointer(false), SchedulableMasters: conv.Pointer(false),
	}}
	if err := create(clusterFields, d, createdNetworks(params)); err != nil {
		return nil, err
	}
	d.VIPsReset = false
	cpu := architecture.Of(params.CPUArchitecture).API()
	if err := setPlatform(&d.API, cpu, params.Platform, params.UserManagedNetworking); err != nil {
		return nil, err
	}
	setClusterDefaults(site, &d.API)
	requested := requestedNetworking{params.APIVips, params.IngressVips, params.MachineNetworks,
		params.UserManagedNetworking, false}
	return d, FirstOf(completeNetworks(&d.API), requested.check(&d.API), checkDualStack(&d.API))
}

// setClusterDefaults sets the fields of a new cluster that the request lacks or leaves empty.
func setClusterDefaults(site *Site, api *models.Cluster) {
	api.AdditionalNtpSource = cmp.Or(api.AdditionalNtpSource, strings.Join(site.NTPSources, ","))
	api.Hyperthreading = cmp.Or(api.Hyperthreading, models.ClusterHyperthreadingAll)
	setDefault(&api.NetworkType, models.ClusterNetworkTypeOVNKubernetes)
	if api.DiskEncryption == nil {
		api.DiskEncryption = &models.DiskEncryption{}
	}
	completeDiskEncryption(api.DiskEncryption)
	if api.ClusterNetworks == nil {
		api.ClusterNetworks = defaultClusterNetworks()
	}
	if api.ServiceNetworks == nil {
		api.ServiceNetworks = []*models.ServiceNetwork{{Cidr: DefaultServiceNetwork}}
	}
	if api.LoadBalancer == nil {
		api.LoadBalancer = &models.LoadBalancer{Type: models.LoadBalancerTypeClusterManaged}
	}
}

// Update changes the description as requested. The engine then updates the operators. It also calls
// [CheckFeatures], unless the cluster is already installed and only gets more hosts.
func (d *Cluster) Update(params *models.V2ClusterUpdateParams) error {
	if err := checkCluster(params, names, secrets, texts, proxies); err != nil {
		return err
	}
	params = updatedNetworks(params, d.API.ClusterNetworks)
	if err := setAll(clusterFields, d, params); err != nil {
		return err
	}
	if err := updatePlatform(&d.API, params.Platform, params.UserManagedNetworking); err != nil {
		return err
	}
	if err := completeNetworks(&d.API); err != nil || validation.AddingHosts(&d.API) {
		return err
	}
	requested := requestedNetworking{params.APIVips, params.IngressVips, params.MachineNetworks,
		params.UserManagedNetworking, true}
	return FirstOf(requested.check(&d.API), checkDualStack(&d.API))
}

// ClusterCreateParams returns the request that creates a cluster with the fields of an update.
// Fields that an update lacks are left out.
func ClusterCreateParams(update *models.V2ClusterUpdateParams) *models.ClusterCreateParams {
	params := &models.ClusterCreateParams{}
	copyFields(clusterFields, params, update)
	return params
}
