package installconfig

import (
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
)

// fencingPool is the part of the install-config's control plane with the fencing credentials.
type fencingPool struct {
	Credentials []fencingCredential `json:"credentials"`
}

type fencingCredential struct {
	Hostname                string `json:"hostname"`
	Address                 string `json:"address"`
	Username                string `json:"username"`
	Password                string `json:"password"`
	CertificateVerification string `json:"certificateVerification,omitempty"`
}

// fencing returns the fencing section of the install-config, or nil. Only a cluster of two
// control-plane nodes without an arbiter has fencing.
func (in *Installation) fencing() *fencingPool {
	if in.Cluster.ControlPlaneCount != 2 || in.count(models.HostRoleArbiter) > 0 {
		return nil
	}
	pool := &fencingPool{}
	for _, host := range in.Hosts {
		credentials := in.Fencing[host.ID()]
		if host.Role() != models.HostRoleMaster || credentials == nil {
			continue
		}
		pool.Credentials = append(pool.Credentials, fencingCredential{
			Hostname: host.Hostname(), Address: *credentials.Address, Username: *credentials.Username,
			Password:                *credentials.Password,
			CertificateVerification: conv.Value(credentials.CertificateVerification),
		})
	}
	if len(pool.Credentials) != in.count(models.HostRoleMaster) {
		return nil
	}
	return pool
}

// featureSet returns the feature set of the installation, or "" for the default. Arbiters are a
// technology preview in 4.19, and fencing is one before 4.22.
func (in *Installation) featureSet() string {
	version := in.Cluster.OpenshiftVersion
	arbiters := in.count(models.HostRoleArbiter) > 0 && inventory.AtLeast(version, 4, 19) &&
		!inventory.AtLeast(version, 4, 20)
	if arbiters || in.fencing() != nil && !inventory.AtLeast(version, 4, 22) {
		return "TechPreviewNoUpgrade"
	}
	return ""
}
