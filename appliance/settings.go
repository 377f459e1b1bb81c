package appliance

import (
	"landfall/appliance/discovery"
	"landfall/appliance/doctor"
	"landfall/appliance/engine"
	"landfall/appliance/fleet/diagnosis"
	"landfall/appliance/notice"
	"landfall/appliance/notice/sources"
	"landfall/appliance/osimage"
	"landfall/appliance/settings"
)

// openSettings reads the settings of the site, and computes the URLs of the appliance, which depend
// on them.
func (a *Appliance) openSettings() error {
	sealed, err := a.siteKey.Box(engine.SecretsPurpose, nil)
	if err != nil {
		return err
	}
	options := settings.Options{DB: a.db, Secrets: sealed, Logger: a.log, Fixed: a.config.FixedSettings()}
	if a.config.Registry.Listen != "" {
		options.Carried = &settings.Carried{Releases: a.carriedReleases, Complete: a.completeSecret}
	}
	if a.settings, err = settings.Open(options); err != nil {
		return err
	}
	preferred := a.settings.URL()
	if preferred != "" && len(a.config.URL) == 0 {
		if _, err := a.config.CheckURL(preferred); err != nil {
			a.log.Warn("The URL in the settings can't be used.", "error", err)
			preferred = ""
		}
	}
	if a.urls, err = a.config.PreferredURLs(preferred, a.address); err != nil {
		return err
	}
	a.networks, err = discovery.NewNetworks(a.urls, a.boot)
	return err
}

// newSetup returns the service that shows and changes the settings. It calls wake after a change of
// the releases; wake may be nil.
func (a *Appliance) newSetup(wake func()) *settings.Service {
	plain := a.config
	plain.URL = nil
	candidates, err := plain.URLs(a.address)
	if err != nil {
		a.log.Warn("The addresses of this machine can't be listed.", "error", err)
	}
	return settings.NewService(settings.ServiceOptions{
		Site: a.settings, Engine: a.engine, Trust: a.allowed, Payload: a.releases.Payload, Digest: a.rules.Digest,
		CheckImage: a.images.CheckRelease, Rules: a.rules.At, URL: a.urls[0], Candidates: candidates,
		Listener: doctor.Listener{Address: a.address, Authenticates: !a.open()},
		CheckURL: a.config.CheckURL, Wake: wake, Clock: a.clock, Logger: a.log,
	})
}

// newNotices returns the service that sends notifications to webhooks.
func (a *Appliance) newNotices() (*notice.Service, error) {
	sealed, err := a.siteKey.Box(notice.SecretsPurpose, nil)
	if err != nil {
		return nil, err
	}
	transport, err := osimage.NewTransport("", a.rules.CABundle, a.egress)
	return notice.New(notice.Options{DB: a.db, Secrets: sealed, Transport: transport, CheckURL: a.egress.CheckURL,
		URL: a.urls[0], Started: a.kubernetesReady(), Clock: a.clock, Logger: a.log,
		Sources: sources.New(sources.Options{DB: a.db, Servers: a.bmcs.Servers,
			Fleet:   diagnosis.Fleet{Of: a.membership}.Attention,
			Waiting: a.approvals().Waiting, Disk: a.protection.Disk, Mirrors: a.doctor.Mirrors})}), err
}
