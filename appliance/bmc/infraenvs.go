package bmc

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/discovery"
	"landfall/appliance/engine"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/fault"
)

// InfraEnvs implements [Site] with the infra-envs and hosts of an engine.
type InfraEnvs struct {
	engine   *engine.Engine
	images   *discovery.Images
	networks discovery.Networks
}

// NewInfraEnvs returns the infra-envs of an engine. networks are the networks of the site, the
// preferred network first.
func NewInfraEnvs(e *engine.Engine, images *discovery.Images, networks discovery.Networks) *InfraEnvs {
	return &InfraEnvs{e, images, networks}
}

// ImageURL implements Site. It uses the network through which this machine reaches the BMC, or the
// preferred network if bmcURL is empty.
func (s *InfraEnvs) ImageURL(ctx context.Context, infraEnvID, bmcURL string) (string, error) {
	code, _, err := s.engine.CodeOfImage(infraEnvID)
	if err != nil {
		return "", err
	}
	if code == "" {
		return "", fmt.Errorf("the short URL of its infra-env %s was revoked or has expired; renew it", infraEnvID)
	}
	if _, err := s.images.Image(ctx, infraEnvID, "", s.networks[0]); err != nil {
		return "", err
	}
	network := s.networkTowards(ctx, bmcURL)
	if strings.HasPrefix(network.Boot, "https:") {
		return "",
			fmt.Errorf("the appliance serves images only by https, which many BMCs do not trust; configure " +
				"boot_listen to serve them by plain http")
	}
	return network.ShortURL(code), nil
}

// networkTowards returns the network whose local address is used to reach a BMC, or the preferred
// network. It sends no packets.
func (s *InfraEnvs) networkTowards(ctx context.Context, bmcURL string) discovery.Network {
	if len(s.networks) == 1 || bmcURL == "" {
		return s.networks[0]
	}
	parsed, err := url.Parse(bmcURL)
	if err != nil {
		return s.networks[0]
	}
	probe, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "udp", net.JoinHostPort(parsed.Hostname(),
		"443"))
	if err != nil {
		return s.networks[0]
	}
	local, _, err := net.SplitHostPort(probe.LocalAddr().String())
	if closeErr := probe.Close(); err != nil || closeErr != nil {
		return s.networks[0]
	}
	for _, network := range s.networks {
		if at, err := url.Parse(network.Boot); err == nil && at.Hostname() == local {
			return network
		}
	}
	return s.networks[0]
}

// Hosts implements Site.
func (s *InfraEnvs) Hosts(fn func(Host) error) error {
	infraEnvs, err := s.engine.InfraEnvs("")
	if err != nil {
		return err
	}
	for _, infraEnv := range infraEnvs {
		hosts, err := s.engine.Hosts(infraEnv.ID.String())
		if fault.KindOf(err) == fault.NotFound {
			continue
		}
		if err != nil {
			return err
		}
		for _, host := range hosts {
			if described, ok := s.host(host); ok {
				if err := fn(described); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Host implements Site.
func (s *InfraEnvs) Host(ref HostRef) (Host, bool, error) {
	host, err := s.engine.Host(ref.InfraEnvID, ref.ID)
	if fault.KindOf(err) == fault.NotFound {
		return Host{}, false, nil
	}
	if err != nil {
		return Host{}, false, err
	}
	described, ok := s.host(host)
	return described, ok, nil
}

// ClusterName implements Site.
func (s *InfraEnvs) ClusterName(id string) (string, error) {
	if id == "" {
		return "", nil
	}
	cluster, err := s.engine.Cluster(id)
	if fault.KindOf(err) == fault.NotFound {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return cluster.Name, nil
}

// host describes a host. It returns false if the agent has not reported the inventory yet.
func (s *InfraEnvs) host(host *models.Host) (Host, bool) {
	inventory, err := s.engine.HostHardware(host.InfraEnvID.String(), host.ID.String())
	if err != nil || inventory == nil {
		return Host{}, false
	}
	described := Host{
		HostRef:    HostRef{InfraEnvID: host.InfraEnvID.String(), ID: host.ID.String()},
		Name:       host.RequestedHostname,
		Status:     conv.Value(host.Status),
		Registered: time.Time(host.RegisteredAt),
	}
	if host.ClusterID != nil {
		described.ClusterID = host.ClusterID.String()
	}
	if described.Registered.Unix() <= 0 { // a restored host may lack the time
		described.Registered = host.CreatedAt
	}
	for _, card := range inventory.Interfaces {
		if mac, err := ParseMAC(card.MacAddress); err == nil {
			described.MACs = append(described.MACs, mac)
		}
	}
	if inventory.SystemVendor != nil {
		described.SerialNumber = inventory.SystemVendor.SerialNumber
	}
	if host.Progress != nil {
		described.Stage = host.Progress.CurrentStage
	}
	described.WrongBoot = described.Status == models.HostStatusInstallingPendingUserAction &&
		described.Stage == models.HostStageRebooting &&
		// A host that exceeds the limit of this stage has the same state, but may only boot slowly.
		strings.HasPrefix(conv.Value(host.StatusInfo), lifecycle.WrongBootOrder)
	if infraEnv, err := s.engine.InfraEnv(described.InfraEnvID); err == nil && infraEnv.Type != nil {
		described.Minimal = *infraEnv.Type == models.ImageTypeMinimalIso
	}
	return described, true
}

// InfraEnv returns the id of the infra-env with this id or name, or "" for an empty name.
func (s *InfraEnvs) InfraEnv(idOrName string) (string, error) {
	if idOrName == "" {
		return "", nil
	}
	infraEnvs, err := s.engine.InfraEnvs("")
	if err != nil {
		return "", err
	}
	var named []string
	for _, infraEnv := range infraEnvs {
		switch idOrName {
		case infraEnv.ID.String():
			return idOrName, nil
		case conv.Value(infraEnv.Name):
			named = append(named, infraEnv.ID.String())
		}
	}
	switch len(named) {
	case 1:
		return named[0], nil
	case 0:
		return "", &RequestError{Field: "infra_env_id", Reason: fmt.Sprintf("There is no infra-env %q.", idOrName)}
	}
	return "", &RequestError{Field: "infra_env_id",
		Reason: fmt.Sprintf("There are %d infra-envs with the name %q; give the id of one.", len(named), idOrName)}
}

// Service is the manager with the infra-envs, which people may name.
type Service struct {
	*Manager
	infraEnvs *InfraEnvs
}

// NewService returns a Service.
func NewService(manager *Manager, infraEnvs *InfraEnvs) Service { return Service{manager, infraEnvs} }

// InfraEnv returns the ID of the infra-env with the given ID or name; "" means none.
func (s Service) InfraEnv(idOrName string) (string, error) { return s.infraEnvs.InfraEnv(idOrName) }
