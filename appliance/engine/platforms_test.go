package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/fault"
)

// topology is a kind of cluster: its request, its hosts, and a description of its install-config.
type topology struct {
	name, shows string
	version     string
	asked       models.ClusterCreateParams
	hosts       int
	maker       string
	roles       map[int]models.HostRole // requested by the user; the appliance assigns the other roles
	fenced      bool
	ipv6        bool // the hosts have no IPv4
}

func (k topology) virtual() bool { return k.maker != "" }

func platformOf(kind models.PlatformType) *models.Platform { return &models.Platform{Type: &kind} }

// vips adds the virtual addresses of a cluster with cluster-managed networking.
func vips(params models.ClusterCreateParams) models.ClusterCreateParams {
	params.APIVips, params.IngressVips = []*models.APIVip{{IP: "192.168.10.4"}},
		[]*models.IngressVip{{IP: "192.168.10.5"}}
	return params
}

func topologies() []topology {
	count := conv.Pointer[int64]
	arbiter := map[int]models.HostRole{3: models.HostRoleArbiter}
	return append([]topology{
		{name: "compact", version: "4.20.8", hosts: 3, asked: vips(models.ClusterCreateParams{}),
			shows: "Three control-plane nodes on bare metal, which also run workloads: no compute replicas, every " +
				"host under platform.baremetal."},
		{name: "workers", version: "4.20.8", hosts: 5, asked: vips(models.ClusterCreateParams{}),
			shows: "Three control-plane nodes and two workers on bare metal, without requested roles. Masters come " +
				"first " +
				"among the hosts."},
		{name: "four-masters", version: "4.20.8", hosts: 4,
			asked: vips(models.ClusterCreateParams{ControlPlaneCount: count(4)}),
			shows: "Four control-plane nodes, from OpenShift 4.18."},
		{name: "five-masters", version: "4.18.4", hosts: 5,
			asked: vips(models.ClusterCreateParams{ControlPlaneCount: count(5)}),
			shows: "Five control-plane nodes, the maximum, in the first version that supports it."},
		{name: "arbiter", version: "4.20.8", hosts: 3,
			asked: vips(models.ClusterCreateParams{ControlPlaneCount: count(2)}),
			shows: "Two control-plane nodes and an arbiter, which has its own machine pool. The third host becomes " +
				"the " +
				"arbiter automatically."},
		{name: "arbiter-preview", version: "4.19.2", hosts: 3, roles: arbiter,
			asked: vips(models.ClusterCreateParams{ControlPlaneCount: count(2)}),
			shows: "Two control-plane nodes and an arbiter in OpenShift 4.19, where arbiters are a technology " +
				"preview: featureSet enables it."},
		{name: "arbiter-none", version: "4.22.0", hosts: 3, roles: arbiter,
			asked: models.ClusterCreateParams{ControlPlaneCount: count(2), UserManagedNetworking: conv.Pointer(true)},
			shows: "Two control-plane nodes and an arbiter behind the user's load balancer, from OpenShift 4.22."},
		{name: "fencing", version: "4.22.0", hosts: 2, fenced: true,
			asked: vips(models.ClusterCreateParams{ControlPlaneCount: count(2)}),
			shows: "Two control-plane nodes that turn each other off by their management controllers: " +
				"controlPlane.fencing has the credentials."},
		{name: "fencing-preview", version: "4.20.8", hosts: 2, fenced: true,
			asked: vips(models.ClusterCreateParams{ControlPlaneCount: count(2)}),
			shows: "Two control-plane nodes with fencing before OpenShift 4.22, where it is a technology preview: " +
				"featureSet enables it."},
		{name: "single-node", version: "4.20.8", hosts: 1,
			asked: models.ClusterCreateParams{ControlPlaneCount: count(1)},
			shows: "One node on platform none, which installs itself in place: bootstrapInPlace names its disk."},
		{name: "single-node-external", version: "4.20.8", hosts: 1,
			asked: models.ClusterCreateParams{ControlPlaneCount: count(1), Platform: external("somecloud", "")},
			shows: "One node on an external platform without a cloud controller manager."},
		{name: "none", version: "4.20.8", hosts: 4,
			asked: models.ClusterCreateParams{UserManagedNetworking: conv.Pointer(true)},
			shows: "Three control-plane nodes and a worker behind the user's load balancer: no VIPs. The machine " +
				"network is the one of the bootstrap host."},
		{name: "external", version: "4.20.8", hosts: 3,
			asked: models.ClusterCreateParams{Platform: external("somecloud", "External")},
			shows: "Three nodes on an external platform with its cloud controller manager."},
		{name: "nutanix", version: "4.20.8", hosts: 3, maker: "Nutanix",
			asked: vips(models.ClusterCreateParams{Platform: platformOf(models.PlatformTypeNutanix)}),
			shows: "Three virtual machines on Nutanix. Placeholders for Prism are replaced when the " +
				"cluster runs."},
		{name: "vsphere", version: "4.20.8", hosts: 3, maker: "VMware, Inc.",
			asked: vips(models.ClusterCreateParams{Platform: platformOf(models.PlatformTypeVsphere)}),
			shows: "Three virtual machines on vSphere. Placeholders for the vCenter are replaced when " +
				"the cluster runs."},
		{name: "vsphere-old", version: "4.12.30", hosts: 3, maker: "VMware, Inc.",
			asked: vips(models.ClusterCreateParams{Platform: platformOf(models.PlatformTypeVsphere)}),
			shows: "vSphere before OpenShift 4.13: one vCenter, no failure domains."},
		{name: "vsphere-user-managed", version: "4.20.8", hosts: 3, maker: "VMware, Inc.",
			asked: models.ClusterCreateParams{Platform: platformOf(models.PlatformTypeVsphere),
				UserManagedNetworking: conv.Pointer(true)},
			shows: "vSphere behind the user's load balancer: no VIPs."},
		{name: "load-balancer", version: "4.20.8", hosts: 3,
			asked: vips(models.ClusterCreateParams{
				LoadBalancer:    &models.LoadBalancer{Type: models.LoadBalancerTypeUserManaged},
				MachineNetworks: []*models.MachineNetwork{{Cidr: "192.168.10.0/24"}},
			}),
			shows: "Bare metal behind the user's load balancer: loadBalancer.type is UserManaged, and the VIPs are " +
				"its addresses."},
	}, stacks()...)
}

