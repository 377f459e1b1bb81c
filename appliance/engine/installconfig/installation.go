// Package installconfig generates everything that an installation is given: the install-config, the
// manifests that the appliance adds to those of openshift-install, and the edits of the ignition
// configs that openshift-install generates. docs/generated.md explains each generated line.
//
// [Installation] is the input. Its methods compute everything from it and have no other effects.
// The package also checks what users contribute to an installation: overrides, manifests and
// arguments of coreos-installer. Rejected input ends in a [fault.Error].
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

// Installation holds everything that the generated files of one cluster depend on. It is not
// altered by its methods.
type Installation struct {
	Cluster *models.Cluster // without hosts and validations
	Hosts   []*inventory.Host
	// Fencing holds the credentials of the hosts' management controllers by host id, for hosts that
	// fence each other.
	Fencing    map[strfmt.UUID]*models.FencingCredentialsParams
	PullSecret string
	// Mirror holds the cluster's mirror rules. They follow the source policies of Manifests.
	Mirror MirrorRules
	// Catalogs describes where the cluster's operators come from.
	Catalogs catalog.Cluster
	// TrustBundles holds CA certificates (PEM) of the cluster's infra-envs and of their mirror
	// rules.
	TrustBundles []string
	// Manifests holds the users' manifests by folder and name, such as "openshift/99-chrony.yaml".
	Manifests map[string][]byte

	ServiceURL      string // the appliance as hosts reach it
	ServiceCA       []byte // PEM of the CA of ServiceURL, if it is a private one
	Requirements    validation.Requirements
	ControllerImage string // has the oc command that setup jobs run

	// APILease and IngressLease are the DHCP leases of the VIPs as dhclient writes them; empty if
	// the VIPs have none.
	APILease, IngressLease string
}

// MirrorRules provides the mirror rules of a cluster; *mirror.Rules implements it.
type MirrorRules interface {
	catalog.MirrorRules
	CABundle() []byte
	Hosts() []string // of the mirrors, without ports
	// InstallConfig returns the rules for digests in the form of the install-config, and Manifests
	// the rules that an install-config cannot express.
	InstallConfig(mirror.Target) []mirror.ImageDigestSource
	Manifests(mirror.Target) ([]mirror.Manifest, error)
	// LaterObjects returns the objects that only a running cluster can be given.
	LaterObjects(mirror.Target) []mirror.Object
}

// Request returns the request by which openshift-install generates the installation from the
// release image (a pull spec by digest).
func (in *Installation) Request(releaseImage string) (release.GenerateRequest, error) {
	manifests, err := in.SystemManifests()
	if err != nil {
		return release.GenerateRequest{}, err
	}
	maps.Copy(manifests, in.Manifests) // a user's manifest replaces the appliance's of the same name
	config, err := in.InstallConfig()
	return release.GenerateRequest{
		ReleaseImage: releaseImage, InstallConfig: config, Manifests: manifests, SingleNode: in.singleNode(),
		BootstrapIP: in.bootstrapAddress(), Invoker: "landfall", WithoutMachines: in.withoutMachines(),
	}, err
}

// withoutMachines reports whether the manifests of machines are left out. On these platforms they
// would make the cluster create machines of its own, which nobody asked for and for which it has no
// credentials.
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
// and worker in every cluster.
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

// ntpServers returns the time servers that users configured for the cluster.
func (in *Installation) ntpServers() []string {
	return commaList(in.Cluster.AdditionalNtpSource)
}

// commaList splits a list at its commas. Empty and repeated entries are left out.
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
