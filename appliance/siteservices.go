package appliance

import "landfall/appliance/siteservice"

// newSiteServices returns the network services for the site.
func (a *Appliance) newSiteServices() (*siteservice.Manager, error) {
	configured, err := a.config.SiteServices(a.urls)
	if err != nil {
		return nil, err
	}
	return siteservice.New(siteservice.Options{
		DB: a.db, Site: a.engine, Configured: configured, TimeServers: a.settings.NTPSources, Images: a.discovery,
		Servers: a.bmcs.Servers, CheckNetworkBoot: a.engine.CheckNetworkBoot, Limit: a.inbound.Limit,
		Clock: a.clock, Logger: a.log})
}