func external(name, manager string) *models.Platform {
	platform := platformOf(models.PlatformTypeExternal)
	platform.External = &models.PlatformExternal{PlatformName: &name}
	if manager != "" {
		platform.External.CloudControllerManager = &manager
	}
	return platform
}

// TestTopologies_haveAnInstallConfig prepares a cluster of each kind. It compares the
// install-config with testdata/installconfig, and the manifests and ignition configs with the
// directories beside it. `go test ./appliance/engine -run TestTopologies_haveAnInstallConfig
// -update` writes the files.
func TestTopologies_haveAnInstallConfig(t *testing.T) {
	for _, kind := range topologies() {
		t.Run(kind.name, func(t *testing.T) {
			b := newHarness(t)
			cluster := b.readyCluster(kind)
			b.startInstallation(cluster)
			text, err := b.InstallConfig(cluster)
			require.NoError(t, err)
			var config map[string]any
			require.NoError(t, json.Unmarshal([]byte(text), &config))
			plain, err := yaml.Marshal(config)
			require.NoError(t, err)
			got := "# " + kind.shows + "\n# OpenShift " + kind.version + ".\n" + string(plain)

			requireGolden(t, "installconfig", kind.name+".yaml", got)
			b.requireGeneratedFiles(t, kind, cluster)
		})
	}
}

