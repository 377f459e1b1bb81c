package appliance

import (
	"context"
	"net"
	"net/netip"

	"landfall/appliance/doctor"
	"landfall/appliance/engine"
	"landfall/appliance/siteservice"
)

// newSiteServices returns the network services for the site.
func (a *Appliance) newSiteServices() (*siteservice.Manager, error) {
	configured, err := a.config.SiteServices(a.urls)
	if err != nil {
		return nil, err
	}
	return siteservice.New(siteservice.Options{
		DB: a.db, Site: a.engine, Configured: configured, TimeServers: a.settings.NTPSources, Resolvers: a.resolvers,
		Images: a.discovery, Servers: a.bootMACs, CheckNetworkBoot: a.engine.CheckNetworkBoot,
		Neighbour: doctor.FindNeighbour, Clock: a.clock, Logger: a.log,
	})
}

// beforeInstall checks the clock, and applies the settings of hosts that an import brought.
func (a *Appliance) beforeInstall(ctx context.Context, e *engine.Engine, clusterID string) error {
	images, err := a.images.List()
	if err != nil {
		return err
	}
	var versions []string
	for _, image := range images {
		versions = append(versions, image.CoreOSVersion)
	}
	if err := siteservice.CheckClock(a.clock.Now(), versions); err != nil {
		return err
	}
	return a.abiHosts.ApplyAll(ctx, e, clusterID)
}

// bootMACs returns the infra-envs of the servers with a BMC, by the MAC address from which they
// boot.
func (a *Appliance) bootMACs() (map[string]string, error) {
	servers, err := a.bmcs.Servers()
	if err != nil {
		return nil, err
	}
	macs := map[string]string{}
	for _, server := range servers {
		if mac, err := net.ParseMAC(server.BootMAC); err == nil && server.InfraEnvID != "" {
			macs[mac.String()] = server.InfraEnvID
		}
	}
	return macs, nil
}

// resolvers returns the DNS servers of this machine.
func (a *Appliance) resolvers() []netip.AddrPort {
	texts, _, err := doctor.SystemResolvers()
	if err != nil {
		a.log.Warn("The DNS servers of this machine could not be read. The site's DNS is not compared with the "+
			"appliance's.", "error", err)
	}
	var resolvers []netip.AddrPort
	for _, text := range texts {
		if resolver, err := netip.ParseAddrPort(text); err == nil {
			resolvers = append(resolvers, resolver)
		}
	}
	return resolvers
}
