package appliance

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/bmc"
	"landfall/appliance/discovery"
	"landfall/appliance/engine"
	"landfall/appliance/sitekey"
	"landfall/web/api"
)

// bmcPasswords is what the passwords of BMCs are sealed for.
const bmcPasswords sitekey.Purpose = "bmc passwords"

// newBMCs returns the manager of the servers that are driven by their BMCs.
func newBMCs(a *Appliance) (*bmc.Manager, error) {
	box, err := a.siteKey.Box(bmcPasswords, nil)
	if err != nil {
		return nil, err
	}
	return bmc.New(bmc.Options{DB: a.db, Site: bmcSite{a}, Secrets: box, Logger: a.log}), nil
}

// bmcSite is the appliance as the servers' manager sees it.
type bmcSite struct{ appliance *Appliance }

// ImageURL implements bmc.Site. Of several networks it is the one whose address this machine has
// towards the BMC, and the preferred one for the servers themselves.
func (s bmcSite) ImageURL(ctx context.Context, infraEnvID, bmcURL string) (string, error) {
	a := s.appliance
	code, expires, err := a.engine.CodeOfImage(infraEnvID)
	if err != nil {
		return "", err
	}
	if code == "" || !expires.IsZero() && time.Now().After(expires) {
		return "", fmt.Errorf("the short URL of its infra-env %s was revoked or has expired; renew it", infraEnvID)
	}
	if _, err := a.discovery.Image(ctx, infraEnvID, "", a.networks[0]); err != nil {
		return "", err
	}
	network := a.networkTowards(ctx, bmcURL)
	if strings.HasPrefix(network.Boot, "https:") {
		return "",
			fmt.Errorf("the appliance serves images by https alone, which many BMCs do not trust; configure " +
				"boot_listen, which serves them by plain http")
	}
	return network.ShortURL(code), nil
}

// networkTowards is the network in which the appliance has the address that it would speak to a BMC
// from, or else the preferred one. Nothing is sent to find out.
func (a *Appliance) networkTowards(ctx context.Context, bmcURL string) discovery.Network {
	if len(a.networks) == 1 || bmcURL == "" {
		return a.networks[0]
	}
	parsed, err := url.Parse(bmcURL)
	if err != nil {
		return a.networks[0]
	}
	probe, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "udp", net.JoinHostPort(parsed.Hostname(),
		"443"))
	if err != nil {
		return a.networks[0]
	}
	local, _, err := net.SplitHostPort(probe.LocalAddr().String())
	if closeErr := probe.Close(); err != nil || closeErr != nil {
		return a.networks[0]
	}
	for _, network := range a.networks {
		if at, err := url.Parse(network.Boot); err == nil && at.Hostname() == local {
			return network
		}
	}
	return a.networks[0]
}

// Hosts implements bmc.Site.
func (s bmcSite) Hosts(fn func(bmc.Host) error) error {
	infraEnvs, err := s.appliance.engine.InfraEnvs("")
	if err != nil {
		return err
	}
	for _, infraEnv := range infraEnvs {
		hosts, err := s.appliance.engine.Hosts(infraEnv.ID.String())
		if engine.KindOf(err) == engine.NotFound {
			continue
		}
		if err != nil {
			return err
		}
		for _, host := range hosts {
			if told, known := s.host(host); known {
				if err := fn(told); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Host implements bmc.Site.
func (s bmcSite) Host(ref bmc.HostRef) (bmc.Host, bool, error) {
	host, err := s.appliance.engine.Host(ref.InfraEnvID, ref.ID)
	if engine.KindOf(err) == engine.NotFound {
		return bmc.Host{}, false, nil
	}
	if err != nil {
		return bmc.Host{}, false, err
	}
	told, known := s.host(host)
	return told, known, nil
}

// host is what matters of a host; false until its agent told what it is made of.
func (s bmcSite) host(host *models.Host) (bmc.Host, bool) {
	inventory, err := s.appliance.engine.HostHardware(host.InfraEnvID.String(), host.ID.String())
	if err != nil || inventory == nil {
		return bmc.Host{}, false
	}
	told := bmc.Host{
		HostRef:    bmc.HostRef{InfraEnvID: host.InfraEnvID.String(), ID: host.ID.String()},
		Status:     conv.Value(host.Status),
		Registered: time.Time(host.RegisteredAt),
	}
	if created := time.Time(host.CreatedAt); created.After(told.Registered) {
		told.Registered = created
	}
	for _, card := range inventory.Interfaces {
		if mac, err := bmc.ParseMAC(card.MacAddress); err == nil {
			told.MACs = append(told.MACs, mac)
		}
	}
	if inventory.SystemVendor != nil {
		told.SerialNumber = inventory.SystemVendor.SerialNumber
	}
	if host.Progress != nil {
		told.Stage = host.Progress.CurrentStage
	}
	told.WrongBoot = told.Status == models.HostStatusInstallingPendingUserAction &&
		told.Stage == models.HostStageRebooting
	if infraEnv, err := s.appliance.engine.InfraEnv(told.InfraEnvID); err == nil && infraEnv.Type != nil {
		told.Minimal = *infraEnv.Type == models.ImageTypeMinimalIso
	}
	return told, true
}

// bmcView is the manager as the console sees it.
type bmcView struct {
	*bmc.Manager
	engine *engine.Engine
}

// InfraEnv implements console.BMCs.
func (v bmcView) InfraEnv(idOrName string) (string, error) {
	if idOrName == "" {
		return "", nil
	}
	infraEnvs, err := v.engine.InfraEnvs("")
	if err != nil {
		return "", api.Problem(err)
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
		return "", &bmc.RequestError{Field: "infra_env_id", Reason: fmt.Sprintf("There is no infra-env %q.", idOrName)}
	}
	return "", &bmc.RequestError{Field: "infra_env_id",
		Reason: fmt.Sprintf("There are %d infra-envs with the name %q; give the id of one.", len(named), idOrName)}
}
