package appliance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"landfall/appliance/config"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/ams"
	"landfall/appliance/ams/local"
	"landfall/appliance/engine"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/web/accounts"
)

// subscriptions is what tells OpenShift Cluster Manager of the clusters, and what answers in its
// place at the site. It asks nobody when the configuration switches it off.
type subscriptions struct {
	*ams.Relay
	*ams.CredentialStore
	site *local.Site
}

// newSubscriptions returns what tells AMS, which asks nobody before it runs.
func newSubscriptions(config config.Config, db *store.DB, clusters *engine.Engine, key *sitekey.Key, version string,
	logger *slog.Logger) (*subscriptions, error) {
	var extra []byte
	if config.AMS.CABundle != "" {
		var err error
		if extra, err = os.ReadFile(config.AMS.CABundle); err != nil {
			return nil, fmt.Errorf("read ams.ca_bundle: %w", err)
		}
	}
	transport, err := ams.NewTransport(config.AMS.Proxy, extra, ams.Limits{})
	if err != nil {
		return nil, err
	}
	clock := clockwork.NewRealClock()
	vault := ams.NewCredentialStore(db, config.DataDir, ams.CredentialFiles{
		OfflineToken: config.AMS.OfflineTokenFile, ClientID: config.AMS.ClientID,
		ClientSecret: config.AMS.ClientSecretFile,
	})
	metrics := ams.NewMetrics()
	client := ams.NewClient(ams.ClientOptions{
		URL: config.AMS.URL, TokenURL: config.AMS.TokenURL, Transport: transport, Credentials: vault,
		Rate:      1 / config.AMS.CallInterval.Seconds(),
		UserAgent: "landfall/" + version, Clock: clock, Logger: logger, Watch: metrics.Called,
	})
	relay := ams.New(ams.Options{
		DB: db, Clusters: clusters, Client: client, URL: config.AMS.URL, Credentials: vault, Clock: clock,
		Logger:  logger,
		Account: config.AMS.Account, FinalStatus: config.AMS.FinalStatus, ByHand: config.AMS.Connect == "by-hand",
		Machine: machine(config.DataDir), Key: key,
		Metrics: metrics, Off: !config.AMS.Enabled,
	})
	site, err := local.New(local.Options{DB: db, Clock: clock, Key: key, Owner: relay.Owner})
	return &subscriptions{relay, vault, site}, err
}

// run tells AMS until the context ends, unless the configuration switches that off.
func (s *subscriptions) run(ctx context.Context, config config.Config) error {
	if !config.AMS.Enabled {
		return nil
	}
	return s.Run(ctx)
}

// gates tells which capabilities the organization has; nil where features do not depend on them.
func (a *Appliance) gates() func(capability string) bool {
	if !a.config.Capabilities.Enforce {
		return nil
	}
	return func(capability string) bool {
		capable, err := a.ams.site.Capable(local.Bearer{Type: local.OfOrganization}, capability)
		if err != nil {
			a.log.Error("The site's capabilities can not be read; the feature stays off.", "capability", capability,
				"error", err)
		}
		return capable
	}
}

// accounts is what AMS's API at the site is made of.
func (a *Appliance) accounts() accounts.Options {
	options := accounts.Options{Subscriptions: a.ams, Site: a.ams.site}
	if file := a.config.Mirror.PullSecret; file != "" {
		options.PullSecret = func() ([]byte, error) { return os.ReadFile(file) }
	}
	return options
}

// machine names this machine and the directory of the data, so that data which was copied to
// another place is noticed there.
func machine(dataDir string) string {
	id, err := os.ReadFile("/etc/machine-id")
	if err != nil || strings.TrimSpace(string(id)) == "" {
		return "" // nothing to tell machines apart by
	}
	place, err := filepath.Abs(dataDir)
	if err != nil {
		place = dataDir
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(string(id)) + "\n" + place))
	return hex.EncodeToString(sum[:8])
}
