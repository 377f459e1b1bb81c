package engine

import (
	"encoding/json"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
)

// A cluster of two nodes without an arbiter lets each node turn the other one off. What it needs
// for that are the credentials of the nodes' management controllers. The password is kept beside
// what the API shows of a host and leaves the store in the install-config only.

// setFencing keeps the credentials by which the host is turned off by its neighbour.
func (h *hostRecord) setFencing(asked *models.FencingCredentialsParams) error {
	if asked == nil {
		return nil
	}
	for _, field := range []struct {
		name  string
		value *string
	}{{"address", asked.Address}, {"username", asked.Username}, {"password", asked.Password}} {
		if strings.TrimSpace(conv.Value(field.value)) == "" {
			return invalid("The fencing credentials lack the %s of the host's management controller.", field.name)
		}
	}
	kept := *asked
	setDefault(&kept.CertificateVerification, models.FencingCredentialsParamsCertificateVerificationEnabled)
	h.Fencing = &kept
	shown, err := json.Marshal(map[string]string{
		"address": *kept.Address, "username": *kept.Username, "certificate_verification": *kept.CertificateVerification,
	})
	if err != nil {
		return err
	}
	h.API.FencingCredentials = string(shown)
	return nil
}

// fencingPool is the part of an install-config's control plane that holds fencing credentials.
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

// fencing is what the install-config says of fencing, nil unless the cluster is two control-plane
// nodes that fence each other.
func (p *plan) fencing() *fencingPool {
	if p.row.API.ControlPlaneCount != 2 || p.count(models.HostRoleArbiter) > 0 {
		return nil
	}
	pool := &fencingPool{}
	for i, host := range p.hosts {
		held := p.records[i].Fencing
		if host.Role() != models.HostRoleMaster || held == nil {
			continue
		}
		pool.Credentials = append(pool.Credentials, fencingCredential{
			Hostname: host.Hostname(), Address: *held.Address, Username: *held.Username, Password: *held.Password,
			CertificateVerification: conv.Value(held.CertificateVerification),
		})
	}
	if len(pool.Credentials) != p.count(models.HostRoleMaster) {
		return nil
	}
	return pool
}

// featureSet is the set of features that an installation needs beyond the usual one: arbiters are a
// preview in 4.19, fencing is until 4.22.
func (p *plan) featureSet() string {
	version := p.row.API.OpenshiftVersion
	arbiters := p.count(models.HostRoleArbiter) > 0 && inventory.AtLeast(version, 4, 19) &&
		!inventory.AtLeast(version, 4, 20)
	if arbiters || p.fencing() != nil && !inventory.AtLeast(version, 4, 22) {
		return "TechPreviewNoUpgrade"
	}
	return ""
}
