// Package installconfig generates the input of an installation: the install-config, the manifests
// that the appliance adds to those of openshift-install, and the edits of the generated ignition
// configs. docs/generated.md explains each generated line.
//
// [Installation] is the input. Its methods are pure. The package also checks the parts that users
// contribute to an installation: overrides, manifests and arguments of coreos-installer. For
// rejected input it returns a [fault.Error].
//
// Design: docs/design.md#platforms-as-data.
package installconfig

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/catalog"
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
	"landfall/appliance/engine/validation"
	"landfall/appliance/fault"
	"landfall/appliance/mirror"
	"landfall/appliance/release"
)

// Installation holds all input for the generated files of one cluster. Its methods do not change
// it.
type Installation struct {
	Cluster *models.Cluster // without hosts and validations
	Hosts   []*inventory.Host
	// Fencing holds the credentials of the hosts' BMCs by host id, for clusters with fencing.
	Fencing    map[strfmt.UUID]*models.FencingCredentialsParams
	PullSecret string
	// Mirror holds the cluster's mirror rules, with the source policies of Manifests.
	Mirror MirrorRules
	// Catalogs describes where the cluster's operators come from.
	Catalogs catalog.Cluster
	// TrustBundles holds CA certificates (PEM) of the cluster's infra-envs and of their mirror
	// rules.
	TrustBundles []string
	// Manifests holds the users' manifests by folder and name, such as "openshift/99-chrony.yaml".
	Manifests map[string][]byte

	ServiceURL      string // URL of the appliance for hosts
	ServiceCA       []byte // PEM of the CA of ServiceURL if the CA is private
	Requirements    validation.Requirements
	ControllerImage string // contains the oc command for setup jobs

	// APILease and IngressLease are the DHCP leases of the VIPs in the format of dhclient, or
	// empty.
	APILease, IngressLease string
}

// MirrorRules provides the mirror rules of a cluster; *mirror.Rules implements it.
type MirrorRules interface {
	catalog.MirrorRules
	CABundle() []byte
	Hosts() []string // host names of the mirrors, without ports
	// InstallConfig returns the rules for digests in the format of the install-config. Manifests
	// returns the rules that an install-config cannot express.
	InstallConfig(mirror.Target) []mirror.ImageDigestSource
	Manifests(mirror.Target) ([]mirror.Manifest, error)
	// LaterObjects returns the objects that can be created only in a running cluster.
	LaterObjects(mirror.Target) []mirror.Object
}

// Request returns the input of openshift-install for a release image (a pull spec by digest).
func (in *Installation) Request(releaseImage string) (release.GenerateRequest, error) {
	manifests, err := in.SystemManifests()
	if err != nil {
		return release.GenerateRequest{}, err
	}
	maps.Copy(manifests, in.Manifests) // a user's manifest replaces the appliance's manifest of the same name
	config, err := in.InstallConfig()
	return release.GenerateRequest{
		ReleaseImage: releaseImage, InstallConfig: config, Manifests: manifests, SingleNode: in.singleNode(),
		BootstrapIP: in.bootstrapAddress(), Invoker: "landfall", WithoutMachines: in.withoutMachines(),
	}, err
}

// withoutMachines reports whether the manifests of machines are left out. With these manifests,
// clusters on vSphere and Nutanix would create machines that nobody requested, and they lack the
// credentials for that.
func (in *Installation) withoutMachines() bool {
	kind := *in.Cluster.Platform.Type
	return kind == models.PlatformTypeVsphere || kind == models.PlatformTypeNutanix
}

func (in *Installation) singleNode() bool { return validation.SingleNode(in.Cluster) }

func (in *Installation) userManaged() bool { return conv.Value(in.Cluster.UserManagedNetworking) }

// count returns the number of hosts with a role.
func (in *Installation) count(role models.HostRole) int {
	count := 0
	for _, host := range in.Hosts {
		if host.Role() == role {
			count++
		}
	}
	return count
}

// roles returns the roles of the cluster's nodes. The Machine Config Operator has pools for master
// and worker in each cluster.
func (in *Installation) roles() []string {
	roles := []string{"master", "worker"}
	if in.count(models.HostRoleArbiter) > 0 {
		roles = append(roles, "arbiter")
	}
	return roles
}

func (in *Installation) hasIPv6() bool {
	_, v6 := network.Families(network.MachineNetworks(in.Cluster))
	return v6
}

// ntpServers returns the NTP servers that users configured for the cluster.
func (in *Installation) ntpServers() []string {
	return commaList(in.Cluster.AdditionalNtpSource)
}

// commaList splits a list at its commas. Empty and repeated entries are removed.
func commaList(list string) []string {
	var kept []string
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" && !slices.Contains(kept, part) {
			kept = append(kept, part)
		}
	}
	return kept
}

func invalid(format string, args ...any) error { return fault.New(fault.Invalid, format, args...) }