// readyCluster registers a cluster with hosts that pass all validations.
func (b *harness) readyCluster(kind topology) string {
	b.Helper()
	params := kind.asked
	params.Name, params.BaseDNSDomain, params.PullSecret = conv.Pointer("bench"), "site.test",
		conv.Pointer(testPullSecret)
	params.OpenshiftVersion, params.OcpReleaseImage = conv.Pointer(kind.version), "quay.io/release:"+kind.version
	created, err := b.RegisterCluster(b.Context(), &params)
	require.NoError(b, err)
	env := b.infraEnvOf(created.ID)
	var hosts []*testHost
	for number := 1; number <= kind.hosts; number++ {
		h := b.newHost(env, number)
		h.balancedTo = 200 // the address of the load balancer, which is not a host
		h.loadBalancer = *created.UserManagedNetworking ||
			created.LoadBalancer.Type == models.LoadBalancerTypeUserManaged
		h.dualStack = len(params.MachineNetworks) > 1
		if kind.ipv6 {
			h.alter = onlyIPv6
		}
		if kind.virtual() {
			h.maker = kind.maker
		}
		require.NoError(b, h.register())
		hosts = append(hosts, h)
	}
	b.reportAll(hosts)
	for number, h := range hosts {
		update := &models.HostUpdateParams{}
		if role, chosen := kind.roles[number+1]; chosen {
			update.HostRole = conv.Pointer(string(role))
		}
		if kind.fenced {
			update.FencingCredentials = &models.FencingCredentialsParams{
				Address:  conv.Pointer(fmt.Sprintf("redfish+https://192.168.20.%d/redfish/v1/Systems/1", number+11)),
				Username: conv.Pointer("admin"), Password: conv.Pointer("secret"),
			}
		}
		_, err := b.UpdateHost(b.Context(), env, h.id, update)
		require.NoError(b, err)
	}
	b.reportAll(hosts)
	for _, h := range hosts {
		h.require(lifecycle.HostKnown)
	}
	b.requireCluster(created.ID.String(), lifecycle.ClusterReady)
	return created.ID.String()
}

func TestFencing_credentialsStaySecret(t *testing.T) {
	b := newHarness(t)
	cluster := b.readyCluster(topologies()[slices.IndexFunc(topologies(),
		func(k topology) bool { return k.name == "fencing" })])
	shown, err := b.Cluster(cluster)
	require.NoError(t, err)
	text, err := json.Marshal(shown)
	require.NoError(t, err)
	require.Contains(t, string(text), "192.168.20.11")
	require.NotContains(t, string(text), "secret\\\"")

	h := shown.Hosts[0]
	require.JSONEq(t,
		`{"address":"redfish+https://192.168.20.11/redfish/v1/Systems/1","username":"admin","certificate_verification":"Enabled"}`, h.FencingCredentials)
	page, err := b.Events(event.Filter{ClusterID: cluster})
	require.NoError(t, err)
	for _, event := range page.Events {
		require.NotContains(t, *event.Message, "redfish")
	}
}

func TestFencing_invalidCredentials(t *testing.T) {
	credentials := func(address, user, password string) *models.HostUpdateParams {
		return &models.HostUpdateParams{FencingCredentials: &models.FencingCredentialsParams{Address: &address,
			Username: &user, Password: &password}}
	}
	b := newHarness(t)
	_, hosts := b.threeNodes(true)
	h := hosts[0]
	for name, params := range map[string]*models.HostUpdateParams{"address": credentials(" ", "a", "b"),
		"username": credentials("a", "", "b"), "password": credentials("a", "b", "")} {
		_, err := b.UpdateHost(t.Context(), h.env, h.id, params)
		b.requireRejected(err, fault.Invalid, "lack the "+name)
	}
	require.Empty(t, h.require(lifecycle.HostKnown).FencingCredentials)

	created, err := b.RegisterCluster(t.Context(), &models.ClusterCreateParams{
		Name: conv.Pointer("old"), BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.19.2"),
		OcpReleaseImage: "quay.io/release:4.19.2", PullSecret: conv.Pointer(testPullSecret),
	})
	require.NoError(t, err)
	old := b.host(b.infraEnvOf(created.ID), 4)
	_, err = b.UpdateHost(t.Context(), old.env, old.id, credentials("https://192.168.20.9", "a", "b"))
	b.requireRejected(err, fault.Invalid,
		"can't have fencing credentials in cluster old: the feature TNF is not available with OpenShift 4.19.2")

	pool := b.host(b.infraEnvOf(nil), 5)
	_, err = b.UpdateHost(t.Context(), pool.env, pool.id, credentials("https://192.168.20.9", "a", "b"))
	require.NoError(t, err)
	_, err = b.BindHost(t.Context(), pool.env, pool.id, created.ID.String())
	b.requireRejected(err, fault.Invalid, "can't have fencing credentials in cluster old")
}

