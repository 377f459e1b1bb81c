package appliance

import (
	"log/slog"
	"os"

	"landfall/appliance/ams"
	"landfall/appliance/ams/local"
	"landfall/appliance/config"
	"landfall/store"
	"landfall/web/accounts"
	"landfall/web/recording"
)

// newAMS returns the connection to AMS.
func (a *Appliance) newAMS() (*ams.Service, error) {
	given := a.config.AMS
	return ams.NewService(ams.ServiceOptions{
		DB: a.db, Clusters: a.engine, Key: a.siteKey, Clock: a.clock, Logger: a.log,
		DataDir: a.config.DataDir, UserAgent: "landfall/" + a.version,
		URL: given.URL, TokenURL: given.TokenURL, Proxy: given.Proxy, CABundle: given.CABundle,
		Files: ams.CredentialFiles{
			OfflineToken: given.OfflineTokenFile, ClientID: given.ClientID, ClientSecret: given.ClientSecretFile,
		},
		Account: given.Account, FinalStatus: given.FinalStatus, ByHand: given.Connect == "by-hand",
		CallInterval: given.CallInterval, Disabled: !given.Enabled, Fleet: a.fleet != nil,
	})
}

// capable returns a function that reports the capabilities of the organization. It returns nil if
// the configuration allows all features without capabilities.
func capable(config config.Config, db *store.DB, logger *slog.Logger) func(capability string) bool {
	if !config.Capabilities.Enforce {
		return nil
	}
	return func(capability string) bool {
		capable, err := local.Capable(db, local.Bearer{Type: local.OfOrganization}, capability)
		if err != nil {
			logger.Error("The capabilities of the organization could not be read. The feature stays disabled.",
				"capability", capability, "error", err)
		}
		return capable
	}
}

// accounts returns the options of the part of AMS's API that the site serves itself.
func (a *Appliance) accounts() accounts.Options {
	options := accounts.Options{Subscriptions: a.ams, Site: a.ams.Site, Admit: recording.Admit}
	if file := a.config.Mirror.PullSecret; file != "" {
		options.PullSecret = func() ([]byte, error) { return os.ReadFile(file) }
	}
	return options
}
