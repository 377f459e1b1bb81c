package appliance

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/ams"
	"landfall/appliance/engine"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/web/console"
)

// amsReceiptsLimit is how large a courier's receipts may be, in bytes; those of ten thousand clusters are some 10 MiB.
const amsReceiptsLimit = 256 << 20

// subscriptions is what tells OpenShift Cluster Manager of the clusters; nil when the configuration switches it off.
type subscriptions struct {
	*ams.Relay
	*ams.Vault
}

// newSubscriptions returns what tells AMS, which asks nobody before it runs.
func newSubscriptions(config Config, db *store.DB, clusters *engine.Engine, key *sitekey.Key, version string, logger *slog.Logger) (*subscriptions, error) {
	if !config.AMS.Enabled {
		return nil, nil
	}
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
	vault := ams.NewVault(db, config.DataDir, ams.CredentialFiles{
		OfflineToken: config.AMS.OfflineTokenFile, ClientID: config.AMS.ClientID, ClientSecret: config.AMS.ClientSecretFile,
	})
	client := ams.NewClient(ams.ClientOptions{
		URL: config.AMS.URL, TokenURL: config.AMS.TokenURL, Transport: transport, Credentials: vault, Rate: 1 / config.AMS.CallInterval.Seconds(),
		UserAgent: "landfall/" + version, Clock: clock, Logger: logger,
	})
	return &subscriptions{Vault: vault, Relay: ams.New(ams.Options{
		DB: db, Clusters: clusters, Client: client, URL: config.AMS.URL, Credentials: vault, Clock: clock, Logger: logger,
		Account: config.AMS.Account, FinalStatus: config.AMS.FinalStatus, ByHand: config.AMS.Connect == "by-hand", Machine: machine(config.DataDir), Key: key,
	})}, nil
}

// machine names this machine and the directory of the data, so that data which was copied to another place is noticed there.
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

// console is what the page is given; nil without AMS, so that the interface is nil too.
func (s *subscriptions) console() console.Subscriptions {
	if s == nil {
		return nil
	}
	return s
}