func TestArbiterRole_unsupported(t *testing.T) {
	b := newHarness(t)
	cluster, hosts := b.threeNodes(true)
	_, err := b.UpdateHost(t.Context(), hosts[0].env, hosts[0].id,
		&models.HostUpdateParams{HostRole: conv.Pointer(string(models.HostRoleArbiter))})
	require.NoError(t, err, "the number of hosts is validated before the installation")
	require.Contains(t, b.requireCluster(cluster, lifecycle.ClusterInsufficient).ValidationsInfo,
		"needs exactly 3 control plane hosts and has 2")

	created, err := b.RegisterCluster(t.Context(), &models.ClusterCreateParams{
		Name: conv.Pointer("none"), BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20.8"),
		PullSecret: conv.Pointer(testPullSecret), UserManagedNetworking: conv.Pointer(true),
	})
	require.NoError(t, err)
	h := b.host(b.infraEnvOf(created.ID), 4)
	_, err = b.UpdateHost(t.Context(), h.env, h.id,
		&models.HostUpdateParams{HostRole: conv.Pointer(string(models.HostRoleArbiter))})
	b.requireRejected(err, fault.Invalid,
		"can't be an arbiter of cluster none: the feature TNA is not available with OpenShift 4.20.8 on x86_64, "+
			"platform none")
}

func TestRegisterCluster_impossible(t *testing.T) {
	count, no, yes := conv.Pointer[int64], conv.Pointer(false), conv.Pointer(true)
	full, none := conv.Pointer(models.ClusterHighAvailabilityModeFull),
		conv.Pointer(models.ClusterHighAvailabilityModeNone)
	platform := platformOf
	for want, params := range map[string]models.ClusterCreateParams{
		"has 2 to 5 control-plane nodes, not 6": {ControlPlaneCount: count(6)},
		"has 2 to 5 control-plane nodes, not 0": {ControlPlaneCount: count(0)},
		"has 2 to 5 control-plane nodes, not 1": {ControlPlaneCount: count(1),
			HighAvailabilityMode: full},
		`high_availability_mode is "None" has one control-plane node, not 3`: {ControlPlaneCount: count(3),
			HighAvailabilityMode: none},
		"OpenShift 4.18.4 has 3 to 5 control-plane nodes, not 2": {ControlPlaneCount: count(2),
			OpenshiftVersion: conv.Pointer("4.18.4")},
		"OpenShift 4.17.9 has 3 control-plane nodes, not 4": {ControlPlaneCount: count(4),
			OpenshiftVersion: conv.Pointer("4.17.9")},
		`Platform "baremetal" has cluster-managed networking`: {
			Platform: platform(models.PlatformTypeBaremetal), UserManagedNetworking: yes},
		`Platform "nutanix" has cluster-managed networking`: {
			Platform: platform(models.PlatformTypeNutanix), UserManagedNetworking: yes},
		`Platform "none" has user-managed networking`: {
			Platform: platform(models.PlatformTypeNone), UserManagedNetworking: no},
		`Platform "external" has user-managed networking`: {Platform: external("x", ""),
			UserManagedNetworking: no},
		`A single node can't be installed on platform "baremetal"`: {
			Platform: platform(models.PlatformTypeBaremetal), ControlPlaneCount: count(1)},
		`A single node can't be installed on platform "vsphere"`: {
			Platform: platform(models.PlatformTypeVsphere), HighAvailabilityMode: none},
		"have user-managed networking; leave user_managed_networking out": {ControlPlaneCount: count(1),
			UserManagedNetworking: no},
		`Platform "external" needs a platform name`: {
			Platform: platform(models.PlatformTypeExternal)},
		"Oracle Cloud needs its cloud controller manager": {Platform: external("oci",
			"")},
		`require platform "external", not "none"`: {
			Platform: &models.Platform{Type: platform(models.PlatformTypeNone).Type,
				External: external("x", "").External}},
		`Platform "vsphere" is not available for s390x`: {
			Platform: platform(models.PlatformTypeVsphere), CPUArchitecture: "s390x"},
		"NUTANIX_INTEGRATION is not available with OpenShift 4.20.8 on arm64": {
			Platform: platform(models.PlatformTypeNutanix), CPUArchitecture: "arm64"},
		"EXTERNAL_PLATFORM is not available with OpenShift 4.12.30": {Platform: external("x", ""),
			OpenshiftVersion: conv.Pointer("4.12.30")},
		"NON_STANDARD_HA_CONTROL_PLANE is not available with OpenShift 4.20.8 on x86_64": {
			Platform: platform(models.PlatformTypeVsphere), ControlPlaneCount: count(4)},
		"USER_MANAGED_LOAD_BALANCER is not available with OpenShift 4.15.1": {
			LoadBalancer:     &models.LoadBalancer{Type: models.LoadBalancerTypeUserManaged},
			OpenshiftVersion: conv.Pointer("4.15.1")},
		"USER_MANAGED_NETWORKING and USER_MANAGED_LOAD_BALANCER can't be used together": {
			LoadBalancer: &models.LoadBalancer{Type: models.LoadBalancerTypeUserManaged}, UserManagedNetworking: yes},
		"VIP_AUTO_ALLOC is not available with OpenShift 4.20.8": {VipDhcpAllocation: yes},
		"SDN_NETWORK_TYPE is not available with OpenShift 4.20.8": {
			NetworkType: conv.Pointer(models.ClusterNetworkTypeOpenShiftSDN)},
	} {
		t.Run(want, func(t *testing.T) {
			b := newHarness(t)
			params.Name, params.BaseDNSDomain, params.PullSecret = conv.Pointer("bench"), "site.test",
				conv.Pointer(testPullSecret)
			if params.OpenshiftVersion == nil {
				params.OpenshiftVersion = conv.Pointer("4.20.8")
			}
			params.OcpReleaseImage = "quay.io/release:" + *params.OpenshiftVersion
			_, err := b.RegisterCluster(t.Context(), &params)
			b.requireRejected(err, fault.Invalid, want)
		})
	}
}

