package appliance

import (
	"landfall/appliance/notice"
	"landfall/appliance/osimage"
)

// newNotices returns the service that sends notifications to webhooks.
func (a *Appliance) newNotices() (*notice.Service, error) {
	sealed, err := a.siteKey.Box(notice.SecretsPurpose, nil)
	if err != nil {
		return nil, err
	}
	transport, err := osimage.NewTransport("", a.rules.CABundle, a.egress)
	return notice.New(notice.Options{DB: a.db, Secrets: sealed, Transport: transport, CheckURL: a.egress.CheckURL,
		URL: a.urls[0], Clock: a.clock, Logger: a.log}), err
}