func TestUpdateCluster_platform(t *testing.T) {
	no, yes := conv.Pointer(false), conv.Pointer(true)
	type outcome struct {
		kind   models.PlatformType
		users  bool
		reason string // of the rejection; "" if the update is accepted
	}
	for name, c := range map[string]struct {
		from models.ClusterCreateParams
		to   models.V2ClusterUpdateParams
		want outcome
	}{
		"to user-managed networking": {models.ClusterCreateParams{},
			models.V2ClusterUpdateParams{UserManagedNetworking: yes}, outcome{models.PlatformTypeNone, true, ""}},
		"to cluster-managed networking": {models.ClusterCreateParams{UserManagedNetworking: yes},
			models.V2ClusterUpdateParams{UserManagedNetworking: no}, outcome{models.PlatformTypeBaremetal, false, ""}},
		"baremetal to none": {models.ClusterCreateParams{},
			models.V2ClusterUpdateParams{Platform: platformOf(models.PlatformTypeNone)},
			outcome{models.PlatformTypeNone, true, ""}},
		"none to baremetal": {models.ClusterCreateParams{UserManagedNetworking: yes},
			models.V2ClusterUpdateParams{Platform: platformOf(models.PlatformTypeBaremetal)},
			outcome{models.PlatformTypeBaremetal, false, ""}},
		"baremetal to vsphere": {models.ClusterCreateParams{},
			models.V2ClusterUpdateParams{Platform: platformOf(models.PlatformTypeVsphere)},
			outcome{models.PlatformTypeVsphere, false, ""}},
		"none to vsphere": {models.ClusterCreateParams{UserManagedNetworking: yes},
			models.V2ClusterUpdateParams{Platform: platformOf(models.PlatformTypeVsphere)},
			outcome{models.PlatformTypeVsphere, true, ""}},
		"vsphere by the user": {models.ClusterCreateParams{
			Platform: platformOf(models.PlatformTypeVsphere)}, models.V2ClusterUpdateParams{UserManagedNetworking: yes},
			outcome{models.PlatformTypeVsphere, true, ""}},
		"to external with the networking": {models.ClusterCreateParams{},
			models.V2ClusterUpdateParams{Platform: external("x", ""), UserManagedNetworking: yes},
			outcome{models.PlatformTypeExternal, true, ""}},
		"to external without it": {models.ClusterCreateParams{},
			models.V2ClusterUpdateParams{Platform: external("x", "")},
			outcome{reason: `Platform "external" has user-managed networking`}},
		"none to nutanix without the networking": {models.ClusterCreateParams{UserManagedNetworking: yes},
			models.V2ClusterUpdateParams{Platform: platformOf(models.PlatformTypeNutanix)},
			outcome{reason: `Platform "nutanix" has cluster-managed networking`}},
		"nutanix by the user": {models.ClusterCreateParams{
			Platform: platformOf(models.PlatformTypeNutanix)}, models.V2ClusterUpdateParams{UserManagedNetworking: yes},
			outcome{reason: `Platform "nutanix" has cluster-managed networking`}},
		"a single node on bare metal": {models.ClusterCreateParams{ControlPlaneCount: conv.Pointer[int64](1)},
			models.V2ClusterUpdateParams{Platform: platformOf(models.PlatformTypeBaremetal)},
			outcome{reason: "A single node has user-managed networking"}},
		"a single node's networking": {models.ClusterCreateParams{ControlPlaneCount: conv.Pointer[int64](1)},
			models.V2ClusterUpdateParams{UserManagedNetworking: no},
			outcome{reason: "A single node has user-managed networking"}},
		"another external platform": {models.ClusterCreateParams{Platform: external("x", "External")},
			models.V2ClusterUpdateParams{Platform: external("y", "")}, outcome{models.PlatformTypeExternal, true, ""}},
		"oracle without its manager": {models.ClusterCreateParams{Platform: external("x", "")},
			models.V2ClusterUpdateParams{Platform: external("oci", "")},
			outcome{reason: "Oracle Cloud needs its cloud controller manager"}},
		"more control-plane nodes": {models.ClusterCreateParams{},
			models.V2ClusterUpdateParams{ControlPlaneCount: conv.Pointer[int64](5)},
			outcome{models.PlatformTypeBaremetal, false, ""}},
		"one control-plane node": {models.ClusterCreateParams{},
			models.V2ClusterUpdateParams{ControlPlaneCount: conv.Pointer[int64](1)},
			outcome{reason: "has 2 to 5 control-plane nodes, not 1"}},
		"three of a single node": {models.ClusterCreateParams{ControlPlaneCount: conv.Pointer[int64](1)},
			models.V2ClusterUpdateParams{ControlPlaneCount: conv.Pointer[int64](3)},
			outcome{reason: "has one control-plane node, not 3"}},
		"the user's load balancer": {models.ClusterCreateParams{},
			models.V2ClusterUpdateParams{LoadBalancer: &models.LoadBalancer{Type: models.LoadBalancerTypeUserManaged}},
			outcome{models.PlatformTypeBaremetal, false, ""}},
		"the user's load balancer elsewhere": {models.ClusterCreateParams{UserManagedNetworking: yes},
			models.V2ClusterUpdateParams{LoadBalancer: &models.LoadBalancer{Type: models.LoadBalancerTypeUserManaged}},
			outcome{reason: "can't be used together"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newHarness(t)
			c.from.Name, c.from.BaseDNSDomain, c.from.PullSecret, c.from.OpenshiftVersion = conv.Pointer("bench"),
				"site.test", conv.Pointer(testPullSecret), conv.Pointer("4.20.8")
			created, err := b.RegisterCluster(t.Context(), &c.from)
			require.NoError(t, err)
			got, err := b.UpdateCluster(t.Context(), created.ID.String(), &c.to)
			if c.want.reason != "" {
				b.requireRejected(err, fault.Invalid, c.want.reason)
				held, err := b.Cluster(created.ID.String())
				require.NoError(t, err)
				require.Equal(t, created.Platform, held.Platform, "a rejected update changes nothing")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want.kind, *got.Platform.Type)
			require.Equal(t, c.want.users, *got.UserManagedNetworking)
			if c.want.kind == models.PlatformTypeExternal {
				require.Equal(t, *c.to.Platform.External.PlatformName, *got.Platform.External.PlatformName)
			}
		})
	}
}

func TestTopologies_ownAllGoldenInstallConfigs(t *testing.T) {
	var files []string
	for _, pattern := range []string{"installconfig/*.yaml", "manifests/*.txt", "ignition/*.txt"} {
		found, err := filepath.Glob(filepath.Join("testdata", pattern))
		require.NoError(t, err)
		files = append(files, found...)
	}
	known := make(map[string]bool)
	for _, kind := range topologies() {
		known[filepath.Join("testdata", "installconfig", kind.name+".yaml")] = true
		known[filepath.Join("testdata", "manifests", kind.name+".txt")] = true
		known[filepath.Join("testdata", "ignition", kind.name+".txt")] = true
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(known)), files)
}
